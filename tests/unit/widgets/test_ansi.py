"""SGR colours of log lines."""

from __future__ import annotations

import pytest
from rich.color import Color

from tui.present.ansi import last_frame, segments_of, visible_text
from tui.present.text import short_names


def test_a_plain_line_is_one_segment() -> None:
    assert [segment.text for segment in segments_of("step 1: loss [0.5]")] == ["step 1: loss [0.5]"]


def test_colours_hold_until_they_are_reset() -> None:
    segments = segments_of("\x1b[1;31mred\x1b[0m plain")
    assert [segment.text for segment in segments] == ["red", " plain"]
    assert segments[0].style is not None
    assert segments[0].style.bold
    assert segments[0].style.color == Color.from_ansi(1)
    assert segments[1].style is not None
    assert segments[1].style.color is None


@pytest.mark.parametrize(
    ("code", "color"),
    [
        ("38;5;208", Color.from_ansi(208)),
        ("38;2;1;2;3", Color.from_rgb(1, 2, 3)),
        ("38:5:9", Color.from_ansi(9)),
        ("94", Color.from_ansi(12)),
    ],
)
def test_extended_colours_are_read(code: str, color: Color) -> None:
    style = segments_of(f"\x1b[{code}mx")[0].style
    assert style is not None
    assert style.color == color


def test_cut_off_colour_codes_do_no_harm() -> None:
    assert visible_text("\x1b[38;5mx\x1b[38;2;1my\x1b[mz") == "xyz"


def test_only_the_last_state_of_a_progress_bar_remains() -> None:
    assert last_frame(" 10%\r 20%\r 30%") == " 30%"
    assert last_frame("100%\r") == "100%"


def test_other_escapes_vanish() -> None:
    assert visible_text("a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\x1b[?1049hd\x9be") == "abcde"


def test_siblings_lose_what_they_share() -> None:
    names = ["esm1nv-pretraining-master-0", "esm1nv-pretraining-worker-12"]
    assert short_names(names) == {names[0]: "master-0", names[1]: "worker-12"}


def test_siblings_that_differ_by_number_only_keep_a_word() -> None:
    assert short_names(["train-worker-0", "train-worker-1"]) == {
        "train-worker-0": "worker-0",
        "train-worker-1": "worker-1",
    }


def test_a_lone_name_keeps_its_last_two_words() -> None:
    assert short_names(["esm1nv-pretraining-worker-0"]) == {"esm1nv-pretraining-worker-0": "worker-0"}
