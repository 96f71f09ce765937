"""Findings as a page for reading, or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import msgspec

from actions.cluster.diagnose.finding import Finding

WIDTH = 100
NOTHING = "Nothing is wrong, as far as the pods, events, nodes and logs that may be read tell."


def findings_json(found: Sequence[Finding]) -> str:
    """A list of `code, severity, headline, evidence, next_step`, on several lines."""
    return msgspec.json.format(msgspec.json.encode(list(found)), indent=1).decode() + "\n"


def findings_text(found: Sequence[Finding], *, width: int = WIDTH) -> str:
    """One paragraph a finding: what it is, what was seen, what to do."""
    if not found:
        return f"{NOTHING}\n"
    return "\n".join(_paragraph(one, width) for one in found)


def _paragraph(one: Finding, width: int) -> str:
    lines = [
        f"{one.severity.value.upper()}  {one.code.value}",
        *_wrapped(one.headline, "  ", "  ", width),
        *(line for quote in one.evidence for line in _wrapped(quote, "    │ ", "    │ ", width)),
        *_wrapped(one.next_step, "  → ", "    ", width),
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, first: str, further: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(40, width), initial_indent=first, subsequent_indent=further) or [first]
