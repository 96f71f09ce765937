"""A process that begins as a copy of this one: all is imported already, which is most of what a short one costs."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

_UNEXPECTED = 70


def forked(
    work: Callable[[], int | None], *, environment: Mapping[str, str], directory: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Let a process of its own do a piece of work that would else be a program's.

    It is killed, signalled and looked at like any other; its memory is a copy, so that nothing comes back but what it
    writes. It must not open a SQLite file that this process has open: it would take our locks for its own. Each kind of
    program is still started for real by at least one test of a folder.

    Args:
        work: Done in the child; returns its exit code, or raises SystemExit.
        environment: Instead of this process's own.
        directory: Where the child works.
        seconds: How long it may take.

    Raises:
        subprocess.TimeoutExpired: It took longer, and has been killed.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if not pid:
            _be_the_child(work, environment, directory, out.fileno(), err.fileno())
        descriptor = os.pidfd_open(pid)
        try:
            has_ended = bool(select.select([descriptor], [], [], seconds)[0])
        finally:
            os.close(descriptor)
        if not has_ended:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    if not has_ended:
        raise subprocess.TimeoutExpired(["fork"], seconds, *texts)
    return subprocess.CompletedProcess(["fork"], code, *texts)


def _be_the_child(
    work: Callable[[], int | None], environment: Mapping[str, str], directory: Path, out: int, err: int
) -> NoReturn:
    code: int | None = _UNEXPECTED
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, wanted in ((nothing, 0), (out, 1), (err, 2)):
            os.dup2(descriptor, wanted)
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        gc.freeze()  # what is copied is not the child's to collect: to look at it would copy it for real
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - nothing of it may reach the copy of pytest
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code or 0)
