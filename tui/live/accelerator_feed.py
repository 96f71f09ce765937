"""What nvidia-smi says in each worker of a stage, asked while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line
from actions.fleet.facts import PodFacts
from actions.telemetry.smi_reading import SmiReading
from tui.live.cluster_feed import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.session import KubeSession

ASK_EVERY_SECONDS = 2.0
AT_ONCE = 8
"""Most pods asked at the same time; the API server allows few exec sessions."""
_TOOL = ("nvidia-smi",)
_DEADLINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WorkerReading:
    """One answer of one worker.

    Args:
        pod: Whose.
        reading: What the tool said; its `error` says why there is nothing.
        at: Monotonic seconds.
    """

    pod: PodFacts
    reading: SmiReading
    at: float


class AcceleratorFeed:
    """Asks every chosen pod in turn, a few at a time, until the work is cancelled. Used on the loop only.

    Args:
        cluster: Whose pods.
        clock: Time.
        changed: Called after every round.
    """

    def __init__(self, cluster: ClusterFeed, clock: Clock, changed: Callable[[], None]) -> None:
        self.readings: tuple[WorkerReading, ...] = ()
        """Newest answers, by pod name."""
        self.revision = 0
        self._cluster = cluster
        self._clock = clock
        self._changed = changed

    async def run(self, choose: Callable[[], Iterable[PodFacts]], live: Callable[[], None]) -> None:
        """Ask, for ever.

        Args:
            choose: The pods to ask, looked up before every round.
            live: Called after a round that had an answer, or nobody to ask.

        Raises:
            UnreachableError: The cluster is not connected.
        """
        while True:
            pods = sorted(choose(), key=lambda pod: pod.name)
            gate = asyncio.Semaphore(AT_ONCE)
            self.readings = tuple(await asyncio.gather(*(self._ask(gate, self._cluster.session, pod) for pod in pods)))
            self.revision += 1
            if not self.readings or any(not worker.reading.error for worker in self.readings):
                live()
            self._changed()
            await self._clock.sleep(ASK_EVERY_SECONDS)

    async def _ask(self, gate: asyncio.Semaphore, session: KubeSession, pod: PodFacts) -> WorkerReading:
        from actions.cluster.exec import run_in_pod

        container = pod.containers[0] if pod.containers else ""
        async with gate:
            try:
                answer = await run_in_pod(
                    session, pod.namespace, pod.name, container, _TOOL, deadline_seconds=_DEADLINE_SECONDS
                )
            except ConsoleError as error:
                return WorkerReading(pod, SmiReading(error=one_line(error.sentence())), self._clock.monotonic())
        from actions.telemetry.nvidia_smi import read  # many expressions to compile: after the first frame

        text = (answer.stdout or answer.stderr).decode("utf-8", "replace")
        return WorkerReading(pod, read(text), self._clock.monotonic())
