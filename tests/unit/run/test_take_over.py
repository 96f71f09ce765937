"""A run taken over from a home, over a pretend world; and what is read of a run in its cluster."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import (
    AccessError,
    ConflictError,
    ConsoleError,
    MissingError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from actions.cloud.aws_session import MissingPermissionError
from actions.run.client import list_runs, load_run, resume_interrupted, send_request, set_limits, start_runner
from actions.run.context.operator import present_operator
from actions.run.context.stage_context import CLUSTER_UID, known_cluster_uid
from actions.run.engine.fence import GRACE_SECONDS
from actions.run.journal.elsewhere import FenceState, read_fence, refuse_elsewhere, write_fence
from actions.run.journal.folder import kubeconfig_path, runs_folder
from actions.run.journal.mirrored import MirrorMark, read_mark
from actions.run.journal.store import DiskFullError, append_record
from actions.run.objects.ownership import Entry, ObjectOwner
from actions.run.presence.record import StagePresence
from actions.run.report import run_json, run_table
from actions.run.state.fold import fold
from actions.run.state.records import (
    Action,
    Body,
    Intent,
    JournalRecord,
    Limits,
    Operator,
    Outcome,
    Output,
    Owned,
    RequestKind,
    Result,
    RunRequest,
    TakenOver,
)
from actions.run.state.view import OwnedObject, StageState
from actions.run.store.lease import LEASE_SECONDS
from actions.run.store.local import LocalStore
from actions.run.store.objects import LeaseDocument, StoreLease
from actions.run.takeover import access, arrival, take_over
from actions.run.takeover.arrival import Searched, arrival_records, gone_sentences
from actions.run.takeover.evidence import FoundObject, FoundObjects, own_objects, rebuilt_stages, records_of
from actions.run.takeover.take_over import take_over_run
from tests.unit.run.world import creation, make_run, outline

CLOCK = SystemClock()
ANNA = Operator("anna", "bastion-1")
RUN = "fake-1121-0001"


def a_lease(epoch: int, owner: Operator, age_seconds: float = 3600.0) -> StoreLease:
    """A lease that holds for half a minute."""
    document = LeaseDocument(epoch, owner, "", "", LEASE_SECONDS, "")
    return StoreLease(document, f"tag-{epoch}", 0.0, age_seconds)


class Home:
    """A home that is a folder."""

    def __init__(self, folder: Path, lease: StoreLease | None) -> None:
        self.folder = folder
        self.lease = lease
        self.is_away = False
        self.fault: ConsoleError | None = None
        self.takes_records = True

    async def read(self, run_id: str) -> StoreLease | None:
        return self.lease

    async def take(self, run_id: str, owner: Operator, *, after: Any) -> StoreLease:
        if after != self.lease:
            raise ConflictError("another has taken it")
        self.lease = a_lease(after.epoch + 1, owner, 0.0)
        return self.lease

    async def record(self, run_id: str, body: TakenOver, lease: Any) -> None:
        assert body.epoch == lease.epoch
        if not self.takes_records:
            raise UnreachableError("the home does not answer")
        append_record(self.folder, body, deed="the takeover")

    async def fetch(self, run_id: str, folder: Path) -> None:
        if self.is_away:
            raise UnreachableError("the home does not answer")
        if self.fault is not None:
            raise self.fault
        shutil.copytree(self.folder, folder)

    async def look(self, run_id: str, folder: Path) -> None:
        await self.fetch(run_id, folder)


class SlowClock(SystemClock):
    """Counts what it is asked to wait."""

    def __init__(self) -> None:
        self.waited = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    return Home(make_run(tmp_path / "there", CLOCK), a_lease(1, ANNA))


async def test_a_run_without_a_sign_is_taken_over_at_once(home: Home) -> None:
    clock = SlowClock()
    done = await take_over_run(RUN, home, clock, starts=False)
    view = load_run(done.folder)
    assert done.folder == runs_folder() / RUN
    assert (view.epoch, str(view.owner), done.previous) == (2, str(present_operator()), ANNA)
    assert clock.waited == 0
    assert not read_fence(done.folder).epoch
    assert f"{present_operator()}, who took it over (epoch 2)" in run_table(view)


async def test_one_that_may_be_alive_needs_its_id_and_some_seconds(home: Home) -> None:
    home.lease = a_lease(1, ANNA, 4.0)
    clock = SlowClock()
    for typed in ("", "yes"):
        with pytest.raises(UsageError, match=r"anna@bastion-1 carries out .* 4 s old"):
            await take_over_run(RUN, home, clock, confirm=typed, starts=False)
    assert home.lease.epoch == 1
    assert not (runs_folder() / RUN).exists()
    said: list[str] = []
    await take_over_run(RUN, home, clock, confirm=RUN, starts=False, say=said.append)
    assert clock.waited == GRACE_SECONDS
    assert said[-1] == (
        f"Waiting {GRACE_SECONDS:.0f} s, as anna@bastion-1 may be alive and about to change something: "
        "the last heartbeat in its store is 4 s old."
    )


async def test_what_the_earlier_machine_makes_meanwhile_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last records may not have reached the home, and for some seconds it may still be about to make something."""
    first = replace(creation(), stages=(outline("access", kind="kubeconfig"),))
    home = Home(make_run(tmp_path / "other", CLOCK, created=first), a_lease(1, ANNA, 4.0))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    clock = SlowClock()
    searched: list[float] = []

    async def connect(folder: Path, *_: Any, **__: Any) -> tuple[dict[str, str], None]:
        kubeconfig_path(folder).write_text("{}")
        return {}, None

    async def claim(*_: Any) -> str:
        return ""

    async def search(*_: Any, **__: Any) -> Searched:
        searched.append(clock.waited)
        return Searched()

    monkeypatch.setattr(access, "connect_here", connect)
    monkeypatch.setattr(take_over, "_claimed", claim)
    monkeypatch.setattr(take_over, "record_strays", search)
    await take_over_run(RUN, home, clock, confirm=RUN, starts=False)
    assert searched == [0.0, GRACE_SECONDS]


