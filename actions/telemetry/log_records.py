"""Log records: a process's output of one moment, without colours and the prefixes of launchers.

A line of a container may hold hundreds of records: a progress bar redraws itself behind `\\r`, mpirun glues the
lines of its ranks together. Source: Open MPI 4 `--tag-output`, Ray 2, torchrun (PyTorch's `tail_log.py`, whose numbers
are local ranks), srun -l, nemo-run, kubectl 1.32.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from actions.base.clock import parse_rfc3339
from actions.base.untrusted import clean_text
from actions.telemetry.outlines import outline_of

HALF = 8192
"""Characters kept of each end of a very long record: a bound on the input of every pattern."""

_MPI_TAG = re.compile(r"(?=\[\d{1,9},\d{1,9}\]<std(?:out|err)>:)")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[@-Z\\-_]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
_PREFIX = re.compile(
    r"""\s{0,16}(?:
      \[pod/[^\]\s]{1,300}\]\s                                                   # kubectl logs --prefix
    | (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))\s  # kubectl logs --timestamps
    | \[\d{1,9},(?P<mpi>\d{1,9})\]<std(?:out|err)>:                              # mpirun --tag-output
    | \((?P<actor>[\w.-]{1,100}),?\ pid=(?P<pid>\d{1,9})(?:,\ ip=[\d.]{7,15})?\)\ ?         # Ray, SkyPilot
    | \[(?:default|rank)(?P<torch>\d{1,9})\]:\s?                                 # torchrun
    | (?P<srun>\d{1,6}):\ (?=\S|\ )(?![Ll]oss[ :=])                              # srun -l; `100: loss 2.1` is a step
    | [\w./-]{1,80}/\d{1,4}\ (?=\[default|Training)                              # nemo-run
    )""",
    re.VERBOSE,
)
_WORLD_RANK = re.compile(r"\bpid=(\d{1,9})\) world_rank=(\d{1,9})")
_ANNOUNCED = "world_rank="
PREFIX_MARKS = (_ANNOUNCED,)
"""Texts of lines that a `PrefixReader` must see though they hold no value."""
_ROUNDS = 6


class LogRecord(NamedTuple):
    """The text that one process printed at once, ready for the dialects."""

    text: str
    """Never empty, at most `2 * HALF` characters and a few, no control characters but tabs."""
    rank: int
    at: float | None
    """Seconds since the epoch, if the line has a time."""
    outline: str
    """`outlines.outline_of` the text."""
    is_teed: bool = False
    """It came through `torchrun --tee`, which reads two files: the order of standard output and errors is lost."""


def split_records(line: str) -> Iterator[str]:
    """Yield the records of one line: cut at `\\r` and before tags of mpirun, very long ones shortened to their ends."""
    for redraw in line.split("\r"):
        for piece in _MPI_TAG.split(redraw) if "]<std" in redraw else (redraw,):
            if len(piece) > 2 * HALF:
                yield f"{piece[:HALF]} … {piece[-HALF:]}"
            elif piece:
                yield piece


def strip_controls(text: str) -> str:
    """Remove escape sequences, control and invisible format characters, and U+FFFD.

    An unfinished sequence ends with its record.
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return text if text.isprintable() and "\ufffd" not in text else _CONTROL.sub("", clean_text(text))


def is_bare(outline: str) -> bool:
    """Return whether a line of this outline is one record as it stands: nothing redrawn, coloured or prefixed."""
    return (
        outline.isprintable()
        and "\ufffd" not in outline
        and "]<std" not in outline
        and _ANNOUNCED not in outline
        and _PREFIX.match(outline) is None
    )


class PrefixReader:
    """Removes the prefixes of schedulers and launchers from lines, and learns the ranks from them.

    Args:
        rank: The rank of lines that do not name one.
    """

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._rank_of_pid: dict[str, int] = {}
        self._numbers_workers = True

    def read(self, text: str, at: float | None) -> LogRecord | None:
        """Return the record without prefixes; `None` if nothing is left of it."""
        self._learn(text)
        rank, start, is_teed = self._rank, 0, False
        for _ in range(_ROUNDS):
            prefix = _PREFIX.match(text, start)
            if prefix is None:
                break
            start = prefix.end()
            rank = self._rank_in(prefix, rank)
            is_teed = is_teed or bool(prefix["torch"])
            if at is None and prefix["at"]:
                at = epoch_of(prefix["at"])
        rest = text[start:].rstrip()
        return LogRecord(rest, rank, at, outline_of(rest), is_teed) if rest.strip() else None

    def _rank_in(self, prefix: re.Match[str], rank: int) -> int:
        if prefix["pid"]:
            return self._rank_of_actor(prefix["actor"], prefix["pid"], rank)
        if prefix["torch"]:  # its number is that of the process on its node
            return self._rank + int(prefix["torch"])
        return int(prefix["mpi"] or prefix["srun"] or rank)

    def _rank_of_actor(self, actor: str, pid: str, rank: int) -> int:
        """Return the rank that Ray announced. If it announced none, number workers as their lines come."""
        known = self._rank_of_pid.get(pid)
        if known is not None or not self._numbers_workers or "Worker" not in actor:
            return rank if known is None else known
        return self._rank_of_pid.setdefault(pid, rank + len(self._rank_of_pid))

    def _learn(self, text: str) -> None:
        if _ANNOUNCED in text:
            for pid, rank in _WORLD_RANK.findall(text):
                self._numbers_workers = False
                self._rank_of_pid[pid] = int(rank)


def epoch_of(stamp: str) -> float | None:
    """Return seconds since the epoch of an RFC 3339 stamp; `None` if it is not one."""
    try:
        return parse_rfc3339(stamp).timestamp()
    except ValueError:
        return None
