"""A job is followed to its end, whatever its pods do on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.base.errors import AccessError, MissingError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.job_pods import JobPod, JobRef
from actions.cluster.jobs import JobOutcome, JobWatch
from actions.cluster.logs.lines import LogLine
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.cluster.watch.health import Health, SourceHealth
from actions.fleet.facts import PodFacts, WorkloadFacts
from tests.support.polling import until
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.logserver import LogServer, stamped
from tests.unit.cluster.servers import session_to

JOB = JobRef("PyTorchJob", "work", "train")
RESOURCES = [{"name": "pytorchjobs", "kind": "PyTorchJob", "namespaced": True}]


@dataclass
class JobServer:
    """A cluster with one job, every pod of which prints the same log."""

    logs: LogServer
    has_job: bool = True

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/apis/kubeflow.org/v1":
            return web.json_response({"kind": "APIResourceList", "resources": RESOURCES})
        if request.path.startswith("/apis/"):
            found = self.has_job and request.path.endswith("/train")
            body = {"metadata": {"name": "train"}} if found else {"kind": "Status", "code": 404, "reason": "NotFound"}
            return web.json_response(body, status=200 if found else 404)
        return await self.logs(request)


@dataclass
class Picture:
    """The state of the cluster, moved on by the test."""

    state: str = "running"
    pods: list[str] = field(default_factory=lambda: ["train-worker-0"])
    uid: str = "u1"

    def snapshot(self) -> ClusterSnapshot:
        facts = [
            PodFacts(
                uid=self.uid,
                namespace="work",
                name=name,
                containers=("main",),
                owner_kind="PyTorchJob",
                owner_name="train",
            )
            for name in self.pods
        ]
        workload = WorkloadFacts(
            uid="j", kind="PyTorchJob", namespace="work", name="train", state=self.state, message="m"
        )
        return replace(
            ClusterSnapshot(),
            pods={pod.key: pod for pod in facts},
            workloads={JOB.key: workload} if self.state else {},
        )


def a_watch(session: KubeSession, picture: Picture, got: list[tuple[str, str]], job: JobRef = JOB) -> JobWatch:
    def take(member: JobPod, container: str, lines: Sequence[LogLine]) -> None:
        got.extend((member.pod.name, line.text) for line in lines)

    return JobWatch(
        job,
        session=lambda: session,
        look=picture.snapshot,
        on_lines=take,
        on_report=lambda _: None,
        tail_lines=lambda member: None,
        clock=HastyClock(),
    )


async def test_the_logs_of_all_pods_come_and_the_watch_ends_with_the_job(tmp_path: Path) -> None:
    server = JobServer(LogServer([stamped(0, "a"), stamped(1, "b")]))
    picture, got = Picture(pods=["train-worker-1", "train-worker-0"]), list[tuple[str, str]]()
    async with session_to(server, tmp_path) as session, asyncio.timeout(60):
        watch = a_watch(session, picture, got)
        running = asyncio.create_task(watch.run())
        await until(lambda: sum("has ended" in text for _, text in got) == 2, "the end of both containers")
        picture.state = "finished"
        assert await running == JobOutcome("finished", "m")
    assert [text for name, text in got if name == "train-worker-0"][:2] == ["a", "b"]
    assert [member.pod.name for member in watch.members] == ["train-worker-0", "train-worker-1"]
    assert ("train-worker-1", "main has ended: Completed, exit code 0") in got


async def test_a_job_that_was_deleted_is_gone(tmp_path: Path) -> None:
    server = JobServer(LogServer([stamped(0, "a")], exit_code=None))
    picture, got = Picture(), list[tuple[str, str]]()
    async with session_to(server, tmp_path) as session, asyncio.timeout(60):
        running = asyncio.create_task(a_watch(session, picture, got).run())
        await until(lambda: got, "a line")
        server.logs.is_gone = True
        picture.state, picture.pods = "", []
        assert (await running).state == "gone"


async def test_a_job_whose_end_is_not_seen_is_read_to_the_end_of_its_logs(tmp_path: Path) -> None:
    server = JobServer(LogServer([stamped(0, "a")]))
    refused = 'User "sam" cannot watch resource "pytorchjobs"'
    health = {"pods": SourceHealth(Health.LIVE, "", 0.0), "pytorchjobs": SourceHealth(Health.FORBIDDEN, refused, 0.0)}
    got = list[tuple[str, str]]()
    async with session_to(server, tmp_path) as session, asyncio.timeout(60):
        watch = a_watch(session, Picture(""), got)
        watch._look = lambda: replace(Picture("").snapshot(), health=health)
        with pytest.raises(AccessError, match="cannot watch"):
            await watch.run()
    assert [text for _, text in got] == ["a", "main has ended: Completed, exit code 0"]


async def test_a_pod_that_takes_the_place_of_another_is_followed_too(tmp_path: Path) -> None:
    server = JobServer(LogServer([stamped(0, "first")]))
    picture, got = Picture(), list[tuple[str, str]]()
    async with session_to(server, tmp_path) as session, asyncio.timeout(60):
        running = asyncio.create_task(a_watch(session, picture, got).run())
        await until(lambda: any("has ended" in text for _, text in got), "the container's end")
        server.logs.lines, server.logs.uid = [stamped(0, "second")], "u2"
        picture.uid = "u2"
        await until(lambda: "second" in [text for _, text in got], "a line of the second pod")
        picture.state = "failed"
        assert await running == JobOutcome("failed", "m")


async def test_what_cannot_be_watched_is_told_at_once(tmp_path: Path) -> None:
    server = JobServer(LogServer(), has_job=False)
    async with session_to(server, tmp_path) as session:
        with pytest.raises(MissingError, match="train"):
            await a_watch(session, Picture(), []).run()
        with pytest.raises(RefusedError, match="DaemonSet cannot be watched"):
            await a_watch(session, Picture(), [], JobRef("DaemonSet", "work", "web")).run()