class Renewed(Home):
    """A home whose machine renews its lease before each of the first takes."""

    def __init__(self, folder: Path, lease: StoreLease, renewals: int, owner: Operator = ANNA) -> None:
        super().__init__(folder, lease)
        self.renewals = renewals
        self.owner = owner

    async def take(self, run_id: str, owner: Operator, *, after: Any) -> StoreLease:
        if self.renewals and self.lease is not None:
            self.renewals -= 1
            self.lease = replace(
                self.lease,
                document=replace(self.lease.document, owner=self.owner),
                tag=f"{self.lease.tag}+",
                age_seconds=0.0,
            )
        return await super().take(run_id, owner, after=after)


@pytest.mark.parametrize(
    ("renewals", "owner", "confirm", "refusal"),
    [
        (2, ANNA, RUN, None),
        (9, ANNA, RUN, ConflictError),
        (1, ANNA, "", UsageError),
        (1, Operator("eve", "bastion-3"), RUN, ConflictError),
    ],
    ids=["alive", "restless", "unconfirmed", "another machine"],
)
async def test_a_lease_is_taken_between_two_renewals_of_the_earlier_machine(
    home: Home, renewals: int, owner: Operator, confirm: str, refusal: type[ConsoleError] | None
) -> None:
    renewed = Renewed(home.folder, a_lease(1, ANNA), renewals, owner)
    if refusal is None:
        done = await take_over_run(RUN, renewed, SlowClock(), confirm=confirm, starts=False)
        assert (done.epoch, done.previous) == (2, ANNA)
        return
    with pytest.raises(refusal) as refused:
        await take_over_run(RUN, renewed, SlowClock(), confirm=confirm, starts=False)
    if owner != ANNA:  # who takes a run over has never carried it out, and is not told to stop
        assert refused.value.message == f"{owner} has taken over {RUN} at the same moment. Nothing was changed here."
    assert renewed.lease is not None
    assert renewed.lease.epoch == 1


