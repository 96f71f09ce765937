"""Runs of other machines: followed by their records, silent after a while, opened, and left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.base.clock import SystemClock, format_rfc3339
from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.cluster.job_pods import JobRef
from actions.run.client import load_run
from actions.run.journal.reader import RunSummary
from actions.run.state.records import Operator
from actions.run.state.view import RunState
from actions.run.store.lease_object import DOCUMENT, EVERYWHERE, LABELS, NAMESPACE, lease_name, leases_path
from actions.run.store.listing import StoreLook, paths_of
from actions.run.store.remote import CLUSTER, RemoteRun
from actions.run.summaries import RunListing, list_runs
from actions.run.takeover import origin
from actions.run.takeover.takeover import Takeover, grace_sentence, heard_sentence
from tests.support import fixed_runs
from tests.support.builders import console_services
from tests.support.fixed_cluster import RUN
from tests.support.fixed_console import FixedConsole, Scene, a_fixed_console
from tests.support.polling import until
from tests.unit.cluster.clocks import HandClock
from tests.unit.cluster.servers import session_to
from tests.unit.feeds.serving import Connected, WatchServer
from tests.unit.run.world import make_run
from tui.feeds import remote_runs
from tui.feeds.cluster import ClusterFeed
from tui.feeds.remote_runs import RemoteOnScreen, RemoteRunFeed
from tui.feeds.services import explain_stage
from tui.present.run import store_words
from tui.screens.status_lines import is_elsewhere
from tui.textual_private import screen_text

STORE = "s3://team-runs/ml"
GRACE = Operator("grace", "bastion-2")


def a_remote(
    name: str = RUN, version: int = 1, *, at: float | None = None, place: str = CLUSTER, **changes: Any
) -> RemoteRun:
    moment = HandClock().now().timestamp() if at is None else at
    run = fixed_runs.a_remote_run(name, GRACE, RunState.RUNNING, "train", seen_at=moment, tag=str(version), **changes)
    return run if place == CLUSTER else replace(run, place=place, uid="", namespace="")


def a_record(version: int = 1, *, name: str = RUN, at: float | None = None, **changes: Any) -> dict[str, Any]:
    run = a_remote(name, version, at=at, **changes)
    assert run.lease is not None
    text = format_rfc3339(datetime.fromtimestamp(run.seen_at, UTC))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": lease_name(name),
            "namespace": NAMESPACE,
            "labels": LABELS,
            "uid": f"u-{name}",
            "resourceVersion": str(version),
            "annotations": {DOCUMENT: msgspec.json.encode(run.lease.document).decode()},
        },
        "spec": {"leaseTransitions": run.epoch, "holderIdentity": run.owner, "renewTime": text},
    }


@dataclass
class Records(WatchServer):
    """A server of Leases."""

    items: list[dict[str, Any]] = field(default_factory=list)
    forbidden: frozenset[str] = frozenset()

    def listed(self) -> dict[str, Any]:
        return {"kind": "LeaseList", "metadata": {"resourceVersion": "5"}, "items": self.items}

    def refusal(self, request: web.Request) -> str:
        return "leases is forbidden" if request.path in self.forbidden else ""


@dataclass
class Followed:
    """A feed with what it has reported."""

    feed: RemoteRunFeed
    changes: list[int]
    paints: list[float]


@asynccontextmanager
async def following(records: Records, folder: Path, clock: HandClock | None = None) -> AsyncIterator[Followed]:
    async with session_to(records, folder) as session:
        changes: list[int] = []
        paints: list[float] = []
        feed = RemoteRunFeed(
            lambda: cast("ClusterFeed", Connected(session)),
            clock=clock or HandClock(),
            changed=lambda: changes.append(1),
            request_in=paints.append,
        )
        running = asyncio.create_task(feed.run(lambda: None))
        try:
            yield Followed(feed, changes, paints)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_runs_are_listed_and_watched_by_their_label(tmp_path: Path) -> None:
    records = Records(items=[a_record(), {"metadata": {"name": "odd", "uid": "u-odd", "labels": 7}}])
    async with following(records, tmp_path) as followed:
        await until(lambda: [run.id for run in followed.feed.runs] == [RUN], "the list")
        another = a_record(name="bionemo-esm1nv-1121-zzzzzzzzzzzzz")
        records.events.put_nowait({"type": "ADDED", "object": another})
        await until(lambda: len(followed.feed.runs) == 2, "the new run")
        records.events.put_nowait({"type": "DELETED", "object": another})
        await until(lambda: len(followed.feed.runs) == 1, "its end")
    assert all(asked["labelSelector"] == "eksml.dev/store=run" for asked in records.asked)
    assert [asked.get("watch", "") for asked in records.asked] == ["", "true"]


async def test_without_the_right_to_list_all_namespaces_the_usual_one_is_followed(tmp_path: Path) -> None:
    records = Records(items=[a_record()], forbidden=frozenset({EVERYWHERE}))
    async with following(records, tmp_path) as followed:
        await until(lambda: followed.feed.runs, "the list")
    assert records.asked[1]["path"] == leases_path(NAMESPACE)


async def test_without_any_right_the_reason_is_known(tmp_path: Path) -> None:
    paths = frozenset(paths_of("default"))
    async with following(Records(forbidden=paths), tmp_path) as followed:
        await until(lambda: followed.feed.note, "the refusal")
        assert followed.feed.note == "Runs of other machines are unknown: Not allowed: leases is forbidden."


async def test_a_heartbeat_alone_paints_nothing_and_its_absence_is_seen(tmp_path: Path) -> None:
    clock = HandClock()
    records = Records(items=[a_record()])
    async with following(records, tmp_path, clock) as followed:
        feed = followed.feed
        await until(lambda: feed.runs, "the list")
        before = len(followed.changes)
        later = a_record(2, at=clock.now().timestamp() + 30)
        records.events.put_nowait({"type": "MODIFIED", "object": later})
        await until(lambda: feed.runs[0].lease and feed.runs[0].lease.tag == "2", "the heartbeat")
        assert len(followed.changes) == before
        assert 0 < followed.paints[-1] <= 91
        assert not feed.is_silent(feed.runs[0])
        clock.pass_by(91)
        assert feed.is_silent(feed.runs[0])
        records.events.put_nowait({"type": "MODIFIED", "object": a_record(3, at=clock.now().timestamp() + 60)})
        await until(lambda: len(followed.changes) > before, "the sign")
        assert not feed.is_silent(feed.runs[0])


def a_feed(*runs: RemoteRun) -> RemoteRunFeed:
    feed = RemoteRunFeed(
        lambda: cast("ClusterFeed", None), clock=HandClock(), changed=lambda: None, request_in=lambda _: None
    )
    feed.take_all(runs)
    return feed


def test_a_run_with_wrong_clocks_is_silent_only_without_signs() -> None:
    clock = HandClock()
    behind = a_remote(at=clock.now().timestamp() - 3_600)
    feed = a_feed(behind)
    assert feed.is_silent(behind)  # as far as can be told
    feed.take(a_remote(version=2, at=behind.seen_at))
    assert not feed.is_silent(behind)  # it has just been heard of


async def test_a_foreign_run_is_opened_and_nothing_can_be_asked_of_it() -> None:
    services = console_services()
    runs = services.runs
    runs.others = feed = a_feed(a_remote())
    assert [run.id for run in runs.listed_elsewhere()] == [RUN]
    assert runs.open(RUN)
    assert runs.view is not None
    assert (runs.view.id, runs.folder, runs.is_interrupted) == (RUN, None, False)
    assert is_elsewhere(services, None)
    for wanted in ("", RUN):
        with pytest.raises(RefusedError, match="grace@bastion-2") as refused:
            runs.find(wanted)
        assert f"runs takeover {RUN}" in refused.value.hint
    feed.forget()
    runs.take_others()
    assert runs.view is not None
    assert "has nothing of it any more" in runs.view.notices[0].text
    runs.close()


async def test_a_copy_from_the_runs_store_gives_the_history_and_stays_read_only(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    view = load_run(folder)
    services = console_services()
    runs = services.runs
    runs.others = a_feed(a_remote(view.id))
    assert runs.open(view.id)
    runs.use_copy(folder)
    assert runs.view is not None
    assert runs.folder == folder
    assert [stage.id for stage in runs.view.stages] == [stage.id for stage in view.stages]
    assert not runs.is_interrupted
    with pytest.raises(RefusedError, match="can only be watched"):
        runs.find("")
    runs.close()


async def test_a_run_that_this_machine_has_taken_over_is_shown_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a command beside this console: the pane must not go on naming another machine."""
    folder = make_run(tmp_path, SystemClock())
    view = load_run(folder)
    services = console_services()
    runs = services.runs
    runs.others = feed = a_feed(a_remote(view.id))
    assert runs.open(view.id)
    await runs.refresh_list()
    assert runs.remote is not None
    taken = RunListing([replace(a_summary(folder), epoch=2)], [])
    monkeypatch.setattr("tui.feeds.runs._listings", lambda _: iter([taken]))
    feed.take(a_remote(view.id, 2, epoch=2))
    runs.take_others()
    following_runs = asyncio.create_task(runs.run(lambda: None))
    await until(lambda: runs.remote is None, "the run here")
    assert runs.folder == folder
    runs.require_here(view.id)
    following_runs.cancel()
    await asyncio.gather(following_runs, return_exceptions=True)
    runs.close()


