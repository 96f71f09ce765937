"""A run taken over from a store that is a folder."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import (
    ConflictError,
    ConsoleError,
    FormatError,
    MissingError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from actions.base.executors import in_thread
from actions.base.objects import ListedObject, WriteReceipt
from actions.cloud.aws_session import MissingPermissionError
from actions.run.client import list_runs, load_run, resume_interrupted, send_request, set_limits, start_runner
from actions.run.context.operator import present_operator
from actions.run.context.stage_context import known_cluster_uid
from actions.run.context.store_address import run_key
from actions.run.journal.folder import journal_path, kubeconfig_path, runs_folder
from actions.run.journal.store import DiskFullError, Journal
from actions.run.journal.watched import read_watched
from actions.run.objects.ownership import Entry, ObjectOwner
from actions.run.report import run_json, run_table
from actions.run.state.fold import fold
from actions.run.state.planner import Reconcile, next_step, teardown_order
from actions.run.state.records import (
    Action,
    Body,
    Created,
    Intent,
    JournalRecord,
    Limits,
    Operator,
    Outcome,
    Owned,
    RequestKind,
    Result,
    RunRequest,
    TakenOver,
)
from actions.run.state.view import OwnedObject, StageState
from actions.run.store.elsewhere import note_elsewhere
from actions.run.store.fence import GRACE_SECONDS
from actions.run.store.files import LAUNCHED, launched_archive, small_files
from actions.run.store.lease import LEASE_SECONDS, take_lease
from actions.run.store.objects import LEASE, DamagedError, LeaseDocument, RunAbout, RunStatus, StoreLease
from actions.run.store.rows import append_rows, rows_name
from actions.run.takeover import reach, strays, takeover
from actions.run.takeover.arrival import arrival_records
from actions.run.takeover.strays import FoundObjects, Searched, gone_sentences, own_objects
from actions.run.takeover.takeover import take_over_run
from tests.support.local_store import LocalStore
from tests.unit.run.world import creation, make_run, outline

CLOCK = SystemClock()
ANNA = Operator("anna", "bastion-1")
RUN = "fake-1121-0001"


class FolderStore(LocalStore):
    """A store in a folder, which can fail."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.fault: ConsoleError | None = None
        """For all but leases."""
        self.takes_records = True
        self.renewals = 0
        """The times that another machine renews its lease, each before one of ours."""
        self.renewed_by = ANNA

    async def objects(self, prefix: str) -> list[ListedObject]:
        if self.fault is not None and not prefix.endswith("journal/"):
            raise self.fault
        return await super().objects(prefix)

    async def replace(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        if not self.takes_records and "/journal/" in name:
            raise UnreachableError("the store does not answer")
        return await super().replace(name, data, etag=etag)

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        if self.renewals and after is not None:
            self.renewals -= 1
            other = replace(after.document, owner=self.renewed_by, seconds=LEASE_SECONDS, nonce=f"n-{self.renewals}")
            await super().put_lease(run_id, other, after=after)
        return await super().put_lease(run_id, document, after=after)

    async def let(self, *, epoch: int = 1, owner: Operator = ANNA, age_seconds: float = 3600.0) -> None:
        """Let a machine have the lease, renewed some seconds ago."""
        await take_lease(self, RUN, owner, after=await self.lease(RUN), epoch=epoch, about=RunAbout(RUN))
        at = time.time() - age_seconds
        os.utime(self.folder / "runs" / RUN / "lease.json", (at, at))

    async def known(self) -> StoreLease:
        lease = await self.lease(RUN)
        assert lease is not None
        return lease


async def put(store: LocalStore, folder: Path) -> None:
    """Write records and files of a run into a store."""
    journal = Journal(journal_path(folder), CLOCK)
    await append_rows(store, folder.name, journal.rows(), epoch=1)
    journal.close()
    for name, data in {**small_files(folder), LAUNCHED: launched_archive(folder)}.items():
        await store.put_if_absent(run_key(folder.name, f"files/{name}"), data)


class SlowClock(SystemClock):
    """Counts what it is asked to wait."""

    def __init__(self) -> None:
        self.waited = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds


def a_store(tmp_path: Path, created: Created | None = None) -> FolderStore:
    """A store with a run of anna's, of which nothing was heard for an hour."""
    store = FolderStore(tmp_path / "store")

    async def fill() -> None:
        await put(store, make_run(tmp_path / "there", CLOCK, created=created))
        await store.let()

    asyncio.run(fill())
    return store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    return a_store(tmp_path)


async def test_a_run_without_a_sign_is_taken_over_at_once(home: FolderStore) -> None:
    clock = SlowClock()
    done = await take_over_run(RUN, home, clock, starts=False)
    view = load_run(done.folder)
    assert done.folder == runs_folder() / RUN
    assert (view.epoch, str(view.owner), done.previous) == (2, str(present_operator()), ANNA)
    assert clock.waited == 0
    assert read_watched(done.folder) is None
    assert f"{present_operator()}, who took it over (epoch 2)" in run_table(view)


async def test_one_that_may_be_alive_needs_its_id_and_some_seconds(home: FolderStore) -> None:
    await home.let(age_seconds=4.0)
    clock = SlowClock()
    for typed in ("", "yes"):
        with pytest.raises(UsageError, match=r"anna@bastion-1 carries out .* 4 s old"):
            await take_over_run(RUN, home, clock, confirm=typed, starts=False)
    assert (await home.known()).epoch == 1
    assert not (runs_folder() / RUN).exists()
    said: list[str] = []
    await take_over_run(RUN, home, clock, confirm=RUN, starts=False, say=said.append)
    assert clock.waited == GRACE_SECONDS
    assert said[-1] == (
        f"Waiting {GRACE_SECONDS:.0f} s, as anna@bastion-1 may be alive and about to change something: "
        f"the last heartbeat in {home.address} is 4 s old."
    )


async def test_what_the_earlier_machine_makes_meanwhile_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last records may not have reached the home, and for some seconds it may still be about to make something."""
    first = replace(creation(), stages=(outline("access", kind="kubeconfig"),))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    home = await in_thread("test", a_store, tmp_path, first)
    await home.let(age_seconds=4.0)
    clock = SlowClock()
    searched: list[float] = []

    async def connect(folder: Path, *_: Any) -> None:
        kubeconfig_path(folder).write_text("{}")

    async def point(*_: Any) -> str:
        return ""

    async def search(*_: Any, **__: Any) -> Searched:
        searched.append(clock.waited)
        return Searched()

    monkeypatch.setattr(reach, "_connect", connect)
    monkeypatch.setattr(takeover, "_pointed", point)
    monkeypatch.setattr(takeover, "record_strays", search)
    await take_over_run(RUN, home, clock, confirm=RUN, starts=False)
    assert searched == [0.0, GRACE_SECONDS]


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
    home: FolderStore, renewals: int, owner: Operator, confirm: str, refusal: type[ConsoleError] | None
) -> None:
    home.renewals, home.renewed_by = renewals, owner
    if refusal is None:
        done = await take_over_run(RUN, home, SlowClock(), confirm=confirm, starts=False)
        assert (done.epoch, done.previous) == (2, ANNA)
        return
    with pytest.raises(refusal) as refused:
        await take_over_run(RUN, home, SlowClock(), confirm=confirm, starts=False)
    if owner != ANNA:  # who takes a run over has never carried it out, and is not told to stop
        assert refused.value.message == f"{owner} has taken over {RUN} at the same moment. Nothing was changed here."
    assert (await home.known()).epoch == 1


@pytest.mark.parametrize("is_missing", [True, False])
async def test_a_record_that_only_the_earlier_machine_can_write_again_leaves_it_the_run(
    home: FolderStore, *, is_missing: bool
) -> None:
    first = home.folder / run_key(RUN, rows_name(1))
    if is_missing:
        first.rename(first.with_name("000000000007.jsonl"))
    else:
        first.write_bytes(first.read_bytes()[:-3] + b"x\n")
    before = await home.known()
    with pytest.raises(FormatError) as refused:
        await take_over_run(RUN, home, SlowClock(), confirm=RUN, is_machine_gone=True, starts=False)
    if not is_missing:
        assert refused.value.hint == "Resume it on the machine that has it: that writes it again."
    assert (await home.known()).document == before.document


async def test_an_object_of_no_record_is_named_to_who_takes_the_run_over(home: FolderStore) -> None:
    junk = run_key(RUN, rows_name(999_999))
    await home.put_if_absent(junk, b"junk")
    with pytest.raises(FormatError, match=f"lacks record 2: {junk} follows, and is damaged") as refused:
        await take_over_run(RUN, home, SlowClock(), starts=False)
    assert refused.value.hint == "Remove that object, if the run's own machine does not write it again."
    await home.delete(junk)
    assert (await take_over_run(RUN, home, SlowClock(), starts=False)).epoch == 2


async def test_a_store_that_lacks_its_newest_records_is_not_taken_for_whole(home: FolderStore) -> None:
    lease = await home.known()
    await home.put_lease(
        RUN, replace(lease.document, seconds=0.0, status=RunStatus(last_seq=4), nonce="n"), after=lease
    )
    with pytest.raises(FormatError, match="ends with record 1, and has had 4") as refused:
        await take_over_run(RUN, home, SlowClock(), confirm=RUN, starts=False)
    assert refused.value.hint.endswith("If it no longer exists: --machine-is-gone.")
    assert (await home.known()).epoch == 1
    said: list[str] = []
    done = await take_over_run(RUN, home, SlowClock(), is_machine_gone=True, starts=False, say=said.append)
    assert done.epoch == 2
    assert "ends with record 1, and has had 4. What the run did after that is not known." in said[0]


@pytest.mark.parametrize(("damage", "epoch"), [(b"{", 1), (b'{"epoch": 6, "owner": 1}', 6), (b'{"epoch": 9999999}', 1)])
async def test_over_a_damaged_lease_a_run_is_taken_over_if_its_machine_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes, epoch: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    home = await in_thread("test", a_store, tmp_path, replace(creation(), owner=ANNA))
    (home.folder / run_key(RUN, LEASE)).write_bytes(damage)
    for confirm, is_gone in ((RUN, False), ("", True)):
        with pytest.raises(DamagedError) as refused:
            await take_over_run(RUN, home, SlowClock(), confirm=confirm, is_machine_gone=is_gone, starts=False)
        assert refused.value.hint.startswith("Resume it on the machine that has it: that writes it again.")
        assert refused.value.hint.endswith(f"If it no longer exists: --confirm {RUN} --machine-is-gone.")
    done = await take_over_run(RUN, home, SlowClock(), confirm=RUN, is_machine_gone=True, starts=False)
    assert (done.epoch, done.previous) == (epoch + 1, ANNA)
    known = await home.known()
    assert (known.epoch, known.run_id, known.about.title) == (epoch + 1, RUN, creation().title)


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
    """The backend of a run whose cluster its journal does not know."""

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


async def pointed(home: FolderStore, cluster: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the epoch of a takeover into the run's cluster, as a takeover does."""

    @asynccontextmanager
    async def found(*_: object) -> AsyncIterator[LocalStore]:
        yield cluster

    monkeypatch.setattr(takeover, "cluster_store", found)
    lease = await take_lease(home, RUN, present_operator(), after=await home.known())
    with arrival_records(folder, CLOCK) as records:
        return await takeover._pointed(folder, records, CLOCK, lease, home)


async def test_the_cluster_names_the_new_machine_to_one_that_reaches_the_cluster_alone(
    home: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, folder = LocalStore(tmp_path / "cluster"), tmp_path / "there" / "runs" / RUN
    await take_lease(cluster, RUN, ANNA, after=None, about=RunAbout(RUN))
    assert await pointed(home, cluster, folder, monkeypatch) == "the last heartbeat in its cluster is 0 s old"
    lease = await cluster.lease(RUN)
    assert lease is not None
    assert (lease.epoch, str(lease.owner)) == (2, str(present_operator()))


@pytest.mark.parametrize("epoch", [0, 1, 2, 5])
async def test_a_damaged_lease_in_the_cluster_names_the_new_machine_too(
    home: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    cluster, folder = LocalStore(tmp_path / "cluster"), tmp_path / "there" / "runs" / RUN
    await take_lease(cluster, RUN, ANNA, after=None, about=RunAbout(RUN))
    (tmp_path / "cluster" / run_key(RUN, LEASE)).write_text(f'{{"epoch": {epoch}}}')
    if epoch == 5:
        with pytest.raises(ConflictError, match="epoch 5"):
            await pointed(home, cluster, folder, monkeypatch)
        return
    assert await pointed(home, cluster, folder, monkeypatch) == ""
    lease = await cluster.lease(RUN)
    assert lease is not None
    assert (lease.epoch, str(lease.owner)) == (2, str(present_operator()))


async def test_a_later_machine_that_the_cluster_names_is_not_overruled(
    home: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, folder = LocalStore(tmp_path / "cluster"), tmp_path / "there" / "runs" / RUN
    await take_lease(cluster, RUN, ANNA, after=None, epoch=7, about=RunAbout(RUN))
    with pytest.raises(ConflictError, match=r"lease of a later machine: anna@bastion-1 \(epoch 7\)"):
        await pointed(home, cluster, folder, monkeypatch)


@pytest.mark.parametrize("has_made", [True, False])
async def test_what_the_earlier_machine_has_made_in_a_cluster_tells_that_it_is_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_made: bool
) -> None:
    """It was cut off before the store knew that the run had reached the cluster, and comes back there first."""
    first = replace(creation(), stages=(outline("access", kind="kubeconfig"), outline("objects", kind="manifests")))
    folder = make_run(tmp_path, CLOCK, created=first)
    kubeconfig_path(folder).write_text("{}")
    item = OwnedObject("objects", "v1", "Namespace", "", "trial", "uid-trial", existed=False, is_deleted=False)

    async def found(*_: Any, **__: Any) -> tuple[FoundObjects, tuple[str, ...]]:
        return FoundObjects(own=(item,) if has_made else ()), ()

    monkeypatch.setattr(strays, "LiveBackend", Unknowing)
    monkeypatch.setattr(strays, "objects_of", found)
    with arrival_records(folder, CLOCK) as records:
        records.write(TakenOver(present_operator(), 2, ANNA))
        await takeover._searched(folder, records, CLOCK, since=0.0)
        view = records.view()
    assert known_cluster_uid(view) == ("uid-cluster" if has_made else "")
    assert view.stage("access").state is StageState.PENDING


async def test_what_a_lost_machine_has_made_is_undone_by_a_teardown_asked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records by which it began these stages were lost with it; a stage that none of it needs was not begun."""
    stages = (
        outline("network", kind="terraform"),
        outline("access", "kubeconfig", ("network",)),
        outline("objects", "manifests", ("access",)),
        outline("train", "job", ("objects",)),
    )
    folder = make_run(tmp_path, CLOCK, created=replace(creation(), stages=stages))
    kubeconfig_path(folder).write_text("{}")
    item = OwnedObject("objects", "v1", "Namespace", "", "trial", "uid-trial", existed=False, is_deleted=False)

    async def found(*_: Any, **__: Any) -> tuple[FoundObjects, tuple[str, ...]]:
        return FoundObjects(own=(item,)), ()

    monkeypatch.setattr(strays, "LiveBackend", Unknowing)
    monkeypatch.setattr(strays, "objects_of", found)
    with arrival_records(folder, CLOCK) as records:
        for _ in range(2):  # it is searched again after the wait for the earlier machine
            await takeover._searched(folder, records, CLOCK, since=0.0)
    send_request(folder, RequestKind.TEARDOWN, start=False)
    view = load_run(folder)
    assert [(stage.id, stage.attempt) for stage in view.stages] == [
        ("network", 1), ("access", 1), ("objects", 1), ("train", 0)
    ]  # fmt: skip
    assert next_step(view) == Reconcile("network")
    undone = [stage for action, stage in teardown_order(view.stages, deletes_data=False) if action is Action.UNDO]
    assert undone == ["objects", "access", "network"]


async def test_a_machine_that_is_gone_is_not_waited_for(home: FolderStore) -> None:
    await home.let(age_seconds=4.0)
    clock = SlowClock()
    done = await take_over_run(RUN, home, clock, confirm=RUN, is_machine_gone=True, starts=False)
    assert clock.waited == 0
    assert load_run(done.folder).epoch == 2


async def test_a_run_that_cannot_be_fetched_leaves_nothing_here(home: FolderStore) -> None:
    home.fault = UnreachableError("the store does not answer")
    with pytest.raises(UnreachableError, match="does not answer") as raised:
        await take_over_run(RUN, home, CLOCK, starts=False)
    assert "repeat the command" in raised.value.hint
    assert list_runs() == []
    home.fault = None
    await take_over_run(RUN, home, CLOCK, confirm=RUN, is_machine_gone=True, starts=False)
    assert load_run(runs_folder() / RUN).epoch == 3


@pytest.mark.parametrize(
    "fault",
    [MissingPermissionError("AWS denies s3:GetObject.", "s3:GetObject"), DiskFullError(Path("journal.jsonl"))],
    ids=["right", "disk"],
)
async def test_every_reason_not_to_fetch_a_run_is_a_sentence_that_says_what_to_do(
    home: FolderStore, fault: ConsoleError
) -> None:
    home.fault = fault
    with pytest.raises(type(fault)) as raised:
        await take_over_run(RUN, home, CLOCK, starts=False)
    assert raised.value.hint.endswith("repeat the command.")
    assert list_runs() == []


async def test_a_takeover_whose_record_is_not_taken_says_that_it_has_to_be_repeated(home: FolderStore) -> None:
    home.takes_records = False
    with pytest.raises(UnreachableError) as raised:
        await take_over_run(RUN, home, CLOCK, starts=False)
    assert raised.value.hint == "The lease is this machine's: repeat the command."
    assert list_runs() == []


class CutShort(SlowClock):
    """Ends the command while it waits, as ^C does."""

    async def sleep(self, seconds: float) -> None:
        raise asyncio.CancelledError


async def test_a_run_whose_takeover_was_interrupted_is_not_carried_out_before_it_is_repeated(home: FolderStore) -> None:
    await home.let(age_seconds=4.0)
    with pytest.raises(asyncio.CancelledError):  # the earlier machine may still be about to change something
        await take_over_run(RUN, home, CutShort(), confirm=RUN, starts=False)
    folder = runs_folder() / RUN
    assert resume_interrupted() == []
    for refused in (lambda: start_runner(folder), lambda: send_request(folder, RequestKind.TEARDOWN, start=False)):
        with pytest.raises(RefusedError, match="has not come to its end") as raised:
            refused()
        assert f"eksml-tui runs takeover {RUN} --from {home.address}" in raised.value.hint
    assert "has not come to its end" in run_table(load_run(folder))
    clock = SlowClock()
    done = await take_over_run(RUN, home, clock, confirm=RUN, starts=False)
    assert (load_run(done.folder).epoch, clock.waited, read_watched(done.folder)) == (3, GRACE_SECONDS, None)
    send_request(done.folder, RequestKind.TEARDOWN, start=False)


async def test_an_unknown_run_and_one_of_this_machine_are_refused(home: FolderStore) -> None:
    done = await take_over_run(RUN, home, CLOCK, starts=False)
    with pytest.raises(RefusedError, match="This machine has it already"):
        await take_over_run(RUN, home, CLOCK, confirm=RUN, starts=False)
    with pytest.raises(MissingError) as missing:
        await take_over_run("another", home, CLOCK, starts=False)
    assert "eksml-tui audit CLUSTER" in missing.value.hint
    assert done.folder.exists()


async def test_a_fenced_run_is_neither_resumed_nor_asked_for_anything(home: FolderStore) -> None:
    done = await take_over_run(RUN, home, CLOCK, starts=False)
    note_elsewhere(done.folder, ANNA, 3, "")
    for refused in (
        lambda: start_runner(done.folder),
        lambda: send_request(done.folder, RequestKind.TEARDOWN, start=False),
        lambda: set_limits(done.folder, Limits(budget_usd="5"), start=False),
    ):
        with pytest.raises(RefusedError, match=r"taken over by anna@bastion-1 \(epoch 3\)"):
            refused()
    assert resume_interrupted() == []
    await home.let(epoch=3)
    again = await take_over_run(RUN, home, CLOCK, starts=False)
    assert load_run(again.folder).epoch == 4
    assert read_watched(again.folder) is None


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
    assert [item.name for item in found.own] == ["ours"]
    assert found.own[0].is_adopted
    assert [line.partition(":")[0] for line in found.doubtful] == [
        "Job work/older",
        "Job work/copied",
        "Job work/elsewhere",
    ]


async def test_the_console_asks_for_the_runs_id(tmp_path: Path) -> None:
    from actions.command.parse import parse_line
    from tui.commands.confirmations import confirmation_for, confirmed_arguments
    from tui.feeds.runs import RunFeed

    call = parse_line(f"takeover {RUN} machine_is_gone=true")
    confirmation = confirmation_for(call, RunFeed(SystemClock(), lambda: None))
    assert confirmation is not None
    assert (confirmation.word, confirmation.word_is) == (RUN, "the run's id")
    assert getattr(confirmed_arguments(call, None), "confirm", "") == RUN
