"""Processes are known by more than their pid, and tools run without a shell or a terminal."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actions.base import process
from actions.base.errors import RefusedError, ToolError, UnreachableError
from actions.base.process import (
    ProcessIdentity,
    allowed_environment,
    identity_of,
    is_alive,
    own_identity,
    run_in_terminal,
    run_tool,
    run_tool_now,
    spawn_detached,
    stream_tool,
)
from tests.support.polling import until


def test_we_are_alive_and_a_namesake_is_not() -> None:
    me = own_identity()
    assert is_alive(me)
    assert not is_alive(ProcessIdentity(me.pid, me.start_ticks + 1, me.boot_id))
    assert not is_alive(ProcessIdentity(me.pid, me.start_ticks, "another boot"))


def test_there_is_no_process_with_an_impossible_pid() -> None:
    assert identity_of(2**22 + 7) is None


async def test_a_tool_gets_no_stdin_and_its_output_comes_back() -> None:
    program = "import sys; print(len(sys.stdin.read()), flush=True)"
    assert await run_tool([sys.executable, "-c", program], deadline_seconds=120) == b"0\n"


def test_what_a_program_writes_is_counted_while_it_runs_and_an_error_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.01)
    counted: list[int] = []

    def look(written: int) -> None:
        counted.append(written)
        if written == 6:
            raise RefusedError("enough")

    program = "import sys, threading; print(sys.stdin.read(), end='', flush=True); threading.Event().wait()"
    with pytest.raises(RefusedError, match="enough"):
        run_tool_now([sys.executable, "-c", program], deadline_seconds=120, stdin=b"123456", look=look)
    assert counted[-1] == 6


async def test_a_failing_tool_says_its_last_line() -> None:
    with pytest.raises(ToolError, match="ended with 3: sorry") as caught:
        await run_tool(
            [sys.executable, "-c", "import sys; print('sorry', file=sys.stderr); sys.exit(3)"], deadline_seconds=120
        )
    assert caught.value.exit_code == 3


async def test_a_missing_tool_is_an_error_not_a_crash() -> None:
    with pytest.raises(ToolError, match="127"):
        await run_tool(["/nonexistent/tool"], deadline_seconds=5)


async def test_a_tool_that_hangs_is_ended_with_its_children() -> None:
    with pytest.raises(UnreachableError, match="did not answer"):
        await run_tool([sys.executable, "-c", "import time; time.sleep(60)"], deadline_seconds=0.5)


@pytest.mark.parametrize("how", [run_tool, partial(stream_tool, on_line=print)], ids=["run", "stream"])
def test_a_tool_that_is_interrupted_is_let_go_though_its_output_is_held(
    how: Callable[..., Coroutine[Any, Any, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that it has left behind holds its pipes open: no wait for that one, and no complaint at the end."""
    pid = tmp_path / "pid"
    program = (
        "import pathlib, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    complaints: list[object] = []
    monkeypatch.setattr(process, "_END_SECONDS", 0.2)
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    starting = process._started
    is_started: list[bool] = []

    async def started(*arguments: Any, **options: Any) -> Any:
        child = await starting(*arguments, **options)
        is_started.append(True)
        return child

    monkeypatch.setattr(process, "_started", started)

    async def work() -> None:
        tool = asyncio.ensure_future(how([sys.executable, "-c", program], deadline_seconds=600))
        await until(lambda: is_started and pid.exists() and pid.read_text(), "the child of the tool")
        tool.cancel()
        with suppress(asyncio.CancelledError):
            async with asyncio.timeout(120):
                await tool

    try:
        asyncio.run(work())
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    gc.collect()
    assert complaints == []


def test_children_get_only_known_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "x")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("EKSML_ALLOW_PLUGINS", "cloudco-login")
    monkeypatch.setenv("EKSML_TEST_CRASH_AT", "1:before")
    environment = allowed_environment({"EXTRA": "1"})
    assert environment.keys() & {"MY_SECRET", "EKSML_TEST_CRASH_AT"} == set()
    assert environment["EKSML_ALLOW_PLUGINS"] == "cloudco-login"
    assert (environment["AWS_REGION"], environment["EXTRA"]) == ("us-west-2", "1")


def test_a_detached_program_is_in_a_session_of_its_own_with_a_private_output(tmp_path: Path) -> None:
    output = tmp_path / "out.log"
    program = "import os, sys; print(os.getsid(0) == os.getpid(), flush=True); sys.stdin.read()"
    child = spawn_detached([sys.executable, "-c", program], output=output)
    os.waitpid(child.pid, 0)
    assert output.read_text() == "True\n"
    assert output.stat().st_mode & 0o777 == 0o600
    assert not is_alive(child)


async def test_the_loop_goes_on_while_a_program_has_the_terminal(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    running = asyncio.create_task(run_in_terminal(["sh", "-c", f"read answer < {pipe}; exit $answer"]))
    await asyncio.to_thread(pipe.write_text, "7\n")

    assert await running == 7
    assert signal.getsignal(signal.SIGINT) is not None


async def test_a_program_of_the_terminal_ends_with_its_call(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    running = asyncio.create_task(run_in_terminal(["sh", "-c", f"echo $$ > {pipe}; exec cat {pipe}"]))
    pid = int(await asyncio.to_thread(pipe.read_text))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    assert not Path(f"/proc/{pid}").exists()
