"""A resume names the stages that follow and their price, and is refused where it only would buy."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actions.base.errors import MissingError, RefusedError
from actions.run.client import refuse_unfit
from actions.run.resume import has_work_left, held_rate, resume_of
from actions.run.state.fold import fold
from actions.run.state.records import Action, Body, HeldPrice, Intent, JournalRecord, Outcome, RequestKind, Result
from actions.run.state.records import RunRequest as Request
from actions.run.state.view import RunState, RunView
from tests.unit.run.world import creation

NODES = HeldPrice(title="16 × A100", stage="provision", usd_per_hour="54.51")
CONTROL = HeldPrice(title="control plane", stage="operators", usd_per_hour="0.1")


def view(*lines: tuple[str, Body]) -> RunView:
    """Fold records of a run whose stage `provision` makes the nodes."""
    created = creation()
    stages = tuple(replace(one, holds_accelerators=one.id == "provision") for one in created.stages)
    bodies = [("", replace(created, stages=stages, prices=(NODES, CONTROL))), *lines]
    return fold([JournalRecord(n, n * 60.0, "me", stage, 1, body) for n, (stage, body) in enumerate(bodies, 1)])


def done(stage: str, action: Action = Action.PERFORM, result: Result = Result.DONE) -> list[tuple[str, Body]]:
    return [(stage, Intent(action)), (stage, Outcome(action, result))]


def through(*, until: str = "") -> list[tuple[str, Body]]:
    """Return the records of stages that are done, up to one."""
    ids = [outline.id for outline in creation().stages]
    return (
        [record for stage in ids[: ids.index(until)] if until for record in done(stage)]
        if until
        else [record for stage in ids for record in done(stage)]
    )


def parked() -> list[tuple[str, Body]]:
    return [("", Request(RequestKind.PARK)), *done("", Action.DRAIN), *done("provision", Action.UNDO)]


def test_a_parked_run_that_is_done_is_not_resumed_as_that_would_only_buy_its_nodes() -> None:
    run = view(*through(), *parked())
    assert run.state is RunState.PARKED
    for refused in (lambda: resume_of(run), lambda: refuse_unfit(run, RequestKind.RETRY)):
        with pytest.raises(RefusedError) as error:
            refused()
        assert "Nothing is left to do in run" in error.value.message
        assert "a resume would only make Provision again, at $54.61/h" in error.value.message
        assert "runs teardown" in error.value.hint
    assert not has_work_left(run)


def test_a_parked_run_with_work_names_what_is_made_again_what_is_left_and_the_price_of_an_hour() -> None:
    run = view(*through(until="train"), *parked())
    resume = resume_of(run)
    assert resume.request is RequestKind.RETRY
    assert [stage.id for stage in resume.again] == ["provision"]
    assert "train" in [stage.id for stage in resume.stages]
    told = resume.lines()
    assert told[0] == "Made again: Provision."
    assert told[1].startswith("Left to do: ")
    assert "Train" in told[1]
    assert "/h at the peak." in told[-1]
    assert len(told) == 3


def test_a_paused_run_is_unpaused_and_one_without_a_runner_asks_nothing() -> None:
    paused = view(*through(until="train"), ("", Request(RequestKind.PAUSE)))
    assert resume_of(paused).request is RequestKind.UNPAUSE
    assert resume_of(view(*through(until="train"))).request is None


def test_a_failed_stage_is_tried_again_and_one_that_is_done_is_not() -> None:
    run = view(*through(until="train"), *done("train", result=Result.FAILED))
    assert resume_of(run, "train").request is RequestKind.RETRY
    with pytest.raises(RefusedError, match="is done"):
        resume_of(run, "provision")
    with pytest.raises(MissingError, match="has no stage 'nothing'"):
        resume_of(run, "nothing")


def test_a_teardown_that_stopped_goes_on_and_buys_nothing() -> None:
    run = view(*through(), ("", Request(RequestKind.TEARDOWN)), *done("train", Action.UNDO, Result.FAILED))
    resume = resume_of(run)
    assert (resume.request, resume.rate) == (RequestKind.RETRY, "")


@pytest.mark.parametrize(
    ("lines", "kind", "way"),
    [
        ([*through(until="train"), *parked()], RequestKind.UNPAUSE, "Resume it: eksml-tui runs resume"),
        ([*through()], RequestKind.CANCEL, "Tear it down: eksml-tui runs teardown"),
        (
            [*through(until="train"), ("", Request(RequestKind.TEARDOWN))],
            RequestKind.PARK,
            "Wait until it is torn down",
        ),
    ],
)
def test_a_refusal_names_what_helps(lines: list[tuple[str, Body]], kind: RequestKind, way: str) -> None:
    with pytest.raises(RefusedError) as error:
        refuse_unfit(view(*lines), kind)
    assert way in error.value.hint


def test_what_is_held_costs_less_without_what_a_park_undoes() -> None:
    run = view(*through())
    assert (held_rate(run), held_rate(run, without=["provision"])) == ("$54.61/h", "$0.10/h")
