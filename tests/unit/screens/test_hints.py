"""The lines at the edges of the console."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.run.journal.reader import RunSummary
from actions.run.state.view import RunState, StageState
from tests.support.builders import a_run, a_stage, console_services
from tui.present.cells import Link, Span, Tone, link_at, text_of, width_of
from tui.present.subject import Subject
from tui.screens.status_lines import Alone, SelectedRun, hints_line, run_mark, selected_run, tabs_line
from tui.screens.workspace import PANES
from tui.settings.keymap import Keymap
from tui.settings.keys import PANE_KEYS, KeyContext, footer


@pytest.mark.parametrize("current", PANES)
def test_the_tabs_fit_into_any_width_with_the_runs_sign(current: str) -> None:
    for width in (80, 99, 100, 117, 118, 160):
        line = tabs_line(PANES, (current,), current, width=width, marks={"run": Span("◆")})

        assert width_of(line) <= width
        assert "run◆" in text_of(line)


@pytest.mark.parametrize("width", [72, 76])
def test_names_of_tabs_are_cut_on_a_narrow_screen_and_stay_different(width: int) -> None:
    def names(columns: int) -> list[str]:
        line = tabs_line(PANES, (), "", width=columns, marks={})
        return [span.text.strip() for span in line if isinstance(span, Link) and span.tone is Tone.MUTED]

    short, cut = names(80), names(width)

    assert width_of(tabs_line(PANES, (), "", width=width, marks={})) <= width
    assert len(set(cut)) == len(PANES) - 1  # of the queues there is the key alone
    assert all(whole.startswith(part) for whole, part in zip(short, cut, strict=True))
    assert sum(map(len, short)) > sum(map(len, cut))


@pytest.mark.parametrize("current", PANES)
def test_the_current_tab_is_on_screen_at_forty_columns(current: str) -> None:
    text = text_of(tabs_line(PANES, (current,), current, width=40, marks={"run": Span("◆")}))
    assert "[" in text[:40]
    assert "]" in text[:40]
    assert text.startswith(("‹", "H ", "[H ")), "tabs that are left out to the left are hinted at"


@pytest.mark.parametrize("state", list(RunState))
@pytest.mark.parametrize("context", PANES)
def test_help_and_the_way_out_are_on_screen_at_forty_columns(context: str, state: RunState) -> None:
    for alone in (None, *Alone):
        line = hints_line(
            KeyContext(context), run=a_run(state=state), selected=SelectedRun(state), alone=alone, width=40
        )
        text = text_of(line).rstrip()
        assert len(text) <= 40
        assert text.endswith("? help  q quit")
        assert state is not RunState.AWAITING_APPROVAL or "approve" in text or "4 ◆" in text


def test_names_of_tabs_are_short_only_where_they_must_be_and_not_for_a_mark() -> None:
    def are_short(width: int, mark: Span | None) -> bool:
        return "blueprints" not in text_of(tabs_line(PANES, (PANES[0],), PANES[0], width=width, marks={"run": mark}))

    whole = width_of(tabs_line(PANES, (PANES[0],), PANES[0], width=1000, marks={"run": Span("◆")}))
    for mark in (None, Span("◆")):
        assert are_short(whole - 1, mark)
        assert not are_short(whole, mark)


@pytest.mark.parametrize(
    ("state", "sign"), [(RunState.AWAITING_APPROVAL, "◆"), (RunState.FAILED, "✘"), (RunState.SUCCEEDED, None)]
)
def test_a_run_that_waits_for_the_operator_is_marked_on_its_tab(state: RunState, sign: str | None) -> None:
    mark = run_mark(a_run(state=state))

    assert (mark and mark.text) == sign


def test_a_zoomed_pane_says_how_to_get_the_others_back() -> None:
    assert "z unzoom" in text_of(hints_line(KeyContext.LOGS, alone=Alone.ZOOMED))


@pytest.mark.parametrize("context", PANES)
def test_the_keys_of_a_pane_leave_room_for_those_of_all_panes(context: str) -> None:
    run = a_run(state=RunState.AWAITING_APPROVAL)
    selected = SelectedRun(RunState.AWAITING_APPROVAL)
    first = " ".join(footer(KeyContext(context))[0])
    for width in (80, 120):
        line = text_of(
            hints_line(KeyContext(context), run=run, selected=selected, alone=Alone.TABBED, width=width)
        ).rstrip()
        assert len(line) <= width
        assert f"  {first}  " in line
        assert line.endswith("  ? help  q quit")


@pytest.mark.parametrize(
    ("state", "there", "missing"),
    [
        (RunState.AWAITING_APPROVAL, "a approve", "resume"),
        (RunState.FAILED, "T teardown", "approve"),
        (RunState.SUCCEEDED, "o results  P park  T teardown", "cancel"),
        (RunState.TORN_DOWN, "w why", "teardown"),
    ],
)
@pytest.mark.parametrize("context", [KeyContext.RUN, KeyContext.RUNS])
def test_panes_of_runs_name_the_keys_that_the_state_asks_for(
    context: KeyContext, state: RunState, there: str, missing: str
) -> None:
    text = text_of(hints_line(context, run=a_run(state=state), selected=SelectedRun(state)))

    assert there in text or context is KeyContext.RUNS
    assert missing not in text
    assert "resume" not in text


@pytest.mark.parametrize("context", [KeyContext.RUN, KeyContext.RUNS])
def test_where_there_is_room_for_one_key_it_is_the_answer_that_is_waited_for(context: KeyContext) -> None:
    state = RunState.AWAITING_APPROVAL
    line = hints_line(context, run=a_run(state=state), selected=SelectedRun(state), width=40)

    assert text_of(line).startswith(" a approve  ")


@pytest.mark.parametrize("state", list(RunState))
@pytest.mark.parametrize("context", [KeyContext.RUN, KeyContext.RUNS])
def test_the_keys_of_a_run_fit_into_eighty_columns_in_every_state(context: KeyContext, state: RunState) -> None:
    waits = (RunState.UNKNOWN, RunState.STALLED, RunState.FAILED, RunState.PARKED)
    selected = SelectedRun(state, is_resumable=state in waits)
    whole = text_of(hints_line(context, run=a_run(state=state), selected=selected))
    line = hints_line(context, run=a_run(state=state), selected=selected, width=80)

    assert len(text_of(line).rstrip()) <= 80
    left_out = set(whole.split("  ")) - set(text_of(line).split("  "))
    assert left_out <= {"enter open"}, "of the table's keys alone one is left out, that of the line under the cursor"
    assert ("R resume" in text_of(line)) == (state in waits)


def test_the_run_at_hand_is_the_selected_one_of_a_list_else_the_one_on_screen() -> None:
    services = console_services(view=a_run(state=RunState.SUCCEEDED))
    services.runs.summaries = (a_summary("other", RunState.FAILED),)

    assert selected_run(services, None) == SelectedRun(RunState.SUCCEEDED)
    assert selected_run(services, Subject("Run", "other")) == SelectedRun(RunState.FAILED, is_resumable=True)
    assert selected_run(services, Subject("Run", "gone")) is None


def a_summary(run_id: str, state: RunState) -> RunSummary:
    return RunSummary(
        id=run_id,
        folder=Path("/runs") / run_id,
        blueprint_id="b",
        title="B",
        cluster="c",
        created_at=1.0,
        state=state,
        stage="",
        leftovers=0,
        is_interrupted=True,
        error="",
    )


def test_a_waiting_plan_and_unzoom_are_told_with_the_operators_keys() -> None:
    keymap = Keymap(moved={"everywhere.open run": "f4", "everywhere.zoom": "f5"})
    run = a_run(state=RunState.AWAITING_APPROVAL)
    text = text_of(hints_line(KeyContext.NODES, run=run, alone=Alone.ZOOMED, keymap=keymap))

    assert "f5 unzoom" in text
    assert "f4 ◆ a plan waits" in text


@pytest.mark.parametrize("context", [KeyContext(name) for name in PANES if name != "run"])
def test_a_plan_that_waits_is_told_in_every_pane_within_eighty_columns(context: KeyContext) -> None:
    line = hints_line(context, run=a_run(state=RunState.AWAITING_APPROVAL))

    assert "4 ◆ a plan waits" in text_of(line)[:20]


def test_one_key_resumes_what_waits_for_it_whatever_it_waits_for() -> None:
    for state in (RunState.UNKNOWN, RunState.PARKED, RunState.FAILED, RunState.CANCELLED):
        waiting = SelectedRun(state, is_resumable=True)
        for context in (KeyContext.RUN, KeyContext.RUNS):
            assert "R resume" in text_of(hints_line(context, selected=waiting))
            assert "resume" not in text_of(hints_line(context, selected=waiting, is_readonly=True))
            assert "resume" not in text_of(hints_line(context, selected=SelectedRun(state)))


def test_every_tab_opens_its_pane_and_every_hint_presses_its_key() -> None:
    tabs = tabs_line(PANES, (PANES[0],), PANES[0], width=120, marks={"run": Span("▶")})
    opened = {link.line for x in range(200) if (link := link_at(tabs, x))}
    assert opened == {f"open {name}" for name in PANES[1:]}
    assert link_at(tabs, text_of(tabs).index("▶")) == Link("▶", line="open run")

    hints = hints_line(KeyContext.NODES, alone=Alone.IN_FRONT)
    pressed = {link.key for x in range(80) if (link := link_at(hints, x))}
    assert pressed == {"esc", *dict(footer(KeyContext.NODES))}
    assert link_at(hints, 200) is None


@pytest.mark.parametrize("current", ["home", "run", "runs"])
def test_every_pane_has_its_key_on_sixty_columns(current: str) -> None:
    """The last two, and the key of commands, were beyond the edge."""
    text = text_of(tabs_line(PANES, ("run", "logs"), current, width=60, marks={"run": Span("▶"), "runs": None}))
    assert len(text) <= 60
    words = text.translate(str.maketrans("[]▶", "   ")).split()
    assert [word for word in words if len(word) == 1] == [*PANE_KEYS]
    assert f" {current}" in text


@pytest.mark.parametrize("context", PANES)
def test_commands_have_their_key_on_sixty_columns(context: str) -> None:
    run = a_run(a_stage("train", StageState.RUNNING))
    line = hints_line(KeyContext(context), run=run, selected=SelectedRun(run.state), alone=Alone.TABBED, width=60)
    assert " : do " in text_of(line)
    assert "next" in text_of(line)