def a_summary(folder: Path) -> RunSummary:
    (found,) = list_runs(folder.parent)
    return found


async def test_records_are_read_before_the_cluster_is_and_whichever_list_comes_first_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = console_services()
    began, own = asyncio.Event(), a_remote()

    async def run(live: Callable[[], None]) -> None:
        live()
        services.remote.take_all([own])
        began.set()

    monkeypatch.setattr(services.remote, "run", run)
    monkeypatch.setattr(services.remote, "own_at_work", lambda: own.id)
    services.runs.is_listed = False
    services._connected(services.followed.on_screen)  # nothing of this cluster is known yet
    async with asyncio.timeout(60):
        await began.wait()
    assert services.runs.view is None
    services.runs.is_listed = True
    services._runs_listed()
    assert services.runs.remote is not None
    assert (services.runs.remote.id, services.runs.view is not None) == (own.id, True)
    await services.aclose()


class Jobs:
    """The panes that show a job."""

    def __init__(self) -> None:
        self.watched: Any = None
        self.shown: list[str] = []

    async def watch(self, job: JobRef) -> None:
        self.watched = SimpleNamespace(title=job.key)
        self.shown.append(job.key)

    def unwatch(self) -> None:
        self.watched = None


async def test_a_store_that_fails_hides_no_pod_and_is_shown_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = console_services()
    runs = services.runs
    runs.others = a_feed(a_remote(store=STORE))
    assert runs.open(RUN)
    failure: list[ConsoleError] = [UnreachableError("AWS did not answer s3:ListBucket.")]

    def copied(store: str, run: str) -> Path | None:
        assert (store, run) == (STORE, RUN)
        if failure:
            raise failure[0]
        return None

    job = JobRef("PyTorchJob", "default", "esm1nv-pretraining")
    monkeypatch.setattr("actions.run.store.copy.refreshed_copy", copied)
    monkeypatch.setattr("actions.run.store.remote.job_on_screen", lambda *_: job)
    monkeypatch.setattr("tui.feeds.remote_runs.AGAIN_SECONDS", 0.01)
    jobs = Jobs()
    followed = RemoteOnScreen(runs, cast("ClusterFeed", None), jobs, SystemClock(), store=STORE)
    working = [asyncio.create_task(work()) for work in (followed.follow_pods, followed.follow_store)]
    await until(lambda: jobs.shown and runs.store_trouble, "the job and the trouble")
    assert followed.begun.is_set()
    assert jobs.shown == ["PyTorchJob default/esm1nv-pretraining"]
    assert runs.view is not None
    assert store_words(runs.view).startswith(f"store {STORE} away since ")
    assert "AWS did not answer s3:ListBucket." in runs.view.notices[1].text
    failure[:] = [AccessError("The AWS credentials are not valid any more.", hint="Log in.")]
    await until(lambda: "refuses since" in store_words(runs.view), "the refusal")
    failure.clear()
    await until(lambda: runs.store_trouble is None, "the answer")
    assert store_words(runs.view) == f"store {STORE}"
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    assert jobs.watched is None
    runs.close()


