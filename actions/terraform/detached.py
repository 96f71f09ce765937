"""A Terraform operation as a process of its own: it outlives the runner that started it, and is found again.

The process leads its own session and writes to a private file, so that neither a hang-up nor a closed pipe reaches it:
a killed Terraform does not save its last changes. A shell records its own identity and then *becomes* Terraform, so
there is no moment in which it runs unrecorded.

Its own log has the ids of the locks that it asks for. S3 may take a lock and lose its answer: Terraform then asks
again, finds that the state is locked, and describes its own lock as that of another process. Only the id shows whose
lock it is: each lock has a new one, and the `s3` backend logs it, with level INFO, before the request. A log of this
level holds no values of resources, and nothing of providers.

Source: Terraform 1.10 to 1.14, `internal/backend/remote-state/s3/client.go`, `logging.go` beside it; `internal/logging`
for the variables; `internal/states/statemgr/locker.go` for the id.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import FormatError
from actions.base.files import open_file, read_file, write_private
from actions.base.process import ProcessIdentity, is_alive, spawn_detached
from actions.terraform.events import OperationProgress, read_events

POLL_SECONDS = 0.1
LINE_LIMIT_BYTES = 16 << 20

_INTRODUCE = (
    'read -r stat <"/proc/$$/stat"; read -r boot </proc/sys/kernel/random/boot_id; '
    'printf "%s\\n%s\\n" "$boot" "$stat" >"$0.new" && mv "$0.new" "$0" && exec "$@"'
)


class DetachedOperation:
    """A named operation in a work folder: started once, adopted afterwards.

    Args:
        folder: The work folder.
        name: `plan`, `apply` or `destroy`.
        clock: For the pauses between reads.
    """

    def __init__(self, folder: Path, name: str, *, clock: Clock) -> None:
        self.name = name
        self.output = folder / f"{name}.jsonl"
        self.lock_log = folder / f"{name}.log"
        self._identity_file = folder / f"{name}.pid"
        self._folder = folder
        self._clock = clock
        self._child_pid = 0

    def recorded(self) -> ProcessIdentity | None:
        """Return the process that ran it last, alive or not."""
        try:
            boot, stat = read_file(self._identity_file).decode().splitlines()[:2]
            fields = stat.rpartition(")")[2].split()
            return ProcessIdentity(int(stat.split(" ", 1)[0]), int(fields[19]), boot.strip())
        except (OSError, ValueError, IndexError):
            return None

    def identity(self) -> ProcessIdentity | None:
        """Return the process that runs it, if it is still alive."""
        identity = self.recorded()
        return identity if identity is not None and is_alive(identity) else None

    def forget(self) -> None:
        """Forget the process that ran it last. Its output file stays."""
        self._identity_file.unlink(missing_ok=True)

    def progress(self) -> OperationProgress:
        """Return its progress, from its output so far."""
        progress = OperationProgress(self.name)
        for line in self._lines_so_far():
            try:
                for event in read_events(line):
                    progress.take(event)
            except FormatError:
                break
        return progress

    def start(self, argv: Sequence[str], *, environment: Mapping[str, str]) -> None:
        """Start it, with an empty output file. It must not be running.

        Raises:
            ToolError: It could not be started.
        """
        self._identity_file.unlink(missing_ok=True)
        self.output.unlink(missing_ok=True)
        introduced = ["/bin/sh", "-c", _INTRODUCE, str(self._identity_file), *argv]
        child = spawn_detached(introduced, output=self.output, directory=self._folder, extra_environment=environment)
        self._child_pid = child.pid

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield every line of the output from its beginning, until the process has ended.

        A last line without a newline is included; a line above `LINE_LIMIT_BYTES` is cut off. Closing the generator
        early leaves the process alone.
        """
        pending = b""
        offset = 0
        is_over = False
        while True:
            chunk = self._read(offset)
            offset += len(chunk)
            *complete, pending = (pending + chunk).split(b"\n")
            pending = pending[:LINE_LIMIT_BYTES]
            for line in complete:
                yield line
            if chunk:
                continue
            if is_over:
                break
            is_over = not self._is_running()
            if not is_over:
                await self._clock.sleep(POLL_SECONDS)
        if pending:
            yield pending

    async def exit_code(self) -> int | None:
        """Return the exit code if this process started it, once it has ended; `None` for an adopted one.

        The kernel shows a killed process as gone when its first thread is, and has its exit code after the last one: on
        a busy machine this takes a while for a program of many threads, as Terraform is.
        """
        try:
            while self._child_pid:
                if (status := _status_of(self._child_pid)) is not None:
                    return os.waitstatus_to_exitcode(status)
                await self._clock.sleep(POLL_SECONDS)
        except ChildProcessError:
            pass
        return None

    def interrupt(self) -> bool:
        """Send one SIGINT to Terraform alone: it then finishes its present changes and saves its state."""
        identity = self.identity()
        if identity is None:
            return False
        os.kill(identity.pid, signal.SIGINT)
        return True

    def _is_running(self) -> bool:
        is_introduced = self._identity_file.exists()  # before reading the identity: it may be written in between
        if self.identity() is not None:
            return True
        return not is_introduced and bool(self._child_pid) and _is_child_alive(self._child_pid)

    def _lines_so_far(self) -> Iterator[bytes]:
        pending, offset = b"", 0
        while chunk := self._read(offset):
            offset += len(chunk)
            *complete, pending = (pending + chunk).split(b"\n")
            pending = pending[:LINE_LIMIT_BYTES]
            yield from complete
        yield pending

    def _read(self, offset: int) -> bytes:
        try:
            with open_file(self.output) as file:
                file.seek(offset)
                return file.read(1 << 20)
        except FileNotFoundError:
            return b""


def _status_of(pid: int) -> int | None:
    """Return the status of a child that has ended; `None` if one of its threads has not.

    Raises:
        ChildProcessError: It is not a child, or its status was asked for before.
    """
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def _is_child_alive(pid: int) -> bool:
    try:
        stat = read_file(Path(f"/proc/{pid}/stat")).decode(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] != ["Z"]


_VARIABLES = ("TF_LOG", "TF_LOG_CORE", "TF_LOG_PATH")
_ATTEMPT = re.compile(rb"Attempting to lock remote state[^\n]*? tf_backend\.lock\.id=([0-9a-f-]{36})(?= |\n|$)")
_LIMIT_BYTES = 4 << 20
_MOST_IDS = 20


def logged_to(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Make an empty log, and return the variables that let a Terraform process write it.

    Args:
        path: Of the log. An earlier one is removed: a process that still writes it goes on with that.
        environment: Variables of the process in addition to this one's; with logging of the operator's own in them, or
            in this process', there is no log.
    """
    path.unlink(missing_ok=True)
    if any(environment.get(name) or os.environ.get(name) for name in _VARIABLES):
        return {}
    write_private(path, b"")
    return {"TF_LOG_CORE": "INFO", "TF_LOG_PATH": str(path.absolute())}


def lock_ids(path: Path) -> tuple[str, ...]:
    """Return the ids of the locks that a process has asked for, got or not; none without a log."""
    try:
        data = read_file(path, _LIMIT_BYTES, is_cut=True)
    except OSError:
        return ()
    found = dict.fromkeys(match.decode() for match in _ATTEMPT.findall(data))
    return tuple(found)[:_MOST_IDS]
