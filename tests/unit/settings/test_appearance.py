"""Signs in ASCII."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tui.present.rail import GLYPHS
from tui.settings.appearance import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ready", "ready"),
        ("╭─ nodes ─╮", "+- nodes -+"),
        ("● Ready · 1s–10s…", "* Ready . 1s-10s~"),
        ("⢄⠸⠀▌", "** |"),
        ("日本", "????"),
        ("61°C · 3 µs", "61 C . 3 us"),
        ("◐ Cordoned", "o Cordoned"),
        ("é", "?"),
        ("≥ $13.08/h", ">=$13.08/h"),
        ("≥$1", ">$1"),
        ("1 … 0", "1...0"),
    ],
)
def test_a_text_is_ascii_and_takes_the_same_columns(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert cell_len(plain(text)) == cell_len(text)


def test_every_look_of_a_stage_has_a_likeness() -> None:
    assert "?" not in {plain(glyph.sign) for look, glyph in GLYPHS.items() if look.value not in ("waiting", "unknown")}


def test_the_cursor_what_runs_and_at_least_are_told_apart() -> None:
    assert len({plain("›"), plain("▶"), plain("≥ "), plain("◀"), plain("●"), plain("◆")}) == 6