async def test_of_a_store_that_is_not_the_operators_nothing_is_read() -> None:
    """A lease is foreign text: what it names is not asked."""
    services = console_services()
    services.runs.others = a_feed(a_remote(store="s3://elsewhere/x"))
    assert services.runs.open(RUN)
    followed = RemoteOnScreen(services.runs, cast("ClusterFeed", None), Jobs(), SystemClock(), store=STORE)
    assert services.runs.remote is not None
    assert await followed._copied(services.runs.remote) is None
    services.runs.close()


def test_of_two_places_the_one_with_the_later_epoch_names_the_machine() -> None:
    """A new machine that cannot reach the cluster for a while: its store has it first."""
    feed = a_feed(a_remote(store=STORE))
    ben = fixed_runs.a_remote_run(RUN, Operator("ben", "laptop-2"), RunState.RUNNING, epoch=2, store=STORE)
    taken = replace(ben, place=STORE, uid="", namespace="")
    feed.take_store(StoreLook(frozenset({RUN}), (taken,)))
    assert [(one.owner, one.epoch) for one in feed.runs] == [("ben@laptop-2", 2)]
    assert [one.owner for one in feed.elsewhere([])] == ["ben@laptop-2"]
    feed.take(a_remote(version=2, store=STORE))  # a heartbeat of the old machine, which does not know it yet
    assert [one.owner for one in feed.runs] == ["ben@laptop-2"]
    feed.take(a_remote(version=3, epoch=3, store=STORE))
    assert [one.owner for one in feed.runs] == ["grace@bastion-2"]  # the cluster has a later one again


