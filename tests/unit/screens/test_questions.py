"""Questions that are longer than the screen, and how they are answered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.app import App

from actions.base.files import asset
from actions.run.state.view import OwnedObject, StageState
from tests.support.builders import a_run, a_stage
from tests.support.waiting import settle, wait_for
from tui.commands.confirmations import teardown_lines
from tui.present.cells import Span, text_of
from tui.screens.confirm import Confirmation, ConfirmModal, TypeNameModal
from tui.settings.appearance import console_theme, theme_name
from tui.textual_private import screen_text

SIZE = (80, 24)
LONG = Confirmation("Launch it?", [(Span(f"stage {number}"),) for number in range(40)])


class Asking(App[None]):
    """Nothing but the console's looks."""

    CSS_PATH = str(asset("styles/console.tcss"))

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(console_theme())
        self.theme = theme_name("dark")


async def test_a_long_question_is_read_to_its_end_by_keys_before_the_yes() -> None:
    app = Asking()
    answers: list[bool | None] = []
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(ConfirmModal(LONG), answers.append)
        await wait_for(pilot, lambda: "↑ ↓  scroll" in screen_text(app), "the keys that move are named")
        assert "stage 39" not in screen_text(app)

        await pilot.press("G")
        await wait_for(pilot, lambda: "stage 39" in screen_text(app), "the last line is seen")
        await pilot.press("g", "j")
        await wait_for(pilot, lambda: "stage 1 " in screen_text(app), "the second line is seen")
        assert "stage 0 " not in screen_text(app)
        await pilot.press("y")
        await settle(pilot)

    assert answers == [True]


@pytest.mark.parametrize(("text", "answer"), [("y  yes", [True]), ("n  enter  no", [False]), ("Go on?", [])])
async def test_a_click_on_a_key_answers(text: str, answer: list[bool]) -> None:
    app = Asking()
    answers: list[bool | None] = []
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(ConfirmModal(Confirmation("Go on?", [(Span("one line"),)])), answers.append)
        await wait_for(pilot, lambda: text in screen_text(app), "the question")
        row, line = next((row, line) for row, line in enumerate(screen_text(app).splitlines()) if text in line)
        await pilot.click(offset=(line.index(text) + 1, row))
        await settle(pilot)
        assert answers == answer


async def test_a_question_that_fits_names_no_keys_to_move() -> None:
    app = Asking()
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(ConfirmModal(Confirmation("Go on?", [(Span("one line"),)])))
        await settle(pilot)

        assert "↑ ↓  scroll" not in screen_text(app)


async def test_a_typed_question_is_moved_while_the_field_has_the_focus() -> None:
    app = Asking()
    question = Confirmation("Tear down", LONG.lines, word="prod", word_is="the cluster's name")
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(TypeNameModal(question))
        await settle(pilot)
        await pilot.press("pagedown", "pagedown", "pagedown", "pagedown", "pagedown")
        await wait_for(pilot, lambda: "stage 39" in screen_text(app), "the last line is seen")


async def test_on_a_screen_of_ten_rows_the_keys_that_answer_are_seen() -> None:
    app = Asking()
    async with app.run_test(size=(40, 10)) as pilot:
        await app.push_screen(ConfirmModal(LONG))
        await wait_for(pilot, lambda: "y  yes      n  enter  no" in screen_text(app), "yes and no")
        await app.push_screen(TypeNameModal(Confirmation("Tear down", LONG.lines, word="prod", word_is="its name")))
        await wait_for(pilot, lambda: "esc  cancel" in screen_text(app), "how to type, and how to leave")


def test_a_teardown_names_what_terraform_destroys_and_what_it_leaves() -> None:
    network = replace(a_stage("network", StageState.SUCCEEDED, started_seconds_ago=9), kind="terraform")
    files = replace(
        a_stage("files", StageState.SUCCEEDED, started_seconds_ago=9),
        kind="terraform",
        needs=("network",),
        keeps_data=True,
    )
    cluster = replace(
        a_stage("cluster", StageState.SUCCEEDED, started_seconds_ago=9), kind="terraform", needs=("network",)
    )
    run = a_run(network, files, cluster)

    kept, gone = (
        [text_of(line).strip() for line in teardown_lines(run, deletes_data=deletes)] for deletes in (False, True)
    )

    assert "Destroyed by Terraform: Cluster." in kept
    assert any(line.startswith("Left by Terraform, for its data: Network, Files.") for line in kept)
    assert "Destroyed by Terraform: Network, Files, Cluster." in gone


def _owned(kind: str, name: str, *, existed: bool = False) -> OwnedObject:
    return OwnedObject("train", "v1", kind, "default", name, f"uid-{name}", existed, is_deleted=False)


def test_a_teardown_counts_objects_in_words_that_fit_their_number() -> None:
    made = [_owned("ConfigMap", "a"), _owned("ConfigMap", "b"), _owned("Job", "c")]
    for existed, sentence in (
        (1, "1 object that was there before the run stays."),
        (2, "2 objects that were there before the run stay."),
    ):
        found = [_owned("Secret", f"old-{number}", existed=True) for number in range(existed)]
        run = replace(a_run(), owned=(*made, *found))

        text = [text_of(line).strip() for line in teardown_lines(run, deletes_data=False)]

        assert "Stops its jobs, deletes 2 × ConfigMap, 1 Job, then audits." in text
        assert any(line.startswith(sentence) for line in text)
