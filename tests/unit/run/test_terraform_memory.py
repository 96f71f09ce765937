"""The journal's memory of Terraform processes, and what operators say of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, MissingError, RefusedError
from actions.base.readonly import promise_readonly
from actions.run.client import load_run
from actions.run.journal.folder import journal_path, terraform_path
from actions.run.journal.store import Journal
from actions.run.report import run_json, run_table
from actions.run.state.records import (
    Action,
    Intent,
    Interrupted,
    OperationEnded,
    Outcome,
    PendingResource,
    Resolution,
    Resolved,
    Result,
    decode_body,
    encode_body,
)
from actions.run.terraform_changes import terraform_json, terraform_report, terraform_table, waive
from tests.unit.run.test_fold import view_of
from tests.unit.run.world import make_run

GROUP = 'module.eks.aws_eks_node_group.this["a"]'
ENDED = OperationEnded("apply", "boot:7:70", (PendingResource(GROUP, "create", "aws_eks_node_group"),))


def test_an_interrupt_is_remembered_with_its_process() -> None:
    view = view_of(
        ("provision", Interrupted("apply", 7, 70, "boot")),
        ("provision", Interrupted("apply", 7, 70, "boot", is_sent=True)),
        holder="",
    )
    memory = view.stage("provision").terraform
    assert [(item.process.pid, item.process.start_ticks, item.is_sent) for item in memory.interrupts] == [
        (7, 70, False),
        (7, 70, True),
    ]
    assert view.stage("operators").terraform.interrupts == ()


def test_an_end_is_taken_once_for_each_process() -> None:
    resolved = Resolved(GROUP, Resolution.WAIVED)
    (item,) = view_of(("provision", ENDED)).stage("provision").terraform.pending
    assert item.is_open
    (item,) = view_of(("provision", ENDED), ("provision", resolved), ("provision", ENDED)).stages[0].terraform.pending
    assert not item.is_open
    later = msgspec.structs.replace(ENDED, process="boot:8:80")
    (item,) = view_of(("provision", ENDED), ("provision", resolved), ("provision", later)).stages[0].terraform.pending
    assert item.is_open


@pytest.mark.parametrize("body", [ENDED, Interrupted("apply", 7, 70, "b"), Resolved("a", Resolution.TRACKED)])
def test_records_are_read_as_they_were_written(body: OperationEnded | Interrupted | Resolved) -> None:
    assert decode_body(encode_body(body)) == body


def test_a_journal_from_before_remembers_nothing() -> None:
    assert view_of(("provision", Intent(Action.PERFORM))).stage("provision").terraform.pending == ()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose first stage was ended while it made a node group."""
    folder = make_run(tmp_path, SystemClock())
    journal = Journal(journal_path(folder), SystemClock())
    journal.append(Intent(Action.PERFORM), stage="provision", attempt=1)
    journal.append(ENDED, stage="provision", attempt=1)
    journal.append(Outcome(Action.PERFORM, Result.FAILED, "killed"), stage="provision", attempt=1)
    journal.close()
    terraform_path(folder, "provision").mkdir(parents=True)
    return folder


def test_the_report_says_what_is_open_and_what_to_type(folder: Path) -> None:
    report = terraform_report(folder, load_run(folder))
    text = terraform_table(report, "r")
    assert f"{GROUP}: may exist outside the state" in text
    assert f"import -var-file=run.tfvars.json '{GROUP}' ID" in text
    assert msgspec.json.decode(terraform_json(report))[0]["blocks"] == [GROUP]
    assert msgspec.json.decode(run_json(load_run(folder)))["stages"][0]["pending"] == [GROUP]
    assert f"provision: {GROUP}" in run_table(load_run(folder))


def test_a_waiver_needs_the_name(folder: Path) -> None:
    with pytest.raises(ConfigError, match="not looked for again"):
        waive(folder, GROUP, confirm="aws_eks_node_group.this")
    assert waive(folder, GROUP, confirm=GROUP).stage == "provision"
    with pytest.raises(MissingError, match="is not open"):
        waive(folder, GROUP, confirm=GROUP)


def test_a_read_only_process_says_nothing_of_a_resource(folder: Path) -> None:
    before = journal_path(folder).read_bytes()
    promise_readonly()
    with pytest.raises(RefusedError, match="read-only"):
        waive(folder, GROUP, confirm=GROUP)
    assert journal_path(folder).read_bytes() == before


def test_what_is_not_open_cannot_be_waived(folder: Path) -> None:
    with pytest.raises(MissingError) as caught:
        waive(folder, "aws_vpc.main", confirm="aws_vpc.main")
    assert GROUP in caught.value.hint
    with pytest.raises(MissingError):
        waive(folder, GROUP, confirm=GROUP, stage="operators")


def test_an_unreadable_unsaved_state_is_unknown_and_can_be_waived(folder: Path) -> None:
    unsaved = terraform_path(folder, "provision") / "errored.tfstate"
    unsaved.write_text("{torn")
    (stage,) = terraform_report(folder, load_run(folder))
    assert stage.unsaved == ("unknown",)
    waive(folder, "errored.tfstate", confirm="errored.tfstate")
    assert not unsaved.exists()
    assert unsaved.with_name("errored.tfstate.waived").read_text() == "{torn"
