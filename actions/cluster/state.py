"""The live picture of one cluster: its sources, its store, and a snapshot whenever somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from actions.base.clock import Clock, SystemClock
from actions.cluster import protopod
from actions.cluster.changes import ChangeLog
from actions.cluster.decode import decode_event, decode_node, decode_pod, workload_decoder
from actions.cluster.health import SourceHealth
from actions.cluster.reflector import Raw, Reflector
from actions.cluster.session import KubeSession
from actions.cluster.snapshot import ClusterSnapshot
from actions.cluster.store import (
    FactTable,
    HasUid,
    PodIndex,
    event_key,
    newest,
    node_key,
    pod_key,
    workload_key,
)
from actions.fleet.facts import EventFacts, NodeFacts, PodFacts, WorkloadFacts

__all__ = ["ClusterSnapshot", "ClusterState"]

FactT = TypeVar("FactT", bound=HasUid)


@dataclass(frozen=True, slots=True)
class WorkloadSource:
    """One kind of workload that is watched."""

    name: str
    api_version: str
    kind: str

    @property
    def path(self) -> str:
        """The list path."""
        return f"/apis/{self.api_version}/{self.name}"


WORKLOADS = (
    WorkloadSource("jobs", "batch/v1", "Job"),
    WorkloadSource("pytorchjobs", "kubeflow.org/v1", "PyTorchJob"),
    WorkloadSource("mpijobs", "kubeflow.org/v2beta1", "MPIJob"),
    WorkloadSource("rayjobs", "ray.io/v1", "RayJob"),
    WorkloadSource("rayclusters", "ray.io/v1", "RayCluster"),
)


class ClusterState:
    """Watches a cluster and keeps what the console shows of it.

    `run` on the session's loop; everything else is called there too. `revision` never goes backwards: it grows with
    every change of what a snapshot would show, and stays where nothing does (a node's heart-beat).
    """

    def __init__(self, session: KubeSession, *, clock: Clock | None = None) -> None:
        self.revision = 0
        self._session = session
        self._clock = clock or SystemClock()
        self._changed = asyncio.Event()
        self._log = ChangeLog()
        self._health: dict[str, SourceHealth] = {}
        self._pod_index = PodIndex()
        self._snapshot = ClusterSnapshot(history=self._log)
        self._copied: set[str] = set()
        self._nodes = self._table("nodes", node_key, self._node_changed)
        self._pods = self._table("pods", pod_key, self._pod_changed)
        self._events = self._table("events", event_key, self._event_changed)
        self._workloads = {
            source.name: self._table(source.name, workload_key, self._workload_changed) for source in WORKLOADS
        }

    async def run(self) -> NoReturn:
        """Watch until cancelled; every connection is closed then."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflect("/api/v1/nodes", decode_node, self._nodes))
            group.create_task(
                self._reflect("/api/v1/pods", decode_pod, self._pods, decode_protobuf=protopod.decode_pod)
            )
            group.create_task(self._reflect("/api/v1/events", decode_event, self._events))
            for source in WORKLOADS:
                decode = workload_decoder(source.api_version, source.kind)
                group.create_task(self._reflect(source.path, decode, self._workloads[source.name]))
        raise AssertionError("reflectors never end")

    async def wait_changed(self) -> None:
        """Wait until there is something that the last `snapshot` did not show."""
        await self._changed.wait()

    def snapshot(self) -> ClusterSnapshot:
        """The picture at this revision; the same object until something changes.

        What has not changed since the last snapshot is shared with it; what has is a shallow copy.
        """
        if self._snapshot.revision == self.revision:
            return self._snapshot
        last, index = self._snapshot, self._pod_index
        index.settle()
        stale = self._copied
        self._snapshot = ClusterSnapshot(
            revision=self.revision,
            nodes=dict(self._nodes.facts) if "nodes" in stale else last.nodes,
            pods=dict(self._pods.facts) if "pods" in stale else last.pods,
            usage=dict(index.usage) if "pods" in stale else last.usage,
            pods_by_node=dict(index.keys) if "pods" in stale else last.pods_by_node,
            workloads=self._all_workloads() if "workloads" in stale else last.workloads,
            events=newest(self._events.facts.values()) if "events" in stale else last.events,
            health=dict(self._health) if "health" in stale else last.health,
            is_complete=self._nodes.is_complete and self._pods.is_complete,
            history=self._log,
        )
        self._log.close(last.revision, self.revision)
        stale.clear()
        self._changed.clear()
        return self._snapshot

    def _table(
        self, name: str, key: Callable[[FactT], str], changed: Callable[[FactT | None, FactT | None], None]
    ) -> FactTable[FactT]:
        def tell_health(health: SourceHealth) -> None:
            if self._health.get(name) != health:
                self._health[name] = health
                self._touch("health")

        return FactTable(key=key, changed=changed, tell_health=tell_health, clock=self._clock)

    async def _reflect(
        self,
        path: str,
        decode: Callable[[Raw], FactT],
        table: FactTable[FactT],
        *,
        decode_protobuf: Callable[[Raw], FactT] | None = None,
    ) -> NoReturn:
        reflector = Reflector(
            self._session,
            path,
            decode=decode,
            decode_protobuf=decode_protobuf,
            identify=lambda fact: fact.uid,
            sink=table,
            clock=self._clock,
        )
        await reflector.run()

    def _touch(self, part: str) -> None:
        self._copied.add(part)
        self.revision += 1
        self._changed.set()

    def _node_changed(self, before: NodeFacts | None, after: NodeFacts | None) -> None:
        node = after or before
        if node is not None:
            self._log.node(node.name)
        self._touch("nodes")

    def _pod_changed(self, before: PodFacts | None, after: PodFacts | None) -> None:
        self._pod_index.change(before, after)
        for pod in (before, after):
            if pod is not None:
                self._log.pod(pod.key)
                self._log.node(pod.node)
        self._touch("pods")

    def _event_changed(self, before: EventFacts | None, after: EventFacts | None) -> None:
        self._touch("events")

    def _workload_changed(self, before: WorkloadFacts | None, after: WorkloadFacts | None) -> None:
        self._touch("workloads")

    def _all_workloads(self) -> dict[str, WorkloadFacts]:
        return {key: fact for table in self._workloads.values() for key, fact in table.facts.items()}
