"""The gap that a pod leaves which is gone before its log was read, here or on an earlier machine."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actions.base.clock import Clock
from actions.base.errors import AccessError, MissingError
from actions.blueprint.stages import LoadTool, LogWatch, StageWatch
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.follow import ContainerLog
from actions.cluster.logs.lines import LogLine
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import RetryPolicy
from actions.run.context.stage_context import StageContext
from actions.run.output import collector as collectors
from actions.run.output.collector import StageCollector
from actions.run.output.followers import FollowerWarnings, PodFollower
from actions.run.output.last_lines import read_last_lines
from actions.run.output.streams import stored_losses
from actions.run.output.writer import OutputWriter
from actions.run.state.view import StageState
from tests.support.polling import until
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.logserver import LogServer
from tests.unit.cluster.servers import session_to

PLACE = ContainerLog("work", "p", "main", "u1")
STARTED = {"reason": "Started", "involvedObject": {"kind": "Pod", "name": "p", "uid": "u1"}}


class EventsOf:
    """A connection that knows the events of a pod."""

    def __init__(self, session: KubeSession, events: list[dict[str, Any]] | None) -> None:
        self.session = session
        self._events = events

    async def list_objects(self, _version: str, kind: str, **_query: str) -> list[dict[str, Any]]:
        if self._events is None:
            raise AccessError(f"You may not list {kind}s.")
        return self._events


class Stage:
    """A stage whose cluster is that connection."""

    def __init__(self, connection: EventsOf) -> None:
        self.clock: Clock = HastyClock()
        self._connection = connection

    async def connect(self, _policy: RetryPolicy) -> ClusterConnection:
        return cast(ClusterConnection, self._connection)


@pytest.mark.parametrize(
    ("events", "has_started", "loss"),
    [
        ([STARTED], False, "gone before the log was read to its end"),
        ([STARTED], True, "gone before the log was read to its end"),
        ([], True, "gone before the log was read to its end"),
        ([], False, ""),
        ([{**STARTED, "reason": "Scheduled"}], False, ""),
        ([{**STARTED, "involvedObject": {"kind": "Pod", "name": "p", "uid": "of another"}}], False, ""),
        (None, False, "its events may not be read"),
    ],
)
async def test_a_pod_that_ran_and_is_gone_unread_leaves_a_gap(
    tmp_path: Path, events: list[dict[str, Any]] | None, has_started: bool, loss: str
) -> None:
    async with session_to(LogServer(is_gone=True), tmp_path) as session, asyncio.timeout(60):
        context = cast(StageContext, Stage(EventsOf(session, events)))
        writer = OutputWriter(tmp_path, "train")
        source = writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
        warnings = FollowerWarnings(lambda _text: None)
        await PodFollower(context, writer, warnings, PLACE, source, has_started=has_started).follow()
    assert source.is_ended
    assert len(writer.losses()) == bool(loss)
    assert loss in "".join(writer.losses())


@pytest.mark.parametrize("answers_between", [False, True])
async def test_lines_that_the_disk_refused_are_lost_by_it_though_the_pod_is_missing_later(
    tmp_path: Path, answers_between: bool
) -> None:
    async with session_to(LogServer(is_gone=True), tmp_path) as session, asyncio.timeout(60):
        context = cast(StageContext, Stage(EventsOf(session, [STARTED])))
        writer = OutputWriter(tmp_path, "train")
        source = writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
        follower = PodFollower(context, writer, FollowerWarnings(lambda _text: None), PLACE, source, has_started=True)
        follower.fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        follower.failing(MissingError('pods "p" not found'))
        if answers_between:
            follower.reading()
            assert follower.is_failing
        await follower.follow()
    (loss,) = writer.losses()
    assert "it could not be kept: No space left on device" in loss


class Pods:
    """A connection to a cluster with these pods."""

    session = None

    def __init__(self, found: list[dict[str, Any]]) -> None:
        self._found = found

    async def pods(self, **_query: str) -> list[dict[str, Any]]:
        return self._found


def collector_of(
    folder: Path, pods: list[dict[str, Any]], uids: list[str], *, state: StageState, tool: LoadTool = LoadTool.NONE
) -> StageCollector:
    """Return the collector of a stage with these pods in its cluster, and objects of these uids in its journal."""

    async def connect(_policy: RetryPolicy) -> Any:
        return Pods(pods)

    journal = SimpleNamespace(
        owned=lambda: [SimpleNamespace(uid=uid) for uid in uids], warn=lambda _: None, note=lambda _: None
    )
    context = SimpleNamespace(
        folder=folder,
        stage=SimpleNamespace(id="train", state=state, attempt=int(state is not StageState.PENDING)),
        view=SimpleNamespace(id="run"),
        namespace="work",
        journal=journal,
        clock=HastyClock(),
        connect=connect,
        pod_selector=lambda **_: "eksml-run=run",
    )
    return StageCollector(cast(StageContext, context), StageWatch(logs=LogWatch(pods="a=b"), accelerator=tool))


async def settled(
    folder: Path, *, state: StageState, owned: tuple[str, ...] = ("u-job",), then: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return what is lost of the log of a stage that ends well, where none of its pods is there any more.

    Args:
        folder: The run's.
        state: Of the stage, at the begin.
        owned: Uids of its objects.
        then: Those after the first list of pods; a pod comes then.
    """
    uids, pods = list(owned), list[dict[str, Any]]()
    collector = collector_of(folder, pods, uids, state=state)
    if then:
        await collector._find_pods()
        source = collector._writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
        collector._writer.write_end(source, 0, "Completed")
        uids[:] = then
        metadata = {"namespace": PLACE.namespace, "name": PLACE.pod, "uid": PLACE.uid}
        pods.append({"metadata": metadata, "spec": {"containers": [{"name": PLACE.container}]}, "status": {}})
    await collector.settle(60)
    await collector.stop()
    assert stored_losses(folder, "train") == collector.losses
    return collector.losses


