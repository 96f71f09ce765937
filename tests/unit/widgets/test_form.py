"""Forms of parameters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from textual.app import ComposeResult
from textual.pilot import Pilot

from actions.blueprint.model import Parameter, ParameterType
from actions.blueprint.parts import Scalar
from tests.support.waiting import settle, wait_for
from tui.base_app import TypeAheadApp, key_event
from tui.textual_private import screen_text
from tui.widgets.form import FieldRow, ParameterForm

TEXT = ParameterType.TEXT
FIELDS = {
    "workers": Parameter(type=ParameterType.INTEGER, title="Workers", default=8, minimum=1, maximum=64, unit="nodes"),
    "instance": Parameter(
        type=TEXT, title="Instance type", default="g5.12xlarge", choices=("g5.12xlarge", "p4d.24xlarge")
    ),
    "spot": Parameter(
        type=ParameterType.BOOLEAN, title="Spot", default=False, help="Cheaper, may be taken back.", group="Capacity"
    ),
    "token": Parameter(type=ParameterType.SECRET, title="NGC key", default="env:NGC", group="[bold]Image"),
    "tag": Parameter(type=TEXT, title="Tag", default="latest", group="[bold]Image"),
}


def quota(values: Mapping[str, Scalar]) -> Mapping[str, str]:
    workers = values.get("workers")
    return {"token": "needs the big one"} if isinstance(workers, int) and workers > 32 else {}


class FormApp(TypeAheadApp[None]):
    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[Mapping[str, Scalar]] = []

    def make_form(self) -> ParameterForm:
        return ParameterForm(FIELDS, shown=("workers", "instance"), check=quota)

    def compose(self) -> ComposeResult:
        self.form = self.make_form()
        yield self.form

    def on_mount(self) -> None:
        self.form.take_focus()

    def on_parameter_form_submitted(self, message: ParameterForm.Submitted) -> None:
        self.submitted.append(message.values)

    def type_at_once(self, *keys: str) -> None:
        for key in keys:
            self.post_message(key_event(key))

    @property
    def lines(self) -> list[str]:
        return [" ".join(line.split()) for line in screen_text(self).splitlines()]


@asynccontextmanager
async def opened(app: FormApp, width: int, height: int) -> AsyncIterator[Pilot[None]]:
    async with app.run_test(size=(width, height)) as pilot:
        await wait_for(pilot, lambda: app.focused is not None, "the focus")
        yield pilot


async def test_what_is_shown_stands_above_what_is_folded_by_group() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        await wait_for(pilot, lambda: "[bold]Image" in screen_text(app), "the form")
        assert app.lines[:4] == [
            "Workers 8 1–64 nodes",
            "Instance type g5.12xlarge ▼",
            "▸ Capacity: 1 field",
            "▸ [bold]Image: 2 fields",
        ]
        assert len(app.query(FieldRow)) == 2, "a folded field has no widget yet"


async def test_a_burst_of_keys_reaches_the_fields_it_was_meant_for_in_folded_groups_too() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        app.type_at_once(*"12", "tab", "right", "tab", "tab", "enter", "tab", *"env:A", "down", *"one")
        await wait_for(pilot, lambda: app.form.entries.values["tag"] == "one", "the last field")
        assert app.form.entries.values == {
            "workers": 12, "instance": "p4d.24xlarge", "spot": False, "token": "env:A", "tag": "one",
        }  # fmt: skip
        await wait_for(pilot, lambda: "▾ [bold]Image: 2 fields (2 changed)" in screen_text(app), "the count of changes")
        await pilot.press("up", "up", "enter")
        await wait_for(pilot, lambda: "NGC key" not in screen_text(app), "it is folded again")
        assert app.form.entries.values["tag"] == "one"


async def test_typing_says_what_is_wrong_and_enter_does_not_pass_it() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        app.type_at_once("0", "0")
        await wait_for(pilot, lambda: "✘ must be 1–64 nodes" in screen_text(app), "the bound")
        app.type_at_once("enter", "backspace", "backspace", "4")
        await wait_for(pilot, lambda: "● default 8" in screen_text(app), "what differs")
        assert app.submitted == []
        app.type_at_once("enter")
        await wait_for(pilot, lambda: app.submitted, "the values")
        assert app.submitted[0]["workers"] == 4


async def test_a_mistake_unfolds_its_group_and_enter_goes_there() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        app.type_at_once(*"48", "enter", *"file:/x", "tab", "x")
        await wait_for(pilot, lambda: "✘ needs the big one" in screen_text(app), "its group is unfolded")
        await wait_for(pilot, lambda: app.form.entries.values.get("tag") == "x", "typed below the mistake")
        assert app.form.entries.texts["token"] == "file:/x"
        assert app.submitted == []


async def test_arrows_turn_choices_and_letters_turn_none() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        app.type_at_once("down", "right", "l", "h", "space", *"teardown", "up", "9")
        await wait_for(pilot, lambda: app.form.entries.values["workers"] == 9, "the last key, in the field above")
        assert app.form.entries.values["instance"] == "p4d.24xlarge"
        app.type_at_once("down", "ctrl+r")
        await wait_for(pilot, lambda: app.form.entries.values["instance"] == "g5.12xlarge", "the default again")


async def test_the_list_of_a_choice_is_opened_by_key_and_searched_by_typing() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        app.type_at_once("down", "alt+down", *"p4", "enter")
        await wait_for(pilot, lambda: app.form.entries.values["instance"] == "p4d.24xlarge", "it is chosen")
        assert app.submitted == []
        app.type_at_once("up", "3")
        await wait_for(pilot, lambda: app.form.entries.values["workers"] == 3, "the form goes on")


async def test_the_mouse_goes_to_fields_opens_lists_and_groups() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        await pilot.click(ParameterForm, offset=(30, 1))
        await wait_for(pilot, lambda: "p4d.24xlarge" in screen_text(app), "the list")
        row = next(at for at, line in enumerate(screen_text(app).splitlines()) if "p4d" in line)
        await pilot.click(offset=(30, row))
        await wait_for(pilot, lambda: app.form.entries.values["instance"] == "p4d.24xlarge", "it is chosen")
        await pilot.click(ParameterForm, offset=(3, 0))
        app.type_at_once("6")
        await wait_for(
            pilot, lambda: app.form.entries.values["workers"] == 6, "a click on the title goes to its editor"
        )
        await pilot.click(ParameterForm, offset=(3, 2))
        await wait_for(pilot, lambda: "▾ Capacity: 1 field" in screen_text(app), "the group is unfolded")


async def test_the_field_with_the_focus_is_explained_and_found_when_it_is_folded() -> None:
    app = FormApp()
    async with opened(app, 60, 12) as pilot:
        app.type_at_once("down")
        await wait_for(pilot, lambda: "One of g5.12xlarge, p4d.24xlarge." in screen_text(app), "the options")
        await app.form.go_to("spot")
        await wait_for(pilot, lambda: "Cheaper, may be taken back." in screen_text(app), "the help")
        await app.form.go_to_next(["spot", "tag"])
        await wait_for(pilot, lambda: "latest" in screen_text(app), "the next of these")
        await app.form.go_to_next(["spot", "tag"])
        await wait_for(pilot, lambda: "Cheaper, may be taken back." in screen_text(app), "the first one again")


async def test_other_defaults_are_shown_in_open_and_in_folded_fields() -> None:
    app = FormApp()
    async with opened(app, 90, 12) as pilot:
        await app.form.go_to("tag")
        app.form.show(FIELDS, {"workers": 3, "tag": "v2", "spot": True})
        await wait_for(pilot, lambda: "▸ Capacity: 1 field (1 changed)" in screen_text(app), "a folded field")
        await settle(pilot)
        assert app.lines[0] == "Workers 3 ● default 8 · 1–64 nodes"
        assert "Tag v2 ● default latest" in app.lines


async def test_the_current_field_stays_in_sight() -> None:
    fields = {f"f{number}": Parameter(type=TEXT, title=f"Field {number}", default=str(number)) for number in range(30)}

    class LongForm(FormApp):
        def make_form(self) -> ParameterForm:
            return ParameterForm(fields, shown=tuple(fields))

    app = LongForm()
    async with opened(app, 90, 10) as pilot:
        app.type_at_once(*["down"] * 20, "x")
        await wait_for(pilot, lambda: "Field 20" in screen_text(app), "the current field is seen")
        await wait_for(pilot, lambda: app.form.entries.values["f20"] == "x", "it has the key")
        await pilot.resize_terminal(90, 6)
        await wait_for(pilot, lambda: "Field 20" in screen_text(app), "also on a smaller screen")


async def test_whatever_has_the_focus_lies_above_the_help() -> None:
    fields = {f"f{n}": Parameter(type=TEXT, title=f"Field {n}", default="", group=f"Group {n}") for n in range(20)}

    class FoldedForm(FormApp):
        def make_form(self) -> ParameterForm:
            return ParameterForm(fields, shown=("f0", "f1"))

    app = FoldedForm()
    async with opened(app, 90, 10) as pilot:
        await pilot.press(*["down"] * 19)
        await wait_for(pilot, lambda: "▸ Group 19: 1 field" in screen_text(app), "the last group")
