"""The record of a run in its cluster: what is written, what is read of it whatever it says, and the views from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.base.errors import ConflictError, RefusedError
from actions.base.untrusted import is_plain
from actions.run.journal.elsewhere import note_elsewhere, read_elsewhere, refuse_elsewhere
from actions.run.journal.folder import fence_path
from actions.run.presence import lease
from actions.run.presence.listing import ordered
from actions.run.presence.record import (
    CREATED_KEY,
    LABELS,
    RUN_BYTES,
    RUN_KEY,
    STOPPED_NOTE,
    RemoteRun,
    RunPresence,
    job_parts,
    manifest_of,
    presence_of,
    read_run,
)
from actions.run.presence.remote_view import job_on_screen, remote_view
from actions.run.presence.report import FIELDS, cluster_runs_json, cluster_runs_table, known_runs
from actions.run.state.records import HeldPrice, Operator, StageOutline
from actions.run.state.view import Notice, NoticeKind, RunState, StageState
from actions.run.watchdog import script
from tests.support import fixed_runs
from tests.support.builders import NOW
from tests.support.fixed_cluster import RUN
from tui.cli.tables.output import formatted

ADA = Operator("ada", "bastion-1")
BEN = Operator("ben", "laptop-2")
AT = NOW.timestamp()


def a_presence() -> RunPresence:
    return presence_of(fixed_runs.a_training_run(), now=AT, owner=ADA, version="0.1.0", machine="copy/boot")


def a_document(**data: str) -> dict[str, Any]:
    document = manifest_of(a_presence(), fixed_runs._created())
    document["metadata"] |= {"uid": "uid-1", "resourceVersion": "7"}
    document["data"] |= data
    return document


def read(**data: str) -> RemoteRun:
    run = read_run(a_document(**data))
    assert run is not None
    return run


def test_what_is_written_is_read() -> None:
    run = read()
    assert (run.id, run.uid, run.version, run.error) == (RUN, "uid-1", "7", "")
    assert run.presence == a_presence()
    assert run.created == fixed_runs._created()
    assert run.owner == "ada@bastion-1"
    assert run.seen_at == AT
    assert a_presence().stage == "train"
    assert {stage.id: stage.job for stage in a_presence().stages}["train"] == "PyTorchJob/default/esm1nv-pretraining"
    assert len(json.dumps(a_document())) < 16_000


def test_outputs_are_written_that_can_be_found_nowhere_else() -> None:
    view = fixed_runs.a_training_run()
    outputs = {"zone": "us-west-2b", "long": "x" * 301, "odd": "a\x1bb"}
    stages = tuple(replace(stage, outputs=outputs) for stage in view.stages)
    published = presence_of(replace(view, stages=stages), now=AT, owner=ADA, version="").stages
    asked = {stage.id for stage in view.stages if stage.kind in ("terraform", "kubeconfig")}
    assert 0 < len(asked) < len(published)
    for stage in published:
        assert stage.outputs == ({} if stage.id in asked else {"zone": "us-west-2b"})


def test_no_credential_is_written() -> None:
    view = replace(fixed_runs.a_training_run(), store="s3://AKIAABCDEFGHIJKLMNOP/x")
    presence = presence_of(view, now=AT, owner=ADA, version="")
    created = replace(fixed_runs._created(), parameters={"token": "hf_" + "a" * 30})
    text = json.dumps(manifest_of(presence, created))
    assert "AKIAABCD" not in text
    assert "hf_aaa" not in text


def test_the_time_of_a_sign_is_the_servers() -> None:
    document = a_document()
    document["metadata"]["managedFields"] = [
        {"manager": "eksml-tui-runner", "time": "2026-11-21T12:34:56Z"},
        {"manager": "kubectl-edit", "time": "2030-01-01T00:00:00Z"},
        {"manager": "eksml-tui", "time": "nonsense"},
        "odd",
    ]
    run = read_run(document)
    assert run is not None
    assert run.seen_at == NOW.replace(hour=12, minute=34, second=56).timestamp()
    assert not run.is_silent(run.seen_at + 90)
    assert run.is_silent(run.seen_at + 91)
    assert not replace(run, presence=replace(a_presence(), state=RunState.PARKED)).is_silent(run.seen_at + 1e6)


def edited(**changes: object) -> str:
    return json.dumps({**msgspec.to_builtins(a_presence()), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 200_000,
        '{"a":' * 100_000,
        "x" * (RUN_BYTES + 1),
        edited(id="another"),
        edited(epoch="1"),
        edited(epoch=0),
        edited(epoch=1 << 70),
        edited(state="dancing"),
        edited(heartbeat="yesterday"),
        edited(heartbeat="99999-01-01T00:00:00Z"),
        edited(spent_usd="1e999"),
        edited(spent_usd="NaN"),
        edited(created_at=1e300),
        edited(owner={"user": "eve"}),
        edited(owner="eve"),
        edited(stages=[{"id": "a", "state": "running", "started_at": -1}]),
        edited(stages=[{"id": "a", "state": "running"}] * 501),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_of_another_form_cannot_be_read_and_says_why(text: str) -> None:
    run = read(**{RUN_KEY: text})
    assert run.presence is None
    assert run.error.startswith(("It has", "Its run.json"))
    assert len(run.error) <= 300
    assert remote_view(run).notices[0].text.endswith(run.error)


def test_a_later_version_may_write_more() -> None:
    assert read(**{RUN_KEY: edited(mood="good")}).presence == a_presence()


def test_text_is_filtered_and_cut() -> None:
    evil = "\x1b]0;x\x07[red]a\u202eb\n\x1b[31m" + "z" * 1_000
    run = read(**{RUN_KEY: edited(stage=evil, cluster=evil, home=evil, owner={"user": evil, "host": evil})})
    assert run.presence is not None
    for text in (run.owner, run.presence.stage, run.presence.cluster, run.presence.store):
        assert is_plain(text)
        assert "\x1b" not in text
        assert "\n" not in text
        assert text.startswith("[red]ab")
        assert len(text) <= 601


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
    assert read_run({**a_document(), **change}) is None


@pytest.mark.parametrize("data", [None, [], "text", {RUN_KEY: 7}, {}])
def test_data_of_any_type_does_no_harm(data: object) -> None:
    run = read_run({**a_document(), "data": data})
    assert run is not None
    assert run.presence is None


@pytest.mark.parametrize("text", ["{", "null", '{"kind":"output","values":{}}', "[" * 100_000, "x" * 300_000])
def test_a_damaged_first_record_leaves_the_rest(text: str) -> None:
    run = read(**{CREATED_KEY: text})
    assert run.created is None
    assert [stage.id for stage in remote_view(run).stages] == [stage.id for stage in a_presence().stages]


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda some: st.lists(some) | st.dictionaries(
    st.sampled_from([*RunPresence.__struct_fields__]), some), max_leaves=12))  # fmt: skip
def test_nothing_that_is_written_can_raise(content: object) -> None:
    run = read(**{RUN_KEY: json.dumps(content)})
    assert remote_view(run).id == RUN
    assert RUN in cluster_runs_table(known_runs([], [run]), now=AT)


def test_a_job_is_one_that_can_be_watched() -> None:
    assert job_parts("PyTorchJob/default/x") == ("PyTorchJob", "default", "x")
    for text in ("", "Secret/default/x", "Job/../x", "Job/default/a/b", "Job/default/..", "Job/Default/x"):
        assert job_parts(text) is None
    run = read()
    job = job_on_screen(run)
    assert job is not None
    assert job.key == "PyTorchJob default/esm1nv-pretraining"
    assert job_on_screen(run, "network") is None
    assert job_on_screen(run, "train") == job


def test_a_view_is_the_stages_with_their_states_and_says_whose_it_is() -> None:
    original, view = fixed_runs.a_training_run(), remote_view(read())
    assert [(stage.id, stage.title, stage.state) for stage in view.stages] == [
        (stage.id, stage.title, stage.state) for stage in original.stages
    ]
    assert (view.state, view.owner, view.epoch) == (RunState.RUNNING, ADA, 1)
    (notice,) = view.notices
    assert notice.kind is NoticeKind.ELSEWHERE
    assert "ada@bastion-1" in notice.text
    assert f"runs takeover {RUN}" in notice.text
    silent = remote_view(read(), is_silent=True)
    assert (silent.state, silent.stage("train").state) == (RunState.UNKNOWN, StageState.UNKNOWN)
    assert "silent since" in silent.notices[0].text
    assert "has torn it down" in remote_view(read(), is_gone=True).notices[0].text


def test_what_the_watchdog_has_stopped_is_shown_before_its_runner_is_back() -> None:
    """A colleague saw `silent`, and looked for the jobs that went on costing."""
    said = "2026-11-26T09:44:28Z The runner's heartbeat was 11 min old: suspended PyTorchJob/default/train.\x1b[2J"
    assert STOPPED_NOTE == script.NOTE
    document = a_document()
    document["metadata"]["annotations"] = {STOPPED_NOTE: said}
    run = read_run(document)
    assert run is not None
    sentence = f"The watchdog in the cluster acted: {said.removesuffix(chr(27) + '[2J')}"
    assert sentence in remote_view(run, is_silent=True).notices[0].text
    table = cluster_runs_table(known_runs([], [run]), now=AT + 1000)
    assert f"{RUN}: {sentence}" in table
    assert "\x1b" not in table
    document["metadata"]["annotations"] = {STOPPED_NOTE: 5}
    assert "watchdog" not in cluster_runs_table(known_runs([], [odd] if (odd := read_run(document)) else []), now=AT)


def test_of_record_and_copy_the_one_with_the_later_epoch_names_the_machine() -> None:
    copy = fixed_runs.a_training_run()
    view = remote_view(read(), copy)
    assert view.stage("train").message == copy.stage("train").message
    assert view.owned == copy.owned
    costly = replace(read(), presence=replace(a_presence(), spent_usd="5.0000"))
    assert "It has cost $5.00 so far." in remote_view(costly).notices[0].text
    priced = replace(copy, prices=(HeldPrice("nodes", "train", "100"),))
    assert "has cost" not in remote_view(costly, priced).notices[0].text  # its own sum is on the screen
    notice = Notice(NoticeKind.ELSEWHERE, "It belongs to ben@laptop-2; here it can only be watched.")
    taken = replace(copy, epoch=2, owner=BEN, notices=(notice,))
    seen = remote_view(read(), taken, is_silent=True)
    assert (seen.epoch, seen.owner, seen.state, seen.notices) == (2, BEN, taken.state, (notice,))
    later = replace(a_presence(), epoch=3, owner=ADA)
    assert remote_view(replace(read(), presence=later), taken).owner == ADA


def test_a_record_in_another_namespace_is_no_match_for_that_in_default() -> None:
    own, copy = read(), replace(read(), namespace="eve", seen_at=AT + 1e6, uid="uid-2")
    assert ordered([copy, own]) == (own,)
    assert ordered([copy]) == (copy,)


def test_each_run_has_one_row_in_every_form(tmp_path: Path) -> None:
    runs = known_runs(fixed_runs.summaries(tmp_path), fixed_runs.remote_runs())
    assert len({run.id for run in runs}) == len(runs) == 14
    table = cluster_runs_table(runs, now=AT)
    assert "silent since" in table
    assert "12s ago" in table
    assert "odd: Its run.json is of another form." in table
    taken = next(line for line in table.splitlines() if line.startswith("efa-nccl-tests-1121-w5c2"))
    assert "grace@bastion-2" in taken  # it was launched here
    document = cluster_runs_json(runs, now=AT)
    rows = json.loads(document)
    assert all(tuple(row) == FIELDS for row in rows)
    assert sum(row["here"] for row in rows) == 8
    assert formatted("csv", document, fields=FIELDS).count("\n") == 15
    for form in ("wide", "yaml"):
        assert "grace@bastion-2" in formatted(form, document, fields=FIELDS)
    assert cluster_runs_table((), now=AT).startswith("There is no run on this machine")


def test_a_run_that_was_taken_over_is_refused_until_it_is_taken_back(tmp_path: Path) -> None:
    view = fixed_runs.a_training_run()
    refuse_elsewhere(tmp_path, view)
    note_elsewhere(tmp_path, Operator("grace", "bastion-2"), 2)
    with pytest.raises(RefusedError, match="grace@bastion-2") as refused:
        refuse_elsewhere(tmp_path, view)
    assert refused.value.hint.endswith(f"eksml-tui runs takeover {RUN}")
    refuse_elsewhere(tmp_path, replace(view, epoch=3))
    fence_path(tmp_path).write_bytes(b"{")
    assert read_elsewhere(tmp_path, 1) is None


def test_a_stage_that_only_the_record_has_is_not_shown() -> None:
    created = replace(fixed_runs._created(), stages=(StageOutline("only", "job", "Only", (), 0.0, 0.0),))
    run = replace(read(), created=created)
    assert [stage.id for stage in remote_view(run).stages] == ["only"]


class _Cluster:
    """A cluster with one record; the earlier machine writes a heartbeat before each of the first claims."""

    session = discovery = None

    def __init__(self, heartbeats: int, **changes: Any) -> None:
        self._heartbeats = heartbeats
        self._changes = changes
        self.version = 7
        self.run = json.loads(manifest_of(a_presence(), fixed_runs._created())["data"][RUN_KEY])

    async def fetch(self, _: object) -> dict[str, Any]:
        document = a_document(**{RUN_KEY: json.dumps(self.run)})
        document["metadata"]["resourceVersion"] = str(self.version)
        return document

    async def patch(self, _: object, __: object, ___: object, patch: dict[str, Any]) -> None:
        if self._heartbeats:
            self._heartbeats -= 1
            self.version += 1
            self.run |= self._changes
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise ConflictError("the object has been modified")
        self.run = json.loads(patch["data"][RUN_KEY])


@pytest.mark.parametrize(
    ("heartbeats", "changes", "refusal"),
    [
        (0, {}, ""),
        (2, {}, ""),
        (9, {}, "has been modified"),
        (-1, {}, "ada@bastion-1 has given a sign meanwhile"),
        (1, {"epoch": 2, "owner": {"user": "eve", "host": "bastion-3"}}, r"eve@bastion-3 has taken the run over"),
        (1, {"machine": "another/boot"}, r"ada@bastion-1 has taken the run over"),
    ],
    ids=["silent", "alive", "restless", "unconfirmed", "faster", "faster, with one name"],
)
async def test_a_lease_is_claimed_between_two_heartbeats_but_not_from_another_machine(
    monkeypatch: pytest.MonkeyPatch, heartbeats: int, changes: dict[str, Any], refusal: str
) -> None:
    cluster: Any = _Cluster(abs(heartbeats), **changes)
    monkeypatch.setattr(lease, "merge_patch", cluster.patch)
    known = lease.lease_of(await cluster.fetch(None))
    claim = lease.claim_cluster_lease(
        cluster,
        known,
        Operator("ben", "b2"),
        epoch=2,
        heartbeat="2026-11-21T12:00:00Z",
        machine="own/boot",
        may_be_alive=heartbeats >= 0,
    )
    if refusal:
        with pytest.raises(ConflictError, match=refusal):
            await claim
    else:
        await claim
    assert (cluster.run["owner"]["user"] == "ben") == (not refusal)
    assert (cluster.run["machine"] == "own/boot") == (not refusal)
