"""Facts about libraries that their documentation does not promise, and the one module that relies on each."""

from __future__ import annotations

import ast

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.events import Click
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget
from textual.widgets import Static

from tests.support.sources import modules_of
from tests.support.waiting import wait_for
from tui.present.cells import Span
from tui.textual_private import RedactingApp, forget_arrangement, screen_strips, screen_text
from tui.widgets.base import Lines


class HelloApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("hello\nworld")


async def test_the_screen_is_readable_as_text_of_its_exact_size() -> None:
    app = HelloApp()
    async with app.run_test(size=(30, 4)) as pilot:
        await wait_for(pilot, lambda: "hello" in screen_text(app), "the first frame")
        assert screen_text(app) == "hello\nworld\n\n"
        assert [strip.cell_length for strip in screen_strips(app)] == [30, 30, 30, 30]


class ShiftedLayout(Layout):
    name = "shifted"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        assert isinstance(parent, Holder)
        region = Region(parent.column, 0, 10, 1)
        return [WidgetPlacement(region, NULL_OFFSET, Spacing(), child) for child in children]


class Holder(Widget):
    DEFAULT_CSS = "Holder { width: 1fr; height: 1fr; } Holder > Static { width: 10; height: 1; }"
    column = 2

    def compose(self) -> ComposeResult:
        yield Static("child")

    @property
    def layout(self) -> Layout:
        return ShiftedLayout()


class LinesApp(App[None]):
    CSS = "Lines { height: auto; }"

    def compose(self) -> ComposeResult:
        yield Lines()


async def test_lines_that_change_on_both_sides_of_a_layout_take_the_height_of_the_last() -> None:
    app = LinesApp()
    async with app.run_test(size=(30, 40)) as pilot:
        lines = app.query_one(Lines)
        lines.show([(Span("before"),)] * 22)
        app.screen._refresh_layout()  # as for another widget, before this one is idle
        assert lines.size.height == 22
        lines.show([(Span("after"),)] * 4)
        await wait_for(pilot, lambda: lines.size.height == 4, "the height of what is shown")


class HolderApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Holder()


async def test_a_layout_that_depends_on_a_model_is_arranged_anew_on_request() -> None:
    app = HolderApp()
    async with app.run_test(size=(30, 3)) as pilot:
        await wait_for(pilot, lambda: screen_text(app).startswith("  child"), "the child at its first column")
        holder = app.query_one(Holder)
        holder.column = 7
        forget_arrangement(holder)
        holder.refresh(layout=True)
        await wait_for(pilot, lambda: screen_text(app).startswith("       child"), "the child at its second column")


class Crashing(RedactingApp[None]):
    """Dies with a credential in a local variable and in the message."""

    def on_mount(self) -> None:
        secret = "AKIA" + "B" * 16
        raise RuntimeError(f"boom with {secret}")


def test_a_crash_report_shows_no_locals_and_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    app = Crashing()
    app.run(headless=True)
    report = capsys.readouterr().err

    assert app.return_code == 1
    assert "boom with «redacted»" in report
    assert "AKIAB" not in report
    assert "locals" not in report


class FailingApp(RedactingApp[None]):
    ending: int | None = None

    @on(Click)
    def fail(self) -> None:
        if self.ending is not None:
            self.exit(return_code=self.ending)
        raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(("ending", "code"), [(None, 1), (0, 1), (129, 129)])
async def test_a_defect_in_an_app_that_is_ending_leaves_the_code_with_which_it_ends(
    ending: int | None, code: int
) -> None:
    app = FailingApp()
    app.ending = ending
    with pytest.raises(ZeroDivisionError):
        async with app.run_test() as pilot:
            await pilot.click()
    assert app.return_code == code


def _finds_a_type(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in {"msgspec.json.decode", "msgspec.msgpack.decode"}:
        return any(keyword.arg == "type" for keyword in call.keywords)
    if name in {"msgspec.json.Decoder", "msgspec.msgpack.Decoder"}:
        return bool(call.args or call.keywords)
    return name == "msgspec.convert"


def test_types_are_found_by_the_module_that_lets_one_thread_find_them_at_a_time() -> None:
    found = [
        f"{module.path}:{call.lineno}"
        for module in modules_of("actions", "tui")
        if module.dotted != "actions.base.decoding" and "msgspec" in module.text
        for call in module.nodes(ast.Call)
        if _finds_a_type(call)
    ]
    assert not found, f"Use actions.base.decoding: {found}"
