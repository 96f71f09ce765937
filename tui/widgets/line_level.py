"""The severity of a log line, by the marks that loggers, interpreters, CUDA and NCCL print.

The marks are expressions of RE2: the same ones colour what is visible and find the next error among a million lines.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

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