def test_what_is_gone_although_its_stage_has_finished_is_told() -> None:
    stages = (outline("volume", kind="storage"), outline("objects", kind="manifests"), outline("train", kind="job"))
    names = {"volume": "PersistentVolumeClaim", "objects": "Namespace", "train": "Job"}
    bodies: list[tuple[str, Body]] = []
    for stage, kind in names.items():
        bodies.append((stage, Intent(Action.PERFORM)))
        bodies.append((stage, Owned("v1", f"a-{kind.lower()}", kind, uid=f"uid-{stage}")))
        bodies.append((stage, Outcome(Action.PERFORM, Result.DONE, "")))
    first = JournalRecord(1, 0.0, "operator", "", 0, replace(creation(), stages=stages))
    records = [JournalRecord(seq, 0.0, "r", stage, 1, body) for seq, (stage, body) in enumerate(bodies, start=2)]
    view = fold([first, *records])
    assert gone_sentences(view, frozenset({"uid-volume", "uid-objects"})) == ()
    (sentence,) = gone_sentences(view, frozenset({"uid-volume"}))
    assert sentence.startswith("Of what its finished stages have made is gone: Namespace a-namespace. ")
    asked = JournalRecord(99, 0.0, "operator", "", 0, RunRequest(RequestKind.TEARDOWN))
    assert gone_sentences(fold([first, *records, asked]), frozenset()) == ()


class Unknowing:
    """The backend of a run whose cluster has no record of it."""

    def __init__(self, *_: object) -> None: ...

    async def cluster_of(self, _: object) -> Unknowing:
        return self

    @property
    def session(self) -> Unknowing:
        return self

    async def cluster_uid(self) -> str:
        return "uid-cluster"

    def read_only_context(self, _: object) -> SimpleNamespace:
        return SimpleNamespace(blueprint=None)

    async def aclose(self) -> None: ...


class InCluster(LocalStore):
    """The store in a cluster, which may refuse leases."""

    refusal: ConsoleError | None = None

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        if self.refusal is not None:
            raise self.refusal
        return await super().put_lease(run_id, document, after=after)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InCluster:
    store = InCluster(tmp_path / "cluster")

    async def chosen(*_: object) -> InCluster:
        return store

    monkeypatch.setattr(take_over, "LiveBackend", Unknowing)
    monkeypatch.setattr(take_over, "cluster_store", lambda *_: store)
    monkeypatch.setattr(take_over, "chosen_cluster_store", chosen)
    return store


@pytest.mark.parametrize("refusal", [None, AccessError("You may not create Leases.")])
async def test_a_cluster_that_does_not_know_the_run_yet_gets_its_lease_with_the_takeover(
    tmp_path: Path, cluster: InCluster, refusal: ConsoleError | None
) -> None:
    first = replace(creation(), stages=(outline("access", kind="kubeconfig"),))
    folder = make_run(tmp_path, CLOCK, created=first)
    cluster.refusal = refusal
    with arrival_records(folder, CLOCK) as records:
        records.write(TakenOver(present_operator(), 2, ANNA))
        for _ in range(2):
            assert not await take_over._claimed(folder, records, CLOCK, a_lease(2, present_operator()))
            records.write(Output({CLUSTER_UID: "uid"}), stage="access", attempt=1)  # before, it may be another cluster
    found = await cluster.lease(RUN)
    known = (found.owner, found.epoch) if found else None
    assert known == (None if refusal else (present_operator(), 2))


