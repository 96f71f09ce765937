"""The meaning of the records of a run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from actions.base.errors import JournalError
from actions.run.state.fold import fold
from actions.run.state.planner import ApprovePlan, Begin, Finish, NextStep, Reconcile, Wait, next_step
from actions.run.state.records import (
    Action,
    Approval,
    Body,
    Deleted,
    Intent,
    JournalRecord,
    Outcome,
    Output,
    Owned,
    PlanOffer,
    RequestKind,
    Result,
    RunRequest,
)
from actions.run.state.view import Goal, RunState, RunView, StageState
from tests.unit.run.world import creation

Line = tuple[str, Body]
PLAN = PlanOffer("hash-1", 1, 0, 0, ("+ cluster",))


def view_of(*lines: Line, holder: str = "me", auto_approve: bool = False, keeps_data: bool = False) -> RunView:
    bodies: Sequence[Line] = [("", creation(auto_approve=auto_approve, keeps_data=keeps_data)), *lines]
    return fold(
        [JournalRecord(n, 100.0 + n, "me", stage, 1, body) for n, (stage, body) in enumerate(bodies, 1)], holder=holder
    )


def move_after(*lines: Line, auto_approve: bool = False, keeps_data: bool = False) -> NextStep:
    return next_step(view_of(*lines, auto_approve=auto_approve, keeps_data=keeps_data))


def begun(stage: str, action: Action = Action.PERFORM) -> Line:
    return stage, Intent(action)


def ended(stage: str, result: Result = Result.DONE, action: Action = Action.PERFORM) -> Line:
    return stage, Outcome(action, result, plan=PLAN if result is Result.AWAITING_APPROVAL else None)


def wished(kind: RequestKind, *, plan_hash: str = "", delete_data: bool = False) -> Line:
    return "", RunRequest(kind, plan_hash, delete_data)


def done(*stages: str) -> list[Line]:
    return [line for stage in stages for line in (begun(stage), ended(stage))]


def states(view: RunView) -> list[str]:
    return [stage.state.value for stage in view.stages]


def test_a_stage_counts_from_its_first_start_when_its_runner_is_replaced() -> None:
    taken_over = view_of(begun("provision"), wished(RequestKind.PAUSE), begun("provision"), ended("provision"))
    stage = taken_over.stage("provision")
    assert (stage.started_at, stage.ended_at) == (102.0, 105.0)
    undone = view_of(
        *done("provision"),
        wished(RequestKind.TEARDOWN),
        begun("provision", Action.UNDO),
        begun("provision", Action.UNDO),
    )
    assert undone.teardown[0].started_at == 105.0


def test_a_stage_that_ended_counts_from_where_it_is_begun_again() -> None:
    failed = (begun("provision"), ended("provision", Result.FAILED))
    retried = view_of(*failed, wished(RequestKind.RETRY), begun("provision"))
    assert retried.stage("provision").started_at == 105.0
    approved = view_of(begun("provision"), ended("provision", Result.AWAITING_APPROVAL), begun("provision"))
    assert approved.stage("provision").started_at == 104.0


def test_a_new_run_begins_with_its_first_stage() -> None:
    assert states(view_of()) == ["pending", "pending", "pending"]
    assert move_after() == Begin(Action.PERFORM, "provision")
    assert view_of(holder="").state is RunState.WAITING


def test_an_open_intent_is_running_for_its_writer_and_unknown_for_everybody_else() -> None:
    assert view_of(begun("provision")).stage("provision").state is StageState.RUNNING
    dead = view_of(begun("provision"), holder="")
    assert (dead.stage("provision").state, dead.state) == (StageState.UNKNOWN, RunState.UNKNOWN)
    assert next_step(view_of(begun("provision"), holder="another")) == Reconcile("provision")


def test_a_plan_waits_for_the_approval_of_exactly_this_plan() -> None:
    planned = [begun("provision"), ended("provision", Result.AWAITING_APPROVAL)]
    assert view_of(*planned).state is RunState.AWAITING_APPROVAL
    assert move_after(*planned) == Wait()
    assert move_after(*planned, wished(RequestKind.APPROVE, plan_hash="hash-0")) == Wait()
    approved = [*planned, wished(RequestKind.APPROVE, plan_hash="hash-1")]
    assert move_after(*approved) == ApprovePlan("provision", "hash-1", is_automatic=False)
    assert move_after(*approved, ("provision", Approval("hash-1", is_automatic=False))) == Begin(
        Action.PERFORM, "provision"
    )


def test_a_run_that_approves_by_itself_says_that_it_was_automatic() -> None:
    planned = [begun("provision"), ended("provision", Result.AWAITING_APPROVAL)]
    assert move_after(*planned, auto_approve=True) == ApprovePlan("provision", "hash-1", is_automatic=True)


def test_a_failed_stage_ends_the_run_until_it_is_retried() -> None:
    failed = [*done("provision"), begun("operators"), ended("operators", Result.FAILED)]
    assert view_of(*failed).state is RunState.FAILED
    assert move_after(*failed) == Finish()
    assert move_after(*failed, wished(RequestKind.RETRY)) == Begin(Action.PERFORM, "operators")


def test_a_paused_run_begins_nothing() -> None:
    assert move_after(*done("provision"), wished(RequestKind.PAUSE)) == Wait()
    assert move_after(*done("provision"), wished(RequestKind.PAUSE), wished(RequestKind.UNPAUSE)) == Begin(
        Action.PERFORM, "operators"
    )


def test_cancel_stops_the_job_and_keeps_the_rest() -> None:
    lines = [
        *done("provision", "operators"),
        begun("train"),
        wished(RequestKind.CANCEL),
        ended("train", Result.CANCELLED),
    ]
    assert (move_after(*lines), view_of(*lines).state) == (Begin(Action.UNDO, "train"), RunState.RUNNING)
    lines += [begun("train", Action.UNDO), ended("train", action=Action.UNDO)]
    view = view_of(*lines)
    assert (view.state, states(view)) == (RunState.CANCELLED, ["succeeded", "succeeded", "cancelled"])
    assert next_step(view) == Finish()
    assert move_after(*lines, wished(RequestKind.RETRY)) == Begin(Action.PERFORM, "train")


def test_park_lets_the_nodes_go_and_retry_begins_the_job_again() -> None:
    lines = [
        *done("provision", "operators"),
        begun("train"),
        wished(RequestKind.PARK),
        ended("train", Result.CANCELLED),
    ]
    lines += [begun("train", Action.UNDO), ended("train", action=Action.UNDO)]
    assert (move_after(*lines), view_of(*lines).state) == (Begin(Action.DRAIN), RunState.RUNNING)
    lines += [begun("", Action.DRAIN), ended("", action=Action.DRAIN)]
    assert (view_of(*lines).state, move_after(*lines)) == (RunState.PARKED, Finish())
    assert move_after(*lines, wished(RequestKind.RETRY)) == Begin(Action.PERFORM, "train")


def test_a_job_that_succeeded_is_neither_parked_nor_done_again() -> None:
    lines = [*done("provision", "operators", "train"), wished(RequestKind.PARK)]
    assert move_after(*lines) == Begin(Action.DRAIN)
    lines += [begun("", Action.DRAIN), ended("", action=Action.DRAIN), wished(RequestKind.RETRY)]
    assert view_of(*lines).state is RunState.SUCCEEDED


def teardown(*, fail: str = "") -> list[Line]:
    steps = [("train", Action.UNDO), ("", Action.DRAIN), ("operators", Action.UNDO), ("provision", Action.UNDO)]
    lines: list[Line] = [*done("provision", "operators", "train"), wished(RequestKind.TEARDOWN, delete_data=True)]
    for stage, action in steps:
        lines.append(begun(stage, action))
        if stage and stage == fail:
            return [*lines, ended(stage, Result.FAILED, action)]
        lines.append(ended(stage, Result.DONE, action))
    return lines


def test_a_teardown_goes_backwards_and_lets_the_nodes_go_after_the_jobs() -> None:
    steps = view_of(*done("provision", "operators", "train"), wished(RequestKind.TEARDOWN)).teardown
    assert [step.id for step in steps] == ["train", "drain", "operators", "provision", "audit"]
    assert move_after(*teardown()) == Begin(Action.AUDIT)


def test_a_teardown_ends_with_its_audit() -> None:
    lines = [*teardown(), begun("", Action.AUDIT), ("", Outcome(Action.AUDIT, Result.DONE, leftovers=("FSx fs-1",)))]
    view = view_of(*lines)
    assert (view.state, next_step(view)) == (RunState.TORN_DOWN, Finish())
    assert view.audit is not None
    assert view.audit.leftovers == ("FSx fs-1",)


def test_a_failed_teardown_step_stops_and_is_retried_where_it_failed() -> None:
    lines = teardown(fail="operators")
    assert (view_of(*lines).state, move_after(*lines)) == (RunState.FAILED, Finish())
    assert move_after(*lines, wished(RequestKind.RETRY)) == Begin(Action.UNDO, "operators")


def test_a_failed_teardown_step_stops_only_what_the_rest_still_needs() -> None:
    """The file system's bucket is not empty: the network stays, and the cluster, which it does not need, goes."""
    run, undo = forked(), Action.UNDO
    lines = [*run, begun("train", undo), ended("train", action=undo), begun("", Action.DRAIN)]
    lines += [ended("", action=Action.DRAIN), begun("filesystem", undo)]
    failed = [*lines, ended("filesystem", Result.FAILED, undo)]
    view = fold_of(failed)
    assert (view.state, next_step(view)) == (RunState.TEARING_DOWN, Begin(undo, "cluster"))
    went_on = [*failed, *undone("cluster"), *undone("registry")]
    view = fold_of(went_on)
    assert (view.state, next_step(view)) == (RunState.FAILED, Finish())
    assert [(step.id, step.state.value) for step in view.teardown][2:] == [
        ("filesystem", "failed"),
        ("cluster", "succeeded"),
        ("registry", "succeeded"),
        ("network", "pending"),
        ("audit", "pending"),
    ]
    assert next_step(fold_of([*went_on, wished(RequestKind.RETRY)])) == Begin(undo, "filesystem")


