"""Leftovers of a test: runners that wait for ever for clusters that are gone, and folders that they still write to.

Any of them may end by itself between a look at it and what is done about it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from actions.base.process import ProcessIdentity, identity_of, is_alive, kill, wait_for_end
from tests.support.polling import wait

_OURS = frozenset({b"actions.run", b"actions.sandbox"})
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "tests.zygote"})
"""Events of Python's audit by which this process starts another one, or has the zygote start it."""
_END_SECONDS = 60.0


class StartCounter:
    """Counts the processes that this one starts: a test that has started none leaves none behind."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, _arguments: tuple[object, ...]) -> None:
        if event in _STARTS:
            self.count += 1


def delete_folder(folder: Path) -> None:
    """Delete a folder as somebody does while processes write into it: again, until it is gone.

    Raises:
        AssertionError: It comes back for ever.
    """

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait(is_gone, f"{folder.name} to be deleted")


def send(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal exactly this process. Returns false if it has ended, perhaps at this very moment."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def end(processes: Sequence[ProcessIdentity], *, seconds: float) -> None:
    """Ask processes to end, and kill those that have not ended in time; all have ended at the return."""
    asked = [process for process in processes if send(process, signal.SIGTERM)]
    until = time.monotonic() + seconds
    for process in asked:
        if not wait_for_end(process, seconds=max(0.0, until - time.monotonic())):
            kill(process)
            wait_for_end(process, seconds=_END_SECONDS)


def read_all(folder: Path) -> dict[Path, bytes]:
    """Return the contents of all files below a folder, but for those that go while it is read, as logs of SQLite do."""
    found = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                found[path] = path.read_bytes()
    return found


def end_processes_of(folder: Path) -> list[int]:
    """End what works in a folder, or for a run or sandbox in it, and nothing else. Returns the pids."""
    found = list(processes_of(folder))
    for process in found:
        kill(process)
    for process in found:
        wait_for_end(process, seconds=_END_SECONDS)
    return [process.pid for process in found]


def processes_of(folder: Path) -> Iterator[ProcessIdentity]:
    """Processes whose working folder is in a folder, and runners and sandboxes that were started for one in it."""
    inside = os.fsencode(folder.resolve()) + b"/"
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        process = identity_of(pid)
        if process is None or pid == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            place = os.fsencode(os.readlink(entry / "cwd")) + b"/"
        except OSError:  # it has ended, or is somebody else's
            continue
        is_for_it = not _OURS.isdisjoint(words) and any(word.startswith(inside) for word in words)
        if is_for_it or place.startswith(inside):
            yield process
