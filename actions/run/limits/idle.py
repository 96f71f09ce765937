"""Since when a run's accelerators are idle, by the samples that its runner takes. Pure.

They are idle while every one of them is below a share of load; one that is above makes all of them busy. What does not
answer, and a device whose load is unknown, does not count as idle time. A run that has nothing at work and holds
accelerators uses none.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actions.run.limits.rules import IDLE_NEAR_SHARE
from actions.run.state.planner import JOB_KINDS
from actions.run.state.records import IdleKnown
from actions.run.state.view import UNUSED_SECONDS, RunView, StageState, UnusedDevices
from actions.telemetry.tools.devices import read_devices

FRESH_SECONDS = 60.0
"""A sample that is older says nothing about now."""
GAP_SECONDS = 120.0
"""So long may samples be missing: an exec that fails once is not the end of an idle time."""
NO_ANSWER = "no accelerator of its pods has answered."
_NOTHING = IdleKnown()


class PodLoad(msgspec.Struct, frozen=True):
    """The accelerators of one pod at one moment.

    Args:
        at: Seconds since the epoch.
        loads: Of each device in percent; `None` if unknown. Empty if the tool named none.
        error: The tool's own words where it gave no answer.
    """

    at: float
    loads: tuple[float | None, ...] = ()
    error: str = ""


def load_in(text: str, at: float) -> PodLoad:
    """Return the loads in what a tool printed at a time, or in the reason that it gave no answer."""
    reading = read_devices(text)
    return PodLoad(at, tuple(device.load_pct for device in reading.devices), reading.error)


class ZeroMeter:
    """The meter of single devices that stand still, from one look to the next."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], float] = {}

    def look(self, loads: Mapping[str, PodLoad], now: float) -> UnusedDevices | None:
        """Return the devices that are unused; `None` if there are none.

        Args:
            loads: The newest of each pod of the stages at work.
            now: Seconds since the epoch.
        """
        fresh = {pod: load for pod, load in loads.items() if now - load.at <= FRESH_SECONDS}
        zeros = {
            (pod, place): load.at for pod, load in fresh.items() for place, pct in enumerate(load.loads) if pct == 0
        }
        self._since = {device: self._since.get(device, at) for device, at in zeros.items()}
        long = [since for since in self._since.values() if now - since >= UNUSED_SECONDS]
        measured = [load.loads for load in fresh.values() if load.loads]
        return UnusedDevices(len(long), sum(map(len, measured)), max(long), len(measured), len(fresh)) if long else None


class IdleMeter:
    """The meter of one run's idle time, from one look to the next."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._known_at: float | None = None
        """Time of the newest sample that counted, also of an earlier runner."""
        self._below = 0.0

    def look(self, view: RunView, loads: Mapping[str, PodLoad], now: float) -> IdleKnown:
        """Return what is known, as it is to be recorded: idle time from half of the limit on.

        Args:
            view: The run, with an idle limit.
            loads: The newest of each pod of the stages at work.
            now: Seconds since the epoch.
        """
        limit = view.limits
        if limit.idle_below_pct != self._below:
            self._since, self._below = None, limit.idle_below_pct
        if self._known_at is None:
            self._known_at = max((load.at for load in loads.values()), default=0.0)
        if not any(stage.state is StageState.RUNNING for stage in view.stages):
            return self._noted(view, _rest_begins(view), now)
        if not any(stage.state is StageState.RUNNING and stage.kind in JOB_KINDS for stage in view.stages):
            self._since = None
            return _NOTHING
        found = self.measured(loads, limit.idle_below_pct, now, before=view.idle)
        return found if found.unknown else self._noted(view, found.since, now)

    def measured(
        self, loads: Mapping[str, PodLoad], below_pct: float, now: float, *, before: IdleKnown = _NOTHING
    ) -> IdleKnown:
        """Return since when accelerators at work are idle, from the first moment on.

        Args:
            loads: The newest of each pod.
            below_pct: A device with less load is idle.
            now: Seconds since the epoch.
            before: What was known when this process began.
        """
        fresh = [load for load in loads.values() if now - load.at <= FRESH_SECONDS]
        values = [value for load in fresh for value in load.loads]
        if any(value is not None and value >= below_pct for value in values):
            self._since, self._known_at = None, now
            return _NOTHING
        gap = now - (self._known_at or 0.0)
        if not fresh or any(not load.loads for load in fresh) or None in values:
            if gap <= GAP_SECONDS:
                return IdleKnown(self._since if self._since is not None else before.since)
            self._since = None
            reason = next((load.error for load in fresh if load.error), "")
            return IdleKnown(unknown=f"its accelerators gave no load: {reason}" if reason else NO_ANSWER)
        if self._since is None:
            kept = before.since if gap <= GAP_SECONDS else None  # of an earlier runner
            self._since = kept if kept is not None else min(load.at for load in fresh)
        self._known_at = now
        return IdleKnown(self._since)

    def _noted(self, view: RunView, since: float | None, now: float) -> IdleKnown:
        if since is None or now - since < IDLE_NEAR_SHARE * 60 * view.limits.idle_minutes:
            return _NOTHING
        return IdleKnown(since)


def _rest_begins(view: RunView) -> float | None:
    """Return since when a run with nothing at work holds accelerators; `None` if it holds none."""
    holds = any(stage.holds_accelerators and stage.held and stage.held[-1].end is None for stage in view.stages)
    ends = [period.end for stage in view.stages for period in stage.worked if period.end is not None]
    return max(ends, default=None) if holds else None
