"""Run ids: the order in which runs were created, and the shortest form that is unambiguous.

The machine's clock may go back, so the order is a counter: the file `.order` in the folder of all runs has one line for
each, `NUMBER ID`. It is beside the runs and not in them, so that an unreadable run keeps its place, too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_FILE, read_file

_NAME = ".order"
_MAX_BYTES = 16 << 20


def take_number(base: Path, run_id: str, earlier: Callable[[], Mapping[str, int]]) -> int:
    """Return a new run's number, one above all others, and append it to the list.

    Args:
        base: The folder of all runs.
        run_id: The run to be created.
        earlier: Returns the numbers in the journals, by run id; called if the list was lost.

    Raises:
        ConfigError: The list cannot be written.
    """
    path = base / _NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            text = os.pread(descriptor, _MAX_BYTES, 0)
            lost = {} if text else earlier()
            number = 1 + max([0, *_numbers(text).values(), *lost.values()])
            lines = [*sorted((known, name) for name, known in lost.items() if known), (number, run_id)]
            added = "".join(f"{known} {name}\n" for known, name in lines).encode()
            torn = b"\n" if text and not text.endswith(b"\n") else b""
            _append(descriptor, len(text), torn + added)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", hint="Free some space, or check its rights."
        ) from error
    return number


def known_numbers(base: Path) -> dict[str, int] | None:
    """Return the numbers of runs by id; `None` if there is no list."""
    try:
        text = read_file(base / _NAME, _MAX_BYTES, is_cut=True)
    except OSError:
        return None
    return _numbers(text) if text else None


def _numbers(text: bytes) -> dict[str, int]:
    """Parse the list; lines that are torn or damaged are skipped."""
    found: dict[str, int] = {}
    for line in text.decode(errors="replace").splitlines():
        number, _, name = line.partition(" ")
        if name and number.isascii() and number.isdigit() and len(number) < 16:
            found[name] = max(int(number), found.get(name, 0))
    return found


def _append(descriptor: int, offset: int, data: bytes) -> None:
    try:
        written = os.pwrite(descriptor, data, offset)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, offset)
        raise


_SHORTEST = 4
_WITH_RANDOM = re.compile(r"(.*-)([a-z2-7]{13})")


def short_ids(run_ids: Collection[str]) -> dict[str, str]:
    """Return the shortest unambiguous prefix of each id, with at least four random digits; older ids whole."""
    ordered = sorted(set(run_ids))
    found: dict[str, str] = {}
    for before, run_id, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        parts = _WITH_RANDOM.fullmatch(run_id)
        shared = max(_shared(run_id, before), _shared(run_id, after))  # with no other one it has more in common
        length = max(len(parts[1]) + _SHORTEST, shared + 1) if parts is not None else len(run_id)
        found[run_id] = run_id[:length]
    return {run_id: found[run_id] for run_id in run_ids}


def _shared(one: str, other: str) -> int:
    """Return the number of characters that two ids begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (here, there) in pairs if here != there), min(len(one), len(other)))
