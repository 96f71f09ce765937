"""Colours of k9s skins."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from actions.base.errors import InputError
from tui.settings.appearance import tokens
from tui.settings.skin import MUTED_SHARE, _luminance, skin_theme
from tui.widgets.base import LineWidget

SKIN = """\
foreground: &foreground "#f8f8f2"
background: &background "#282a36"
k9s:
  body: {fgColor: *foreground, bgColor: *background, logoColor: dodgerblue}
  info: {fgColor: "#ff79c6", sectionColor: *foreground}
  frame:
    border: {fgColor: "#44475a", focusColor: "#44475a"}
    menu: {fgColor: *foreground, keyColor: "#ff79c6"}
    status:
      {newColor: aqua, addColor: "#50fa7b", highlightColor: default, modifyColor: "#ffb86c", errorColor: OrangeRed}
    title: {fgColor: "#bd93f9", highlightColor: "#f1fa8c"}
"""


def a_skin(tmp_path: Path, text: str = SKIN) -> Path:
    file = tmp_path / "skin.yaml"
    file.write_text(text)
    return file


def test_colours_of_the_same_meaning_are_taken_if_they_can_be_read(tmp_path: Path) -> None:
    theme = skin_theme(a_skin(tmp_path))
    assert (theme.foreground, theme.background, theme.dark) == ("#F8F8F2", "#282A36", True)
    assert theme.primary == "#FF79C6", "the border of its focus is hardly lighter than the ground"
    assert theme.success == "#50FA7B"
    assert theme.warning == "#FFB86C", "default is the terminal's colour"
    assert theme.error == Color.parse("orangered").hex
    assert theme.accent == "#F1FA8C"
    assert theme.panel not in (None, theme.background)


def test_good_and_bad_never_have_one_colour(tmp_path: Path) -> None:
    status = "addColor: red, newColor: white, modifyColor: red, errorColor: red"
    theme = skin_theme(a_skin(tmp_path, f"k9s: {{body: {{bgColor: black}}, frame: {{status: {{{status}}}}}}}"))
    assert (theme.error, theme.success) == ("#FF0000", "#FFFFFF")
    assert theme.warning == tokens("dark")["warning"]


def test_what_a_skin_leaves_out_is_the_consoles_own(tmp_path: Path) -> None:
    own = tokens("dark")
    theme = skin_theme(a_skin(tmp_path, "k9s: {body: {bgColor: default}}"))
    assert (theme.background, theme.primary) == (Color.parse(own["background"]).hex, own["primary"])
    light = skin_theme(a_skin(tmp_path, "k9s: {body: {bgColor: white, fgColor: ivory}}"))
    assert not light.dark
    assert light.foreground == Color.parse(tokens("light")["foreground"]).hex


@pytest.mark.parametrize(
    ("ground", "foreground"),
    [("#fdf6e3", "#657b83"), ("white", "dodgerblue"), ("#282a36", "#6272a4"), ("black", "#777")],
)
def test_muted_text_can_be_read_on_every_ground(tmp_path: Path, ground: str, foreground: str) -> None:
    """The first two are those of Solarized Light and In the Navy: 2.2 and 2.0 to 1."""
    theme = skin_theme(a_skin(tmp_path, f"k9s: {{body: {{bgColor: '{ground}', fgColor: '{foreground}'}}}}"))
    back = Color.parse(theme.background or "")
    muted = back.blend(Color.parse(theme.foreground or ""), MUTED_SHARE)
    light, dark = sorted((_luminance(muted), _luminance(back)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3.0
    assert f"$foreground {MUTED_SHARE:.0%}" in LineWidget.DEFAULT_CSS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("k9s: {body: {fgColor: nocolour}}", "'nocolour' at k9s.body.fgColor is not a colour"),
        ("k9s: {body: {fgColor: [1]}}", "is not a colour"),
        ("theme: dark", "has no mapping k9s"),
        ("k9s: [", "is not YAML"),
        ("[" * 20_000, "is not YAML"),
        ("k9s: {body: {}}" + "#" * 200_000, "more than 131072 bytes"),
    ],
)
def test_what_is_no_skin_is_refused_in_a_sentence(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        skin_theme(a_skin(tmp_path, text))
    with pytest.raises(InputError, match="gone"):
        skin_theme(tmp_path / "gone.yaml")