async def test_runs_that_only_the_store_has_are_listed_until_they_are_gone_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded, waits = a_remote(), a_remote("fake-waits", place=STORE)
    feed, answers = a_feed(recorded), list[StoreLook | None]()
    asked: list[set[str]] = []

    def look_at(_store: str, skipped: Collection[str]) -> StoreLook | None:
        asked.append(set(skipped))
        return answers.pop(0)

    async def look(found: StoreLook | None) -> None:
        looks: list[bool] = []
        answers[:] = [found]
        looking = asyncio.create_task(feed.follow_store(STORE, lambda: {"fake-local"}, lambda: looks.append(True)))
        await until(lambda: looks, "a look at the store")
        looking.cancel()

    monkeypatch.setattr(remote_runs, "_look_at", look_at)
    monkeypatch.setattr(remote_runs, "FIRST_STORE_SECONDS", 0.0)
    ids = frozenset({recorded.id, waits.id})
    await look(StoreLook(ids, (waits,)))
    assert {run.id for run in feed.runs} == ids
    assert {run.id for run in feed.elsewhere([])} == ids
    await look(None)  # it does not answer: what was read stays
    assert {run.id for run in feed.runs} == ids
    assert asked == [{"fake-local"}, {"fake-local"}]
    await look(StoreLook(frozenset({recorded.id})))  # it was removed from the store
    assert [run.id for run in feed.runs] == [recorded.id]


def test_a_run_that_only_the_store_has_is_silent_by_the_clock_of_that() -> None:
    clock = HandClock()
    waits = a_remote("fake-waits", place=STORE, at=clock.now().timestamp() - 7_000)
    assert waits.lease is not None
    feed, ids = a_feed(), frozenset({waits.id})
    feed.take_store(StoreLook(ids, (replace(waits, lease=replace(waits.lease, age_seconds=4.0)),)))
    assert not feed.is_silent(waits)  # this machine's clock is ahead
    feed.take_store(StoreLook(ids, (replace(waits, lease=replace(waits.lease, tag="2", age_seconds=300.0)),)))
    assert feed.is_silent(waits)


async def test_a_run_of_the_store_that_was_over_is_read_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped: list[set[str]] = []

    def look_at(_store: str, known: Collection[str]) -> StoreLook:
        skipped.append(set(known))
        return StoreLook(frozenset({"over"}), over=frozenset({"over"}))

    monkeypatch.setattr(remote_runs, "_look_at", look_at)
    for name, value in (("FIRST_STORE_SECONDS", 0.0), ("STORE_SECONDS", 0.0), ("LOOKS_AT_ALL", 3)):
        monkeypatch.setattr(remote_runs, name, value)
    looking = asyncio.create_task(a_feed().follow_store(STORE, frozenset, lambda: None))
    await until(lambda: len(skipped) >= 4, "four looks")
    looking.cancel()
    assert skipped[:4] == [set(), {"over"}, set(), {"over"}]


