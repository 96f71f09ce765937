"""Other programs: started as argument lists, in a session of their own, known by more than a pid."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import msgspec

from actions.base.errors import RefusedError, ToolError, UnreachableError

_PASSED_ON = (
    "HOME", "USER", "LOGNAME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "KUBECONFIG", "EKSML_ALLOW_PLUGINS",
    "EKSML_IMAGE_REGISTRY",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
_CHUNK_BYTES = 1 << 16
_LINE_LIMIT_BYTES = 1 << 20
_REMEMBERED_LINES = 40
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_OF_THE_SESSION = ("DBUS_SESSION_BUS_ADDRESS", "XDG_SESSION_ID")
_PASSED_ON_PREFIXES = ("AWS_", "TF_PLUGIN_CACHE_DIR", "TF_CLI_CONFIG_FILE")


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process, distinct from a later one with the same pid.

    `start_ticks` is field 22 of `/proc/PID/stat`; `boot_id` changes with every boot of the machine.
    """

    pid: int
    start_ticks: int
    boot_id: str


def user_agent(program: str) -> str:
    """Return a user agent with process and machine, for audit logs: `eksml-tui/17@bastion`.

    Args:
        program: In front of the slash, which API servers take as the manager of fields.
    """
    host = "".join(letter for letter in socket.gethostname() if letter.isascii() and letter.isprintable())
    return f"{program}/{os.getpid()}@{host}"


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the process that has `pid` now, or `None` if there is none; a zombie counts as none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            stat = file.read()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    if not fields or fields[0] in {b"Z", b"X"}:
        return None
    return ProcessIdentity(pid=pid, start_ticks=int(fields[19]), boot_id=boot_id())


def own_identity() -> ProcessIdentity:
    """Return the identity of this process."""
    identity = identity_of(os.getpid())
    if identity is None:  # /proc is not mounted: processes cannot be identified
        return ProcessIdentity(pid=os.getpid(), start_ticks=0, boot_id=boot_id())
    return identity


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs."""
    return identity_of(identity.pid) == identity


def work_of(identity: ProcessIdentity) -> int:
    """Return the time that a process has used of the processors, in ticks of the kernel; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{identity.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12]) if int(fields[19]) == identity.start_ticks else 0


def is_stopped(identity: ProcessIdentity) -> bool:
    """Return whether it is halted (SIGSTOP, a debugger): it can neither act nor receive signals."""
    return _status_of(identity).get("State", "").startswith(("T", "t"))


def has_pending_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Return whether the kernel holds a signal for it that it has not taken yet."""
    status = _status_of(identity)
    masks = (int(status.get(name, "0"), 16) for name in ("SigPnd", "ShdPnd"))
    return any(mask >> (number - 1) & 1 for mask in masks)


def _status_of(identity: ProcessIdentity) -> dict[str, str]:
    """The lines of `/proc/PID/status` by name; empty if it is not there."""
    try:
        text = Path(f"/proc/{identity.pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def holders_of_locks(files: Iterable[Path]) -> list[str]:
    """Other processes that hold a write lock on one of the files, as `process 17 (flock)`."""
    known = set()
    for file in files:
        with suppress(OSError):
            status = file.stat()
            known.add(f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}")
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    held = (line.split() for line in lines)
    pids = {int(words[4]) for words in held if len(words) > 5 and words[3] == "WRITE" and words[5] in known}
    return [f"process {pid} ({_name_of(pid)})" for pid in sorted(pids - {os.getpid(), 0, -1})]


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip() or "?"
    except OSError:
        return "?"


def kill(identity: ProcessIdentity, number: signal.Signals = signal.SIGKILL) -> None:
    """End exactly this process, by default at once and also one that is stopped; silent if it has ended.

    Raises:
        RefusedError: It belongs to another user.
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(identity):  # the descriptor means this process, whatever has its number later
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise RefusedError(f"Process {identity.pid} belongs to another user and cannot be ended.") from error
    finally:
        os.close(descriptor)