@pytest.mark.parametrize("has_made", [True, False])
async def test_what_the_earlier_machine_has_made_in_a_cluster_tells_that_it_is_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: InCluster, *, has_made: bool
) -> None:
    """It was cut off before the home knew that the run had reached the cluster, and comes back there first."""
    first = replace(creation(), stages=(outline("access", kind="kubeconfig"), outline("objects", kind="manifests")))
    folder = make_run(tmp_path, CLOCK, created=first)
    kubeconfig_path(folder).write_text("{}")
    item = OwnedObject("objects", "v1", "Namespace", "", "trial", "uid-trial", existed=False, is_deleted=False)

    async def found(*_: Any, **__: Any) -> tuple[FoundObjects, tuple[str, ...]]:
        return FoundObjects(own=(FoundObject(item, 1.0),) if has_made else ()), ()

    monkeypatch.setattr(arrival, "LiveBackend", Unknowing)
    monkeypatch.setattr(arrival, "objects_of", found)
    with arrival_records(folder, CLOCK) as records:
        records.write(TakenOver(present_operator(), 2, ANNA))
        await take_over._searched(folder, records, CLOCK, a_lease(2, present_operator()), since=0.0)
        view = records.view()
    assert known_cluster_uid(view) == ("uid-cluster" if has_made else "")
    assert view.stage("access").state is StageState.PENDING
    lease = await cluster.lease(RUN)
    assert (lease.epoch if lease else 0) == (2 if has_made else 0)


async def test_a_machine_that_is_gone_is_not_waited_for(home: Home) -> None:
    home.lease = a_lease(1, ANNA, 4.0)
    clock = SlowClock()
    done = await take_over_run(RUN, home, clock, confirm=RUN, is_machine_gone=True, starts=False)
    assert clock.waited == 0
    assert load_run(done.folder).epoch == 2


async def test_a_run_that_cannot_be_fetched_leaves_nothing_here(home: Home) -> None:
    home.is_away = True
    with pytest.raises(UnreachableError, match="does not answer") as raised:
        await take_over_run(RUN, home, CLOCK, starts=False)
    assert "repeat the command" in raised.value.hint
    assert list_runs() == []
    home.is_away = False
    home.lease = a_lease(2, present_operator())
    await take_over_run(RUN, home, CLOCK, starts=False)
    assert load_run(runs_folder() / RUN).epoch == 3


@pytest.mark.parametrize(
    "fault",
    [MissingPermissionError("AWS denies s3:GetObject.", "s3:GetObject"), DiskFullError(Path("journal.db"))],
    ids=["right", "disk"],
)
async def test_every_reason_not_to_fetch_a_run_is_a_sentence_that_says_what_to_do(
    home: Home, fault: ConsoleError
) -> None:
    home.fault = fault
    with pytest.raises(type(fault)) as raised:
        await take_over_run(RUN, home, CLOCK, starts=False)
    assert raised.value.hint.endswith("repeat the command.")
    assert list_runs() == []


def test_a_copy_that_could_not_be_refreshed_gives_the_time_of_its_zone() -> None:
    (_, old) = MirrorMark("s3://team/runs", 0.0).notices(RUN, 1000.0, is_unattended=False)
    assert old.text.endswith("this is the run as of 00:00:00 UTC.")


async def test_a_takeover_whose_record_is_not_taken_says_that_it_has_to_be_repeated(home: Home) -> None:
    home.takes_records = False
    with pytest.raises(UnreachableError) as raised:
        await take_over_run(RUN, home, CLOCK, starts=False)
    assert raised.value.hint == "The lease is this machine's: repeat the command."
    assert list_runs() == []


class CutShort(SlowClock):
    """Ends the command while it waits, as ^C does."""

    async def sleep(self, seconds: float) -> None:
        raise asyncio.CancelledError


async def test_a_run_whose_takeover_was_interrupted_is_not_carried_out_before_it_is_repeated(home: Home) -> None:
    home.lease = a_lease(1, ANNA, 4.0)
    with pytest.raises(asyncio.CancelledError):  # the earlier machine may still be about to change something
        await take_over_run(RUN, home, CutShort(), confirm=RUN, starts=False)
    folder = runs_folder() / RUN
    assert resume_interrupted() == []
    for refused in (lambda: start_runner(folder), lambda: send_request(folder, RequestKind.TEARDOWN, start=False)):
        with pytest.raises(RefusedError, match="about to be taken over by this machine") as raised:
            refused()
        assert f"eksml-tui runs adopt CLUSTER {RUN}" in raised.value.hint  # this one has no home in its records
    assert "has not come to its end" in run_table(load_run(folder))
    clock = SlowClock()
    done = await take_over_run(RUN, home, clock, confirm=RUN, starts=False)
    assert (load_run(done.folder).epoch, clock.waited, read_mark(done.folder)) == (3, GRACE_SECONDS, None)
    send_request(done.folder, RequestKind.TEARDOWN, start=False)


