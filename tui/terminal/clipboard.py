"""The operator's clipboard, by OSC 52: the terminal sets it, also over SSH; and the browser, where there is one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

from actions.base.errors import RefusedError
from actions.base.process import spawn_detached
from actions.base.untrusted import redact
from actions.base.wording import counted

MOST_BYTES = 74_994
"""As in k9s. In base64, 99,992: terminals that limit the sequence do so at 100,000 or more."""


class Clipping(NamedTuple):
    """A text to copy, and its title in a sentence: `3 lines of the log`."""

    text: str
    title: str


class Clipboard(Protocol):
    """The app, as far as it copies."""

    has_clipboard: bool
    """False if nothing may be sent to the clipboard."""

    def copy_to_clipboard(self, text: str) -> None:
        """Send a text to the terminal's clipboard."""
        ...


def copy_out(app: Clipboard, clipping: Clipping) -> str:
    """Copy a text without its secrets; return a sentence on what was copied.

    A terminal does not answer: some ignore the sequence, or have to be configured for it.

    Raises:
        RefusedError: The text is too long, or the clipboard is switched off.
    """
    if not app.has_clipboard:
        hint = "Save it: :save FILE, or :screenshot FILE."
        raise RefusedError("The clipboard is off (--no-clipboard, or clipboard: false in config.yaml).", hint=hint)
    text = redact(clipping.text)
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_BYTES:
        raise RefusedError(
            f"{clipping.title} has {size:,} bytes; a clipboard takes {MOST_BYTES:,} by this way.",
            hint="Copy less, or save it: :save FILE.",
        )
    app.copy_to_clipboard(text)
    return f"Copied {clipping.title}: {counted(len(text), 'character')}."


_OPENER = "open" if sys.platform == "darwin" else "xdg-open"
_DISPLAY = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


def has_browser() -> bool:
    """Return whether a browser can be opened in front of the operator: there is a display, and it is not beyond SSH."""
    is_near = not any(name in os.environ for name in ("SSH_CONNECTION", "SSH_TTY"))
    has_display = sys.platform == "darwin" or any(os.environ.get(name) for name in _DISPLAY[:2])
    return is_near and has_display and shutil.which(_OPENER) is not None


def open_browser(url: str) -> None:
    """Open an address in the browser, which outlives the console and writes nothing to its terminal.

    Raises:
        ToolError: It could not be started.
    """
    display = {name: os.environ[name] for name in _DISPLAY if name in os.environ}
    spawn_detached([_OPENER, url], output=Path(os.devnull), extra_environment=display)