def wait_for_end(identity: ProcessIdentity, *, seconds: float) -> bool:
    """Block until a process has ended, at most for `seconds`. Returns whether it has."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if is_alive(identity):
            poller.poll(seconds * 1000)
    finally:
        os.close(descriptor)
    return not is_alive(identity)


def run_briefly(argv: Sequence[str], *, seconds: float) -> str | None:
    """Run a short program without a loop. Returns its output, `None` if it does not end well within `seconds`."""
    session = {name: os.environ[name] for name in _OF_THE_SESSION if name in os.environ}
    try:
        return run_tool_now(argv, deadline_seconds=seconds, extra_environment=session).decode(errors="replace")
    except (ToolError, UnreachableError):
        return None


async def run_in_terminal(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a program that has the terminal until it ends, such as an editor; return its exit code.

    Keys that interrupt it (Ctrl+C, Ctrl+\\) reach this process too, which takes no notice meanwhile. If the call is
    cancelled, the program is ended.

    Raises:
        OSError: It cannot be started.
    """
    before = {number: signal.signal(number, _pass_over) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        process = await asyncio.create_subprocess_exec(*argv, env=environment)
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await _ended(process, process.kill)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_over(*_: object) -> None:
    """Handle a signal that is meant for another program: ignored, it would be for that one, too."""


@cache
def boot_id() -> str:
    """The kernel's id of this boot; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def allowed_environment(extra: Mapping[str, str] | None = None, *, without_aws: bool = False) -> dict[str, str]:
    """The environment that child processes get: a list of known names, plus `extra`.

    Args:
        extra: More, and other values.
        without_aws: Pass on none of our own `AWS_` variables.
    """
    kept = {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    if without_aws:
        kept = {name: value for name, value in kept.items() if not name.startswith("AWS_")}
    return kept | dict(extra or {})


def own_module(module: str, *arguments: str) -> list[str]:
    """The argument list that runs one of our modules, whatever the working folder holds."""
    return [sys.executable, "-P", "-m", module, *arguments]


def spawn_detached(
    argv: Sequence[str],
    *,
    output: Path,
    directory: Path | None = None,
    extra_environment: Mapping[str, str] | None = None,
    without_aws: bool = False,
) -> ProcessIdentity:
    """Start a program that outlives us: own session, no stdin, output appended to a private file.

    Args:
        argv: The program and its arguments.
        output: Gets what it writes.
        directory: Where it runs; ours by default.
        extra_environment: See `allowed_environment`.
        without_aws: See `allowed_environment`.

    Raises:
        ToolError: It could not be started.
    """
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        environment = allowed_environment(extra_environment, without_aws=without_aws)
        child = _spawned(argv, stdout=descriptor, stderr=descriptor, directory=directory, environment=environment)
    finally:
        os.close(descriptor)
    child.returncode = 0  # its end is not awaited here: keep Popen from warning at collection
    return identity_of(child.pid) or ProcessIdentity(child.pid, 0, boot_id())


def _spawned(
    argv: Sequence[str],
    *,
    stdout: int,
    stderr: int,
    directory: Path | None,
    environment: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """A program in a session of its own. `environment` is all that it gets."""
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=directory,
            env=environment,
            start_new_session=True,
            umask=0o077,
        )
    except OSError as error:
        raise ToolError(argv, exit_code=127, tail=str(error)) from error


async def run_tool(
    argv: Sequence[str],
    *,
    deadline_seconds: float,
    directory: Path | None = None,
    extra_environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> bytes:
    """Run a short program to its end and return what it wrote to stdout.

    Args:
        argv: The program and its arguments.
        deadline_seconds: Then it is ended.
        directory: Where it runs; ours by default.
        extra_environment: See `allowed_environment`.
        stdin: What it reads; `None` for nothing.

    Raises:
        ToolError: It could not be started, or ended with another code than 0.
        UnreachableError: It did not end in time; its whole process group was ended.
    """
    child = await _started(
        argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        directory=directory,
        environment=extra_environment,
    )
    try:
        async with asyncio.timeout(deadline_seconds):
            out, err = await child.communicate(stdin)
    except TimeoutError as error:
        raise UnreachableError(f"{argv[0]} did not answer within {deadline_seconds:.0f} s.") from error
    finally:
        if child.returncode is None:
            signal_group(child.pid, signal.SIGKILL)
            _close_pipes(child)
            await child.wait()
    if child.returncode:
        raise ToolError(argv, exit_code=child.returncode, tail=err.decode(errors="replace")[-4000:])
    return out


def run_tool_now(
    argv: Sequence[str],
    *,
    deadline_seconds: float,
    directory: Path | None = None,
    extra_environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    look: Callable[[int], object] = lambda _: None,
) -> bytes:
    """Run a short program to its end as `run_tool` does, with its arguments and errors. Blocks the calling thread.

    Args:
        look: Called twice a second with the bytes that it has written so far; an error of it ends the program.
    """
    environment = allowed_environment(extra_environment)
    until = time.monotonic() + deadline_seconds
    with _spawned(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        directory=directory,
        environment=environment,
    ) as child:
        try:
            while True:
                left = until - time.monotonic()
                try:
                    out, err = child.communicate(stdin, timeout=min(left, _LOOK_SECONDS))
                    break
                except subprocess.TimeoutExpired as error:
                    if left <= _LOOK_SECONDS:
                        raise UnreachableError(f"{argv[0]} did not answer within {deadline_seconds:.0f} s.") from error
                    look(len(error.output or b"") + len(error.stderr or b""))
                    stdin = None  # it has been taken
        finally:
            if child.poll() is None:
                signal_group(child.pid, signal.SIGKILL)
                child.wait()  # after Ctrl+C Popen itself does not
    if child.returncode:
        raise ToolError(argv, exit_code=child.returncode, tail=err.decode(errors="replace")[-4000:])
    return out


async def stream_tool(
    argv: Sequence[str],
    *,
    on_line: Callable[[str], None],
    deadline_seconds: float,
    extra_environment: Mapping[str, str] | None = None,
) -> None:
    """Run a long program to its end, and hand on what it writes, line by line. Cancelled, it is ended with its group.

    Args:
        argv: The program and its arguments.
        on_line: Gets each line of stdout and stderr, in order, without its newline. Must be quick.
        deadline_seconds: For all of it.
        extra_environment: See `allowed_environment`.

    Raises:
        ToolError: It could not be started, or ended with another code than 0.
        UnreachableError: It did not end in time.
    """
    child = await _started(argv, stderr=asyncio.subprocess.STDOUT, environment=extra_environment)
    tail: deque[str] = deque(maxlen=_REMEMBERED_LINES)
    try:
        async with asyncio.timeout(deadline_seconds):
            async for line in _lines_of(child):
                tail.append(line)
                on_line(line)
            await child.wait()
    except TimeoutError as error:
        raise UnreachableError(f"{argv[0]} did not end within {deadline_seconds:.0f} s.") from error
    finally:
        if child.returncode is None:
            signal_group(child.pid, signal.SIGTERM)
            await _ended(child, partial(signal_group, child.pid, signal.SIGKILL))
    if child.returncode:
        raise ToolError(argv, exit_code=child.returncode, tail="\n".join(tail))


async def _started(
    argv: Sequence[str],
    *,
    stderr: int,
    environment: Mapping[str, str] | None,
    directory: Path | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> asyncio.subprocess.Process:
    """A program in a session of its own, whose stdout is a pipe. `stdin` and `stderr` as asyncio takes them."""
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            cwd=directory,
            env=allowed_environment(environment),
            start_new_session=True,
            umask=0o077,
        )
    except OSError as error:
        raise ToolError(argv, exit_code=127, tail=str(error)) from error


async def _lines_of(child: asyncio.subprocess.Process) -> AsyncIterator[str]:
    """Lines of its output; one longer than the limit is given in pieces."""
    if child.stdout is None:
        return
    pending = b""
    while chunk := await child.stdout.read(_CHUNK_BYTES):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
        if len(pending) > _LINE_LIMIT_BYTES:
            yield pending.decode(errors="replace")
            pending = b""
    if pending:
        yield pending.decode(errors="replace")


async def _ended(child: asyncio.subprocess.Process, kill: Callable[[], None]) -> None:
    """Wait for a process that was sent SIGTERM; kill one that does not end."""
    end = asyncio.ensure_future(child.wait())
    # In a task that was cancelled, a timeout of Python 3.11.2 cancels again instead of raising `TimeoutError`.
    _, late = await asyncio.wait([end], timeout=_END_SECONDS)
    if late:
        kill()
        _close_pipes(child)
    await end


def _close_pipes(child: asyncio.subprocess.Process) -> None:
    """Close our ends of the pipes of a process that was killed.

    asyncio waits for them before it tells that a process has ended, and a process that this one has left behind may
    hold the other ends.
    """
    transport = getattr(child, "_transport", None)  # nothing public closes them
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a whole process group that we started; silent if it has ended."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
