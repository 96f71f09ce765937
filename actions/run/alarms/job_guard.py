"""The guard of a job that no runner carries out: the same alarms and idle limit, from a process of its own. Pure.

What it has sent is kept in a file, so that a guard that is started again for the same job sends nothing twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.files import private_directory, read_file, state_folder, write_private
from actions.fleet.facts import PodFacts
from actions.fleet.quantity import format_usd
from actions.fleet.verdict import trouble_of, verdict_of
from actions.run.alarms.causes import Alarm, training_alarms
from actions.run.limits.idle import IdleMeter, PodLoad
from actions.run.limits.options import moment_text
from actions.run.limits.rules import IDLE_NEAR_SHARE
from actions.run.state.alarms import AlarmName
from actions.run.state.records import AlarmKind, IdleKnown
from actions.telemetry.curve_alarms import curve_alarms_of
from actions.telemetry.curves import Curves

_MOST_BYTES = 1 << 20


class IdleRule(msgspec.Struct, frozen=True):
    """The idle limit of a job.

    Args:
        seconds: Time; 0 for no limit.
        below_pct: An accelerator with less load is idle.
        parks: Suspend the job then; else only say so.
    """

    seconds: float = 0.0
    below_pct: float = 5.0
    parks: bool = False


class JobGuard:
    """The alarms of one job, from one look to the next.

    Args:
        title: The job as people write it: `pytorchjob/train/llama`.
        rule: Its idle limit.
    """

    def __init__(self, title: str, rule: IdleRule) -> None:
        self.idle = IdleKnown()
        self._title = title
        self._rule = rule
        self._meter = IdleMeter()

    def look(
        self,
        curves: Curves,
        pods: Iterable[PodFacts],
        loads: Mapping[str, PodLoad],
        usd_per_hour: Decimal | None,
        now: float,
    ) -> Iterator[Alarm]:
        """Yield the alarms that there are now.

        Args:
            curves: Of the job's logs.
            pods: The job's.
            loads: The newest of each pod that holds accelerators.
            usd_per_hour: Of the nodes that these pods are on; `None` if unknown.
            now: Seconds since the epoch.
        """
        yield from training_alarms(self._title, "", curve_alarms_of(curves, now=now))
        troubles = [trouble for trouble in (trouble_of(pod, now) for pod in pods) if trouble is not None]
        if troubles:
            yield Alarm(AlarmName(AlarmKind.PODS), f"Job {self._title}: {verdict_of(troubles)}.")
        if self._rule.seconds:
            self.idle = self._meter.measured(loads, self._rule.below_pct, now)
            yield from self._idle_alarms(usd_per_hour, now)

    def is_reached(self, now: float) -> bool:
        """Return whether the accelerators have been idle for as long as the limit allows."""
        return bool(self._rule.seconds) and self.idle.since is not None and now - self.idle.since >= self._rule.seconds

    def _idle_alarms(self, usd_per_hour: Decimal | None, now: float) -> Iterator[Alarm]:
        since = self.idle.since
        if since is None or now - since < IDLE_NEAR_SHARE * self._rule.seconds:
            return
        text = f"Job {self._title}: no accelerator has reached {self._rule.below_pct:g} % since {moment_text(since)}."
        will = "it is suspended" if self._rule.parks else "the limit is reached"
        ending = f" At {moment_text(since + self._rule.seconds)} {will}." if not self.is_reached(now) else ""
        bill = "What that has cost is not known."
        if usd_per_hour:
            cost = usd_per_hour * Decimal(str(now - since)) / 3600
            bill = f"Its nodes have cost {format_usd(cost)} since, {format_usd(usd_per_hour)}/h."
        place = "reached" if self.is_reached(now) else "near"
        yield Alarm(AlarmName(AlarmKind.IDLE, place), f"{text}{ending} {bill}")


class SentAlarms:
    """The keys of alarms that guards of one job have sent, and whose cause is there; on disk.

    Args:
        identity: What names the job over all clusters: its uid.
    """

    def __init__(self, identity: str) -> None:
        name = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._file: Path = state_folder() / "guards" / f"{name}.json"
        self._keys = self._read()

    def new_in(self, found: Mapping[AlarmName, Alarm]) -> list[Alarm]:
        """Return the alarms that were not sent yet."""
        return [alarm for name, alarm in found.items() if name.key("") not in self._keys]

    def keep(self, names: Iterable[AlarmName]) -> None:
        """Keep the names of the present alarms that were sent; others may be sent again.

        Raises:
            OSError: They cannot be written.
        """
        keys = {name.key("") for name in names}
        if keys != self._keys:
            private_directory(self._file.parent)
            write_private(self._file, msgspec.json.encode(sorted(keys)))
            self._keys = keys

    def _read(self) -> set[str]:
        try:
            return set(decode_json(read_file(self._file, _MOST_BYTES), list[str]))
        except (OSError, msgspec.MsgspecError):
            return set()
