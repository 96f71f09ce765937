"""The feed of accelerators, now and over time: of chosen pods, sampled by exec or taken from a run's samples."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConsoleError
from actions.base.untrusted import one_line
from actions.fleet.facts import PodFacts
from actions.telemetry.tools.device_history import (
    DeviceHistory,
    DeviceTotals,
    Quantity,
    RateMeter,
    SpanRecord,
)

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.run.output.streams import AcceleratorSample
    from actions.telemetry.tools.devices import DeviceReading

ASK_EVERY_SECONDS = 2.0
AT_ONCE = 8
"""Maximum number of pods sampled at the same time; the API server allows few exec sessions."""
FRESH_SECONDS = 12.0
"""A run's sample of at most this age replaces one of our own."""
_DEADLINE_SECONDS = 20.0
_CHUNK_BYTES = 128 * 1024
"""Bytes of a run's history read at once: some ten milliseconds of the loop."""
_RECENT_SECONDS = 900.0
"""Age up to which a run's spans begin the history of a device that is watched."""


class WorkerReading(msgspec.Struct, frozen=True):
    """A sample of one worker.

    Args:
        pod: The pod.
        reading: The tool's reading; its `error` is the reason if there is none.
        at: Monotonic seconds.
    """

    pod: PodFacts
    reading: DeviceReading
    at: float
    moment: float = 0.0
    """Seconds since the epoch; 0 without an answer."""


class Sampled(msgspec.Struct, frozen=True):
    """The place of a stage's samples in a run."""

    folder: Path
    stage: str


class PastReadings(msgspec.Struct, frozen=True):
    """The accelerators of a stage without running pods: means over one time, and their histories in the feed."""

    place: Sampled
    readings: tuple[WorkerReading, ...]
    began_at: float
    ended_at: float
    """Seconds since the epoch: from the first moment at which all were sampled to the last sample."""
    is_common: bool = True
    """False if there is no such moment, as pods took the place of others: each mean is over a device's own time."""


