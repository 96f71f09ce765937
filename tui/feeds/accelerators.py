"""What the accelerators of some pods are doing, asked while somebody looks, or taken from what a run has sampled."""

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
"""Most pods asked at the same time; the API server allows few exec sessions."""
FRESH_SECONDS = 12.0
"""A sample of the run that is no older need not be asked for again."""
_NVIDIA = ("nvidia-smi",)
_NEURON = ("sh", "-c", "neuron-monitor | head -n 2")
"""Its first record has nothing of the runtimes yet, and it never ends by itself."""
_DEADLINE_SECONDS = 15.0


class WorkerReading(msgspec.Struct, frozen=True):
    """One answer of one worker.

    Args:
        pod: Whose.
        reading: What the tool said; its `error` says why there is nothing.
        at: Monotonic seconds.
    """

    pod: PodFacts
    reading: DeviceReading
    at: float


class Sampled(msgspec.Struct, frozen=True):
    """Where a run keeps the samples of a stage."""

    folder: Path
    stage: str


class AcceleratorFeed:
    """Asks every chosen pod in turn, a few at a time, until the work is cancelled. Used on the loop only.

    Args:
        cluster: Whose pods.
        clock: Time.
        changed: Called after every round.
    """

    def __init__(self, cluster: ClusterFeed, clock: Clock, changed: Callable[[], None]) -> None:
        self.readings: tuple[WorkerReading, ...] = ()
        """Newest answers, in the order in which the pods were chosen."""
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
        """Ask, for ever.

        Args:
            choose: The pods to ask, looked up before every round.
            live: Called after a round that had an answer, or nobody to ask.
            sampled: Where fresh answers may be already.

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
        """Fresh samples by pod name."""
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
