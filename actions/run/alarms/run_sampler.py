"""The sampler of a run: curves, pods and accelerators, as alarms and the idle limit read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from actions.base.clock import Clock
from actions.base.executors import in_thread
from actions.run.alarms.causes import Alarm, Samples, alarms_in
from actions.run.journal.lease import Heartbeat
from actions.run.limits.idle import PodLoad, ZeroMeter, load_in
from actions.run.output.curve_reader import StageCurves
from actions.run.output.reader import OutputReader
from actions.run.state.view import RunView, StageState
from actions.telemetry.curve_alarms import CurveAlarm, curve_alarms_of

LOOK_SECONDS = 5.0
"""Pause between two looks at the output of stages at work."""


class RunSampler:
    """The sampler of one run: each source outside of its records is read in one place, whoever needs it.

    Args:
        folder: The run's.
        heartbeat: Its runner's: it has the trouble of pods, and gets the devices that are not used.
        clock: For what is late.
    """

    def __init__(self, folder: Path, heartbeat: Heartbeat, clock: Clock) -> None:
        self._folder = folder
        self._heartbeat = heartbeat
        self._clock = clock
        self._curves: dict[str, StageCurves] = {}
        self._found: dict[str, tuple[CurveAlarm, ...]] = {}
        self._readers: dict[str, OutputReader] = {}
        self._loads: dict[str, PodLoad] = {}
        self._zeros = ZeroMeter()
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        """Two companions ask; one thread reads."""

    async def alarms(self, view: RunView) -> Iterable[Alarm]:
        """Return the alarms on what is seen now.

        Raises:
            JournalError: The output cannot be read.
        """
        await self._read_on(view)
        at_work = {stage.id for stage in view.stages if stage.state is StageState.RUNNING}
        pods = {stage: text for stage, text in self._heartbeat.troubles.items() if stage in at_work}
        return alarms_in(Samples(f"Run {view.id}", self._found, pods))

    async def loads(self, view: RunView) -> Mapping[str, PodLoad]:
        """Return the newest load of the accelerators of each pod of the stages at work, by its name.

        Raises:
            JournalError: The output cannot be read.
        """
        await self._read_on(view)
        return self._loads

    async def _read_on(self, view: RunView) -> None:
        """Read the output of the stages at work, if that was not done a moment ago."""
        at_work = [stage.id for stage in view.stages if stage.state is StageState.RUNNING]
        now = self._clock.monotonic()
        if self._read_at is not None and now - self._read_at < LOOK_SECONDS and self._curves.keys() == set(at_work):
            return
        self._read_at = now
        self._curves = {stage: self._curves.get(stage) or StageCurves(self._folder, stage) for stage in at_work}
        self._readers = {stage: self._readers.get(stage) or OutputReader(self._folder, stage) for stage in at_work}
        async with self._reading:
            await in_thread("samples", self._read)
        self._heartbeat.tell_unused(self._zeros.look(self._loads, self._clock.now().timestamp()))

    def _read(self) -> None:
        now = self._clock.now().timestamp()
        for curves in self._curves.values():
            curves.read_all()
        self._found = {stage: curve_alarms_of(curves.curves, now=now) for stage, curves in self._curves.items()}
        newest = [reader.accelerators() for reader in self._readers.values()]
        self._loads = {pod: load_in(one.text, one.at) for samples in newest for pod, one in samples.items()}