def test_a_run_that_only_the_store_has_is_not_opened_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actions.run.context.operator.present_operator", lambda: Operator("grace", "laptop-3"))
    feed, waits = a_feed(), a_remote("fake-waits", place=STORE)
    feed.take_store(StoreLook(frozenset({waits.id}), (waits,)))
    assert (feed.find(waits.id), feed.own_at_work()) == (waits, "")
    assert a_feed(a_remote()).own_at_work() == RUN


def test_a_run_of_this_machine_is_here_until_its_epoch_is_not_the_newest(tmp_path: Path) -> None:
    local = fixed_runs.summaries(tmp_path)
    assert a_feed(a_remote()).elsewhere(local) == ()
    taken = a_remote(epoch=2)
    assert a_feed(taken).elsewhere(local) == (taken,)
    unreadable = replace(taken, lease=None, error="Its lease is of another form.")
    assert a_feed(unreadable).elsewhere(local) == ()


@pytest.fixture
async def console(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[FixedConsole]:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    scene = Scene(summaries=fixed_runs.summaries(tmp_path), remotes=fixed_runs.remote_runs(), is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as opened:
        yield opened


async def test_the_runs_pane_has_runs_of_all_machines_in_the_order_that_its_header_names(console: FixedConsole) -> None:
    await console.line("open runs")
    await console.calm(("AGE▲", "silent since"))
    ages = [line.rstrip(" │").split()[-1] for line in screen_text(console.app).splitlines() if "efa-nccl" in line]
    assert ages == ["1h00m", "1h05m", "20d00h"], "the second one is of another machine"


@pytest.mark.parametrize("verb", ["cancel", "park", "pause", "teardown", "approve", "resume"])
@pytest.mark.parametrize("run", [fixed_runs.remote_runs()[0].id, "efa-nccl-tests-1121-w5c2n7yhd6t4k"])
async def test_the_second_person_can_only_watch(console: FixedConsole, verb: str, run: str) -> None:
    """Of a run of another machine, and of one that was launched here and taken over."""
    await console.line("open runs")
    await console.calm("grace@bastion-2")
    await console.line(f"{verb} run={run}")
    await console.calm(("can only be watched", "runs takeover"))


async def test_a_run_on_screen_that_is_taken_over_is_shown_as_the_cluster_knows_it(console: FixedConsole) -> None:
    services = console.app.services
    console.scene.view = fixed_runs.a_training_run()
    console.refresh()
    await console.line("open run")
    await console.calm("Pre-training")
    assert services.runs.remote is None
    taken = a_remote(epoch=2)
    services.remote.take(taken)
    await console.calm(("grace@bastion-2", "can only be watched"))
    assert not services.runs.is_interrupted


async def test_a_takeover_says_what_it_waits_for_while_it_waits(
    console: FixedConsole, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, goes_on = fixed_runs.remote_runs()[0].id, asyncio.Event()

    async def take_over_run(*_: Any, say: Callable[[str], None], **__: Any) -> Takeover:
        say("AWS: this machine's default credentials.")
        say(grace_sentence(Operator("grace", "bastion-2"), heard_sentence("its cluster", 41.0)))
        await goes_on.wait()
        return Takeover(tmp_path / run, 2, None)

    monkeypatch.setattr(origin, "take_over_run", take_over_run)
    await console.line(f"takeover {run} from=s3://team-runs/ml confirm={run}")
    await console.calm(("Waiting 15 s, as", "may be alive"))
    goes_on.set()
    await console.calm("This machine carries out")


async def test_the_diagnosis_of_a_stage_is_that_of_its_job(
    console: FixedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobRef("PyTorchJob", "default", "esm1nv-pretraining")
    monkeypatch.setattr(
        "actions.run.store.remote.job_on_screen", lambda _view, stage="": job if stage == "train" else None
    )
    await console.calm("grace@bastion-2")
    await console.line(f"open run of={fixed_runs.remote_runs()[0].id}")
    await console.calm("can only be watched")
    findings = await explain_stage(console.app.services, "train")
    assert findings  # the fixed console answers every question alike
    with pytest.raises(MissingError, match="has no job in the cluster"):
        await explain_stage(console.app.services, "network")
