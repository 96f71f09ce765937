"""Runs of other machines: what is read of a Lease whatever it says, and the views and lists from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.base.untrusted import is_plain
from actions.run.client import load_run, send_request
from actions.run.journal.folder import watched_path
from actions.run.journal.watched import read_watched
from actions.run.state.records import HeldPrice, Operator, RequestKind
from actions.run.state.view import NoticeKind, RunState, StageState
from actions.run.store.elsewhere import note_elsewhere
from actions.run.store.lease_object import DOCUMENT, LABELS, NAMESPACE, STOPPED_NOTE, lease_name
from actions.run.store.objects import MOST_LEASE_BYTES, LeaseDocument
from actions.run.store.remote import RemoteRun, job_on_screen, newest_runs, remote_of, remote_view
from actions.run.store.report import FIELDS, known_runs, known_runs_json, known_runs_table
from actions.run.watchdog import script
from tests.support import fixed_runs
from tests.support.builders import NOW
from tests.support.fixed_cluster import RUN
from tests.unit.run.world import make_run
from tui.cli.tables.output import formatted

ADA = Operator("ada", "bastion-1")
AT = NOW.timestamp()


def a_run(**changes: Any) -> RemoteRun:
    return fixed_runs.a_remote_run(RUN, ADA, RunState.RUNNING, "train", created_at=AT - 60, seen_at=AT, **changes)


def a_lease(text: str = "", **changes: Any) -> dict[str, Any]:
    lease = a_run().lease
    assert lease is not None
    metadata = {
        "name": lease_name(RUN),
        "namespace": NAMESPACE,
        "labels": LABELS,
        "uid": "uid-1",
        "resourceVersion": "7",
        "annotations": {DOCUMENT: text or msgspec.json.encode(lease.document).decode()},
    }
    spec = {"leaseTransitions": 1, "holderIdentity": str(ADA), "renewTime": lease.document.renewed_at}
    return {"kind": "Lease", "metadata": {**metadata, **changes}, "spec": spec}


def read(text: str = "", **changes: Any) -> RemoteRun:
    run = remote_of(a_lease(text, **changes))
    assert run is not None
    return run


def edited(**changes: object) -> str:
    lease = a_run().lease
    assert lease is not None
    return json.dumps({**msgspec.to_builtins(lease.document), **changes})


def test_what_is_written_is_read() -> None:
    run, written = read(), a_run()
    assert run.lease is not None
    assert written.lease is not None
    assert (run.id, run.uid, run.namespace, run.lease.tag, run.error) == (RUN, "uid-1", NAMESPACE, "7", "")
    assert run.lease.document == written.lease.document
    assert (run.owner, run.epoch, run.state, run.status.stage) == ("ada@bastion-1", 1, RunState.RUNNING, "train")


def test_the_time_of_a_sign_is_the_servers() -> None:
    fields = [
        {"manager": "eksml-tui-runner", "time": "2026-11-21T12:34:56Z"},
        {"manager": "kubectl-edit", "time": "2030-01-01T00:00:00Z"},
        {"manager": "eksml-tui", "time": "nonsense"},
        "odd",
    ]
    run = read(managedFields=fields)
    assert run.seen_at == NOW.replace(hour=12, minute=34, second=56).timestamp()
    assert not run.is_silent(run.seen_at + 90)
    assert run.is_silent(run.seen_at + 91)
    parked = read(edited(status={"state": "parked"}), managedFields=fields)
    assert not parked.is_silent(run.seen_at + 1e6)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{}",
        "[" * 200_000,
        '{"a":' * 100_000,
        "x" * (MOST_LEASE_BYTES + 1),
        edited(epoch="1"),
        edited(epoch=2),
        edited(epoch=1 << 70),
        edited(owner={"user": "eve"}),
        edited(owner="eve"),
        edited(status=[]),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_of_another_form_cannot_be_read_and_says_why(text: str) -> None:
    run = read(text)
    assert run.lease is None
    assert run.error
    assert len(run.error) <= 600
    assert remote_view(run).notices[0].text.endswith(run.error)


@pytest.mark.parametrize("amount", ["1e999", "NaN", "-1", "x", "9" * 21, "∞"])
def test_an_amount_that_is_none_is_unknown(amount: str) -> None:
    run = read(edited(status={"state": "running", "spent_usd": amount, "usd_per_hour": amount}))
    assert (run.spent_usd, run.usd_per_hour) == (None, None)
    assert remote_view(run).state is RunState.RUNNING


def test_a_state_of_a_later_version_is_unknown() -> None:
    assert read(edited(status={"state": "dancing"})).state is RunState.UNKNOWN
    assert read(edited(status={})).state is RunState.WAITING
    assert read(edited(mood="good")).lease == read().lease


def test_text_is_filtered_and_cut() -> None:
    evil = "\x1b]0;x\x07[red]a\u202eb\n\x1b[31m" + "z" * 1_000
    run = read(
        edited(status={"stage": evil}, owner={"user": evil, "host": evil}, about={"run_id": RUN, "cluster": evil})
    )
    for text in (run.owner, run.status.stage, run.about.cluster):
        assert is_plain(text)
        assert "\x1b" not in text
        assert "\n" not in text
        assert text.startswith("[red]ab")


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": None},
        {"metadata": {"name": "eksml-run-x", "namespace": "default"}},
        {"metadata": {"name": "other", "namespace": "default", "labels": LABELS}},
        {"metadata": {"name": ["eksml-run-x"], "namespace": "default", "labels": LABELS}},
        {"metadata": {"name": "eksml-run-x", "namespace": "../..", "labels": LABELS}},
        {"metadata": {"name": "eksml-run-X/../y", "namespace": "default", "labels": LABELS}},
    ],
)
def test_other_objects_are_left_out(change: dict[str, Any]) -> None:
    assert remote_of({**a_lease(), **change}) is None


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda some: st.lists(some) | st.dictionaries(
    st.sampled_from([*LeaseDocument.__struct_fields__]), some), max_leaves=12))  # fmt: skip
def test_nothing_that_is_written_can_raise(content: object) -> None:
    run = read(json.dumps(content))
    assert remote_view(run).id == RUN
    assert RUN in known_runs_table(known_runs([], [run]), now=AT)


def test_a_job_is_one_that_can_be_watched() -> None:
    view = fixed_runs.a_training_run()
    job = job_on_screen(view)
    assert job is not None
    assert job.key == "PyTorchJob default/esm1nv-pretraining"
    assert job_on_screen(view, "network") is None
    assert job_on_screen(view, "train") == job


def test_a_view_says_whose_it_is_and_has_the_stages_of_the_copy() -> None:
    copy, bare = fixed_runs.a_training_run(), remote_view(read())
    assert [(stage.id, stage.state) for stage in bare.stages] == [("train", StageState.RUNNING)]
    assert (bare.state, bare.owner, bare.epoch) == (RunState.RUNNING, ADA, 1)
    view = remote_view(read(), copy)
    assert [(stage.id, stage.state) for stage in view.stages] == [(stage.id, stage.state) for stage in copy.stages]
    (notice,) = view.notices
    assert notice.kind is NoticeKind.ELSEWHERE
    assert "ada@bastion-1" in notice.text
    assert f"runs takeover {RUN}" in notice.text
    silent = remote_view(read(), copy, is_silent=True)
    assert (silent.state, silent.stage("train").state) == (RunState.UNKNOWN, StageState.UNKNOWN)
    assert "silent since" in silent.notices[0].text
    assert "has torn it down" in remote_view(read(), is_gone=True).notices[0].text
    assert "It has cost $341.22 so far." in bare.notices[0].text
    priced = replace(copy, prices=(HeldPrice("nodes", "train", "100"),))
    assert "has cost" not in remote_view(read(), priced).notices[0].text  # its own sum is on the screen


def test_what_the_watchdog_has_stopped_is_shown_before_its_runner_is_back() -> None:
    """A colleague saw `silent`, and looked for the jobs that went on costing."""
    said = "2026-11-26T09:44:28Z The runner's heartbeat was 11 min old: suspended PyTorchJob/default/train.\x1b[2J"
    assert STOPPED_NOTE == script.NOTE
    run = read(annotations=a_lease()["metadata"]["annotations"] | {STOPPED_NOTE: said})
    sentence = f"The watchdog in the cluster acted: {said.removesuffix(chr(27) + '[2J')}"
    assert sentence in remote_view(run, is_silent=True).notices[0].text
    table = known_runs_table(known_runs([], [run]), now=AT + 1000)
    assert f"{RUN}: {sentence}" in table
    assert "\x1b" not in table
    odd = read(annotations=a_lease()["metadata"]["annotations"] | {STOPPED_NOTE: 5})
    assert "watchdog" not in known_runs_table(known_runs([], [odd]), now=AT)


def test_of_two_places_the_later_epoch_counts_and_then_the_later_sign() -> None:
    old, new = a_run(), fixed_runs.a_remote_run(RUN, ADA, RunState.RUNNING, epoch=2, created_at=AT - 60, seen_at=AT - 9)
    assert newest_runs([old, new]) == (new,)
    silent = fixed_runs.a_remote_run(RUN, ADA, RunState.RUNNING, created_at=AT - 60, seen_at=AT - 9)
    assert newest_runs([silent, old]) == (old,)


def test_each_run_has_one_row_in_every_form(tmp_path: Path) -> None:
    runs = known_runs(fixed_runs.summaries(tmp_path), fixed_runs.remote_runs())
    assert len({run.id for run in runs}) == len(runs) == 14
    table = known_runs_table(runs, now=AT)
    assert "silent since" in table
    assert "12s ago" in table
    assert "odd: Its lease is of another form." in table
    taken = next(line for line in table.splitlines() if line.startswith("efa-nccl-tests-1121-w5c2"))
    assert "grace@bastion-2" in taken  # it was launched here
    document = known_runs_json(runs, now=AT)
    rows = json.loads(document)
    assert all(tuple(row) == FIELDS for row in rows)
    assert sum(row["here"] for row in rows) == 8
    assert formatted("csv", document, fields=FIELDS).count("\n") == 15
    for form in ("wide", "yaml"):
        assert "grace@bastion-2" in formatted(form, document, fields=FIELDS)
    assert known_runs_table((), now=AT).startswith("There is no run here")


def test_a_run_that_was_taken_over_is_refused_until_it_is_taken_back(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    note_elsewhere(folder, Operator("grace", "bastion-2"), 2, "s3://team/runs")
    with pytest.raises(RefusedError, match="grace@bastion-2") as refused:
        send_request(folder, RequestKind.CANCEL, start=False)
    assert f"eksml-tui runs takeover {folder.name} --from s3://team/runs" in refused.value.hint
    note_elsewhere(folder, Operator("grace", "bastion-2"), 1, "")  # a machine before this one
    assert load_run(folder).notices == ()
    watched_path(folder).write_bytes(b"{")
    assert read_watched(folder) is None
