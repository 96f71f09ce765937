"""The feed of accelerators: devices of chosen pods, sampled by exec or taken from a run's samples."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line
from actions.fleet.facts import PodFacts
from tui.feeds.cluster import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.run.spool.format import AcceleratorSample
    from actions.telemetry.tools.devices import DeviceReading

ASK_EVERY_SECONDS = 2.0
AT_ONCE = 8
"""Maximum number of pods sampled at the same time; the API server allows few exec sessions."""
FRESH_SECONDS = 12.0
"""A run's sample of at most this age replaces one of our own."""
_NVIDIA = ("nvidia-smi",)
_NEURON = ("sh", "-c", "neuron-monitor | head -n 2")
"""The first record of neuron-monitor has no runtimes yet, and it does not end by itself."""
_DEADLINE_SECONDS = 15.0


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


class Sampled(msgspec.Struct, frozen=True):
    """The place of a stage's samples in a run."""

    folder: Path
    stage: str


class AcceleratorFeed:
    """Samples of the chosen pods, taken in turn, a few at a time, until `run` is cancelled. Used on the loop only.

    Args:
        cluster: The cluster of the pods.
        clock: Time.
        changed: Called after every round.
    """

    def __init__(self, cluster: ClusterFeed, clock: Clock, changed: Callable[[], None]) -> None:
        self.readings: tuple[WorkerReading, ...] = ()
        """Newest samples, in the order in which the pods were chosen."""
        self.revision = 0
        self._cluster = cluster
        self._clock = clock
        self._changed = changed

    async def run(
        self,
        choose: Callable[[], Iterable[PodFacts]],
        live: Callable[[], None],
        *,
        sampled: Callable[[], Sampled | None] = lambda: None,
    ) -> None:
        """Sample until cancelled.

        Args:
            choose: Returns the pods to sample; called before every round.
            live: Called after a round with an answer, or without pods.
            sampled: Returns the place of a run's samples, if any.

        Raises:
            UnreachableError: The cluster is not connected.
        """
        while True:
            pods = list(choose())
            gate = asyncio.Semaphore(AT_ONCE)
            kept = self._samples(sampled())
            self.readings = tuple(await asyncio.gather(*(self._read(gate, pod, kept) for pod in pods)))
            self.revision += 1
            if not self.readings or any(not worker.reading.error for worker in self.readings):
                live()
            self._changed()
            await self._clock.sleep(ASK_EVERY_SECONDS)

    def _samples(self, sampled: Sampled | None) -> Mapping[str, AcceleratorSample]:
        """Return the run's fresh samples by pod name."""
        if sampled is None:
            return {}
        from actions.run.spool.reader import SpoolReader

        now = self._clock.now().timestamp()
        found = SpoolReader(sampled.folder, sampled.stage).accelerators()
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
                return WorkerReading(pod, reading, self._clock.monotonic())
        async with gate:
            try:
                text = await self._ask(self._cluster.session, pod)
            except ConsoleError as error:
                failed = DeviceReading(error=one_line(error.sentence()))
                return WorkerReading(pod, failed, self._clock.monotonic())
        return WorkerReading(pod, read_devices(text), self._clock.monotonic())

    async def _ask(self, session: KubeSession, pod: PodFacts) -> str:
        from actions.cluster.remote.exec import run_in_pod

        tool = _NEURON if pod.requests.neuron and not pod.requests.gpu else _NVIDIA
        container = pod.containers[0] if pod.containers else ""
        answer = await run_in_pod(session, pod.namespace, pod.name, container, tool, deadline_seconds=_DEADLINE_SECONDS)
        return (answer.stdout or answer.stderr).decode("utf-8", "replace")
