"""A detached operation at the moment in which it writes down who it is."""

from __future__ import annotations

import subprocess
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
