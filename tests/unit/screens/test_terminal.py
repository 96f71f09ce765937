"""The ends of the terminal: pastes up to a length, output that is given up, processes that end."""

from __future__ import annotations

import asyncio
import itertools
import os
import pty
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual import events

from tests.support.polling import wait
from tui.cli.console import run_to_the_end
from tui.shutdown import ExitDeadline
from tui.terminal.input import PasteLimit, TerminalInput
from tui.terminal.output import TerminalOutput

BEGIN, END = "\x1b[200~", "\x1b[201~"


def cut(text: str, places: list[int]) -> list[str]:
    """`text` in pieces."""
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 200)))
def test_what_is_no_long_paste_goes_through_as_it_is_wherever_it_is_cut(places: list[int]) -> None:
    text = f"abc{BEGIN}pasted{END}\x1b[Adef{BEGIN}{END}g\x1b[20{BEGIN}twice{BEGIN}{END}h"
    limit = PasteLimit(most=100)
    assert "".join(limit.let_through(piece) for piece in cut(text, places)) == text
    assert not limit.is_open


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 400)))
def test_a_long_paste_loses_its_end_and_nothing_behind_it(places: list[int]) -> None:
    text = f"a{BEGIN}{'x' * 300}{END}b"
    limit = PasteLimit(most=10)
    passed = "".join(limit.let_through(piece) for piece in cut(text, places))
    assert passed.startswith(f"a{BEGIN}")
    assert passed.endswith(f"{END}b")
    assert passed.count(END) == 1
    assert not limit.is_open


def test_a_paste_of_other_bytes_keeps_what_is_text() -> None:
    read = TerminalInput()
    (paste,) = read.feed(b"\x1b[200~caf\xe9 au lait\x1b[201~")
    assert isinstance(paste, events.Paste)
    assert paste.text == "caf\ufffd au lait"


def test_a_character_may_be_cut_between_two_reads() -> None:
    read = TerminalInput()
    keys = [*read.feed(b"\xc3"), *read.feed(b"\xa9\xe2\x82"), *read.feed(b"\xac")]
    assert [key.character for key in keys if isinstance(key, events.Key)] == ["é", "€"]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b:q", ["escape", "colon", "q"]),
        ("\x1b/", ["escape", "slash"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1bj", ["alt+j"]),
        ("\x1b[1;5C", ["ctrl+right"]),
        ("\x1bOP", ["f1"]),
    ],
)
def test_an_escape_that_comes_together_with_the_next_key_is_a_key(
    sent: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = TerminalInput()
    found = list(read.feed(sent.encode()))
    monkeypatch.setattr("textual._parser.get_time", lambda: float("inf"), raising=False)
    found += read.tick()
    assert [message.key for message in found if isinstance(message, events.Key)] == keys


@pytest.fixture
def line() -> Iterator[tuple[int, int]]:
    """A terminal: its other end, and its own."""
    master, slave = pty.openpty()
    yield master, slave
    for descriptor in (master, slave):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_output_waits_for_a_terminal_until_it_is_given_up(line: tuple[int, int]) -> None:
    output = TerminalOutput(line[1], lambda: None)
    writer = threading.Thread(target=output.write, args=("x" * 1_000_000,), daemon=True)
    writer.start()
    assert os.read(line[0], 10) == b"x" * 10
    writer.join(0.3)
    assert writer.is_alive()
    output.finish_within(0.1)
    writer.join(60)
    assert not writer.is_alive()


def test_output_that_is_to_finish_still_gets_through_where_it_is_read(line: tuple[int, int]) -> None:
    output, total = TerminalOutput(line[1], lambda: None), 0
    output.finish_within(20.0)
    writer = threading.Thread(target=output.write, args=("x" * 300_000,), daemon=True)
    writer.start()
    while total < 300_000:
        total += len(os.read(line[0], 1 << 16))
    writer.join(60)
    assert not writer.is_alive()


def test_a_terminal_that_is_gone_is_told_once_and_takes_everything(line: tuple[int, int]) -> None:
    told: list[str] = []
    output = TerminalOutput(line[1], lambda: told.append("gone"))
    os.close(line[0])
    output.write("x")
    output.write("y" * 100_000)
    assert told == ["gone"]


def test_a_process_is_ended_once_with_the_first_code_and_the_terminal_given_back_before() -> None:
    done: list[object] = []
    exit_deadline = ExitDeadline(0.0, done.append)
    exit_deadline.begin(143, lambda: done.append("restored"))
    exit_deadline.begin(0, lambda: done.append("restored again"))
    wait(lambda: len(done) == 2, "the end")
    assert done == ["restored", 143]


def test_a_loop_is_left_although_a_task_does_not_end() -> None:
    stuck = threading.Event()

    async def never() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    async def work() -> str:
        tasks.append(asyncio.create_task(never()))
        asyncio.get_running_loop().run_in_executor(None, stuck.wait)
        await asyncio.sleep(0)
        return "done"

    tasks: list[asyncio.Task[None]] = []
    assert run_to_the_end(work()) == "done"
    assert not tasks[0].done()
    stuck.set()