async def test_a_pod_that_an_earlier_machine_followed_and_that_is_gone_leaves_a_gap(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, "train")
    source = writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
    writer.write_lines(source, [LogLine(10**18, "one")])
    writer.close()
    (loss,) = await settled(tmp_path, state=StageState.UNKNOWN)
    assert loss.startswith("Log of pod p: incomplete, its pod was gone before its log was read to the end, from ")


@pytest.mark.parametrize("state", [StageState.UNKNOWN, StageState.PENDING])
async def test_a_stage_whose_pods_were_all_gone_before_they_were_seen_leaves_a_gap(
    tmp_path: Path, state: StageState
) -> None:
    (loss,) = await settled(tmp_path, state=state)
    assert loss == "Log incomplete: its pods were gone before any of their logs was read."


@pytest.mark.parametrize(("uid", "losses"), [("u-job", 0), ("u-another", 1)])
async def test_the_pods_of_an_object_that_is_made_again_are_other_pods(tmp_path: Path, uid: str, losses: int) -> None:
    found = await settled(tmp_path, state=StageState.UNKNOWN, then=(uid,))
    assert found == ("Log incomplete: its pods were gone before any of their logs was read.",) * losses
    assert await settled(tmp_path, state=StageState.UNKNOWN, owned=(uid,)) == found  # by the next runner


@pytest.mark.parametrize(
    ("state", "owned"), [(StageState.RUNNING, ("u-job",)), (StageState.UNKNOWN, ()), (StageState.PENDING, ())]
)
async def test_a_stage_that_began_with_this_runner_has_no_gap_of_pods_that_it_never_had(
    tmp_path: Path, state: StageState, owned: tuple[str, ...]
) -> None:
    assert await settled(tmp_path, state=state, owned=owned) == ()


@pytest.mark.parametrize(
    ("has_line", "events", "is_lost"), [(True, [], True), (False, [STARTED], True), (False, [], False)]
)
async def test_a_cancelled_stage_whose_pod_is_gone_has_a_gap_if_the_pod_had_begun(
    tmp_path: Path, has_line: bool, events: list[dict[str, Any]], is_lost: bool
) -> None:
    writer = OutputWriter(tmp_path, "train")
    source = writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
    other = writer.source(PLACE.namespace, "other", PLACE.container, "u2")  # the output has lines
    writer.write_lines(other, [LogLine(10**18, "one")])
    writer.write_end(other, 0, "Completed")
    if has_line:
        writer.write_lines(source, [LogLine(10**18, "one")])
    writer.close()
    async with session_to(LogServer(is_gone=True), tmp_path) as session, asyncio.timeout(60):
        watch = StageWatch(logs=LogWatch(pods="a=b"))
        context = cast(StageContext, Cancelled(tmp_path, NoPods(session, events), watch))
        losses = await read_last_lines(context)
    assert losses.startswith("Log of pod p: incomplete, its pod was gone before") if is_lost else losses == ""
    assert len(stored_losses(tmp_path, "train")) == is_lost


