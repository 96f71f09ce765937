"""Knowledge of a Terraform stage that another machine has carried out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.run import launch
from actions.run.context.state_backend import gone_holders, state_backend_of
from actions.run.doctor.programs import terraform_observation
from actions.run.launch import require_preconditions
from actions.run.stages.terraform_takeover import has_lost_state, may_be_half_destroyed, may_hold, remember_unobserved
from actions.run.state.fold import fold
from actions.run.state.records import (
    Action,
    Approval,
    Body,
    CheckResult,
    ClusterName,
    Created,
    Intent,
    JournalRecord,
    OperationEnded,
    Operator,
    Outcome,
    PlanOffer,
    Resolution,
    Resolved,
    Result,
    StageOutline,
    TakenOver,
    Unlocked,
)
from actions.run.state.view import RunView, TerraformMemory
from actions.terraform.backend import StateBackend
from actions.terraform.state import EMPTY_STATE, GoneHolder, StateFile, StateLock, is_of_the_gone
from tests.faults.roots import BLUEPRINT
from tests.support.smallrun import Unheard
from tests.unit.run.world import creation

STAGE = StageOutline("net", "terraform", "Net", (), 1.0, 5.0)
CREATED = Created("r", "root", "A root", "", {}, ClusterName("c", "us-west-2"), (STAGE,), store="s3://team/ml")
OFFER = PlanOffer("hash", 2, 0, 0, ("+ a.a", "-/+ a.b", "~ a.c", "- a.d"))
APPLYING: tuple[Body, ...] = (
    Intent(Action.PERFORM),
    Outcome(Action.PERFORM, Result.AWAITING_APPROVAL, plan=OFFER),
    Approval("hash", is_automatic=True),
    Intent(Action.PERFORM),
)
DONE = Outcome(Action.PERFORM, Result.DONE)
HELD = StateFile("l", 1, ("a.a",))


def a_view(*bodies: Body, home: str = "s3://team/ml") -> RunView:
    records = [JournalRecord(1, 1.0, "operator", "", 0, replace(CREATED, store=home))]
    for body in bodies:
        stage = "" if isinstance(body, TakenOver) else "net"
        records.append(JournalRecord(len(records) + 1, float(len(records)), "first", stage, 1, body))
    return fold(records, holder="second")


def test_a_stage_that_was_begun_may_hold_something_wherever_its_state_is() -> None:
    def holds(view: RunView, *, is_prepared: bool = False, backend: str = "") -> bool:
        return may_hold(view, view.stage("net"), is_prepared=is_prepared, backend=backend)

    assert not holds(a_view())
    assert holds(a_view(*APPLYING[:1]))
    assert not holds(a_view(*APPLYING[:1], home=""))
    assert holds(a_view(*APPLYING[:1], home=""), backend="http")
    assert holds(a_view(*APPLYING[:1], home=""), is_prepared=True)
    assert holds(a_view(*APPLYING, home=""))


@pytest.mark.parametrize(
    ("bodies", "state", "is_kept_here", "has_history", "is_lost"),
    [
        ((*APPLYING, DONE), EMPTY_STATE, False, False, True),
        ((*APPLYING, DONE), HELD, False, False, False),
        ((*APPLYING, DONE), StateFile("l", 9, ()), False, False, False),
        ((*APPLYING[:2],), EMPTY_STATE, True, False, False),
        ((*APPLYING, Outcome(Action.PERFORM, Result.FAILED)), EMPTY_STATE, True, False, True),
        ((*APPLYING, Outcome(Action.PERFORM, Result.FAILED)), EMPTY_STATE, True, True, False),
        ((*APPLYING, Outcome(Action.PERFORM, Result.FAILED)), EMPTY_STATE, False, False, False),
        ((*APPLYING, DONE, Resolved("terraform.tfstate", Resolution.WAIVED)), EMPTY_STATE, False, False, False),
        ((*APPLYING, DONE, Intent(Action.UNDO), Outcome(Action.UNDO, Result.DONE)), EMPTY_STATE, False, False, False),
    ],
)
def test_a_state_is_lost_if_something_was_made_and_there_is_none(
    bodies: tuple[Body, ...], state: StateFile, is_kept_here: bool, has_history: bool, is_lost: bool
) -> None:
    view = a_view(*bodies)
    found = has_lost_state(view, view.stage("net"), state, is_kept_here=is_kept_here, has_history=has_history)
    assert found is is_lost


class Remembering(Unheard):
    """A journal that keeps what a stage remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = TerraformMemory()
        self.bodies: list[Body] = []

    async def terraform(self) -> TerraformMemory:
        return self.memory

    async def remember(self, body: Body) -> None:
        self.bodies.append(body)


