"""All uses of private names of Textual, so that an upgrade breaks here and nowhere else."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rich.console import Console, RenderableType
from rich.text import Text
from textual._compositor import Compositor, CompositorUpdate, ReflowResult
from textual._context import active_message_pump
from textual._styles_cache import StylesCache
from textual.app import App
from textual.color import Color
from textual.content import Content
from textual.css.model import RuleSet
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from actions.base.untrusted import one_line, plain_text, redact
from tui import defects

if TYPE_CHECKING:
    from textual.strip import Strip
    from textual.widget import Widget


ResultT = TypeVar("ResultT")
_READ_PER_SECOND = 15
"""Reading speed, in characters of a notification, of an operator whose eyes are elsewhere."""


def screen_strips(app: App[ResultT]) -> list[Strip]:
    """Return the active screen as the terminal driver would get it, one strip a line."""
    return app.screen._compositor.render_strips()  # noqa: SLF001 - there is no public dump of the composed screen


def screen_text(app: App[ResultT]) -> str:
    """Return the active screen as plain text, one line a row, without blanks at line ends."""
    return "\n".join(strip.text.rstrip() for strip in screen_strips(app))


def forget_arrangement(container: Widget) -> None:
    """Make `container` place its children anew at the next layout.

    `refresh(layout=True)` clears the arrangements of the ancestors only, because Textual expects a layout to depend
    on styles and children; a layout that depends on a model must clear its own when the model changes.
    """
    container._clear_arrangement_cache()  # noqa: SLF001 - see above


def measure_anew(widget: Widget) -> None:
    """Repaint a widget, and measure its height again.

    Textual keeps the measure by a number that `refresh(layout=True)` raises once until the widget is idle. If a layout
    for another reason comes in between, and the content changes again, the measure of the former content stays.
    """
    widget._box_model_cache.clear()  # noqa: SLF001 - see above
    widget.refresh(layout=True)


def set_border_subtitle(widget: Widget, subtitle: Content) -> None:
    """Set the text in the lower border of `widget`, and repaint that line alone.

    When it is assigned, Textual repaints the widget and everything in it: 11 ms of a pane, once a second where it
    counts the seconds.
    """
    setattr(widget, "_border_subtitle", subtitle)  # noqa: B010 - the descriptor's, which mypy does not know
    offset, (width, height) = widget.content_offset, widget.outer_size
    widget.refresh(Region(-offset.x, height - 1 - offset.y, width, 1))  # without a size yet, none of it


def release_closed_widgets() -> None:
    """Replace the cache of Textual that keeps the drawn lines of closed widgets alive.

    `StylesCache.get_inner_outer` is an `lru_cache` on a method, so its 1,024 entries keep as many widgets' lines alive:
    up to 100 KB for each screen that was ever shown. The answer depends on the two colours alone.
    """
    setattr(StylesCache, "get_inner_outer", _inner_and_outer)  # noqa: B010 - a method, which mypy does not let us assign


def _inner_and_outer(cache: StylesCache, base_background: Color, background: Color) -> tuple[Style, Style]:
    del cache
    return _grounds(base_background, background)


@lru_cache(maxsize=1024)
def _grounds(base_background: Color, background: Color) -> tuple[Style, Style]:
    """Return the styles inside and outside a border."""
    return Style(background=base_background + background), Style(background=base_background)


class GuardedWidget(Widget):
    """A widget whose defects end neither it nor the app: what it does with a message may fail."""

    async def _dispatch_message(self, message: Message) -> None:
        with defects.shown(partial(_notify, self.app), is_once=True):
            await super()._dispatch_message(message)


def _notify(app: App[Any], sentence: str) -> None:
    if isinstance(app, RedactingApp):
        app.notify_plainly(sentence)


class RedactingApp(App[ResultT]):
    """An app that shows no credentials in notifications, and no local variables in a crash report.

    Textual prints the locals of every frame, and among those of a console are tokens.
    """

    has_clipboard = True
    """False if no text may be sent to the terminal's clipboard, by whatever widget."""
    is_unseen = False
    """True while another program has the terminal: then, as without one, a screen is rendered only when it is read."""

    def ends_badly(self, report: str) -> None:
        """Handle the end of the app by a defect; `report` will be printed. Overridden by apps with a deadline."""

    def copy_to_clipboard(self, text: str) -> None:
        """Send a text to the terminal's clipboard if that is allowed; keep it for pastes within the app."""
        if self.has_clipboard:
            super().copy_to_clipboard(text)
        else:
            self._clipboard = text

    def panic(self, *renderables: RenderableType) -> None:
        """End the app with a report; its return code is never 0."""
        self._return_code = self._return_code or 1
        self.ends_badly(" ".join(str(item) for item in renderables if isinstance(item, str)))
        super().panic(*renderables)

    def worded(self, text: str) -> str:
        """Return a text with remedies in the words of the app; overridden by apps that have keys for them."""
        return text

    def notify_plainly(self, text: str) -> None:
        """Show one sentence, without secrets, as long as reading it takes; markup in it is not interpreted."""
        line = one_line(redact(self.worded(text)))
        self.notify(line, markup=False, timeout=max(self.NOTIFICATION_TIMEOUT, len(line) / _READ_PER_SECOND))

    def withdraw_notification(self, text: str) -> None:
        """Take a sentence away that is no longer true; nothing if it is not on screen."""
        self.call_later(self._withdraw, one_line(redact(self.worded(text))))  # behind the message that shows it

    def _withdraw(self, line: str) -> None:
        for notification in [one for one in self._notifications if one.message == line]:
            self._unnotify(notification)

    def _handle_exception(self, error: Exception) -> None:
        """End the app because of a defect; one that shows while the app is ending does not change its return code.

        Keys that were typed before a terminal was hung up are still handled while the app closes. A defect in a
        guarded widget's own timer or callback does not end the app.
        """
        if isinstance(active_message_pump.get(None), GuardedWidget) and not (self._exit or defects.are_raised):
            defects.tell(error, self.notify_plainly, is_once=True)
            return
        ending = self._return_code if self._exit else None
        super()._handle_exception(error)
        self._return_code = ending or self._return_code

    def _fatal_error(self) -> None:
        self._return_code = self._return_code or 1
        report = redact(plain_text(traceback.format_exc()))
        self._exit_renderables.append(Text(report))
        self.ends_badly(report)
        self._close_messages_no_wait()


