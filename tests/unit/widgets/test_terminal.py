"""The terminal for programs elsewhere."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult

from tests.support.waiting import wait_for
from tui.textual_private import screen_text
from tui.widgets.terminal import PREFIX, TerminalScreen, TerminalView, bytes_of


def text_of_row(screen: TerminalScreen, row: int) -> str:
    return "".join(segment.text for segment in screen.segments(row)).rstrip()


def test_a_program_draws_where_it_wants() -> None:
    screen = TerminalScreen(20, 4)
    changed = screen.feed(b"\x1b[2J\x1b[3;5Hhere\x1b[1;1H\x1b[31mred")
    assert text_of_row(screen, 2) == "    here"
    assert text_of_row(screen, 0) == "red"
    assert changed == {0, 1, 2, 3}
    assert screen.cursor == (3, 0)


@pytest.mark.parametrize("oddity", [b"\x1b[?4m", b"\x1b[>4;1m", b"\x1b[?2004h", b"\x1bP+q\x1b\\", b"\xff\xfe"])
def test_odd_sequences_do_not_end_the_terminal(oddity: bytes) -> None:
    screen = TerminalScreen(40, 4)
    screen.feed(oddity + b"\r\n")
    screen.feed(b"still here")
    assert "still here" in text_of_row(screen, 1)


def test_a_smaller_terminal_keeps_the_text_above_the_cursor() -> None:
    screen = TerminalScreen(20, 24)
    screen.feed(b"first\r\nsecond\r\n$ ")
    screen.resize(20, 5)
    assert [text_of_row(screen, row) for row in range(5)] == ["first", "second", "$", "", ""]
    assert screen.cursor == (2, 2)
    screen.resize(20, 2)
    assert [text_of_row(screen, row) for row in range(2)] == ["second", "$"]
    assert screen.cursor == (2, 1)
    screen.resize(20, 4)
    screen.feed(b"ls")
    assert text_of_row(screen, 1) == "$ ls"


def test_a_smaller_terminal_with_the_cursor_at_its_foot_loses_the_top() -> None:
    screen = TerminalScreen(20, 4)
    screen.feed(b"1\r\n2\r\n3\r\n4")
    screen.resize(20, 2)
    assert [text_of_row(screen, row) for row in range(2)] == ["3", "4"]
    assert screen.cursor == (1, 1)


@given(st.binary(max_size=300))
@example("      \N{COMBINING GRAVE ACCENT}  \t   !".encode())
def test_no_bytes_at_all_end_the_terminal(data: bytes) -> None:
    screen = TerminalScreen(20, 5)
    screen.feed(data)
    assert all(cell_len(text_of_row(screen, row)) <= 20 for row in range(5))


def test_colours_of_all_kinds_are_shown() -> None:
    screen = TerminalScreen(20, 2)
    screen.feed(b"\x1b[33ma\x1b[93mb\x1b[38;5;208mc\x1b[48;2;1;2;3md\x1b[95me")
    styles = [segment.style for segment in screen.segments(0)][:5]
    names = [style.color.name if style and style.color else "" for style in styles]
    assert names == ["yellow", "bright_yellow", "#ff8700", "#ff8700", "bright_magenta"]


@pytest.mark.parametrize(
    ("key", "character", "data"),
    [
        ("a", "a", b"a"),
        ("ö", "ö", "ö".encode()),
        ("enter", "\r", b"\r"),
        ("ctrl+c", "\x03", b"\x03"),
        ("up", None, b"\x1b[A"),
        ("f1", None, b"\x1b[[A"),
        ("f12", None, b"\x1b[24~"),
        ("alt+b", None, b"\x1bb"),
        ("ctrl+shift+f13", None, b""),
    ],
)
def test_keys_send_what_a_linux_console_sends(key: str, character: str | None, data: bytes) -> None:
    assert bytes_of(key, character) == data


class TerminalApp(App[None]):
    BINDINGS = [("q", "quit", "quit")]  # noqa: RUF012 - as applications do

    def __init__(self) -> None:
        super().__init__()
        self.typed = b""
        self.sizes: list[tuple[int, int]] = []
        self.has_left = False

    def compose(self) -> ComposeResult:
        yield TerminalView()

    def on_terminal_view_typed(self, message: TerminalView.Typed) -> None:
        self.typed += message.data

    def on_terminal_view_resized(self, message: TerminalView.Resized) -> None:
        self.sizes.append((message.columns, message.rows))

    def on_terminal_view_left(self) -> None:
        self.has_left = True


async def test_every_key_goes_to_the_program_and_the_prefix_with_q_leaves() -> None:
    app = TerminalApp()
    async with app.run_test(size=(40, 8)) as pilot:
        terminal = app.query_one(TerminalView)
        await wait_for(pilot, lambda: terminal.has_focus, "focus")
        assert app.sizes[0] == (40, 8)
        await pilot.press("q", "ctrl+c", "tab", "escape", "escape", "x")
        await wait_for(pilot, lambda: app.typed == b"q\x03\t\x1b\x1bx", "the keys, esc twice among them")
        await pilot.press(PREFIX, PREFIX, PREFIX, "x", "y")
        await wait_for(pilot, lambda: app.typed.endswith(b"x\x1dy"), "one prefix is sent, and no key after it")
        assert not app.has_left
        await pilot.press(PREFIX, "q")
        await wait_for(pilot, lambda: app.has_left, "leaving")


async def test_a_paste_has_marks_where_the_program_asks_for_them() -> None:
    app = TerminalApp()
    async with app.run_test(size=(40, 8)) as pilot:
        terminal = app.query_one(TerminalView)
        terminal.post_message(events.Paste("ls\npwd"))
        await wait_for(pilot, lambda: app.typed == b"ls\rpwd", "a paste as if typed")
        await terminal.feed(b"\x1b[?2004h")
        terminal.post_message(events.Paste("ls\npwd"))
        await wait_for(pilot, lambda: app.typed.endswith(b"\x1b[200~ls\rpwd\x1b[201~"), "a paste with its marks")


async def test_a_flood_is_drawn_in_slices() -> None:
    app = TerminalApp()
    async with app.run_test(size=(40, 8)) as pilot:
        terminal = app.query_one(TerminalView)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        await terminal.feed(b"".join(b"line %05d\r\n" % number for number in range(3_000)))
        counting.cancel()
        assert turns > 3
        await wait_for(pilot, lambda: "line 02999" in screen_text(app), "the end of the flood")
