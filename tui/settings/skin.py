"""Colours of a k9s skin for the console's theme.

Of the many colours of a skin those are taken that mean the same here. A colour that cannot be read well on the skin's
ground gives way to the next one of its row, and at last to the console's own; so does `default`, the terminal's.

Source: `internal/config/styles.go` and `skins/*.yaml` of derailed/k9s v0.50.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from actions.base.errors import InputError
from tui.settings.appearance import console_theme, theme_name, tokens
from tui.settings.settings import ConsoleSettings

_MOST_BYTES = 1 << 17
_TAKEN = {
    "primary": ("frame.border.focusColor", "frame.menu.keyColor", "frame.title.fgColor", "body.logoColor"),
    "secondary": ("frame.menu.keyColor", "info.fgColor", "body.logoColor"),
    "accent": ("frame.title.highlightColor", "frame.title.counterColor", "info.sectionColor"),
    "error": ("frame.status.errorColor",),
    "success": ("frame.status.addColor", "frame.status.newColor"),
    "warning": ("frame.status.highlightColor", "frame.status.modifyColor"),
}
_STATES = frozenset({"error", "success", "warning"})
"""Tokens that must differ from each other."""
_LEAST_CONTRAST = 3.0
"""WCAG's least contrast for large text and parts of a screen."""
MUTED_SHARE = 0.6
"""The foreground's share in muted text, as `tui.widgets.base` draws it."""
_STEPS = 20
_SHADES = {"surface": 0.03, "boost": 0.06, "panel": 0.1}
"""Share of the foreground in the grounds of widgets."""


def first_theme(settings: ConsoleSettings) -> Theme:
    """Return the theme that a console begins with: of its skin, or by its name.

    Raises:
        InputError: The skin cannot be read.
    """
    return console_theme(settings.theme) if settings.skin is None else skin_theme(settings.skin)


def skin_theme(file: Path) -> Theme:
    """Return a theme with the colours of a k9s skin.

    Raises:
        InputError: It cannot be read, is not a skin, or has something that is not a colour.
    """
    skin = _read(file)
    ground = _color(file, skin, "body.bgColor")
    is_dark = ground is None or ground.brightness < 0.5
    own = tokens("dark" if is_dark else "light")
    background = ground or Color.parse(own["background"])
    chosen = _readable(_color(file, skin, "body.fgColor"), background) or Color.parse(own["foreground"])
    foreground = _readable_when_muted(chosen, background)
    found = {token: own[token] for token in _TAKEN}
    for token, paths in _TAKEN.items():
        taken = {found[other] for other in _STATES - {token}} if token in _STATES else set()
        colors = (_readable(_color(file, skin, path), background) for path in paths)
        first = next((color for color in colors if color is not None and color.hex not in taken), None)
        if first is not None:
            found[token] = first.hex
    shades = {token: background.blend(foreground, share).hex for token, share in _SHADES.items()}
    return Theme(
        name=theme_name("skin"),
        foreground=foreground.hex,
        background=background.hex,
        primary=found["primary"],
        secondary=found["secondary"],
        accent=found["accent"],
        success=found["success"],
        warning=found["warning"],
        error=found["error"],
        surface=shades["surface"],
        boost=shades["boost"],
        panel=shades["panel"],
        dark=is_dark,
    )


def _read(file: Path) -> Mapping[str, Any]:
    """Return what stands below `k9s`. Skins are full of aliases, which the strict reader of YAML refuses."""
    import yaml  # few consoles have a skin, and the first frame does not wait for what most of them do not need

    from actions.base.yamldoc import load_foreign, read_input

    data = read_input(file, limit_bytes=_MOST_BYTES)
    try:
        documents = load_foreign(data.decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{file} is not YAML: {reason}.", hint="Name a skin of k9s, or leave skin out.") from error
    skin = documents[0].get("k9s") if documents and isinstance(documents[0], dict) else None
    if not isinstance(skin, dict):
        raise InputError(f"{file} has no mapping k9s.", hint="Name a skin of k9s, or leave skin out.")
    return skin


def _color(file: Path, skin: Mapping[str, Any], path: str) -> Color | None:
    """Return a colour; `None` if it is left out, or the terminal's own.

    Raises:
        InputError: There is something else.
    """
    value: Any = skin
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None or value in ("", "default", "-"):
        return None
    try:
        return Color.parse(str(value).lower())
    except ColorParseError as error:
        raise InputError(
            f"{file}: {str(value)[:60]!r} at k9s.{path} is not a colour.", hint="Write '#rrggbb'."
        ) from error


def _readable_when_muted(color: Color, ground: Color) -> Color:
    """Return the colour, so much darker or lighter that muted text in it can be read, too: skins have no such text."""
    away = Color(0, 0, 0) if ground.brightness >= 0.5 else Color(255, 255, 255)
    shades = (color.blend(away, step / _STEPS) for step in range(_STEPS + 1))
    return next((shade for shade in shades if _readable(ground.blend(shade, MUTED_SHARE), ground) is not None), away)


def _readable(color: Color | None, ground: Color) -> Color | None:
    if color is None:
        return None
    light, dark = sorted((_luminance(color), _luminance(ground)), reverse=True)
    return color if (light + 0.05) / (dark + 0.05) >= _LEAST_CONTRAST else None


def _luminance(color: Color) -> float:
    """Return the relative luminance of WCAG 2."""
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized)
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
