"""Sections on a board: what is shown where, and what the cursor can be on."""

from __future__ import annotations

import pytest

from tui.present.cells import Span, text_of, width_of
from tui.present.home.board import Board, BoardEntry, BoardRow, Section, SectionMaker, board_of


def a_section(title: str, count: int, *, details: int = 0, more: bool = True) -> SectionMaker:
    """A section of so many rows, each with so many lines of details."""
    below = tuple((Span(f"    detail {at}"),) for at in range(details))
    rows = tuple(BoardRow((Span(f"{title} {at}"),), BoardEntry(f"{title} {at}"), below) for at in range(count))
    return lambda _: Section(title, rows, more=BoardEntry(f"more {title}", f"open {title}") if more else None)


def texts(board: Board) -> list[str]:
    """The lines as a screen shows them."""
    lines = []
    for line in board.lines:
        text = ""
        for block in line:
            text = text.ljust(block.x) + text_of(block.cells)
        lines.append(text.rstrip())
    return lines


def test_sections_stand_below_each_other_under_their_headings() -> None:
    board = board_of([[(a_section("runs", 2), 1.0)], [(a_section("problems", 1), 1.0)]], 30, 5)

    assert texts(board) == [
        "runs ─────────────────────────",
        "runs 0",
        "runs 1",
        "problems ─────────────────────",
        "problems 0",
    ]
    assert [entry.key for entry in board.entries] == ["runs 0", "runs 1", "problems 0"]
    assert board.firsts == (0, 2)


def test_sections_of_one_band_are_side_by_side() -> None:
    board = board_of([[(a_section("left", 1), 0.5), (a_section("right", 2), 0.5)]], 42, 3)

    assert texts(board)[1:] == ["left 0                right 0", " " * 22 + "right 1"]


def test_too_little_room_ends_in_what_opens_the_rest() -> None:
    board = board_of([[(a_section("runs", 9), 1.0)]], 30, 5)

    assert texts(board)[1:] == ["runs 0", "runs 1", "runs 2", "  +6 more"]
    assert board.entries[-1].line == "open runs"


def test_more_important_bands_get_their_lines_first() -> None:
    bands = [[(a_section("a", 5), 1.0)], [(a_section("b", 5), 1.0)]]
    shown = [entry.key for entry in board_of(bands, 30, 7, order=(1, 0)).entries]

    assert shown == ["a 0", "more a", "b 0", "b 1", "more b"]


@pytest.mark.parametrize("height", [4, 5])
def test_details_are_shown_where_there_is_room_for_all_of_a_section(height: int) -> None:
    board = board_of([[(a_section("runs", 2, details=1), 1.0)]], 30, height)

    assert len(board.lines) == (5 if height == 5 else 3)


def test_spare_lines_become_gaps() -> None:
    bands = [[(a_section("a", 1), 1.0)], [(a_section("b", 1), 1.0)]]

    assert texts(board_of(bands, 30, 9))[2] == ""


def test_a_screen_without_room_has_each_section_all_the_same() -> None:
    bands = [[(a_section(name, 3), 1.0)] for name in "abc"]
    board = board_of(bands, 30, 2)

    assert len(board.lines) == 6
    assert board.line_of("c 0") == 5


def test_no_line_is_wider_than_its_section() -> None:
    long = BoardRow((Span("x" * 99),), BoardEntry("long"))
    board = board_of([[(lambda _: Section("t", (long,), hint="h" * 99), 1.0)]], 20, 9)

    assert all(width_of(block.cells) <= 20 for line in board.lines for block in line)
    assert texts(board)[1].endswith("…")
