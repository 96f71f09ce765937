"""The feed of trainings: accelerators that runs at work hold and do not use, on screen or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from actions.base.clock import Clock
from actions.base.errors import JournalError
from actions.run.state.view import RunState
from tui.feeds.runs import RunFeed

if TYPE_CHECKING:
    from pathlib import Path

    from actions.fleet.facts import PodFacts

LOOK_SECONDS = 5.0
"""Pause between two looks at the output of runs at work."""


UNUSED_SECONDS = 120.0
"""From this long at 0 % in every sample on, a requested device counts as unused."""
_STALE_SECONDS = 60.0
"""A sample that is older does not count for a device now."""
_TAIL_BYTES = 64 * 1024
"""Bytes of a run's history that are read at the first look: spans of the last minutes to hours."""


class UnusedDevices(msgspec.Struct, frozen=True):
    """Devices of a run that its pods hold and do not use.

    Args:
        count: Of devices at 0 % for `UNUSED_SECONDS` or more.
        of: Number of devices that were measured.
        since: Since when the last of them has been; seconds since the epoch.
        answered: Pods that these devices are of.
        workers: These, and pods of the stage that hold accelerators and have not answered, as far as the console's
            cluster has any.
    """

    count: int
    of: int
    since: float
    answered: int
    workers: int


class _Zeros:
    """Since when each device of a stage at work has been at 0 %, by the samples that its runner takes."""

    def __init__(self, folder: Path, stage: str) -> None:
        from actions.run.output.reader import OutputReader

        self._reader = OutputReader(folder, stage)
        self._since: dict[tuple[str, str], float] | None = None

    def look(self, now: float, holders: Callable[[], set[str]]) -> UnusedDevices | None:
        """Read the newest samples; return the unused devices, `None` if there are none.

        Args:
            now: Seconds since the epoch.
            holders: Returns the names of the stage's pods that hold accelerators; called where devices are unused.
        """
        fresh = {pod: one for pod, one in self._reader.accelerators().items() if now - one.at <= _STALE_SECONDS}
        if not fresh:
            self._since = None
            return None
        from actions.telemetry.tools.devices import read_devices

        before = self._in_history(now) if self._since is None else self._since
        self._since, count = {}, 0
        for pod, sample in fresh.items():
            for device in read_devices(sample.text).devices:
                count += 1
                key = pod, device.label
                if device.load_pct == 0:
                    self._since[key] = before.get(key, sample.at)
        long = [since for since in self._since.values() if now - since >= UNUSED_SECONDS]
        return UnusedDevices(len(long), count, max(long), len(fresh), len(holders() | fresh.keys())) if long else None

    def _in_history(self, now: float) -> dict[tuple[str, str], float]:
        """Return since when devices have been at 0 % by what was kept before this console looked."""
        records, _ = self._reader.device_spans(self._reader.spans_tail(_TAIL_BYTES))
        since: dict[tuple[str, str], float] = {}
        ends: dict[tuple[str, str], float] = {}
        for record in records:
            for device in record.devices:
                key, load = (record.pod, device.label), device.extents[0]
                if load is None or load.most > 0:
                    since.pop(key, None)
                else:
                    since.setdefault(key, record.since)
                    ends[key] = record.until
        return {key: at for key, at in since.items() if now - ends[key] <= max(_STALE_SECONDS, ends[key] - at)}


class TrainingFeed:
    """Accelerators that runs at work do not use. On the loop only.

    Args:
        runs: The runs.
        clock: Time, for what is late.
        changed: Called when there are others than before.
        pods: Returns the pods of the console's cluster.
    """

    def __init__(
        self, runs: RunFeed, clock: Clock, changed: Callable[[], None], pods: Callable[[], Iterable[PodFacts]]
    ) -> None:
        self._runs = runs
        self._clock = clock
        self._changed = changed
        self._pods = pods
        self._zeros: dict[tuple[Path, str], _Zeros] = {}
        self.unused: Mapping[str, UnusedDevices] = {}
        """Devices at 0 % for minutes while their stage is at work, by run."""

    async def run(self, live: Callable[[], None]) -> None:
        """Look without end.

        Args:
            live: Called after each look.
        """
        while True:
            await self.look()
            live()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Read the samples of runs at work on, and find what they do not use."""
        at_work = [run for run in self._runs.summaries if run.state is RunState.RUNNING and run.stage]
        unused = await self._unused_in({(run.folder, run.stage): run.id for run in at_work})
        is_new, self.unused = unused != self.unused, unused
        if is_new:
            self._changed()

    async def _unused_in(self, places: Mapping[tuple[Path, str], str]) -> dict[str, UnusedDevices]:
        self._zeros = {place: self._zeros.get(place) or _Zeros(*place) for place in places}
        found: dict[str, UnusedDevices] = {}
        for place, run_id in places.items():
            try:
                unused = self._zeros[place].look(
                    self._clock.now().timestamp(), partial(self._holders, run_id, place[1])
                )
            except (JournalError, OSError):
                continue
            if unused is not None:
                found[run_id] = unused
            await asyncio.sleep(0)
        return found

    def _holders(self, run_id: str, stage: str) -> set[str]:
        return {
            pod.name
            for pod in self._pods()
            if (pod.run, pod.stage, pod.phase) == (run_id, stage, "Running") and pod.requests.accelerators
        }
