"""`eksml-tui guard`: watches a job that no run has made, in the foreground, and sends its alarms until it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal

from actions.base.clock import SystemClock, time_of_day
from actions.base.errors import ConsoleError, UsageError
from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.cluster.job_pods import JobPod
from actions.cluster.jobs import JobOutcome, JobWatch
from actions.cluster.kinds import find_kind
from actions.cluster.logs.batch import LogBatch
from actions.cluster.objects.client import ApiResource
from actions.cluster.objects.operations import Target, suspend_target
from actions.cluster.remote.exec import run_in_pod
from actions.cluster.state.cluster_state import ClusterState
from actions.fleet.cost import CostModel
from actions.fleet.facts import PodFacts
from actions.run.alarms.causes import Alarm
from actions.run.alarms.job_guard import IdleRule, JobGuard, SentAlarms
from actions.run.alarms.send import Message, send
from actions.run.alarms.ways import load_ways
from actions.run.limits.idle import PodLoad
from actions.run.limits.options import IDLE_TIME, minutes_of, percentage
from actions.run.state.alarms import AlarmName
from actions.run.state.records import AlarmKind
from actions.telemetry.curves import Curves
from actions.telemetry.log_reader import LogReader, log_prefilter, read_batch
from actions.telemetry.points import Point
from actions.telemetry.tools.devices import NEURON_COMMAND, NVIDIA_COMMAND, read_devices
from tui.cli.inspect.watch import listed_jobs, named_job
from tui.cli.target import ChosenTarget, chosen_target, require_target
from tui.feeds.accelerators import container_to_ask

_LOOK_SECONDS = 5.0
"""Pause between two looks at curves and pods."""
_SAMPLE_SECONDS = 15.0
"""Pause between two samples of the accelerators, which are taken only for an idle limit."""
_EXEC_SECONDS = 20.0
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
    session = await KubeSession.connect(chosen.target, readonly=not rule.parks, token_factory=token_factory)
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
        self._rule = rule
        self._clock = SystemClock()
        self._guard = JobGuard(typed, rule)
        self._curves = Curves()
        self._readers: dict[tuple[str, str], LogReader] = {}
        self._prefilter = log_prefilter()
        self._costs = CostModel.load()
        self._loads: dict[str, PodLoad] = {}
        self._sent: SentAlarms | None = None
        self._unknown = ""

    def read(self, member: JobPod, container: str, batch: LogBatch) -> None:
        """Read points from lines of a log."""
        if not batch.is_marker:
            reader = self._readers.setdefault((member.pod.uid, container), LogReader(rank=member.rank))
            for finding in read_batch(reader, self._prefilter, batch):
                if isinstance(finding, Point):
                    self._curves.add(finding)

    async def run(self, watch: JobWatch) -> JobOutcome:
        """Guard until the job has ended, or was suspended."""
        _say(self._clock, f"Guarding {self._typed}. Ctrl-C ends the guard, and leaves the job alone.")
        watching, sampling = asyncio.ensure_future(watch.run()), asyncio.ensure_future(self._sampled(watch))
        try:
            while True:
                await asyncio.wait({watching, sampling}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    return await self._ended(watch, watching.result())
                if sampling.done():
                    sampling.result()  # raises: nothing else ends it
                if await self._looked(watch):
                    return _PARKED
        finally:
            watching.cancel()
            sampling.cancel()
            await asyncio.gather(watching, sampling, return_exceptions=True)

    async def _looked(self, watch: JobWatch) -> bool:
        """Look once; return whether the job was suspended."""
        pods = [member.pod for member in watch.members]
        now = self._clock.now().timestamp()
        found = self._guard.look(self._curves, pods, self._loads, self._price(pods), now)
        await self._call(watch, {alarm.name: alarm for alarm in found})
        if self._guard.idle.unknown != self._unknown:
            self._unknown = self._guard.idle.unknown
            _say(self._clock, f"Idle accelerators: {self._unknown}" if self._unknown else "The accelerators answer.")
        if not (self._rule.parks and self._guard.is_reached(now)):
            return False
        try:
            await self._suspend(watch)
        except ConsoleError as error:
            _say(self._clock, f"The job could not be suspended: {error.sentence()}")
            return False
        _say(self._clock, f"{self._typed} is suspended: its accelerators were idle.")
        return True

    async def _ended(self, watch: JobWatch, end: JobOutcome) -> JobOutcome:
        message = f": {end.message}" if end.message else "."
        is_done = end.state == "finished"
        did = "has finished" if is_done else "has failed" if end.state == "failed" else "is gone"
        name = AlarmName(AlarmKind.DONE if is_done else AlarmKind.FAILED, end.state)
        await self._call(watch, {name: Alarm(name, f"Job {self._typed} {did}{message}")})
        return end

    async def _call(self, watch: JobWatch, found: Mapping[AlarmName, Alarm]) -> None:
        """Send what is new by all ways, and say what came of it."""
        if self._sent is None:
            workload = self._state.snapshot().workloads.get(watch.job.key)
            self._sent = SentAlarms(workload.uid if workload is not None else f"{watch.job.key}")
        for alarm in self._sent.new_in(found):
            _say(self._clock, alarm.text)
            now = self._clock.now()
            message = Message(
                alarm.name.key(self._typed), alarm.name.kind.value, self._typed, alarm.text, now.timestamp()
            )
            try:
                ways = load_ways().names_at(now)
            except ConsoleError as error:
                ways = ()
                _say(self._clock, f"It was not sent: {error.sentence()}")
            for way, error_text in zip(
                ways, await asyncio.gather(*(send(load_ways, way, message, self._clock) for way in ways)), strict=True
            ):
                _say(self._clock, f"It was not sent by {way}: {error_text}" if error_text else f"Sent by {way}.")
        self._sent.keep(found)

    def _price(self, pods: list[PodFacts]) -> Decimal | None:
        """Return the price of an hour of the nodes that pods with accelerators are on; `None` if one is unknown."""
        nodes = self._state.snapshot().nodes
        names = {pod.node for pod in pods if pod.requests.accelerators and pod.node}
        prices = [self._costs.node_cost(nodes[name]).price for name in names if name in nodes]
        known = [price.usd_per_hour for price in prices if price is not None]
        return sum(known, Decimal(0)) if known and len(known) == len(names) else None

    async def _sampled(self, watch: JobWatch) -> None:
        """Sample the accelerators of the job's pods without end, if there is an idle limit."""
        turns = asyncio.Semaphore(_AT_ONCE)
        while self._rule.seconds:
            holders = [m.pod for m in watch.members if m.pod.requests.accelerators and m.pod.phase == "Running"]
            loads = await asyncio.gather(*(self._load_of(pod, turns) for pod in holders))
            self._loads = {pod.name: load for pod, load in zip(holders, loads, strict=True)}
            await self._clock.sleep(_SAMPLE_SECONDS)
        await asyncio.Event().wait()

    async def _load_of(self, pod: PodFacts, turns: asyncio.Semaphore) -> PodLoad:
        tool = NEURON_COMMAND if pod.requests.neuron and not pod.requests.gpu else NVIDIA_COMMAND
        async with turns:
            try:
                container = await container_to_ask(self._session, pod)
                answer = await run_in_pod(
                    self._session, pod.namespace, pod.name, container, tool, deadline_seconds=_EXEC_SECONDS
                )
            except ConsoleError as error:
                return PodLoad(self._clock.now().timestamp(), (), error.sentence())
        reading = read_devices((answer.stdout or answer.stderr).decode("utf-8", "replace"))
        loads = tuple(device.load_pct for device in reading.devices)
        return PodLoad(self._clock.now().timestamp(), loads, reading.error)

    async def _suspend(self, watch: JobWatch) -> None:
        """Suspend the job as its kind is suspended, if it is still the one that was guarded."""
        job, kind = watch.job, find_kind(watch.job.kind)
        workload = self._state.snapshot().workloads.get(job.key)
        if kind is None or workload is None:
            raise UsageError(f"{self._typed} cannot be suspended.", hint="Delete it, or guard it without --park.")
        resource = ApiResource(kind.api_version, kind.kind, kind.plural, is_namespaced=True)
        target = Target(resource, job.namespace, job.name, workload.uid)
        await suspend_target(self._session, target, is_suspended=True)


def _say(clock: SystemClock, text: str) -> None:
    sys.stdout.write(f"{time_of_day(clock.now().timestamp())} {text}\n")
    sys.stdout.flush()
