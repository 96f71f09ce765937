"""The severity of a log line by the marks in it, and its head: what only says where and when it was printed.

The marks, of loggers, interpreters, CUDA and NCCL, are expressions of RE2: the same ones colour what is visible and
find the next error among a million lines. Of a head, what lines before it have, too, is left out on the screen.

Sources: NCCL's and the OFI plugin's `host:pid:tid [device] NCCL INFO`, Ray's `(name pid=1, ip=10.0.0.1)`, torchrun's
`[rank0]:`, Open MPI's `[1,0]<stdout>:`, pdsh's and srun's `host:` and `0:`, glog's `I1128 13:15:16.1 96 file.cc:7]`,
and the bracketed times, levels and places of Python's loggers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile

import msgspec

from actions.base.patterns import compile_pattern

_RANK = r"^(?:\[[\w.:-]{1,40}\]:? ?)?"
"""The beginning of a line, perhaps behind the prefix that torchrun or mpirun puts before each line of a rank."""

_EXCEPTION = _RANK + r"[\w.]*[A-Z]\w*(?:Error|Exception|Interrupt)(?:: |:?$)"

_FIELD = r"\b(?:level(?:name)?|severity(?:_?text)?|lvl)[\"']?\s?[=:]\s?[\"']?"
"""The field of the level, in JSON and in logfmt."""

ERRORS = "|".join(
    (
        r"\b(?:ERROR|CRITICAL|FATAL)\b",
        rf"(?i:{_FIELD}(?:err(?:or)?|fatal|crit(?:ical)?|d?panic|alert|emerg(?:ency)?)\b)",
        r"^[EF]\d{4} \d\d:\d\d:|\[NeMo E ",
        r"\[[EF](?:\d{3,6} [\d:.]{8,20})? \w+\.(?:cpp|cc|cu):\d+\]",
        r"\bTraceback \(most recent call last\)",
        _EXCEPTION,
        r"\bNCCL WARN\b|\bnccl\w*Error\b",
        r"(?i:\bcuda (?:runtime )?(?:error|failure)|\bout of memory\b|\boom-?kill)",
        r"\b(?:CUDNN|CUBLAS)_STATUS_[A-RT-Z]|\bNVRM: Xid\b|\bNRT_\w*(?:ERROR|FAIL)",
        r"\b(?:Segmentation fault|core dumped)\b|" + _RANK + r"(?:Killed|Aborted)\b|^panic: ",
        r"^(?:\S{1,80}: )?(?:fatal )?[Ee]rror: [^\d\s]",
    )
)
"""Lines of errors. It has capitals, so that a search by it heeds case."""

_WARNINGS = "|".join(
    (
        r"\bWARN(?:ING)?\b",
        rf"(?i:{_FIELD}warn(?:ing)?\b)",
        r"^W\d{4} \d\d:\d\d:|\[NeMo W ",
        r"\[W(?:\d{3,6} [\d:.]{8,20})? \w+\.(?:cpp|cc|cu):\d+\]",
        r"\b[A-Z]\w*Warning: ",
        r"^(?:\S{1,80}: )?[Ww]arning: ",
    )
)
_DETAILS = r"\b(?:DEBUG|TRACE)\b|(?i:" + _FIELD + r"(?:debug|trace)\b)|^[DV]\d{4} \d\d:\d\d:|\[NeMo D "
_TRACEBACK = (
    r"\bTraceback \(most recent call last\)|^(?:\[[\w.:-]{1,40}\]:? ?)?\s+File \"[^\"]+\", line \d+|" + _EXCEPTION
)


class LineLevel(StrEnum):
    """The severity of a line; the values are the names of its styles."""

    ERROR = "error"
    WARNING = "warning"
    DETAIL = "detail"
    """Debug output."""
    PLAIN = "plain"


_MARKS = ((LineLevel.ERROR, ERRORS), (LineLevel.WARNING, _WARNINGS), (LineLevel.DETAIL, _DETAILS))


_BY_NAME = {
    **dict.fromkeys(
        ("ERROR", "ERR", "CRITICAL", "CRIT", "FATAL", "PANIC", "DPANIC", "ALERT", "EMERGENCY", "EMERG"),
        LineLevel.ERROR,
    ),
    **dict.fromkeys(("WARN", "WARNING"), LineLevel.WARNING),
    **dict.fromkeys(("DEBUG", "TRACE", "VERBOSE"), LineLevel.DETAIL),
}
_ORDER = (LineLevel.ERROR, LineLevel.WARNING, LineLevel.DETAIL, LineLevel.PLAIN)


def severity_at(level: str, text: str) -> LineLevel:
    """Return the severity of a line whose logger has written its level: never less than what its text shows.

    Args:
        level: In capitals.
        text: The line as it is visible; keys that go to errors find it by this.
    """
    return min(_BY_NAME.get(level, LineLevel.PLAIN), severity_of(text), key=_ORDER.index)


@lru_cache(1024)
def severity_of(text: str) -> LineLevel:
    """Return the severity of a line as it is visible, without colours."""
    return next((severity for severity, marks in _MARKS if compile_pattern(marks).search(text)), LineLevel.PLAIN)


def is_of_traceback(text: str) -> bool:
    """Return whether a line is the head, a place or the exception of a Python traceback."""
    return compile_pattern(_TRACEBACK).search(text)


LEAST_COLUMNS = 8
"""A shorter head stays: it takes no room worth having."""
LOOK_BACK = 32
"""The number of lines before a line among which its head is looked for."""
_LEAST_LIKE_IT = 2
_LONGEST = 200
_TELLS = re.compile(r"epoch|step|iter|batch|loss|warn|err|fatal|crit|exception|%|\[\w{1,12} [wefc] ", re.IGNORECASE)
"""Words that are never in a head: of progress, and of levels that must be seen."""
_TIME = (
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
)
_PART = re.compile(
    rf"(?:\[[^\[\]]{{1,90}}\](?:<\w{{1,8}}>)?:?|\([^()]{{1,90}}\)|{_TIME}"
    r"|[\w.-]{1,90}:\d{1,10}:\d{1,10}|(?:\d{2,10} )?[\w./-]{1,90}\.\w{1,4}:\d{1,7}[:\]]?"
    r"|\d{1,3}(?:\.\d{1,3}){3}:|\d{1,6}:|[\w-]{0,80}-\d{1,6}:"
    r"|I\d{4}|NCCL|INFO|DEBUG|TRACE|Info|info|debug|[-|])(?: |$)"
)
_VARIES = re.compile(rf"{_TIME}|[\w./-]{{1,90}}:\d{{1,7}}(?=\])|(?<=:)\d{{1,10}}|I\d{{4}}|^\d{{2,10}} ")
"""Times, and numbers of processes, threads and lines of code: they differ from line to line and say nothing of it."""


class HeadPart(msgspec.Struct, frozen=True, gc=False):
    """A part of a head: what is compared of it, and the place behind it in the line."""

    outline: str
    end: int


def head_parts(text: str) -> tuple[HeadPart, ...]:
    """Return the parts at the beginning of a line that may be its head; none that tells anything of the work."""
    parts: list[HeadPart] = []
    at = 0
    while at < _LONGEST and (found := _PART.match(text, at)) is not None and not _TELLS.search(found.group()):
        at = found.end()
        parts.append(HeadPart(_VARIES.sub("0", found.group()), at))
    return tuple(parts)


def head_length(parts: tuple[HeadPart, ...], before: Iterable[tuple[HeadPart, ...]]) -> int:
    """Return the number of characters of a line that lines before it have had, too; 0 if it has no such head.

    Args:
        parts: Of the line.
        before: Those of the lines before it.
    """
    if not parts:
        return 0
    shared = sorted((_shared(parts, other) for other in before), reverse=True)
    count = shared[_LEAST_LIKE_IT - 1] if len(shared) >= _LEAST_LIKE_IT else 0
    length = parts[count - 1].end if count else 0
    return length if length >= LEAST_COLUMNS else 0


def _shared(one: tuple[HeadPart, ...], other: tuple[HeadPart, ...]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0].outline == pair[1].outline, zip(one, other, strict=False)))