@pytest.mark.parametrize("failed", [("train", Action.UNDO), ("", Action.DRAIN)])
def test_nodes_that_stay_keep_what_their_pods_need(failed: tuple[str, Action]) -> None:
    stage, action = failed
    lines = [*forked(), begun("train", Action.UNDO)]
    lines += [] if stage else [ended("train", action=Action.UNDO), begun("", Action.DRAIN)]
    failed_there = [*lines, ended(stage, Result.FAILED, action)]
    assert next_step(fold_of(failed_there)) == Begin(Action.UNDO, "registry")
    view = fold_of([*failed_there, *undone("registry")])
    assert (view.state, next_step(view)) == (RunState.FAILED, Finish())


def undone(stage: str) -> list[Line]:
    return [begun(stage, Action.UNDO), ended(stage, action=Action.UNDO)]


def forked() -> list[Line]:
    """A finished run in which neither file system nor registry needs the cluster, and all is to be torn down."""
    needs = {
        "network": (),
        "registry": (),
        "cluster": ("network",),
        "filesystem": ("network",),
        "train": ("cluster", "filesystem"),
    }
    outlines = tuple(
        msgspec.structs.replace(
            creation().stages[0], id=name, kind="job" if name == "train" else "terraform", needs=need
        )
        for name, need in needs.items()
    )
    begin: Line = ("", msgspec.structs.replace(creation(), stages=outlines))
    return [begin, *done(*(name for name in needs)), wished(RequestKind.TEARDOWN, delete_data=True)]


