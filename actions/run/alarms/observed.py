"""Alarms that are read from outside of a run's records: its curves, its accelerators, its credentials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.executors import in_thread
from actions.cloud.account import fetch_end
from actions.cloud.aws_session import AwsSession
from actions.run.alarms.causes import Alarm, credentials_alarm, training_alarms
from actions.run.limits.idle import PodLoad
from actions.run.output.curve_reader import StageCurves
from actions.run.output.reader import OutputReader
from actions.run.output.streams import AcceleratorSample
from actions.run.state.view import RunView, StageState
from actions.telemetry.curve_alarms import curve_alarms_of
from actions.telemetry.tools.devices import read_devices

TRAINING_SECONDS = 5.0
"""Pause between two looks at the curves of stages at work."""
CREDENTIALS_SECONDS = 300.0
"""Pause between two looks at the end of the credentials."""


class TrainingSource:
    """The alarms on the curves of stages at work.

    Args:
        folder: The run's.
        clock: For what is late.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._curves: dict[str, StageCurves] = {}
        self._found: tuple[Alarm, ...] = ()
        self._looked_at: float | None = None

    async def found(self, view: RunView) -> Iterable[Alarm]:
        """Return the alarms of the last look, which is a few seconds old at most."""
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= TRAINING_SECONDS:
            self._looked_at = now
            at_work = [stage.id for stage in view.stages if stage.state is StageState.RUNNING]
            self._curves = {stage: self._curves.get(stage) or StageCurves(self._folder, stage) for stage in at_work}
            self._found = await in_thread("curves", lambda: tuple(self._look(view)))
        return self._found

    def _look(self, view: RunView) -> Iterator[Alarm]:
        for stage, curves in self._curves.items():
            curves.read_all()
            yield from training_alarms(
                view.id, stage, curve_alarms_of(curves.curves, now=self._clock.now().timestamp())
            )


async def accelerator_loads(folder: Path, readers: dict[str, OutputReader], view: RunView) -> Mapping[str, PodLoad]:
    """Return the newest load of the accelerators of each pod of the stages at work, by its name.

    Args:
        folder: The run's.
        readers: Of the output of its stages, kept from one call to the next; changed.
        view: The run.
    """
    at_work = [stage.id for stage in view.stages if stage.state is StageState.RUNNING]
    found = {stage: readers.get(stage) or OutputReader(folder, stage) for stage in at_work}
    readers.clear()
    readers |= found
    return await in_thread(
        "accelerators",
        lambda: {pod: load_in(one) for reader in found.values() for pod, one in reader.accelerators().items()},
    )


def load_in(sample: AcceleratorSample) -> PodLoad:
    """Return the loads in what a tool printed."""
    reading = read_devices(sample.text)
    return PodLoad(sample.at, tuple(device.load_pct for device in reading.devices), reading.error)


class CredentialsSource:
    """The end of the AWS credentials of this process, for a run that works in an account.

    Args:
        clock: Time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end: float | None = None
        self._looked_at: float | None = None

    async def found(self, view: RunView) -> Iterable[Alarm]:
        """Return the alarm of an end that comes before the run may be done."""
        if view.account is None:
            return ()
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= CREDENTIALS_SECONDS:
            self._looked_at = now
            self._end = await self._fetched(view)
        alarm = credentials_alarm(view, now=self._clock.now().timestamp(), expires_at=self._end)
        return () if alarm is None else (alarm,)

    async def _fetched(self, view: RunView) -> float | None:
        session = AwsSession(region=view.cluster.region, threads=1)
        try:
            end = await fetch_end(session)
        except ConsoleError:
            return None  # the stage that needs them says what is wrong
        finally:
            session.close()
        return None if end is None else end.timestamp()
