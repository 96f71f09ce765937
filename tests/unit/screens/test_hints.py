"""The lines at the edges of the console."""

from __future__ import annotations

import pytest

from actions.run.view import RunState
from tests.support.builders import a_run
from tui.keys import Context
from tui.present.cells import Span, text_of, width_of
from tui.screens.hints import hints_line, run_mark, tabs_line
from tui.screens.workspace import PANES


@pytest.mark.parametrize("current", PANES)
def test_the_tabs_fit_into_eighty_columns_with_the_runs_sign(current: str) -> None:
    line = tabs_line(PANES, (current,), current, width=80, marks={"run": Span("◆")})

    assert width_of(line) <= 80
    assert "run◆" in text_of(line)


@pytest.mark.parametrize(
    ("state", "sign"), [(RunState.AWAITING_APPROVAL, "◆"), (RunState.FAILED, "✘"), (RunState.SUCCEEDED, None)]
)
def test_a_run_that_wants_somebody_is_marked_on_its_tab(state: RunState, sign: str | None) -> None:
    mark = run_mark(a_run(state=state))

    assert (mark and mark.text) == sign


def test_a_zoomed_pane_says_how_to_get_the_others_back() -> None:
    assert "z unzoom" in text_of(hints_line(Context.LOGS, is_readonly=False, is_zoomed=True))


@pytest.mark.parametrize(
    ("state", "there", "missing"),
    [
        (RunState.AWAITING_APPROVAL, "a approve", "retry"),
        (RunState.FAILED, "r retry", "approve"),
        (RunState.SUCCEEDED, "T teardown", "cancel"),
    ],
)
def test_the_run_pane_names_the_keys_that_its_state_asks_for(state: RunState, there: str, missing: str) -> None:
    text = text_of(hints_line(Context.RUN, is_readonly=False, run=a_run(state=state)))

    assert there in text
    assert missing not in text


@pytest.mark.parametrize("context", [Context(name) for name in PANES if name != "run"])
def test_a_plan_that_waits_is_told_in_every_pane_within_eighty_columns(context: Context) -> None:
    line = hints_line(context, is_readonly=False, run=a_run(state=RunState.AWAITING_APPROVAL))

    assert "4 ◆ a plan waits" in text_of(line)[:20]