def fold_of(lines: Sequence[Line]) -> RunView:
    return fold(
        [JournalRecord(n, 100.0 + n, "me", stage, 1, body) for n, (stage, body) in enumerate(lines, 1)], holder="me"
    )


def test_stages_that_hold_data_are_kept_without_a_word_about_data() -> None:
    lines = done("provision", "operators", "train")
    kept = view_of(*lines, wished(RequestKind.TEARDOWN), keeps_data=True)
    assert [(step.id, step.state.value) for step in kept.teardown[-2:]] == [
        ("provision", "skipped"),
        ("audit", "pending"),
    ]
    gone = view_of(*lines, wished(RequestKind.TEARDOWN, delete_data=True), keeps_data=True)
    assert [step.state.value for step in gone.teardown] == ["pending"] * 5


def test_what_was_undone_still_says_how_it_had_ended() -> None:
    view = view_of(*teardown())
    assert [(stage.state, stage.reached) for stage in view.stages] == [(StageState.UNDONE, StageState.SUCCEEDED)] * 3


def test_nothing_is_undone_that_was_never_begun() -> None:
    view = view_of(*done("provision"), wished(RequestKind.TEARDOWN))
    assert [step.id for step in view.teardown] == ["provision", "audit"]


def test_a_second_wish_for_a_teardown_begins_it_anew() -> None:
    lines = [*teardown(), begun("", Action.AUDIT), ended("", action=Action.AUDIT), wished(RequestKind.TEARDOWN)]
    view = view_of(*lines)
    assert (view.goal, view.state, view.audit) == (Goal.TEARDOWN, RunState.TEARING_DOWN, None)
    assert next_step(view) == Begin(Action.UNDO, "train")


def test_an_object_of_the_run_is_still_the_runs_when_it_is_applied_again() -> None:
    first = ("train", Owned("v1", "thing", "Thing", uid="u1", existed=False))
    again = ("train", Owned("v1", "thing", "Thing", uid="u1", existed=True))
    assert [item.existed for item in view_of(first, again).owned_by("train")] == [False]


