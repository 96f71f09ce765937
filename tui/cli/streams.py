"""The standard streams, made usable even if the caller has closed some."""

from __future__ import annotations

import io
import os
import resource
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from actions.base.errors import UsageError

LEAST_FILES: Final = 64
"""Open files that the program may need: a console on a small cluster has thirty, including its libraries'."""
WANTED_FILES: Final = 1024
"""The usual limit, which is also room for 150 logs."""


def require_files() -> None:
    """Raise the limit of open files to `WANTED_FILES`, as far as that is allowed.

    Raises:
        UsageError: Fewer than `LEAST_FILES` are allowed: what would fail then, and how, cannot be foreseen.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if max(soft, wanted) < LEAST_FILES:
        raise UsageError(
            f"Only {max(soft, wanted)} files may be open at once; this program needs {LEAST_FILES}.",
            hint="Raise the limit: ulimit -n 1024.",
        )


_LINES_ONLY = ("", "dumb", "unknown")


def prepare_streams() -> None:
    """Replace closed streams by the null device, and print characters that the locale lacks as `?`.

    A closed descriptor 1 or 2 would be given to the next file that is opened, a journal for instance.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or _nothing("r")
    sys.stdout = sys.stdout or _nothing("w")
    sys.stderr = sys.stderr or _nothing("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def speaks_unicode(environment: Mapping[str, str]) -> bool:
    """Return whether the locale allows more than ASCII; an unset one does, as ssh often passes none on."""
    named = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name, ""))), "")
    return not named or "utf-8" in named.lower() or "utf8" in named.lower()


def places_text(environment: Mapping[str, str]) -> bool:
    """Return whether TERM names a terminal that can position text, not only append lines."""
    return environment.get("TERM", "").lower() not in _LINES_ONLY


def abandon(stream: TextIO) -> None:
    """Discard everything written to a stream from now on: its reader has gone, or its disk is full.

    What is still in the buffer is discarded too, so that the interpreter does not fail on it at exit.
    """
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


class ProgressWriter:
    """A writer of progress lines, silent once its stream has failed.

    A closed stream does not stop the work that is reported: a script still has to tear down.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_open = True

    def write(self, line: str) -> None:
        """Write one line, now; silent once the stream has failed."""
        if not self._is_open:
            return
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except OSError:
            self._is_open = False
            abandon(self._stream)


def _nothing(mode: str) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")  # type: ignore[return-value]  # "r" and "w" are text