async def test_an_unknown_run_and_one_of_this_machine_are_refused(home: Home) -> None:
    done = await take_over_run(RUN, home, CLOCK, starts=False)
    with pytest.raises(RefusedError, match="This machine has it already"):
        await take_over_run(RUN, home, CLOCK, confirm=RUN, starts=False)
    home.lease = None
    with pytest.raises(MissingError) as missing:
        await take_over_run("another", home, CLOCK, starts=False)
    assert "runs adopt CLUSTER" in missing.value.hint
    assert done.folder.exists()


async def test_a_fenced_run_is_neither_resumed_nor_asked_for_anything(home: Home) -> None:
    done = await take_over_run(RUN, home, CLOCK, starts=False)
    write_fence(done.folder, FenceState(taken_by=ANNA, epoch=3))
    for refused in (
        lambda: start_runner(done.folder),
        lambda: send_request(done.folder, RequestKind.TEARDOWN, start=False),
        lambda: refuse_elsewhere(done.folder, load_run(done.folder)),
        lambda: set_limits(done.folder, Limits(budget_usd="5"), start=False),
    ):
        with pytest.raises(RefusedError, match=r"taken over by anna@bastion-1 \(epoch 3\)"):
            refused()
    assert resume_interrupted() == []
    assert home.lease is not None
    home.lease = replace(home.lease, document=replace(home.lease.document, epoch=3, owner=ANNA), age_seconds=3600.0)
    again = await take_over_run(RUN, home, CLOCK, starts=False)
    assert load_run(again.folder).epoch == 4
    refuse_elsewhere(again.folder, load_run(again.folder))