def test_an_announcement_keeps_the_uid_that_is_known_until_there_is_another() -> None:
    made = ("train", Owned("v1", "thing", "Thing", uid="u1"))
    again = ("train", Owned("v1", "thing", "Thing", was_absent=True))
    (item,) = view_of(made, again).owned_by("train")
    assert (item.uid, item.was_absent, item.intended_at > 0) == ("u1", True, True)
    (item,) = view_of(made, again, ("train", Owned("v1", "thing", "Thing", uid="u2"))).owned_by("train")
    assert (item.uid, item.existed, item.intended_at) == ("u2", False, 0.0)


def test_every_uid_that_was_ever_made_stays_the_runs() -> None:
    first = ("train", Owned("v1", "thing", "Thing", uid="u1"))
    gone = ("train", Deleted("v1", "thing", "Thing"))
    theirs = ("train", Owned("v1", "other", "Thing", uid="u3", existed=True))
    view = view_of(first, gone, ("train", Owned("v1", "thing", "Thing", uid="u2")), theirs)
    assert view.made_uids == {"u1", "u2"}


def test_an_object_under_another_uid_is_another_object() -> None:
    ours = ("train", Owned("v1", "thing", "Thing", uid="u1"))
    theirs = ("train", Owned("v1", "thing", "Thing", uid="u2", existed=True))
    view = view_of(ours, theirs)
    assert [(item.uid, item.existed) for item in view.owned_by("train")] == [("u2", True)]
    assert view.made_uids == {"u1"}
    back = view_of(theirs, ("train", Owned("v1", "thing", "Thing")), ours)
    assert [(item.uid, item.existed) for item in back.owned_by("train")] == [("u1", False)]


def test_an_audit_keeps_what_it_could_not_ask() -> None:
    unknown = ("This user may not list secrets.",)
    lines = [*teardown(), begun("", Action.AUDIT), ("", Outcome(Action.AUDIT, Result.DONE, unknown=unknown))]
    audit = view_of(*lines).audit
    assert audit is not None
    assert (audit.unknown, audit.is_clean) == (unknown, False)


def test_a_deleted_object_is_not_owned() -> None:
    owned = ("train", Owned("v1", "thing", "Thing", uid="u1"))
    assert view_of(owned, ("train", Deleted("v1", "thing", "Thing"))).owned_by("train") == ()


def test_outputs_are_kept_by_stage() -> None:
    view = view_of(("provision", Output({"fsx": "fs-1"})), ("provision", Output({"mount": "abc"})))
    assert view.outputs == {"provision": {"fsx": "fs-1", "mount": "abc"}}


def test_a_record_of_an_unknown_stage_is_damage() -> None:
    with pytest.raises(JournalError, match="'nowhere'"):
        view_of(begun("nowhere"))


def with_nodes(*lines: Line) -> RunView:
    """A run whose second stage holds accelerators."""
    made = creation()
    stages = tuple(
        msgspec.structs.replace(item, id="nodes", kind="terraform", holds_accelerators=True)
        if item.id == "operators"
        else msgspec.structs.replace(item, needs=("nodes",) if item.needs == ("operators",) else item.needs)
        for item in made.stages
    )
    bodies: Sequence[Line] = [("", msgspec.structs.replace(made, stages=stages)), *lines]
    return fold(
        [JournalRecord(n, 100.0 + n, "me", stage, 1, body) for n, (stage, body) in enumerate(bodies, 1)], holder="me"
    )


def test_park_undoes_the_stages_that_hold_accelerators_and_retry_does_them_again() -> None:
    lines = [*done("provision", "nodes"), begun("train"), wished(RequestKind.PARK), ended("train", Result.CANCELLED)]
    lines += [begun("train", Action.UNDO), ended("train", action=Action.UNDO)]
    lines += [begun("", Action.DRAIN), ended("", action=Action.DRAIN)]
    view = with_nodes(*lines)
    assert (next_step(view), view.state) == (Begin(Action.UNDO, "nodes"), RunState.RUNNING)
    lines += [begun("nodes", Action.UNDO), ended("nodes", action=Action.UNDO)]
    assert (with_nodes(*lines).state, next_step(with_nodes(*lines))) == (RunState.PARKED, Finish())
    again = with_nodes(*lines, wished(RequestKind.RETRY))
    assert next_step(again) == Begin(Action.PERFORM, "nodes")
    assert states(again) == ["succeeded", "pending", "pending"]
