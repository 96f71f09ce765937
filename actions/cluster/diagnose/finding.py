"""One answer: a code with the sentence, the quotations and the next step that belong to it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actions.cluster.diagnose.vocabulary import Code, Severity, severity_of

QUOTE_LIMIT = 600
_MOST_QUOTES = 8


class Finding(msgspec.Struct, frozen=True):
    """What is the matter.

    `headline` is a sentence that names the object and the number that matters. `evidence` are pieces of the input,
    letter by letter, after controls and credentials were taken out of it. `next_step` is what to do.
    """

    code: Code
    severity: Severity
    headline: str
    evidence: tuple[str, ...]
    next_step: str


def finding(
    code: Code, headline: str, evidence: Iterable[str], next_step: str, *, severity: Severity | None = None
) -> Finding:
    """A finding with the usual severity of its code; evidence without repetitions, each piece on one line."""
    pieces = (line.strip()[:QUOTE_LIMIT].rstrip() for text in evidence for line in text.splitlines())
    quotes = tuple(dict.fromkeys(piece for piece in pieces if piece))[:_MOST_QUOTES]
    return Finding(code, severity or severity_of(code), headline, quotes, next_step)


def field_quote(name: str, value: object) -> str:
    """A field as JSON writes it: `"exitCode": 137`."""
    return f'"{name}": {msgspec.json.encode(value).decode()}'