async def test_what_a_plan_would_make_is_remembered_once_if_its_end_was_not_seen() -> None:
    journal, stage = Remembering(), a_view(*APPLYING).stage("net")
    assert not await remember_unobserved(stage, journal, has_history=True)
    assert await remember_unobserved(stage, journal, has_history=False)
    (body,) = journal.bodies
    assert isinstance(body, OperationEnded)
    assert [item.address for item in body.pending] == ["a.a", "a.b"]
    journal.memory = TerraformMemory(ended=(body.process,))
    assert not await remember_unobserved(stage, journal, has_history=False)
    for bodies in (APPLYING[:2], APPLYING[:1], (*APPLYING, DONE)):
        assert not await remember_unobserved(a_view(*bodies).stage("net"), Remembering(), has_history=False)


def test_a_destroy_of_another_machine_may_be_half_done() -> None:
    view = a_view(*APPLYING, DONE)
    assert not may_be_half_destroyed(view, view.stage("net"), has_history=False)


def test_a_gone_machine_is_one_that_was_stated_to_be_gone() -> None:
    ann, ben = Operator("ann", "one"), Operator("ben", "two")
    assert a_view(TakenOver(ben, 2, ann)).gone_machines == ()
    view = a_view(TakenOver(ben, 2, ann, is_previous_gone=True))
    assert gone_holders(view) == (GoneHolder("ann@one", 1.0),)


def test_a_lock_of_an_earlier_machine_with_the_same_host_name_is_not_of_the_gone_one() -> None:
    """Ann's machine was taken over and may be alive; ben's, which took it over, has the same name and is gone."""
    ann, ben, eve = Operator("ann", "bastion"), Operator("ben", "bastion"), Operator("eve", "laptop")
    records = [
        JournalRecord(1, 100.0, "operator", "", 0, creation()),
        JournalRecord(2, 200.0, "operator", "", 0, TakenOver(ben, 2, ann)),
        JournalRecord(3, 300.0, "operator", "", 0, TakenOver(eve, 3, ben, is_previous_gone=True)),
    ]
    gone = gone_holders(fold(records))
    assert gone == (GoneHolder("ben@bastion", 300.0, 200.0),)
    for at, is_gone in ((150.0, False), (250.0, True), (350.0, False)):
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f +0000 UTC")
        assert is_of_the_gone(StateLock("id", "root@bastion", stamp), gone) is is_gone


def test_a_removed_lock_is_on_record() -> None:
    lock = Unlocked("id", "ann@one", "2026-11-22", "OperationTypeApply", "ann@one does not exist any more")
    assert a_view(*APPLYING, lock).stage("net").terraform.unlocked == (lock,)


def test_the_region_of_a_home_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    asked: list[str] = []

    def region_of(bucket: str) -> str:
        asked.append(bucket)
        return "eu-west-1"

    (tmp_path / "main.tf").write_text("")
    work = tmp_path / "work"
    work.mkdir()

    def found(view: RunView, environment: dict[str, str] | None = None) -> StateBackend | None:
        return state_backend_of(
            view, "net", work=work, root=tmp_path, environment=environment or {}, find_region=region_of
        )

    home = found(a_view())
    assert home == StateBackend("team", "ml/runs/r/terraform/net.tfstate", "eu-west-1")
    (work / "eksml_state_override.tf.json").write_bytes(home.configuration())
    assert found(a_view()) == home
    assert asked == ["team"]
    other = found(a_view(), {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    assert other == replace(home, region="us-west-2", is_aws=False)
    assert found(a_view(home="")) is None
    (tmp_path / "main.tf").write_text('terraform {\n  backend "http" {}\n}\n')
    assert found(a_view()) is None


def test_a_terraform_that_is_too_old_for_a_home_is_refused_before_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = terraform_observation("1.9.8", Path("/bin/terraform"), store="s3://team")
    assert (observed.result, observed.remedy) == (
        CheckResult.FAILED,
        "Install Terraform 1.10 or later, or launch without a store.",
    )
    assert terraform_observation("1.9.8", Path("/bin/terraform")).result is CheckResult.PASSED
    old = tmp_path / "terraform"
    old.write_text('#!/bin/sh\necho \'{"terraform_version": "1.9.8"}\'\n')
    old.chmod(0o755)
    monkeypatch.setattr(launch, "find_program", lambda: old)
    root = tmp_path / "blueprint" / "terraform" / "net"
    root.mkdir(parents=True)
    (root / "main.tf").write_text("")
    (tmp_path / "blueprint" / "blueprint.yaml").write_text(BLUEPRINT)
    blueprint = load_blueprint(tmp_path / "blueprint")
    binding = bind(blueprint, {})
    require_preconditions(blueprint, binding)
    with pytest.raises(RefusedError, match="use_lockfile came with 1"):
        require_preconditions(blueprint, binding, store="s3://team")
    (root / "main.tf").write_text('terraform {\n  backend "http" {}\n}\n')
    require_preconditions(blueprint, binding, store="s3://team")
