"""Patterns of lines that programs and controllers print, with the findings that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from actions.cluster.diagnose.codes import QUOTE_LIMIT, Code, Finding, Severity, finding
from actions.cluster.diagnose.evidence import Evidence

_BEFORE = 160
_MOST_LINES = 3
_MOST_HITS = 200


class Hit(msgspec.Struct, frozen=True):
    """A match of a pattern: the line around it, as printed, and the pod whose text it is (empty if unknown)."""

    line: str
    match: re.Match[str]
    position: int
    """The position of the match in everything that was searched; within one text, a smaller one was printed earlier."""
    pod: str = ""


class LogPattern(msgspec.Struct, frozen=True):
    """An expression and the finding that it means.

    Args:
        code: The code of the finding.
        pattern: The expression, searched in every line.
        headline: The sentence, or a function that makes it from the first hit.
        next_step: An imperative, or a function that makes it from the first hit.
        severity: The severity, if it differs from the code's.
    """

    code: Code
    pattern: re.Pattern[str]
    headline: str | Callable[[Hit], str]
    next_step: str | Callable[[Hit], str]
    severity: Severity | None = None


def pattern(*alternatives: str, ignore_case: bool = False) -> re.Pattern[str]:
    """Return one expression that matches any of them."""
    return re.compile("|".join(f"(?:{one})" for one in alternatives), re.IGNORECASE if ignore_case else 0)


THROTTLED = pattern(
    r"RequestLimitExceeded|Throttl(?:ed|ing)|SlowDown|QPS exceeded|(?<!learning )\brate (?:limit )?exceeded|rate limit",
    r"too ?many ?requests|\b429 client error|(?:status|code|HTTP)[ :=]{1,3}429\b|\(429\)",
    ignore_case=True,
)
"""A service that takes no more calls for now, which passes by itself."""


def all_messages(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield every log and message of the evidence that is not empty, with the pod's name if it is known."""
    return (one for one in _messages(evidence) if one[0])


def _messages(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for log in evidence.logs:
        yield log.text, log.pod
    for event in evidence.troubles():
        yield event.message, event.name if event.kind == "Pod" else ""
        if event.kind == "Node":
            yield event.reason, ""
    for pod in evidence.pods:
        yield pod.message, pod.name
        for condition in () if pod.is_fine else pod.conditions:
            yield condition.message, pod.name
        for container in () if pod.is_fine else pod.containers:
            yield container.state.message, pod.name
            yield container.last.message, pod.name
    for node in evidence.nodes:
        for problem in node.problems:
            yield f"{problem.reason}\n{problem.message}", ""
    for thing in (*evidence.jobs, *evidence.node_claims):
        yield from ((condition.message, "") for condition in thing.conditions)
        yield str(thing.status.get("message") or ""), ""


def log_texts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the containers' output only."""
    return ((log.text, log.pod) for log in evidence.logs)


STEP = re.compile(r"[Ll]oss(?:/train/total)?['\"]?[ :=]{1,40}(?:['\"]|[\w.]{1,12}\()?-?\d")
"""Found in lines of training: quick, and good enough to show that a program has continued."""


def unresolved_log_text(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the containers' output; of a pod that is fine only that after its last line of training."""
    for log in evidence.logs:
        theirs = [pod for pod in evidence.pods if log.pod in ("", pod.name)]
        if len(theirs) != 1 or not theirs[0].is_fine:
            yield log.text, log.pod
        elif theirs[0].phase != "Succeeded":
            steps = list(STEP.finditer(log.text))
            yield log.text[steps[-1].end() if steps else 0 :], log.pod


def find_hits(texts: Iterable[tuple[str, str]], expression: re.Pattern[str]) -> Iterator[Hit]:
    """Yield every line that the expression matches once, at most `_MOST_HITS` of them."""
    offset = found = 0
    for text, pod in texts:
        end = -1
        for match in expression.finditer(text):
            if match.start() < end:
                continue
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            yield Hit(_clipped(text, start, end, match), match, offset + match.start(), pod)
            found += 1
            if found >= _MOST_HITS:
                return
        offset += len(text) + 1


def _clipped(text: str, start: int, end: int, match: re.Match[str]) -> str:
    """Return the line, or the part of a long one around the match, unchanged."""
    if end - start > QUOTE_LIMIT:
        start = max(start, match.start() - _BEFORE)
        end = min(end, start + QUOTE_LIMIT)
    return text[start:end].strip()


def finding_of_pattern(log_pattern: LogPattern, found: list[Hit]) -> Finding:
    """Return the finding of a pattern and its hits, of which there must be one at least."""
    headline = log_pattern.headline if isinstance(log_pattern.headline, str) else log_pattern.headline(found[0])
    step = log_pattern.next_step if isinstance(log_pattern.next_step, str) else log_pattern.next_step(found[0])
    quotes = [hit.line for hit in found[:_MOST_LINES]]
    return finding(log_pattern.code, headline, quotes, step, severity=log_pattern.severity)


def match_patterns(texts: Iterable[tuple[str, str]], patterns: Iterable[LogPattern]) -> Iterator[Finding]:
    """Yield one finding for every pattern that matches."""
    known = list(texts)
    for log_pattern in patterns if known else ():
        if found := list(find_hits(known, log_pattern.pattern)):
            yield finding_of_pattern(log_pattern, found)


def pod_suffix(hit: Hit) -> str:
    """Return ` of train-0`, or an empty text if the pod is not known."""
    return f" of {hit.pod}" if hit.pod else ""