def send_to_terminal(app: App[Any], sequence: str) -> None:
    """Write a control sequence that changes nothing on screen, such as the bell; nothing without a terminal."""
    if not app.is_headless and app._driver is not None:  # noqa: SLF001 - only the bell and the clipboard are public
        app._driver.write(sequence)  # noqa: SLF001


def hash_rules_by_identity() -> None:
    """Replace a method of Textual by the one of C that does the same: a fifteenth of what a change of panes costs.

    Each time a widget is styled, each of the 120 rules of all style sheets is looked for in a set.
    """
    setattr(RuleSet, "__hash__", object.__hash__)  # noqa: B010 - a method, which mypy does not let us assign


def paint_only_changes(screen: Screen[Any]) -> None:
    """Give a new screen the compositor that paints only changes."""
    screen._compositor = ChangesCompositor()  # noqa: SLF001 - Textual has no setting for it


class _Owned(NamedTuple):
    """The columns `[left, right)` of some lines in which one widget is visible."""

    widget: Widget
    place: Region
    """The region of the whole widget on the screen."""
    left: int
    right: int


class _ChangedRegion(NamedTuple):
    x: int
    y: int
    strip: Strip


class PiecesUpdate(CompositorUpdate):
    """An update of pieces of lines, each at its own position."""

    def __init__(self, pieces: list[_ChangedRegion]) -> None:
        self.pieces = pieces

    def render_segments(self, console: Console) -> str:
        """Return the pieces as text with control sequences for the terminal."""
        return "".join([f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self.pieces])


class ChangesCompositor(Compositor):
    """A compositor that paints as Textual's, but renders only the changed parts of the screen."""

    def __init__(self) -> None:
        super().__init__()
        self._placed: dict[Widget, Size] = {}
        """Sizes by the last layout."""

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay out, and report every widget as shown that the last layout had not placed, and as resized by its sizes.

        Textual compares with a map that is also made again when a widget's size is needed before the layout: what had
        come into the map by then would never get its `Show`, and what had another size there never its `Resize`.
        """
        result = super().reflow(parent, size)
        before, self._placed = self._placed, {widget: at.region.size for widget, at in self._full_map.items()}
        shown = self._placed.keys() - before.keys()
        resized = {widget for widget, now in self._placed.items() if before.get(widget, now) != now}
        return result._replace(shown=shown, resized=resized)

    def render_update(  # type: ignore[override]
        self, full: bool = False, screen_stack: list[Screen[Any]] | None = None, simplify: bool = False
    ) -> RenderableType | PiecesUpdate | None:
        """Render the update that is due; an empty one if no terminal shows the screen: Textual would drop it."""
        app = self.root.app if self.root is not None else None
        if full or not (isinstance(app, RedactingApp) and (app.is_unseen or app.is_headless)):
            return super().render_update(full, screen_stack, simplify)
        regions, self._dirty_regions = self._dirty_regions, set()
        return PiecesUpdate([]) if regions else None

    def render_partial_update(self) -> PiecesUpdate | None:  # type: ignore[override]
        """Return the update that shows all changes; `None` if there are none."""
        regions, self._dirty_regions = self._dirty_regions, set()
        owned: dict[_Owned, list[int]] = {}
        for y, left, right in self._regions_to_spans(regions):
            for part in self._owners(y, left, right):
                owned.setdefault(part, []).append(y)
        pieces = [piece for part, lines in owned.items() for run in _runs(lines) for piece in _drawn(part, run)]
        return PiecesUpdate(pieces) if pieces else None

    def _owners(self, y: int, left: int, right: int) -> Iterator[_Owned]:
        """Yield the visible widgets of a part of a line: widgets in front hide those behind them."""
        parts = [(left, right)]
        for widget, shown, place in self.layers_visible[y]:
            rest: list[tuple[int, int]] = []
            for begin, end in parts:
                first, last = max(begin, shown.x), min(end, shown.right)
                if first >= last:
                    rest.append((begin, end))
                    continue
                yield _Owned(widget, place, first, last)
                rest += [(a, b) for a, b in ((begin, first), (last, end)) if a < b]
            parts = rest
            if not parts:
                return


def _runs(lines: list[int]) -> Iterator[range]:
    """Yield ascending line numbers as ranges without gaps."""
    begin = lines[0]
    for line, following in zip(lines, [*lines[1:], -1], strict=True):
        if following != line + 1:
            yield range(begin, line + 1)
            begin = following


def _drawn(part: _Owned, lines: range) -> Iterator[_ChangedRegion]:
    place = part.place
    asked = Region(part.left - place.x, lines.start - place.y, part.right - part.left, len(lines))
    for y, strip in zip(
        lines, part.widget.render_lines(asked), strict=False
    ):  # a widget may have fewer lines than its region
        yield _ChangedRegion(part.left, y, strip)
