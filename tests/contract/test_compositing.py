"""The private names of Textual that we rely on still behave as tui.textual_private describes."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.css.model import RuleSet
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tests.support.waiting import settle, wait_for
from tui.textual_private import (
    ChangesCompositor,
    PiecesUpdate,
    RedactingApp,
    forget_arrangement,
    hash_rules_by_identity,
    paint_only_changes,
    screen_text,
    set_border_subtitle,
)


class Letters(Widget):
    """Lines of one letter, and what was asked of them."""

    def __init__(self, letter: str, *, id: str) -> None:
        super().__init__(id=id)
        self.letter = letter
        self.asked: list[Region] = []

    def render_lines(self, crop: Region) -> list[Strip]:
        self.asked.append(crop)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        return Strip([Segment(self.letter * self.size.width)])


class Layered(Screen[None]):
    """A small widget in front of a large one."""

    def __init__(self) -> None:
        super().__init__()
        paint_only_changes(self)

    def compose(self) -> ComposeResult:
        yield Letters("b", id="back")
        yield Letters("f", id="front")


class LayeredApp(App[None]):
    """Both widgets on the default screen."""

    CSS = """
    Layered { layers: below above; }
    #back { width: 10; height: 4; layer: below; }
    #front { width: 3; height: 2; offset: 4 1; layer: above; }
    """

    def get_default_screen(self) -> Screen[None]:
        return Layered()


async def test_only_what_changed_is_asked_for_and_what_is_in_front_hides_what_is_behind() -> None:
    app = LayeredApp()
    async with app.run_test(size=(12, 5)) as pilot:
        await wait_for(pilot, lambda: "bbbbfffbbb" in screen_text(app), "the first frame")
        back, front = app.query_one("#back", Letters), app.query_one("#front", Letters)
        back.asked.clear()
        front.asked.clear()
        written = written_of(app, Region(2, 1, 4, 1), Region(0, 3, 10, 1))

        assert written == [(0, 3, "b" * 10), (2, 1, "bb"), (4, 1, "ff")]
        assert sorted(back.asked) == [Region(0, 3, 10, 1), Region(2, 1, 2, 1)]
        assert front.asked == [Region(0, 0, 2, 1)]


async def test_lines_that_change_together_are_asked_for_at_once() -> None:
    app = LayeredApp()
    async with app.run_test(size=(12, 5)) as pilot:
        await wait_for(pilot, lambda: "bbbbfffbbb" in screen_text(app), "the first frame")
        back = app.query_one("#back", Letters)
        back.asked.clear()
        written = written_of(app, Region(0, 0, 2, 4))

        assert written == [(0, y, "bb") for y in range(4)]
        assert back.asked == [Region(0, 0, 2, 4)]


async def test_nothing_is_written_when_nothing_changed() -> None:
    app = LayeredApp()
    async with app.run_test(size=(12, 5)) as pilot:
        await wait_for(pilot, lambda: "bbbbfffbbb" in screen_text(app), "the first frame")

        assert written_of(app) == []


class Framed(Screen[None]):
    """Letters in a border."""

    def __init__(self) -> None:
        super().__init__()
        paint_only_changes(self)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Letters("b", id="inside")


class FramedApp(App[None]):
    """A border with a text in it."""

    CSS = "Vertical { width: 20; height: 5; border: round $foreground; } #inside { height: 1fr; }"

    def get_default_screen(self) -> Screen[None]:
        return Framed()


async def test_a_text_in_the_lower_border_changes_that_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[PiecesUpdate | None] = []
    paint = ChangesCompositor.render_partial_update

    def kept(compositor: ChangesCompositor) -> PiecesUpdate | None:
        painted.append(paint(compositor))
        return painted[-1]

    app = FramedApp()
    async with app.run_test(size=(24, 6)) as pilot:
        frame = app.screen.query_one(Vertical)
        await wait_for(pilot, lambda: "bbb" in screen_text(app), "the first frame")
        monkeypatch.setattr(ChangesCompositor, "render_partial_update", kept)
        frame.refresh()
        await wait_for(pilot, lambda: any(painted), "the whole frame is painted")
        for text in ("one [b]", "in 10 s", ""):
            painted.clear()
            set_border_subtitle(frame, Content(text))
            await wait_for(pilot, lambda: any(painted), "the border is painted")
            pieces = [piece for update in painted if update is not None for piece in update.pieces]
            assert [(y, strip.text.strip("╰─╯ ")) for _, y, strip in pieces] == [(4, text)]
            assert screen_text(app).splitlines()[4].strip("╰─╯ ") == text


class UnseenApp(RedactingApp[None], LayeredApp):
    """The same on no terminal."""


async def test_of_a_hidden_screen_nothing_is_asked_for_until_it_is_read() -> None:
    app = UnseenApp()
    async with app.run_test(size=(12, 5)) as pilot:
        await wait_for(pilot, lambda: "bbbbfffbbb" in screen_text(app), "the first frame")
        back = app.query_one("#back", Letters)
        back.asked.clear()
        back.letter = "c"
        back.refresh()
        await settle(pilot)

        assert back.asked == []
        assert "ccccfffccc" in screen_text(app)
        assert back.asked


def written_of(app: App[None], *changed: Region) -> list[tuple[int, int, str]]:
    """Return the pieces that go to the terminal when these regions have changed: column, line, text."""
    compositor = app.screen._compositor
    assert isinstance(compositor, ChangesCompositor)
    compositor._dirty_regions = set(changed)
    update = compositor.render_partial_update()
    return [] if update is None else sorted((x, y, strip.text) for x, y, strip in update.pieces)


class Shown(Letters):
    """Counts how often it came into sight."""

    shown = 0

    def on_show(self) -> None:
        self.shown += 1


async def test_a_widget_gets_its_show_if_a_size_was_asked_for_before_it_was_laid_out() -> None:
    app = LayeredApp()
    async with app.run_test(size=(20, 4)) as pilot:
        await settle(pilot)
        added = Shown("c", id="added")
        compositor = app.screen._compositor
        with app.batch_update():
            await app.screen.mount(added)
            compositor._full_map_invalidated = True  # as after a scrolling, or for a new widget's repaint
            assert added in compositor.full_map
        await wait_for(pilot, lambda: added.shown, "the widget gets its `Show`")
        await settle(pilot)

        assert added.shown == 1


def test_rules_of_style_sheets_are_hashed_by_identity_without_a_call_of_python() -> None:
    hash_rules_by_identity()
    one, same = RuleSet(), RuleSet()
    assert len({one, same, one}) == 2
    assert RuleSet.__hash__ is object.__hash__


class Sized(Letters):
    """Remembers the heights that it was told."""

    def __init__(self, letter: str, *, id: str) -> None:
        super().__init__(letter, id=id)
        self.heights: list[int] = []

    def on_resize(self) -> None:
        self.heights.append(self.size.height)


async def test_a_widget_gets_its_resize_if_its_new_size_was_asked_for_before_it_was_laid_out() -> None:
    app = LayeredApp()
    async with app.run_test(size=(20, 8)) as pilot:
        added = Sized("c", id="added")
        await app.screen.mount(added)
        await wait_for(pilot, lambda: added.heights != [], "its first size")
        await settle(pilot)
        with app.batch_update():
            added.styles.height = 2
            forget_arrangement(app.screen)  # Textual may do so only when it is idle
            compositor = app.screen._compositor
            compositor._full_map_invalidated = True
            assert compositor.full_map[added].region.height == 2
        await wait_for(pilot, lambda: added.heights[-1] == 2, "the widget gets its `Resize`")
