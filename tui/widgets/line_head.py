"""The head of a log line: what only says where and when it was printed, and lines before it have said, too.

Sources: NCCL's and the OFI plugin's `host:pid:tid [device] NCCL INFO`, Ray's `(name pid=1, ip=10.0.0.1)`, torchrun's
`[rank0]:`, Open MPI's `[1,0]<stdout>:`, pdsh's and srun's `host:` and `0:`, glog's `I1128 13:15:16.1 96 file.cc:7]`,
and the bracketed times, levels and places of Python's loggers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

import msgspec

LEAST_COLUMNS = 8
"""A shorter head stays: it takes no room worth having."""
LOOK_BACK = 32
"""The number of lines before a line among which its head is looked for."""
_LEAST_LIKE_IT = 2
_LONGEST = 200
_TELLS = re.compile(r"epoch|step|iter|batch|loss|warn|err|fatal|crit|exception|%|\[\w{1,12} [wefc] ", re.IGNORECASE)
"""What is never a part of a head: progress, and levels that are to be seen."""
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
