"""The live state of one cluster: its sources, its stores, and snapshots of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from operator import attrgetter
from typing import NoReturn, TypedDict, TypeVar

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConsoleError
from actions.cluster.auth.permissions import NamespaceAccess
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import WATCHED, KubeKind, kind_of
from actions.cluster.state import pod_protobuf as protopod
from actions.cluster.state.decode import decode_claim, decode_event, decode_node, decode_pod, workload_decoder
from actions.cluster.state.device_decode import decode_device_claim, decode_slice
from actions.cluster.state.device_layer import DeviceLayer
from actions.cluster.state.kept import KeptSnapshot, WatchVersions
from actions.cluster.state.namespaces import ScopedReflector
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot, SnapshotBuilder
from actions.cluster.state.store import (
    EventTable,
    FactTable,
    HasNamespace,
    HasUid,
    claim_key,
    device_claim_key,
    node_key,
    pod_key,
    slice_key,
    trim,
    workload_key,
)
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.liveness import ServerLiveness, probe_liveness
from actions.cluster.watch.reflector import Raw, Reflector, Sink
from actions.cluster.watch.served import ServedGroups, served_versions
from actions.fleet.facts import DeviceClaimFacts, EventFacts, NodeFacts, PodFacts, SliceFacts, WorkloadFacts

__all__ = ["ClusterSnapshot", "ClusterState"]

FactT = TypeVar("FactT", bound=HasUid)
PlacedT = TypeVar("PlacedT", bound=HasNamespace)


_uid_of: Callable[[HasUid], str] = attrgetter("uid")
_REST_SECONDS = 0.1
"""The least time between two changes of a snapshot."""
_NO_SIGN = "the API server does not answer"
_NODES, _CLAIMS = kind_of("Node"), kind_of("NodeClaim")
_PODS, _EVENTS = kind_of("Pod"), kind_of("Event")
_SLICES, _DEVICE_CLAIMS = kind_of("ResourceSlice"), kind_of("ResourceClaim")
_REFUSED = (Health.FORBIDDEN, Health.UNAUTHORIZED)


class _Reports(TypedDict):
    report_health: Callable[[SourceHealth], None]
    report_replacing: Callable[[bool], None]


class ClusterState:
    """The live state of a cluster, as far as the console shows it.

    `run` on the session's loop; everything else is called there too. `revision` never decreases: it grows with every
    change that a snapshot would show, and stays as it is with any other (a node's heartbeat).

    Args:
        session: The session.
        clock: Time.
        kept: The same cluster as it was at an earlier time: the first snapshot, with which nodes and pods go on.
    """

    def __init__(self, session: KubeSession, *, clock: Clock | None = None, kept: KeptSnapshot | None = None) -> None:
        self.revision = kept.snapshot.revision if kept else 0
        self._session = session
        self._clock = clock or SystemClock()
        self._namespace_access = NamespaceAccess(session, clock=self._clock)
        self._changed = asyncio.Event()
        self._log = kept.snapshot.history if kept else ChangeLog()
        self._health: dict[str, SourceHealth] = {}
        self._liveness = ServerLiveness(self._clock, lambda: self._touch("health"))
        self._served = ServedGroups(session, self._liveness, clock=self._clock)
        self._pod_index = kept.index if kept else PodIndex()
        self._snapshot = kept.snapshot if kept else ClusterSnapshot(history=self._log)
        self._known_versions = kept.versions if kept else WatchVersions()
        self._watchers: dict[str, Callable[[], str]] = {}
        self._dirty: set[str] = set()
        self._suspended: Counter[str] = Counter()
        self._nodes = self._table("nodes", node_key, self._node_changed)
        self._pods = self._table("pods", pod_key, self._pod_changed)
        self._devices = DeviceLayer(self._nodes.facts, self._pod_index.usage, self._pods.facts)
        self._serves_devices = False
        self._slices = self._table("resourceslices", slice_key, self._slice_changed, part="devices")
        self._device_claims = self._table(
            "resourceclaims", device_claim_key, self._device_claim_changed, part="devices"
        )
        self._pod_snapshots = SnapshotBuilder(
            self._pods.facts, kept.snapshot.pods if kept else {}, over=self._devices.pods
        )
        self._events = EventTable(changed=self._event_changed, clock=self._clock, **self._reports("events"))
        self._claims = self._table("nodeclaims", claim_key, lambda *_: self._touch("nodeclaims"))
        self._workloads = {
            row.name: self._table(
                row.plural if row.name == row.kind else f"{row.plural}.{row.group}",
                workload_key,
                self._workload_changed,
                part="workloads",
            )
            for row in WATCHED
        }
        if kept:
            self._nodes.restore(kept.own_nodes)
            self._pods.restore(kept.own_pods)
            self._devices.restore(*kept.with_devices)

    async def run(self) -> NoReturn:
        """Watch until cancelled; then every connection is closed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                probe_liveness(self._session, self._liveness, clock=self._clock, is_wanted=self._is_live_anywhere)
            )
            group.create_task(self._served.run())
            decode_here = partial(decode_node, region=self._session.region)
            group.create_task(
                self._reflector(
                    _NODES.list_path(), self._nodes, decode_here, resume_version=self._known_versions.nodes
                ).run()
            )
            group.create_task(self._reflector(_CLAIMS.list_path(), self._claims, decode_claim).run())
            group.create_task(
                self._follow(
                    _PODS, self._pods, decode_pod, protopod.decode_pod, resume_version=self._known_versions.pods
                )
            )
            group.create_task(self._follow(_EVENTS, self._events, decode_event, trim=trim))
            group.create_task(self._follow_devices())
            for row in WATCHED:
                decode = workload_decoder(row.api_version, row.kind)
                group.create_task(self._follow(row, self._workloads[row.name], decode))
        raise AssertionError("reflectors never end")

    async def wait_changed(self) -> None:
        """Wait for a change since the last `snapshot`."""
        await self._changed.wait()

    def versions(self) -> WatchVersions:
        """Return where watches can go on from the facts of this moment."""
        found = {path: version() for path, version in self._watchers.items()}
        return WatchVersions(found.get(_NODES.list_path(), ""), found.get(_PODS.list_path(), ""))

    def snapshot(self) -> ClusterSnapshot:
        """Return the snapshot of this revision; the same object until something changes.

        Parts that have not changed since the last snapshot are shared with it; the others are shallow copies.
        """
        if self._snapshot.revision == self.revision:
            return self._snapshot
        last, index = self._snapshot, self._pod_index
        held = +self._suspended
        stale = self._dirty - held.keys()
        if "pods" in stale:
            index.update_totals()
        if self._lay_devices(held.keys()):
            stale |= {"nodes", "pods"}
        layer = self._devices
        is_complete = self._nodes.is_complete and self._pods.is_complete
        self._snapshot = ClusterSnapshot(
            revision=self.revision,
            nodes={**self._nodes.facts, **layer.nodes} if "nodes" in stale else last.nodes,
            pods=self._pod_snapshots.take() if "pods" in stale else last.pods,
            usage={**index.usage, **layer.usage} if "pods" in stale else last.usage,
            pods_by_node=dict(index.keys) if "pods" in stale else last.pods_by_node,
            workloads=self._all_workloads() if "workloads" in stale else last.workloads,
            claims=dict(self._claims.facts) if "nodeclaims" in stale else last.claims,
            events=self._events.newest() if "events" in stale else last.events,
            health=self._reported_health() if "health" in stale else last.health,
            is_complete=is_complete,
            leaves_out_claims=self._serves_devices and not self._counts_devices,
            as_of=0.0 if is_complete else last.as_of,
            history=self._log,
        )
        self._log.close(last.revision, self.revision, is_held=bool(held))
        self._dirty -= stale
        self._changed.clear()
        return self._snapshot

    @property
    def _counts_devices(self) -> bool:
        """All slices, and all claims that may be seen, have been listed once; or the server has neither."""
        return self._slices.is_complete and self._device_claims.is_complete

    def _lay_devices(self, held: Collection[str]) -> bool:
        """Bring nodes and pods up to date with their devices, unless one of these lists is being read.

        Returns:
            Whether nodes or pods may differ.
        """
        if "nodes" in held or "pods" in held or "devices" in held:
            return False
        health = (self._health.get(_SLICES.plural), self._health.get(_DEVICE_CLAIMS.plural))
        is_refused = any(one is not None and one.state in _REFUSED for one in health)
        changed = self._devices.update(is_counted=self._counts_devices, is_refused=is_refused)
        for name in changed.nodes:
            self._log.node(name)
        for key in changed.pods:
            self._log.pod(key)
            if (pod := self._pods.facts.get(key)) is not None:
                self._pod_snapshots.changed(key, self._devices.pods.get(key, pod))
        return bool(changed.nodes or changed.pods)

    def _table(
        self,
        name: str,
        key: Callable[[FactT], str],
        changed: Callable[[str, FactT | None, FactT | None], None],
        *,
        part: str = "",
    ) -> FactTable[FactT]:
        return FactTable(key=key, changed=changed, clock=self._clock, **self._reports(name, part))

    def _reports(self, name: str, part: str = "") -> _Reports:
        """Return the callbacks by which a source's table reports its health, and the start and end of a list."""
        part = part or name

        def report_health(health: SourceHealth) -> None:
            if self._health.get(name) != health:
                self._health[name] = health
                self._touch("health")

        def report_replacing(is_replacing: bool) -> None:
            self._suspended[part] += 1 if is_replacing else -1
            if not self._suspended[part] and part in self._dirty:
                self._touch(part)

        return _Reports(report_health=report_health, report_replacing=report_replacing)

    async def _follow_devices(self) -> NoReturn:
        """Follow slices and claims of devices, once the server has them in a version that is read."""
        while not (found := await self._versions_of_devices()):
            if not self._counts_devices:
                await self._slices.replace(())
                await self._device_claims.replace(())
                self._touch("devices")
            await self._served.wait(_SLICES.list_path())
        self._serves_devices = True
        self._touch("health")
        slices, claims = (replace(kind, versions=found) for kind in (_SLICES, _DEVICE_CLAIMS))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector(slices.list_path(), self._slices, decode_slice).run())
            group.create_task(self._follow(claims, self._device_claims, decode_device_claim))
        raise AssertionError("reflectors never end")

    async def _versions_of_devices(self) -> tuple[str, ...]:
        """Return the versions that server and program have in common, the best first; all if that is not known."""
        try:
            return await served_versions(self._session, _SLICES)
        except ConsoleError:  # the reflectors find out, and report why
            return _SLICES.versions

    async def _follow(
        self,
        kind: KubeKind,
        table: FactTable[PlacedT],
        decode: Callable[[Raw], PlacedT],
        decode_protobuf: Callable[[Raw], PlacedT] | None = None,
        *,
        trim: Callable[[dict[str, PlacedT]], None] = lambda _: None,
        resume_version: str = "",
    ) -> NoReturn:
        """Watch a namespaced resource as far as the user may, the whole of it at first from a version, if given."""
        versions = [resume_version]

        def reflector(path: str, sink: Sink[PlacedT], ends_when_forbidden: bool) -> Reflector[PlacedT]:
            return self._reflector(
                path,
                sink,
                decode,
                decode_protobuf=decode_protobuf,
                ends_when_forbidden=ends_when_forbidden,
                trim=trim,
                resume_version=versions.pop() if versions else "",
            )

        scoped = ScopedReflector(
            self._session,
            kind,
            table=table,
            reflector=reflector,
            namespace_access=self._namespace_access,
            clock=self._clock,
        )
        await scoped.run()

    def _reflector(
        self,
        path: str,
        sink: Sink[FactT],
        decode: Callable[[Raw], FactT],
        *,
        decode_protobuf: Callable[[Raw], FactT] | None = None,
        ends_when_forbidden: bool = False,
        trim: Callable[[dict[str, FactT]], None] = lambda _: None,
        resume_version: str = "",
    ) -> Reflector[FactT]:
        made = Reflector(
            self._session,
            path,
            decode=decode,
            decode_protobuf=decode_protobuf,
            identify=_uid_of,
            sink=sink,
            clock=self._clock,
            rest_seconds=_REST_SECONDS,
            liveness=self._liveness,
            served=self._served,
            ends_when_forbidden=ends_when_forbidden,
            trim=trim,
            resume_version=resume_version,
        )
        self._watchers[path] = made.version
        return made

    def _is_live_anywhere(self) -> bool:
        return any(health.state is Health.LIVE for health in self._health.values())

    def _reported_health(self) -> dict[str, SourceHealth]:
        """Return the health of every source; while the server is silent, none is live."""
        if not self._liveness.is_silent:
            return dict(self._health)
        since = self._liveness.heard_at
        return {
            name: SourceHealth(Health.STALE, _NO_SIGN, since, health.skipped) if health.state is Health.LIVE else health
            for name, health in self._health.items()
        }

    def _touch(self, part: str) -> None:
        """Record a change of this part; while a list is being read, it is not published yet."""
        self._dirty.add(part)
        if self._suspended[part]:
            return
        self.revision += 1
        self._changed.set()

    def _node_changed(self, key: str, before: NodeFacts | None, after: NodeFacts | None) -> None:
        self._devices.node_changed(key, after)
        self._log.node(key)
        self._touch("nodes")

    def _pod_changed(self, key: str, before: PodFacts | None, after: PodFacts | None) -> None:
        self._pod_index.change(key, before, after)
        self._devices.pod_changed(key, before, after)
        self._pod_snapshots.changed(key, self._devices.shown(key, after))
        self._log.pod(key)
        if before is not None:
            self._log.node(before.node)
        if after is not None:
            self._log.node(after.node)
        self._touch("pods")

    def _slice_changed(self, key: str, before: SliceFacts | None, after: SliceFacts | None) -> None:
        self._devices.index.slice_changed(before, after)
        self._touch("devices")

    def _device_claim_changed(self, key: str, before: DeviceClaimFacts | None, after: DeviceClaimFacts | None) -> None:
        self._devices.index.claim_changed(key, before, after)
        self._touch("devices")

    def _event_changed(self, key: str, before: EventFacts | None, after: EventFacts | None) -> None:
        self._touch("events")

    def _workload_changed(self, key: str, before: WorkloadFacts | None, after: WorkloadFacts | None) -> None:
        self._touch("workloads")

    def _all_workloads(self) -> dict[str, WorkloadFacts]:
        return {key: fact for table in self._workloads.values() for key, fact in table.facts.items()}
