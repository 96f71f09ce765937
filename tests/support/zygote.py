"""Runners and sandboxes begun as copies of one process that has imported them: most of what a short one costs is that.

The first of each module in a pytest process is the real thing, started as the program does it; the others differ from
it in how they came to be, and in nothing else: session, environment, folder, umask, output and command line are their
own, and the module is executed as `__main__`. Whoever measures a start, or a process's memory, sets `IS_USED` to false.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import actions
from actions.base import process
from actions.base.process import ProcessIdentity, allowed_environment, boot_id, identity_of, own_module

IS_USED = True
_MODULES = frozenset({"actions.run", "actions.sandbox", "tests.support.crashing", "tests.unit.run.world"})
_COMMAND_LINE_BYTES = 2048
_REQUEST_BYTES = 1 << 20
_START_SECONDS = 240.0

_spawn_detached = process.spawn_detached
_OWNER = os.getpid()
_seen: set[str] = set()
_zygote: socket.socket | None = None


def install() -> None:
    """Let this process start runners and sandboxes by way of the zygote; before anything imports `spawn_detached`."""
    process.spawn_detached = spawn_detached


def spawn_detached(
    argv: Sequence[str],
    *,
    output: Path,
    directory: Path | None = None,
    extra_environment: Mapping[str, str] | None = None,
    without_aws: bool = False,
) -> ProcessIdentity:
    """`actions.base.process.spawn_detached`, for everything but a module's second start and later ones."""
    module = argv[3] if list(argv[:3]) == own_module("")[:3] else ""
    is_ours = IS_USED and module in _MODULES and (directory or Path()).is_dir()
    is_first = module not in _seen if os.getpid() == _OWNER else _zygote is None
    if not is_ours or is_first:
        _seen.update({module} & _MODULES)
        return _spawn_detached(
            argv, output=output, directory=directory, extra_environment=extra_environment, without_aws=without_aws
        )
    environment = allowed_environment(extra_environment, without_aws=without_aws)
    sys.audit("tests.zygote", module)
    request = {"argv": list(argv), "directory": str((directory or Path()).absolute()), "environment": environment}
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    reader, writer = os.pipe()
    try:
        socket.send_fds(start(), [json.dumps(request).encode()], [descriptor, writer])
    finally:
        os.close(descriptor)
        os.close(writer)
    try:
        assert select.select([reader], [], [], _START_SECONDS)[0], "the zygote does not answer"
        pid = int(os.read(reader, 32))
    finally:
        os.close(reader)
    return identity_of(pid) or ProcessIdentity(pid, 0, boot_id())


def before_a_copy() -> None:
    """Start the zygote in good time, as what a copy of this process starts is lost with it."""
    if IS_USED and _seen:
        start()


def note_started() -> None:
    """A copy of this process has started a sandbox, and perhaps runners, for real: the next ones need not be."""
    _seen.update(_MODULES)


def start() -> socket.socket:
    """The zygote of this process and its copies; started if there is none. It ends when they have."""
    global _zygote
    if _zygote is None:
        _zygote, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            subprocess.Popen(
                [*own_module(__name__), str(theirs.fileno()), " " * _COMMAND_LINE_BYTES],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull},
            ).returncode = 0  # its end is not awaited
    return _zygote


def end() -> None:
    """End the zygote; what it has become goes on."""
    global _zygote  # noqa: PLW0603 - one a process
    if _zygote is not None:
        _zygote.close()
        _zygote = None


def _serve(requests: socket.socket) -> None:
    """Become what is asked for, in a copy each time, until nobody is left who could ask."""
    import_all(actions)
    importlib.import_module("boto3")  # which runners import for their first call
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 2)
        if not data:
            return
        output, answer = descriptors
        pid = os.fork()
        if not pid:
            os.close(answer)
            request = json.loads(data)
            _become(request["argv"], request["environment"], request["directory"], output)
        os.write(answer, b"%d" % pid)
        os.close(output)
        os.close(answer)


@cache
def import_all(package: ModuleType) -> None:
    """Import every module of a package, so that copies of this process need not."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def _reap(number: int, frame: object) -> None:
    """Leave no zombie; ignored, the signal would keep the copies' times out of this process's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(argv: list[str], environment: dict[str, str], directory: str, output: int) -> NoReturn:
    code: object = 1
    try:
        os.setsid()
        os.umask(0o077)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 1 << 16)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(directory)
        _show_command_line(argv)
        take_hooks(environment)
        sys.argv = argv[3:]
        runpy.run_module(argv[3], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def take_hooks(environment: Mapping[str, str]) -> None:
    """Do what the interpreter does at its start with a `sitecustomize` of a test."""
    for folder in environment.get("PYTHONPATH", "").split(":"):
        hook = Path(folder) / "sitecustomize.py"
        if folder and hook.is_file():
            runpy.run_path(str(hook))


def _show_command_line(argv: list[str]) -> None:
    """Write it where the kernel reads this process's, as other processes look there: /proc/PID/stat, fields 48, 49."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(word) for word in argv)[: end - first - 1]
    ctypes.memset(first, 0, end - first)
    ctypes.memmove(first, text, len(text))


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
