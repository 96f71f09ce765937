"""`eksml-tui guard`: watches a job that no run has made, in the foreground, and sends its alarms until it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

from actions.base.clock import SystemClock, time_of_day
from actions.base.errors import ConflictError, ConsoleError, MissingError, UsageError
from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.cluster.job_pods import JobPod
from actions.cluster.jobs import JobOutcome, JobWatch
from actions.cluster.kinds import find_kind
from actions.cluster.logs.batch import LogBatch
from actions.cluster.objects.client import ApiResource
from actions.cluster.objects.operations import Target, stop_target
from actions.cluster.state.cluster_state import ClusterState
from actions.fleet.cost import CostModel
from actions.fleet.facts import PodFacts
from actions.fleet.verdict import trouble_of, verdict_of
from actions.run.alarms.alarm_companion import AlarmCompanion
from actions.run.alarms.causes import Alarm, Samples, alarms_in
from actions.run.alarms.job_guard import LEASE_SECONDS, IdleRule, JobJournal
from actions.run.alarms.ways import load_ways
from actions.run.limits.idle import IdleMeter, PodLoad, load_in
from actions.run.limits.options import IDLE_TIME, minutes_of, percentage
from actions.run.state.alarms import AlarmName
from actions.run.state.records import AlarmKind, IdleKnown
from actions.run.state.view import RunView
from actions.telemetry.curve_alarms import curve_alarms_of
from actions.telemetry.curves import Curves
from actions.telemetry.log_reader import LogReader, log_prefilter, read_batch
from actions.telemetry.points import Point
from tui.cli.inspect.watch import listed_jobs, named_job
from tui.cli.target import ChosenTarget, chosen_target, require_target
from tui.feeds.accelerators import ask_devices, container_to_ask

_LOOK_SECONDS = 2.0
"""Pause between two looks at the job."""
_LAST_SECONDS = 0.2
"""Pause while the last alarms are sent."""
_SAMPLE_SECONDS = 15.0
"""Pause between two samples of the accelerators, which are taken only for an idle limit."""
_AT_ONCE = 8
_PARKED = JobOutcome("suspended")


def run(options: Namespace) -> int:
    """Guard the job.

    Returns:
        0 for a job that has finished; 1 for one that has failed, is gone, or was suspended.

    Raises:
        UsageError: The idle limit is none, or there is nothing to do at it.
    """
    if not options.idle and (options.park or options.below):
        raise UsageError("There is no idle limit.", hint="Add --idle 30m.")
    below = percentage(options.below) if options.below else IdleRule().below_pct
    rule = IdleRule(60.0 * minutes_of(options.idle, IDLE_TIME) if options.idle else 0.0, below, options.park)
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed
    end = asyncio.run(_guarded(chosen, options.job, rule))
    return 0 if end.state == "finished" else 1


async def _guarded(chosen: ChosenTarget, typed: str, rule: IdleRule) -> JobOutcome:
    require_target(chosen.target)
    session = await KubeSession.connect(chosen.target, readonly=False, token_factory=token_factory)
    state = ClusterState(session)
    following = asyncio.create_task(state.run())
    try:
        snapshot = await listed_jobs(state, following)
        job = named_job(typed, session.namespace or "default", snapshot)
        guard = _Guard(session, state, typed, rule)
        watch = JobWatch(
            job,
            session=lambda: session,
            look=state.snapshot,
            on_lines=guard.read,
            on_report=lambda _: None,  # idleness and curves are read from pods
            tail_lines=lambda _: None,
            clock=SystemClock(),
        )
        await watch.require()
        return await guard.run(watch)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await session.aclose()


class _Guard:
    """The guard of one job at work.

    Args:
        session: The cluster's.
        state: What is known of it.
        typed: The job as the operator named it.
        rule: Its idle limit.
    """

    def __init__(self, session: KubeSession, state: ClusterState, typed: str, rule: IdleRule) -> None:
        self._session = session
        self._state = state
        self._typed = typed
        self._title = f"Job {typed}"
        self._rule = rule
        self._clock = SystemClock()
        self._curves = Curves()
        self._readers: dict[tuple[str, str], LogReader] = {}
        self._prefilter = log_prefilter()
        self._costs = CostModel.load()
        self._meter = IdleMeter()
        self._idle = IdleKnown()
        self._loads: dict[str, PodLoad] = {}
        self._members: Sequence[JobPod] = ()
        self._refusal = ""
        """The reason that the job could not be suspended, in a sentence."""
        self._end: JobOutcome | None = None

    def read(self, member: JobPod, container: str, batch: LogBatch) -> None:
        """Read points from lines of a log."""
        if not batch.is_marker:
            reader = self._readers.setdefault((member.pod.uid, container), LogReader(rank=member.rank))
            for finding in read_batch(reader, self._prefilter, batch):
                if isinstance(finding, Point):
                    self._curves.add(finding)

    async def run(self, watch: JobWatch) -> JobOutcome:
        """Guard until the job has ended, or was suspended."""
        self._tell(f"Guarding {self._typed}. Ctrl-C ends the guard, and leaves the job alone.")
        job = self._target(watch)
        journal = JobJournal(self._session, job, self._typed, self._clock, self._tell)
        alarms = AlarmCompanion(journal, self._alarms, load_ways, self._clock)
        watching, sampling = asyncio.ensure_future(watch.run()), asyncio.ensure_future(self._sampled())
        try:
            while self._end is None:
                await asyncio.wait({watching, sampling}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                self._members = watch.members
                if watching.done():
                    self._end = watching.result()
                elif sampling.done():
                    sampling.result()  # raises: nothing else ends it
                is_held = await self._looked(journal, alarms, at_once=self._is_reached())
                if self._end is None and is_held and self._rule.parks and self._is_reached():
                    self._end = await self._parked(job)
            await self._send_the_last(journal, alarms)
            return self._end
        finally:
            watching.cancel()
            sampling.cancel()
            await asyncio.gather(watching, sampling, return_exceptions=True)
            with suppress(ConsoleError, TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await journal.give_back()

    async def _send_the_last(self, journal: JobJournal, alarms: AlarmCompanion) -> None:
        """Send the end of the job; if another guard does, wait until it has, or is found to be dead."""
        patience = self._clock.monotonic() + LEASE_SECONDS + _LOOK_SECONDS
        while True:
            is_held = await self._looked(journal, alarms, at_once=True)
            if is_held and not alarms.is_behind():
                return
            if not is_held and self._clock.monotonic() >= patience:
                self._tell("Another guard of this job holds its Lease: whether it has sent the end is not known here.")
                return
            await self._clock.sleep(_LAST_SECONDS if is_held else _LOOK_SECONDS)

    async def _looked(self, journal: JobJournal, alarms: AlarmCompanion, *, at_once: bool = False) -> bool:
        """Look, and send what is new, if this guard is the one that does; return whether it is."""
        if self._rule.seconds:
            unknown = self._idle.unknown
            self._idle = self._meter.measured(self._loads, self._rule.below_pct, self._clock.now().timestamp())
            if self._idle.unknown != unknown:
                self._tell(f"Idle accelerators: {self._idle.unknown}" if self._idle.unknown else "They answer.")
        try:
            if not await journal.is_held():
                return False
            await alarms.look(at_once=at_once)
        except ConflictError:
            return False
        return True

    async def _alarms(self, _view: RunView) -> list[Alarm]:
        now = self._clock.now().timestamp()
        if self._end is not None:
            return [self._end_alarm(self._end)]
        pods = [member.pod for member in self._members]
        troubles = [trouble for trouble in (trouble_of(pod, now) for pod in pods) if trouble is not None]
        samples = Samples(
            self._title, {"": curve_alarms_of(self._curves, now=now)}, {"": verdict_of(troubles)} if troubles else {}
        )
        idle = self._rule.alarms(self._title, self._idle.since, self._price(pods), now)
        refused = [Alarm(AlarmName(AlarmKind.IDLE, "refused"), self._refusal)] if self._refusal else []
        return [*alarms_in(samples), *idle, *refused]

    def _end_alarm(self, end: JobOutcome) -> Alarm:
        if end is _PARKED:
            return Alarm(
                AlarmName(AlarmKind.IDLE, "parked"), f"{self._title} is suspended: its accelerators were idle."
            )
        is_done = end.state == "finished"
        did = "has finished" if is_done else "has failed" if end.state == "failed" else "is gone"
        name = AlarmName(AlarmKind.DONE if is_done else AlarmKind.FAILED, end.state)
        return Alarm(name, f"{self._title} {did}{f': {end.message}' if end.message else '.'}")

    def _is_reached(self) -> bool:
        return self._rule.is_reached(self._idle.since, self._clock.now().timestamp())

    def _price(self, pods: list[PodFacts]) -> Decimal | None:
        """Return the price of an hour of the nodes that pods with accelerators are on; `None` if one is unknown."""
        nodes = self._state.snapshot().nodes
        names = {pod.node for pod in pods if pod.requests.accelerators and pod.node}
        prices = [self._costs.node_cost(nodes[name]).price for name in names if name in nodes]
        known = [price.usd_per_hour for price in prices if price is not None]
        return sum(known, Decimal(0)) if known and len(known) == len(names) else None

    async def _sampled(self) -> None:
        """Sample the accelerators of the job's pods without end, if there is an idle limit."""
        turns = asyncio.Semaphore(_AT_ONCE)
        while self._rule.seconds:
            pods = [member.pod for member in self._members]
            holders = [pod for pod in pods if pod.requests.accelerators and pod.phase == "Running"]
            loads = await asyncio.gather(*(self._load_of(pod, turns) for pod in holders))
            self._loads = {pod.name: load for pod, load in zip(holders, loads, strict=True)}
            await self._clock.sleep(_SAMPLE_SECONDS if holders else _LOOK_SECONDS)
        await asyncio.Event().wait()

    async def _load_of(self, pod: PodFacts, turns: asyncio.Semaphore) -> PodLoad:
        async with turns:
            try:
                text = await ask_devices(self._session, pod, await container_to_ask(self._session, pod))
            except ConsoleError as error:
                text = error.sentence()
        return load_in(text, self._clock.now().timestamp())

    def _target(self, watch: JobWatch) -> Target:
        job, kind = watch.job, find_kind(watch.job.kind)
        workload = self._state.snapshot().workloads.get(job.key)
        if kind is None or workload is None:
            raise MissingError(f"{self._typed} is gone.")
        resource = ApiResource(kind.api_version, kind.kind, kind.plural, is_namespaced=True)
        return Target(resource, job.namespace, job.name, workload.uid)

    async def _parked(self, job: Target) -> JobOutcome | None:
        """Suspend the job as its kind is suspended, if it is still the one that was guarded."""
        try:
            await stop_target(self._session, job)
        except ConsoleError as error:
            self._refusal = f"{self._title} could not be suspended: {error.sentence()}"
            return None
        return _PARKED

    def _tell(self, text: str) -> None:
        sys.stdout.write(f"{time_of_day(self._clock.now().timestamp())} {text}\n")
        sys.stdout.flush()