async def test_output_is_read_beside_the_loop_before_the_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a day takes minutes on a busy machine: a park made its runner count as stalled."""
    writer = OutputWriter(tmp_path, "train")
    source = writer.source(PLACE.namespace, PLACE.pod, PLACE.container, PLACE.uid)
    writer.write_lines(source, [LogLine(10**18, "one")])
    writer.close()
    loaded, load = list[threading.Thread](), OutputWriter._load

    def loading(self: OutputWriter) -> Any:
        loaded.append(threading.current_thread())
        return load(self)

    monkeypatch.setattr(OutputWriter, "_load", loading)
    async with session_to(LogServer(is_gone=True), tmp_path) as session, asyncio.timeout(60):
        watch = StageWatch(logs=LogWatch(pods="a=b"))
        await read_last_lines(cast(StageContext, Cancelled(tmp_path, NoPods(session, [STARTED]), watch)))
    assert len(loaded) == 1
    assert loaded[0] is not threading.main_thread()


async def test_output_that_the_disk_refuses_is_opened_beside_the_loop_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither samples nor the end of the stage open it where they are: the log of a day takes minutes."""
    opened = list[threading.Thread]()

    def refusing(_: OutputWriter) -> Any:
        opened.append(threading.current_thread())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def answering(*_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(stdout=b"0, 10", stderr=b"")

    monkeypatch.setattr(OutputWriter, "_load", refusing)
    monkeypatch.setattr(collectors, "run_in_pod", answering)
    metadata = {"namespace": PLACE.namespace, "name": PLACE.pod, "uid": PLACE.uid}
    running = {"phase": "Running"}
    pods = [{"metadata": metadata, "spec": {"containers": [{"name": PLACE.container}]}, "status": running}]
    collector = collector_of(tmp_path, pods, [], state=StageState.UNKNOWN, tool=LoadTool.NVIDIA_SMI)
    async with asyncio.timeout(60):
        collector.start()
        await until(lambda: len(opened) > 8, "searches and samples have tried several times")
        await collector.settle(60)
        await collector.stop()
    (loss,) = collector.losses
    assert "its pods could not be listed at the end" in loss
    assert threading.main_thread() not in opened


class NoPods(EventsOf):
    """A connection to a cluster without pods that knows the events of one."""

    async def pods(self, **_query: str) -> list[dict[str, Any]]:
        return []


class Cancelled(Stage):
    """A cancelled stage whose pods are about to be removed."""

    def __init__(self, folder: Path, connection: EventsOf, watch: StageWatch) -> None:
        super().__init__(connection)
        self.folder = folder
        self.stage = SimpleNamespace(id="train", state=StageState.CANCELLED, attempt=1)
        self.view, self.namespace = SimpleNamespace(id="run"), "work"
        self.journal = SimpleNamespace(owned=tuple, warn=lambda _: None, note=lambda _: None)
        self.declaration = SimpleNamespace(watch=watch)

    def pod_selector(self) -> str:
        return "eksml-run=run"


def a_pod(labels: Mapping[str, str], *environment: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "env": list(environment)}]}}


@pytest.mark.parametrize(
    ("pod", "rank"),
    [
        (a_pod({}), 0),
        (a_pod({"batch.kubernetes.io/job-completion-index": "3"}), 3),
        (a_pod({"training.kubeflow.org/replica-index": "0"}, {"name": "RANK", "value": "1"}), 1),
        (a_pod({"batch.kubernetes.io/job-completion-index": "2"}, {"name": "RANK", "valueFrom": {}}), 2),
        (a_pod({"jobset.sigs.k8s.io/job-global-index": "1", "batch.kubernetes.io/job-completion-index": "0"}), 1),
        (a_pod({"volcano.sh/task-index": "-1"}), 0),
    ],
    ids=["plain", "job", "worker-0 beside a master", "variable from elsewhere", "jobset", "no number"],
)
def test_of_the_pods_of_a_job_one_has_rank_0(pod: dict[str, Any], rank: int) -> None:
    assert collectors._rank_of(pod) == rank
