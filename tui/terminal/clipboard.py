"""The operator's clipboard, by OSC 52: the terminal sets it, also over SSH."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from actions.base.errors import RefusedError
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
