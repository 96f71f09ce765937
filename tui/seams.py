"""Every use of a private name of Textual, so that an upgrade breaks here and nowhere else.

Each function has a contract test in `tests/contract/test_seams.py`. Source: textual 8.2.8. The compositor, which takes
a class of its own, is in `tui.compositing`.
"""

from __future__ import annotations

import traceback
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from rich.console import RenderableType
from rich.text import Text
from textual._styles_cache import StylesCache
from textual.app import App
from textual.color import Color
from textual.style import Style

from actions.base.untrusted import one_line, plain_text, redact

if TYPE_CHECKING:
    from textual.strip import Strip
    from textual.widget import Widget

ResultT = TypeVar("ResultT")
_READ_PER_SECOND = 15
"""Characters of a message that somebody reads who was looking elsewhere."""


def screen_strips(app: App[ResultT]) -> list[Strip]:
    """What the active screen shows, one strip a line, as the terminal driver would get it."""
    return app.screen._compositor.render_strips()  # noqa: SLF001 - there is no public dump of the composed screen


def screen_text(app: App[ResultT]) -> str:
    """What the active screen shows as plain text: one line a row, right-hand blanks removed."""
    return "\n".join(strip.text.rstrip() for strip in screen_strips(app))


def forget_arrangement(container: Widget) -> None:
    """Make `container` place its children anew at the next layout.

    `refresh(layout=True)` clears the arrangements of the ancestors only, because Textual expects a layout to depend
    on styles and children; a layout that depends on a model has to say when the model moved.
    """
    container._clear_arrangement_cache()  # noqa: SLF001 - see above


def release_closed_widgets() -> None:
    """Have no cache of Textual keep the drawn lines of widgets that are gone.

    `StylesCache.get_inner_outer` is an `lru_cache` on a method, so its 1,024 entries keep as many widgets' lines alive:
    up to 100 KB for each screen that was ever shown. The answer depends on the two colours alone.
    """
    setattr(StylesCache, "get_inner_outer", _inner_and_outer)  # noqa: B010 - a method, which mypy lets nobody assign


def _inner_and_outer(cache: StylesCache, base_background: Color, background: Color) -> tuple[Style, Style]:
    del cache
    return _grounds(base_background, background)


@lru_cache(maxsize=1024)
def _grounds(base_background: Color, background: Color) -> tuple[Style, Style]:
    """The styles inside and outside a border."""
    return Style(background=base_background + background), Style(background=base_background)


class DiscreetApp(App[ResultT]):
    """An app whose messages show no credentials, and whose crash report no local variables.

    Textual prints the locals of every frame, and among those of a console are tokens.
    """

    def ends_badly(self, report: str) -> None:
        """Called when the app closes because of a defect, with what will be printed."""

    def panic(self, *renderables: RenderableType) -> None:
        """End the app with a report; its return code is never 0."""
        self._return_code = self._return_code or 1
        self.ends_badly(" ".join(str(one) for one in renderables if isinstance(one, str)))
        super().panic(*renderables)

    def notify_plainly(self, text: str) -> None:
        """Tell one sentence; markup in it means nothing."""
        said = one_line(redact(text))
        self.notify(said, markup=False, timeout=max(self.NOTIFICATION_TIMEOUT, len(said) / _READ_PER_SECOND))

    def _fatal_error(self) -> None:
        self._return_code = self._return_code or 1
        report = redact(plain_text(traceback.format_exc()))
        self._exit_renderables.append(Text(report))
        self.ends_badly(report)
        self._close_messages_no_wait()