class AcceleratorFeed:
    """Samples of the chosen pods, taken in turn, a few at a time, until `run` is cancelled. Used on the loop only.

    Args:
        session: Returns the session with the cluster of the pods.
        clock: Time.
        changed: Called after every round.
    """

    def __init__(self, session: Callable[[], KubeSession], clock: Clock, changed: Callable[[], None]) -> None:
        self.readings: tuple[WorkerReading, ...] = ()
        """Newest samples, in the order in which the pods were chosen."""
        self.histories: dict[tuple[str, str], DeviceHistory] = {}
        """By the pod's `namespace/name` (of the past without the namespace) and the device's label."""
        self.past: PastReadings | None = None
        """The whole time of a stage, while no pod is chosen and a run has kept one."""
        self.revision = 0
        self.asked = 0
        """Number of pods of the newest round."""
        self.zero_since: dict[str, float] = {}
        """Since when each requested device has been at 0 % in every sample: monotonic seconds, by pod and index."""
        self._session = session
        self._clock = clock
        self._changed = changed
        self._seen: dict[str, float] = {}
        """Moment of the newest sample of each pod that is in the histories."""
        self._meters: dict[str, RateMeter] = {}
        """By the pod's uid."""
        self._containers: dict[str, str] = {}
        """The one to ask of each pod, by its uid."""
        self._past_bytes = 0

    async def run(
        self,
        choose: Callable[[], Iterable[PodFacts]],
        live: Callable[[], None],
        *,
        sampled: Callable[[], Sampled | None] = lambda: None,
        past: Callable[[], Sampled | None] = lambda: None,
    ) -> None:
        """Sample until cancelled.

        Args:
            choose: Returns the pods to sample; called before every round.
            live: Called after a round with an answer, or without pods.
            sampled: Returns the place of a run's samples, if any.
            past: Returns the place of the samples to show while no pod is chosen.

        Raises:
            UnreachableError: The cluster is not connected.
        """
        while True:
            pods = list(choose())
            place = past() if not pods else None
            if place is not None:
                await self._show_past(place)
                live()
            else:
                await self._show_present(pods, sampled())
                if not self.readings or any(not worker.reading.error for worker in self.readings):
                    live()
            await self._clock.sleep(ASK_EVERY_SECONDS)

    def forget(self) -> None:
        """Drop all samples: they are of pods that are not shown any more."""
        self.readings, self.asked, self.zero_since = (), 0, {}
        self.past = None
        self.histories, self._seen, self._meters, self._containers = {}, {}, {}, {}
        self.revision += 1

    async def _show_present(self, pods: list[PodFacts], place: Sampled | None) -> None:
        if self.past is not None:
            self.forget()
        self.asked = len(pods)
        gate = asyncio.Semaphore(AT_ONCE)
        kept = self._samples(place)
        self._containers = {pod.uid: self._containers[pod.uid] for pod in pods if pod.uid in self._containers}
        readings = tuple(await asyncio.gather(*(self._read(gate, pod, kept) for pod in pods)))
        if place is not None:
            self._begin_from(place, [pod for pod in pods if pod.key not in self._seen])
        self.readings = self._rated(readings)
        self._note_histories()
        self._note_zeros()
        self.revision += 1
        self._changed()

    def _rated(self, readings: Iterable[WorkerReading]) -> tuple[WorkerReading, ...]:
        """Return samples with the bytes a second since those before."""
        known, self._meters = self._meters, {}
        rated = []
        for worker in readings:
            meter = self._meters[worker.pod.uid] = known.get(worker.pod.uid) or RateMeter()
            if worker.moment:
                worker = msgspec.structs.replace(worker, reading=meter.rated(worker.moment, worker.reading))  # noqa: PLW2901
            rated.append(worker)
        return tuple(rated)

    def _note_zeros(self) -> None:
        before, self.zero_since = self.zero_since, {}
        for worker in self.readings:
            for device in worker.reading.devices:
                key = f"{worker.pod.uid}#{device.index}"
                if device.load_pct == 0:
                    self.zero_since[key] = before.get(key, worker.at)

    def _note_histories(self) -> None:
        """Add the newest samples to the histories; drop those of pods that are gone."""
        keys = {worker.pod.key for worker in self.readings}
        self.histories = {key: history for key, history in self.histories.items() if key[0] in keys}
        self._seen = {key: moment for key, moment in self._seen.items() if key in keys}
        for worker in self.readings:
            key = worker.pod.key
            if worker.moment > self._seen.get(key, 0.0):
                self._seen[key] = worker.moment
                for device in worker.reading.devices:
                    self._history(key, device.label).add_sample(worker.moment, device)

    def _begin_from(self, place: Sampled, pods: Iterable[PodFacts]) -> None:
        """Begin the histories of pods with the last minutes that the run has kept."""
        wanted = {pod.name: pod.key for pod in pods}
        if not wanted:
            return
        from actions.run.output.reader import OutputReader

        reader = OutputReader(place.folder, place.stage)
        records, _ = reader.device_spans(reader.spans_tail(_CHUNK_BYTES))
        since = self._clock.now().timestamp() - _RECENT_SECONDS
        for record in records:
            if record.pod in wanted and record.until >= since:
                key = wanted[record.pod]
                self._seen[key] = record.until
                for device in record.devices:
                    self._history(key, device.label).add(record.since, record.until, device.all_extents, record.samples)

    def _history(self, pod: str, label: str) -> DeviceHistory:
        return self.histories.setdefault((pod, label), DeviceHistory())

    async def _show_past(self, place: Sampled) -> None:
        """Read all that a run has kept of a stage, in pieces; nothing if it has not grown."""
        from actions.run.output.reader import OutputReader

        reader = OutputReader(place.folder, place.stage)
        size = reader.device_bytes()
        if self.past is not None and self.past.place == place and self._past_bytes == size:
            return
        newest: dict[str, SpanRecord] = {}
        histories: dict[tuple[str, str], DeviceHistory] = {}
        totals: dict[tuple[str, str], DeviceTotals] = {}
        offset = 0
        while offset < size:
            records, end = reader.device_spans(offset, limit_bytes=_CHUNK_BYTES)
            if end == offset:
                break
            offset = end
            for record in records:
                newest[record.pod] = record
                for device in record.devices:
                    history = histories.setdefault((f"/{record.pod}", device.label), DeviceHistory(is_whole=True))
                    history.add(record.since, record.until, device.all_extents, record.samples)
                    known = totals.setdefault((f"/{record.pod}", device.label), DeviceTotals())
                    known.add(device.label, device.throttle, device.errors, record.samples)
            await asyncio.sleep(0)
        spans = [history.span for history in histories.values()]
        began, ended = max((since for since, _ in spans), default=0.0), max((until for _, until in spans), default=0.0)
        is_common = all(until >= began for _, until in spans)
        since = began if is_common else 0.0
        readings = tuple(_past_reading(record, histories, totals, since) for record in newest.values())
        began = began if is_common else min(since for since, _ in spans)
        self.forget()
        self.histories = histories
        self.past, self._past_bytes = PastReadings(place, readings, began, ended, is_common), size
        self._changed()

    def _samples(self, sampled: Sampled | None) -> Mapping[str, AcceleratorSample]:
        """Return the run's fresh samples by pod name."""
        if sampled is None:
            return {}
        from actions.run.output.reader import OutputReader

        now = self._clock.now().timestamp()
        found = OutputReader(sampled.folder, sampled.stage).accelerators()
        return {name: sample for name, sample in found.items() if now - sample.at <= FRESH_SECONDS}

    async def _read(
        self, gate: asyncio.Semaphore, pod: PodFacts, kept: Mapping[str, AcceleratorSample]
    ) -> WorkerReading:
        from actions.telemetry.tools.devices import (  # many expressions to compile: after the first frame
            DeviceReading,
            read_devices,
        )

        sample = kept.get(pod.name)
        if sample is not None:
            reading = read_devices(sample.text)
            if not reading.error:
                return WorkerReading(pod, reading, self._clock.monotonic(), sample.at)
        async with gate:
            try:
                text = await self._ask(self._session(), pod)
            except ConsoleError as error:
                failed = DeviceReading(error=one_line(error.sentence()))
                return WorkerReading(pod, failed, self._clock.monotonic())
        return WorkerReading(pod, read_devices(text), self._clock.monotonic(), self._clock.now().timestamp())

    async def _ask(self, session: KubeSession, pod: PodFacts) -> str:
        container = self._containers.get(pod.uid) or await container_to_ask(session, pod)
        self._containers[pod.uid] = container
        return await ask_devices(session, pod, container)