def test_requests_name_who_made_them(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    send_request(folder, RequestKind.PAUSE, start=False)
    send_request(folder, RequestKind.TEARDOWN, start=False, by=ANNA)
    view = load_run(folder)
    assert [str(request.by) for request in view.requests] == [str(present_operator()), "anna@bastion-1"]
    assert "teardown  by anna@bastion-1" in run_table(view)
    assert json.loads(run_json(view))["requests"][1]["by"] == "anna@bastion-1"


MANAGED = frozenset({"eksml-tui"})


def entry(name: str, **more: Any) -> Entry:
    known: dict[str, Any] = {
        "run": RUN, "stage": "train", "managers": MANAGED, "created_at": 2000.0, "uid": f"uid-{name}", **more
    }  # fmt: skip
    return Entry("batch", "Job", "work", name, **known)


def test_only_what_all_evidence_is_for_counts_as_the_runs() -> None:
    found = own_objects(
        [
            entry("ours"),
            entry("older", created_at=100.0),
            entry("copied", managers=frozenset({"kubectl"})),
            entry("elsewhere", stage="unknown"),
            entry("known", uid="known"),
            entry("part", owners=(ObjectOwner("batch/v1", "Job", "ours", "uid-ours"),)),
            entry("going", is_going=True),
        ],
        run_id=RUN,
        stages={"train"},
        since=1000.0,
        versions={("batch", "Job"): "batch/v1"},
        known=frozenset({"known"}),
    )
    assert [one.item.name for one in found.own] == ["ours"]
    assert found.own[0].item.is_adopted
    assert [line.partition(":")[0] for line in found.doubtful] == [
        "Job work/older",
        "Job work/copied",
        "Job work/elsewhere",
    ]


OUTLINES = (
    outline("provision", "terraform"),
    outline("operators", "manifests", ("provision",)),
    outline("train", "job", ("operators",)),
    outline("export", "job", ("train",)),
)


def test_stages_follow_from_what_they_have_made() -> None:
    stages = rebuilt_stages(OUTLINES, made={"train": [1500.0]}, published=(), launched_at=1000.0, may_perform=False)
    assert [(stage.id, stage.state) for stage in stages] == [
        ("provision", StageState.SUCCEEDED),
        ("operators", StageState.SUCCEEDED),
        ("train", StageState.UNKNOWN),
        ("export", StageState.PENDING),
    ]


def test_a_stage_under_way_whose_parameters_are_lost_is_not_performed_again() -> None:
    for may_perform, state in ((True, StageState.UNKNOWN), (False, StageState.FAILED)):
        stages = rebuilt_stages(
            OUTLINES, made={"operators": [1500.0]}, published=(), launched_at=1000.0, may_perform=may_perform
        )
        assert [stage.state for stage in stages] == [
            StageState.SUCCEEDED,
            state,
            StageState.PENDING,
            StageState.PENDING,
        ]


def test_what_the_lost_runner_has_published_counts_first() -> None:
    published = (
        StagePresence("provision", StageState.SUCCEEDED, 2, 1100.0, 1200.0),
        StagePresence("operators", StageState.FAILED, 1, 1200.0, 1300.0),
    )
    stages = rebuilt_stages(OUTLINES, made={}, published=published, launched_at=1000.0, may_perform=True)
    assert [stage.state for stage in stages[:3]] == [StageState.SUCCEEDED, StageState.FAILED, StageState.PENDING]
    assert (stages[0].began_at, stages[0].ended_at, stages[0].attempt) == (1100.0, 1200.0, 2)


def test_a_stage_that_the_parameters_of_this_machine_skip_counts_if_the_run_has_begun_it() -> None:
    outlines = tuple(replace(each, is_skipped=each.id != "train") for each in OUTLINES)
    published = (
        StagePresence("provision", StageState.SUCCEEDED, 1, 1100.0, 1200.0),
        StagePresence("export", StageState.SKIPPED),
    )
    stages = rebuilt_stages(
        outlines, made={"operators": [1300.0]}, published=published, launched_at=1000.0, may_perform=False
    )
    assert [(stage.id, stage.state) for stage in stages] == [
        ("provision", StageState.SUCCEEDED),
        ("operators", StageState.FAILED),
        ("train", StageState.PENDING),
    ]


def test_the_rebuilt_records_fold_to_a_run_with_what_it_owns() -> None:
    created = replace(creation(), stages=OUTLINES)
    found = own_objects(
        [entry("ours")], run_id=RUN, stages={"train"}, since=1000.0, versions={("batch", "Job"): "batch/v1"}
    )
    stages = rebuilt_stages(OUTLINES, made={"train": [2000.0]}, published=(), launched_at=1000.0, may_perform=True)
    bodies = records_of(stages, found.own)
    assert [body.at for body in bodies] == sorted(body.at for body in bodies)
    records = [JournalRecord(1, 1000.0, "operator", "", 0, created)]
    records += [
        JournalRecord(2 + index, each.at, "operator", each.stage, each.attempt, each.body)
        for index, each in enumerate(bodies)
    ]
    view = fold(records)
    assert any(isinstance(each.body, Owned) for each in bodies)
    assert view.stage("train").state is StageState.UNKNOWN
    assert [item.uid for item in view.owned_by("train")] == ["uid-ours"]
    assert view.made_uids == {"uid-ours"}


async def test_the_console_asks_for_the_runs_id(tmp_path: Path) -> None:
    from actions.command.parse import parse_line
    from tui.commands.confirmations import confirmation_for, confirmed_arguments
    from tui.feeds.runs import RunFeed

    call = parse_line(f"takeover {RUN} machine_is_gone=true")
    confirmation = confirmation_for(call, RunFeed(SystemClock(), lambda: None))
    assert confirmation is not None
    assert (confirmation.word, confirmation.word_is) == (RUN, "the run's id")
    assert getattr(confirmed_arguments(call, None), "confirm", "") == RUN
