"""Processes that nobody can use any more end, and a sandbox that can open no more files does not spin."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from actions.base.process import is_alive
from actions.run.client import start_runner
from actions.sandbox.locate import RunningSandbox
from actions.sandbox.server import Listener
from tests.faults.longruns import a_long_run, runner_of
from tests.faults.rehearsal import a_sandbox
from tests.support.leftover import delete_folder, end_processes_of, processes_of
from tests.support.polling import until, wait
from tests.support.program import Program

SANDBOX_SPEED = 100.0


def test_a_sandbox_ends_when_its_state_folder_is_gone(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(program.state.parent))
    with a_sandbox("alone", speed=SANDBOX_SPEED) as sandbox:
        delete_folder(program.state)
        wait(lambda: not is_alive(sandbox.process.identity()), "the sandbox's end")


def test_a_runner_does_not_outlive_its_test(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    assert runner in list(processes_of(program.home))
    assert sandbox.process.identity() not in list(processes_of(program.home))
    assert end_processes_of(program.home) == [runner.pid]
    assert start_runner(folder) is not None  # for what ends it after this test


def test_a_runner_ends_when_its_run_is_deleted(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    delete_folder(folder)
    wait(lambda: not is_alive(runner), "the runner's end")


async def test_no_more_files_are_asked_for_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def refused(listener: socket.socket) -> tuple[int, object]:
        nonlocal asked
        asked += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Listener, "_accept", refused, raising=False)
    told: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    with Listener() as listener:
        listener.bind(("127.0.0.1", 0))
        server = await asyncio.start_server(lambda *_: None, sock=listener, backlog=100)
        async with server:
            with socket.create_connection(listener.getsockname()):
                await until(lambda: told, "the refusal")
    assert (asked, len(told)) == (1, 1)
