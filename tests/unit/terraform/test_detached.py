"""A detached operation at the moment in which it writes down who it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.base.process import ProcessIdentity, identity_of, is_alive
from actions.terraform import detached
from actions.terraform.detached import DetachedOperation


async def test_one_that_introduces_itself_while_it_is_looked_for_is_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[subprocess.Popen[bytes]] = []
    looks = 0

    def spawn(_argv: Sequence[str], *, output: Path, **_: Any) -> ProcessIdentity:
        with output.open("wb") as file:
            argv = ["/bin/sh", "-c", "read -r line; echo done"]
            children.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=file))
        identity = identity_of(children[0].pid)
        assert identity is not None
        return identity

    def an_instant_too_early() -> ProcessIdentity | None:
        nonlocal looks
        looks += 1
        (child,) = children
        if looks == 1:
            (tmp_path / "plan.pid").write_text("written down just after it was looked for")
            return None
        if looks == 2:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
            child.stdin.close()
        found = identity_of(child.pid)
        return found if found is not None and is_alive(found) else None

    monkeypatch.setattr(detached, "spawn_detached", spawn)
    operation = DetachedOperation(tmp_path, "plan", clock=SystemClock())
    monkeypatch.setattr(operation, "identity", an_instant_too_early)
    operation.start([], environment={})
    try:
        assert [line async for line in operation.lines()] == [b"done"]
    finally:
        children[0].kill()
        children[0].wait()


_FIRST_THREAD_ENDS = """
import ctypes, os, sys, threading

def rest():
    sys.stdin.read()
    os._exit(3)

threading.Thread(target=rest).start()
print("begun", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""


async def test_the_exit_code_is_waited_for_until_the_last_thread_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[subprocess.Popen[bytes]] = []

    def spawn(_argv: Sequence[str], *, output: Path, **_: Any) -> ProcessIdentity:
        with output.open("wb") as file:
            argv = [sys.executable, "-c", _FIRST_THREAD_ENDS]
            children.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=file))
        identity = identity_of(children[0].pid)
        assert identity is not None
        return identity

    class EndsWithThePause(SystemClock):
        """Lets the last thread end only while the exit code is waited for."""

        pauses = 0

        async def sleep(self, seconds: float) -> None:
            self.pauses += 1
            stdin = children[0].stdin
            if is_waited_for and stdin is not None:
                stdin.close()
            await super().sleep(seconds)

    is_waited_for = False
    clock = EndsWithThePause()
    monkeypatch.setattr(detached, "spawn_detached", spawn)
    operation = DetachedOperation(tmp_path, "apply", clock=clock)
    operation.start([], environment={})
    try:
        assert [line async for line in operation.lines()] == [b"begun"]
        is_waited_for, clock.pauses = True, 0
        assert await operation.exit_code() == 3
        assert clock.pauses
    finally:
        children[0].kill()
        children[0].returncode = 3
