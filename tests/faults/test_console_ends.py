"""Rule 8: a console that has ended is gone, soon, with the terminal as it was, whatever its threads and servers do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.bare import a_bare_console, ends_by_its_key, is_alive_and_well
from tests.support.program import Program
from tests.support.ptys import RESTORED, OnPty

SOON_SECONDS = 60.0
"""Two are promised; a busy machine gets more. What hangs here does so for ever."""

HANGING_THREAD = """
import threading
threading.Thread(target=threading.Event().wait, name="hangs").start()
"""
HANGING_POOL = """
from concurrent.futures import ThreadPoolExecutor
from threading import Event
pool = ThreadPoolExecutor(1)
pool.submit(Event().wait)
"""
BROKEN_KEY = """
import tui.screens.console as console
async def broken(self):
    raise NameError("name 'nothing' is not defined")
console.ConsoleScreen.action_command_line = broken
"""
KUBECONFIG = """
current-context: hostile
contexts: [{{name: hostile, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{server}", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""


@pytest.fixture
def silent_server() -> Iterator[int]:
    """A port where every connection is taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening.getsockname()[1]


def environment_with(program: Program, code: str) -> dict[str, str]:
    """The program's environment, in which Python runs `code` before the program."""
    folder = program.home / "before"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    path = os.pathsep.join(filter(None, [str(folder), program.environment.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path}


def stop_reading(console: OnPty) -> None:
    """Have it write more than the terminal and all queues take, until it can write no more."""
    for turn in range(60):
        console.resize(100 + turn % 2 * 100, 40)
        console.type_unread(b"12"[turn % 2 : turn % 2 + 1])
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("end", "scheme"),
    [
        ("q", "https"),
        ("hang-up", "https"),
        ("SIGTERM", "https"),
        ("SIGHUP", "https"),
        ("q", "http"),
        ("hang-up", "http"),
    ],
)
def test_rule_8_a_console_on_a_server_that_says_nothing_is_gone_soon(
    program: Program, silent_server: int, end: str, scheme: str
) -> None:
    kubeconfig = program.home / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(server=f"{scheme}://127.0.0.1:{silent_server}"))
    variables = {**program.environment, "KUBECONFIG": str(kubeconfig)}
    with OnPty(program.argv(), variables) as console:
        console.wait(r"\[H home\]")
        console.wait(r"hostile")
        if end == "q":
            console.type(b"q")
        elif end == "hang-up":
            console.hang_up()
        else:
            console.signal(signal.Signals[end])
        code = console.wait_ended(seconds=SOON_SECONDS)

        assert code == {"q": 0, "SIGTERM": 143}.get(end, 129)
        if end != "hang-up":
            assert all(sequence in console.raw for sequence in RESTORED)
            assert console.is_echoing()


@pytest.mark.parametrize("hanging", [HANGING_THREAD, HANGING_POOL], ids=["thread", "pool"])
def test_rule_8_a_thread_that_hangs_does_not_keep_a_console(program: Program, hanging: str) -> None:
    with a_bare_console(program, environment=environment_with(program, hanging)) as console:
        console.type(b"q")
        assert console.wait_ended(seconds=SOON_SECONDS) == 0
        assert all(sequence in console.raw for sequence in RESTORED)


def test_rule_8_a_signal_while_a_console_ends_does_not_change_its_end(program: Program) -> None:
    with a_bare_console(program, environment=environment_with(program, HANGING_THREAD)) as console:
        while not console.has_ended():  # a line that is closed may be noticed long before its signal comes
            console.signal(signal.SIGHUP)
            console.read(0.01)
        assert console.wait_ended() == 129
        assert "Traceback" not in console.text


def test_rule_8_a_thread_that_hangs_takes_nothing_from_what_a_script_reports(program: Program) -> None:
    script, report = program.home / "script.yaml", program.home / "report.json"
    script.write_text("eksml-script: 1\nsteps:\n  - open: events\n")
    argv = program.argv("--script", str(script), "--report", str(report), "--artifacts", str(program.home))
    variables = {**program.environment, **environment_with(program, HANGING_THREAD)}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=240, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "passed after" in done.stdout
    assert json.loads(report.read_text())["result"] == "passed"


def test_a_defect_of_the_console_ends_a_script_and_always_is_played_and_reported(program: Program) -> None:
    script, report = program.home / "script.yaml", program.home / "report.json"
    text = 'eksml-script: 1\nsteps:\n  - open: events\n  - press: ":"\n  - open: nodes\nalways:\n  - open: pods\n'
    script.write_text(text)
    argv = program.argv("--script", str(script), "--report", str(report), "--artifacts", str(program.home))
    variables = {**program.environment, **environment_with(program, BROKEN_KEY)}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode in (1, 130)  # the steps may have ended before the console has
    assert "NameError: name 'nothing' is not defined" in done.stderr
    steps = json.loads(report.read_text())["steps"]
    assert (steps[0]["result"], steps[-1]["section"], steps[-1]["seen"]) == (
        "passed",
        "always",
        "The console has ended.",
    )


def test_rule_8_a_closed_terminal_ends_a_console_that_gets_no_signal(program: Program) -> None:
    in_a_session_without_terminal = ["sh", "-c", 'trap "" HUP; exec setsid --wait "$@"', "sh"]
    with OnPty([*in_a_session_without_terminal, *program.argv()], dict(program.environment)) as console:
        console.wait(r"\[H home\]")
        (child,) = Path(f"/proc/{console.pid}/task/{console.pid}/children").read_text().split()
        console.hang_up()
        try:
            assert console.wait_ended(seconds=SOON_SECONDS) == 129
        finally:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_rule_8_a_terminal_without_a_reader_does_not_keep_a_console(program: Program, number: signal.Signals) -> None:
    with a_bare_console(program) as console:
        stop_reading(console)
        console.signal(number)
        assert console.wait_ended(seconds=SOON_SECONDS, is_read=False) == 128 + number
        assert console.is_echoing()


def test_rule_8_a_terminal_that_is_read_again_gets_all_that_was_drawn(program: Program) -> None:
    with a_bare_console(program) as console:
        stop_reading(console)
        is_alive_and_well(console)
        ends_by_its_key(console)