async def ask_devices(session: KubeSession, pod: PodFacts, container: str) -> str:
    """Return what the tool for a pod's accelerators prints in one of its containers.

    Raises:
        ConsoleError: It may not be asked, or does not answer.
    """
    from actions.cluster.remote.exec import run_in_pod
    from actions.telemetry.tools.devices import NEURON_COMMAND, NVIDIA_COMMAND

    tool = NEURON_COMMAND if pod.requests.neuron and not pod.requests.gpu else NVIDIA_COMMAND
    answer = await run_in_pod(session, pod.namespace, pod.name, container, tool, deadline_seconds=_DEADLINE_SECONDS)
    return answer.text


async def container_to_ask(session: KubeSession, pod: PodFacts) -> str:
    """Return the container of a pod that has its accelerators: a sidecar before it has none.

    It is the first one if the pod may not be read.

    Raises:
        ConsoleError: The cluster does not answer, or the pod is gone.
    """
    first = pod.containers[0] if pod.containers else ""
    if len(pod.containers) < 2:
        return first
    from actions.base.names import segment
    from actions.cluster.state.decode import container_with_devices

    try:
        document = await session.get(f"/api/v1/namespaces/{segment(pod.namespace)}/pods/{segment(pod.name)}")
    except AccessError:
        return first
    return container_with_devices(document)


def _past_reading(
    record: SpanRecord,
    histories: Mapping[tuple[str, str], DeviceHistory],
    totals: Mapping[tuple[str, str], DeviceTotals],
    since: float,
) -> WorkerReading:
    """Return the means of a pod's devices, which are those of its last span, from a moment on."""
    from actions.telemetry.tools.devices import Device, DeviceReading

    pod = PodFacts(uid="", namespace="", name=record.pod, node=record.node)
    devices: list[Device] = []
    for span in record.devices:
        history = histories[pod.key, span.label]
        load, memory, power, degrees, nvlink, efa, clock = (
            history.mean_since(quantity, since) for quantity in Quantity
        )
        power_cap, top_clock = span.limits or (None, None)
        total = totals[pod.key, span.label]
        corrected, uncorrected, of_links = total.errors or (None, None, None)
        devices.append(
            Device(
                index=len(devices),
                label=span.label,
                model=span.model,
                load_pct=load,
                mem_used_bytes=None if memory is None else round(memory),
                mem_total_bytes=span.memory_total_bytes,
                power_w=power,
                power_cap_w=power_cap,
                temp_c=None if degrees is None else round(degrees),
                clock_mhz=None if clock is None else round(clock),
                clock_max_mhz=None if top_clock is None else round(top_clock),
                throttle=tuple(reason for reason, _ in total.shares()),
                throttle_shares=tuple(share for _, share in total.shares()),
                ecc_corrected=corrected,
                ecc_uncorrected=uncorrected,
                nvlink_errors=of_links,
                nvlink_rate=nvlink,
                efa_rate=efa,
            )
        )
    return WorkerReading(pod, DeviceReading(tuple(devices), record.noun), 0.0, record.until)
