"""The feed of what a Prometheus in the cluster has of GPUs: of chosen pods, or of all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line
from actions.fleet.facts import PodFacts
from actions.telemetry.tools.device_history import DeviceHistory
from tui.feeds.accelerators import WorkerReading
from tui.feeds.cluster import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.prometheus import PrometheusService
    from actions.telemetry.tools.dcgm import KeptGpu

ASK_EVERY_SECONDS = 60.0
SEARCH_EVERY_SECONDS = 600.0
_LEAST_SECONDS, _MOST_SECONDS = 900.0, 86_400.0
"""The time back from now: that of the pods, within these; of all nodes an hour."""
_HOUR = 3600.0
_FRESH_SECONDS = 180.0
"""Age up to which a value is one of now: three scrapes of a minute."""
_REASON_CHARACTERS = 80


class GpuHistoryFeed:
    """GPUs of the last hours by a Prometheus, asked for every minute until `run` is cancelled. Used on the loop only.

    `source` is its Service; empty if there certainly is none with such metrics, or, with a `reason`, if that is not
    known.

    Args:
        cluster: Returns the cluster on screen.
        clock: Time.
        changed: Called after every answer.
        address: The Service, `NAMESPACE/NAME:PORT`; empty to look for one.
    """

    def __init__(
        self, cluster: Callable[[], ClusterFeed], clock: Clock, changed: Callable[[], None], address: str = ""
    ) -> None:
        self.gpus: Sequence[KeptGpu] = ()
        self.source = ""
        self.reason = ""
        self.is_known = False
        """There was an answer, or a reason for none."""
        self.revision = 0
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._address = address
        self._services: tuple[PrometheusService, ...] = ()
        self._searched: tuple[KubeSession | None, float] = (None, 0.0)

    def forget(self) -> None:
        """Drop what is of other pods."""
        self.gpus, self.source, self.reason, self.is_known = (), "", "", False
        self.revision += 1

    async def run(self, choose: Callable[[], Sequence[PodFacts] | None], live: Callable[[], None]) -> None:
        """Ask until cancelled.

        Args:
            choose: Returns the pods; empty for all nodes, `None` for nothing to ask.
            live: Called after every answer.
        """
        while True:
            cluster = self._cluster()
            pods = choose() if cluster.is_connected else None
            if pods is None:
                await self._clock.sleep(1.0)
                continue
            try:
                await self._ask(cluster.session, pods)
                self.reason = ""
            except ConsoleError as error:
                self.gpus, self.source, self.reason = (), "", one_line(error.message, limit=_REASON_CHARACTERS)
            self.is_known = True
            self.revision += 1
            live()
            self._changed()
            await self._clock.sleep(ASK_EVERY_SECONDS)

    async def _ask(self, session: KubeSession, pods: Sequence[PodFacts]) -> None:
        from actions.cluster.prometheus import gpu_history

        services = await self._find(session)
        now = self._clock.now().timestamp()
        began = min((pod.created_at for pod in pods if pod.created_at), default=now - _HOUR)
        since = now - min(_MOST_SECONDS, max(_LEAST_SECONDS, now - began))
        keys = [pod.key for pod in pods]
        self.source, self.gpus = await gpu_history(session, services, keys, since=since, until=now)

    async def _find(self, session: KubeSession) -> tuple[PrometheusService, ...]:
        from actions.cluster.objects.client import Discovery
        from actions.cluster.prometheus import find_services, parse_service

        if self._address:
            return (parse_service(self._address),)
        now = self._clock.monotonic()
        if self._searched[0] is not session or now - self._searched[1] >= SEARCH_EVERY_SECONDS:
            self._services = await find_services(session, Discovery(session))
            self._searched = session, now
        return self._services


def fleet_readings(gpus: Iterable[KeptGpu], now: float) -> list[WorkerReading]:
    """Return the GPUs of all nodes as they were a moment ago, by pod, and by node those that no pod has."""
    from actions.telemetry.tools.devices import DeviceReading

    found: dict[tuple[str, str], list[KeptGpu]] = {}
    for gpu in gpus:
        if now - gpu.at <= _FRESH_SECONDS:
            found.setdefault((gpu.pod, gpu.node), []).append(gpu)
    readings = []
    for (key, node), held in found.items():
        namespace, _, name = key.partition("/")
        pod = PodFacts(uid="", namespace=namespace if key else node, name=name, node=node)
        readings.append(WorkerReading(pod, DeviceReading(tuple(gpu.device for gpu in held)), 0.0, held[0].at))
    return readings


def with_gpus(readings: Sequence[WorkerReading], gpus: Sequence[KeptGpu], now: float) -> list[WorkerReading]:
    """Return the workers, those without an answer of their own with the devices that the Prometheus has of them."""
    known = {reading.pod.key: reading for reading in fleet_readings(gpus, now)} if gpus else {}
    found = []
    for worker in readings:
        other = known.get(worker.pod.key)
        is_silent = bool(worker.reading.error) and other is not None
        found.append(WorkerReading(worker.pod, other.reading, worker.at) if is_silent and other else worker)
    return found


def histories_of(readings: Iterable[WorkerReading], gpus: Iterable[KeptGpu]) -> Mapping[tuple[str, str], DeviceHistory]:
    """Return histories by the row's place and the device's label.

    A container counts its devices from 0, an exporter those of the node: both in the order of their PCI addresses.
    """
    held: dict[str, list[KeptGpu]] = {}
    for gpu in gpus:
        held.setdefault(gpu.pod or gpu.node, []).append(gpu)
    found = {}
    for worker in readings:
        place = worker.pod.key if worker.pod.name else worker.pod.node
        own = held.get(place, [])
        newest = [gpu for gpu in own if gpu.at >= max(one.at for one in own) - _FRESH_SECONDS]
        if len(newest) == len(worker.reading.devices):
            for device, gpu in zip(worker.reading.devices, newest, strict=True):
                found[worker.pod.key, device.label] = gpu.history
    return found
