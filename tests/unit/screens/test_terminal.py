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
from tui.terminal.input import Pastes, TerminalInput
from tui.terminal.output import TerminalOutput

BEGIN, END = "\x1b[200~", "\x1b[201~"


def cut(text: str, places: list[int]) -> list[str]:
    """`text` in pieces."""
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 200)))
def test_what_is_no_paste_goes_through_as_it_is_wherever_it_is_cut(places: list[int]) -> None:
    text = f"abc{BEGIN}pasted{END}\x1b[Adef{BEGIN}{END}g\x1b[20{BEGIN}twice{END}h"
    pastes = Pastes(most=100)
    assert "".join(pastes.let_through(piece) for piece in cut(text, places)) + pastes.settle() == text
    assert not pastes.is_open


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 400)))
def test_a_long_paste_loses_its_end_and_nothing_behind_it(places: list[int]) -> None:
    text = f"a{BEGIN}{'x' * 300}{END}b"
    pastes = Pastes(most=10)
    passed = "".join(pastes.let_through(piece) for piece in cut(text, places)) + pastes.settle()
    assert passed == f"a{BEGIN}{'x' * 10}{END}b"
    assert not pastes.is_open


class Line:
    """A terminal's input, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        self._input = TerminalInput(clock=lambda: self.now)

    def sent(self, *pieces: str, pause: float = 1.0) -> list[str]:
        """Return the keys, and pastes as `paste TEXT`, of `pieces` that are sent at once and of a pause."""
        found = [message for piece in pieces for message in self._input.feed(piece.encode())]
        self.now += pause
        found += self._input.tick()
        return [
            f"paste {message.text}" if isinstance(message, events.Paste) else message.key
            for message in found
            if isinstance(message, events.Key | events.Paste)
        ]


CONTROLS = st.sampled_from(
    ["\x1b[31m", "\x1b", "\x1bO", "\x1b[<0;1;1M", "\x1b]52;c;eA==\x07", "\x9b5n", "\x00", "\x03", BEGIN]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(st.sampled_from(["q", "T", "y", "\r", "\n", ":", "e"]), CONTROLS)), st.lists(st.integers(0, 400))
)
def test_nothing_in_a_paste_is_a_key(pasted: list[str], places: list[int]) -> None:
    (found,) = Line().sent(*cut(f"{BEGIN}{''.join(pasted)}{END}", places))
    assert found.startswith("paste ")
    assert set(found.removeprefix("paste ")) <= set("qTy\r\n:eAO\\[]mM<;0123456789c=~n")


def test_a_sequence_in_a_paste_leaves_its_text() -> None:
    assert Line().sent(f"{BEGIN}\x1b[31mhello\rq\r{END}") == ["paste hello\rq\r"]


def test_a_paste_that_holds_the_mark_of_its_end_is_pasted_whole() -> None:
    line = Line()
    assert line.sent(f"{BEGIN}ls{END}", f"q\rT{END}") == ["paste ls", "paste q\rT"]
    assert line.sent("j") == ["j"]


def test_keys_behind_a_paste_are_keys_after_a_pause() -> None:
    line = Line()
    assert line.sent(f"{BEGIN}ls{END}\rj") == ["paste ls", "enter", "j"]
    assert line.sent(f"k{BEGIN}a{END}x{BEGIN}b{END}") == ["k", "paste a", "x", "paste b"]


def test_keys_without_a_pause_behind_a_paste_are_soon_keys() -> None:
    line = Line()
    assert line.sent(f"{BEGIN}ls{END}", pause=0.0) == ["paste ls"]
    pressed = [key for _ in range(30) for key in line.sent("j", pause=0.03)]
    assert len(pressed) > 15


def test_a_paste_without_an_end_ends_by_time_however_many_keys_are_pressed() -> None:
    line = Line()
    assert line.sent(f"{BEGIN}kubectl get pods of all\r") == []
    assert [line.sent(key) for key in "qqqq"] == [[]] * 4
    assert line.sent("\x1b") == ["paste kubectl get pods of all\rqqqq"]
    assert line.sent("q") == ["q"]


def test_the_rest_of_a_paste_that_was_ended_by_time_is_no_key() -> None:
    line = Line()
    assert line.sent(f"{BEGIN}first", pause=6.0) == ["paste first"]
    assert line.sent("T\ry and more of it\r") == ["paste T\ry and more of it\r"]
    assert line.sent(f"the end\r{END}") == ["paste the end\r"]
    assert line.sent("j") == ["j"]


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


def test_output_of_a_console_that_came_late_itself_gets_to_a_terminal_that_is_read(line: tuple[int, int]) -> None:
    output = TerminalOutput(line[1], lambda: None)
    output.finish_within(0.0)
    output.write("\x1b[?1049l")
    assert os.read(line[0], 100) == b"\x1b[?1049l"


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
