"""Forms of typed fields."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from textual.app import App, ComposeResult

from tests.support.waiting import wait_for
from tui.present.form import Field, FieldKind, Value, read_field
from tui.textual_private import screen_text
from tui.widgets.form import ParameterForm

WORKERS = Field("workers", "Workers", FieldKind.INTEGER, 8, minimum=1, maximum=64, unit="nodes")
INSTANCE = Field("instance", "Instance type", FieldKind.CHOICE, "g5.12xlarge", choices=("g5.12xlarge", "p4d.24xlarge"))
SPOT = Field("spot", "Spot capacity", FieldKind.SWITCH, False, help="cheaper, may be taken back")
TOKEN = Field("token", "NGC key", FieldKind.SECRET, "env:NGC_API_KEY")


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        (WORKERS, " 12 ", 12),
        (Field("n", "N", FieldKind.INTEGER), "1,000_000", 1_000_000),
        (Field("rate", "Rate", FieldKind.NUMBER), "3e-4", 3e-4),
        (INSTANCE, "p4d.24xlarge", "p4d.24xlarge"),
        (Field("gpus", "GPUs", FieldKind.CHOICE, 4, choices=(1, 4, 8)), "8", 8),
        (Field("zone", "Zone", FieldKind.TEXT, "auto", pattern="auto|[a-z]-[0-9]"), "b-1", "b-1"),
        (SPOT, "yes", True),
        (TOKEN, "file:/run/secrets/ngc", "file:/run/secrets/ngc"),
        (Field("token", "Token", FieldKind.SECRET, ""), "", ""),
    ],
)
def test_text_is_read_by_kind(field: Field, text: str, value: Value) -> None:
    assert read_field(field, text) == value
    assert type(read_field(field, text)) is type(value)


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        (WORKERS, "65", "must be 1–64 nodes"),
        (WORKERS, "eight", "must be a whole number"),
        (WORKERS, "1.5", "must be a whole number"),
        (Field("rate", "Rate", FieldKind.NUMBER), "nan", "must be a finite number"),
        (Field("rate", "Rate", FieldKind.NUMBER, minimum=0), "-1", "must be at least 0"),
        (INSTANCE, "g5.48xlarge", "must be one of g5.12xlarge, p4d.24xlarge"),
        (TOKEN, "hunter2", "must be a reference: env:NAME, file:PATH or secretsmanager:ID"),
        (Field("zone", "Zone", FieldKind.TEXT, "auto", pattern="auto|[a-z]-[0-9]"), "xx", "is not of its form"),
    ],
)
def test_what_is_wrong_is_one_phrase_with_the_bounds(field: Field, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_field(field, text)


def quota(values: Mapping[str, Value]) -> Mapping[str, str]:
    workers = values.get("workers")
    return {"workers": "needs more GPUs than the quota has"} if isinstance(workers, int) and workers > 32 else {}


class FormApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[Mapping[str, Value]] = []

    def compose(self) -> ComposeResult:
        yield ParameterForm([WORKERS, INSTANCE, SPOT, TOKEN], check=quota)

    @property
    def form(self) -> ParameterForm:
        return self.query_one(ParameterForm)

    def on_parameter_form_submitted(self, message: ParameterForm.Submitted) -> None:
        self.submitted.append(message.values)


async def test_a_form_shows_titles_values_bounds_and_help() -> None:
    app = FormApp()
    async with app.run_test(size=(90, 10)) as pilot:
        await wait_for(pilot, lambda: "NGC key" in screen_text(app), "the form")
        lines = [" ".join(line.split()) for line in screen_text(app).splitlines()]
        assert lines[0] == "Workers 8 1–64 nodes"
        assert lines[1] == "Instance type ‹ g5.12xlarge ›"
        assert lines[2] == "Spot capacity ‹ no › cheaper, may be taken back"


async def test_typing_says_what_is_wrong_and_enter_does_not_pass_it() -> None:
    app = FormApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.form.focus()
        await wait_for(pilot, lambda: app.focused is not None, "focus")
        await pilot.press("0", "0")
        await wait_for(pilot, lambda: "✘ must be 1–64 nodes" in screen_text(app), "the bound")
        await pilot.press("enter")
        assert app.submitted == []
        await pilot.press("backspace", "backspace", "backspace", "4", "8")
        await wait_for(pilot, lambda: "✘ needs more GPUs" in screen_text(app), "the rule over all fields")
        await pilot.press("backspace")
        await wait_for(pilot, lambda: "● default 8" in screen_text(app), "what differs")
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(app.submitted) == 1, "the values")
        assert app.submitted[0] == {
            "workers": 4,
            "instance": "g5.12xlarge",
            "spot": False,
            "token": "env:NGC_API_KEY",
        }


async def test_arrows_go_through_fields_and_choices_and_letters_turn_none() -> None:
    app = FormApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.form.focus()
        await wait_for(pilot, lambda: app.focused is not None, "focus")
        await pilot.press("down", "right", "l", "h", "space", *"teardown", "down", "right")
        await wait_for(pilot, lambda: app.form.entries.values["spot"] is True, "the switch")
        assert app.form.entries.values["instance"] == "p4d.24xlarge"
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: app.form.entries.values["spot"] is False, "the default again")


async def test_the_field_with_the_focus_is_explained_in_full() -> None:
    app = FormApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.form.focus()
        await wait_for(pilot, lambda: "1–64 nodes · default 8" in screen_text(app), "the bounds and the default")
        await pilot.press("down", "down")
        await wait_for(pilot, lambda: "cheaper, may be taken back · default no" in screen_text(app), "the help")


def test_large_bounds_are_told_without_an_exponent() -> None:
    with pytest.raises(ValueError, match=r"must be 60–2,592,000 s$"):
        read_field(Field("keep", "Keep", FieldKind.INTEGER, minimum=60, maximum=2_592_000, unit="s"), "1")


async def test_tab_goes_round_and_what_is_typed_takes_the_place_of_what_was_there() -> None:
    app = FormApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.form.focus()
        await pilot.press("shift+tab", *"env:KEY", "tab", "6", "4")
        await wait_for(pilot, lambda: app.form.entries.values["workers"] == 64, "the first field")
        assert app.form.entries.values["token"] == "env:KEY"


async def test_a_form_of_many_fields_is_one_widget_and_keeps_the_current_one_in_sight() -> None:
    fields = [Field(f"f{number}", f"Field {number}", FieldKind.TEXT, str(number)) for number in range(60)]

    class LongForm(App[None]):
        def compose(self) -> ComposeResult:
            yield ParameterForm(fields)

    app = LongForm()
    async with app.run_test(size=(90, 10)) as pilot:
        form = app.query_one(ParameterForm)
        form.focus()
        assert list(form.walk_children()) == []
        await pilot.press(*["down"] * 30)
        await wait_for(pilot, lambda: "Field 30" in screen_text(app), "the current field is seen")
        await pilot.press("x")
        await wait_for(pilot, lambda: form.entries.values["f30"] == "x", "it has the key")
        await pilot.resize_terminal(90, 6)
        await wait_for(pilot, lambda: "Field 30" in screen_text(app), "also on a smaller screen")


async def test_other_fields_are_shown_from_the_first_one_on() -> None:
    app = FormApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.form.focus()
        await pilot.press("down", "down")
        app.form.show([INSTANCE, WORKERS], {"workers": 3})
        await pilot.press("right")
        await wait_for(pilot, lambda: app.form.entries.values["instance"] == "p4d.24xlarge", "the first field")
        assert app.form.entries.values["workers"] == 3


async def test_a_click_goes_to_a_field_and_another_one_turns_it() -> None:
    app = FormApp()
    async with app.run_test(size=(90, 10)) as pilot:
        await pilot.click(ParameterForm, offset=(30, 2))
        await pilot.click(ParameterForm, offset=(30, 2))
        await wait_for(pilot, lambda: app.form.entries.values["spot"] is True, "the switch is turned")
