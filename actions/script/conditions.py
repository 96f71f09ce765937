"""Whether conditions hold, what was seen instead, and whether waiting can still help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from actions.base.patterns import Pattern, compile_pattern
from actions.cluster.diagnose.codes import Finding
from actions.cluster.state.cluster_state import ClusterSnapshot
from actions.fleet.cost import CostModel
from actions.fleet.facts import UNUSED, NodeFacts, PodFacts
from actions.run.state.view import RunState, RunView, StageState
from actions.script.model import (
    AcceleratorsCondition,
    Amount,
    Conditions,
    LogCondition,
    NodesCondition,
    PodsCondition,
    WhyCondition,
    parse_comparison,
)
from actions.telemetry.points import Point

_PASSED = {
    StageState.PENDING: 0,
    StageState.RUNNING: 1,
    StageState.AWAITING_APPROVAL: 1,
    StageState.SUCCEEDED: 2,
}
"""Order of a stage's life: a wait for an earlier state is over when a later one is seen."""

_DEAD_STAGES = (StageState.FAILED, StageState.CANCELLED, StageState.SKIPPED, StageState.UNDONE)
_DEAD_RUNS = (RunState.FAILED, RunState.CANCELLED, RunState.TORN_DOWN)

ALIASES = {"loss": "train_loss"}
"""Short names of metrics."""


class Evaluation(msgspec.Struct, frozen=True):
    """One condition, judged.

    `cannot_pass` means that no waiting will make it hold.
    """

    holds: bool
    text: str
    cannot_pass: bool = False


class ConditionContext(Protocol):
    """What conditions look at."""

    def run(self) -> RunView | None:
        """The run on screen."""
        ...

    def points(self, metric: str, stage: str) -> Sequence[Point]:
        """Its points of a metric, oldest first; `stage` empty means any."""
        ...

    def has_line(self, pattern: Pattern, stage: str) -> bool:
        """Whether a log line of the run matches."""
        ...

    def findings(self, stage: str) -> Sequence[Finding] | None:
        """The diagnosis of a stage, causes first, as it was last asked for; `None` if it never was."""
        ...

    async def ask_why(self, stage: str) -> None:
        """Have a stage diagnosed, unless that was done a moment ago.

        Raises:
            ConsoleError: It cannot be done.
        """
        ...

    def snapshot(self) -> ClusterSnapshot | None:
        """The cluster."""
        ...

    def costs(self) -> CostModel:
        """Prices."""
        ...

    def screen_text(self) -> str:
        """The screen."""
        ...

    def identity(self) -> dict[str, str]:
        """`cluster`, `region`, `account`: what the program works on."""
        ...


def evaluate(conditions: Conditions, world: ConditionContext) -> list[Evaluation]:
    """Judge every condition that is given."""
    return [*_of_the_run(conditions, world), *_of_the_cluster(conditions, world), *_of_the_console(conditions, world)]


def _of_the_run(given: Conditions, world: ConditionContext) -> Iterator[Evaluation]:
    if given.stage:
        yield _stage(given.stage, given.is_, world.run())
    if given.run:
        yield _run(given.run, world.run())
    if given.log is not None:
        yield _log(given.log if isinstance(given.log, LogCondition) else LogCondition(match=given.log), world)
    if given.metric:
        yield _metric(given, world)
    if given.why is not None:
        yield _why(given.why, world)
    if given.audit:
        yield _audit(world.run())


def _of_the_cluster(given: Conditions, world: ConditionContext) -> Iterator[Evaluation]:
    if given.pods is not None:
        yield _pods(given.pods, world)
    if given.nodes is not None:
        yield from _nodes(given.nodes, world)
    if given.accelerators is not None:
        yield from _accelerators(given.accelerators, world)


def _of_the_console(given: Conditions, world: ConditionContext) -> Iterator[Evaluation]:
    if given.text:
        found = compile_pattern(given.text).search(world.screen_text())
        yield Evaluation(found, f"{given.text!r} is {'' if found else 'not '}on the screen")
    for key in ("cluster", "region", "account"):
        if wanted := getattr(given, key):
            actual = world.identity().get(key, "")
            yield Evaluation(actual == wanted, f"{key} is {actual or 'unknown'}")


def _stage(stage_id: str, wanted: str, run: RunView | None) -> Evaluation:
    if run is None:
        return Evaluation(False, "no run is on screen")
    stage = next((stage for stage in run.stages if stage.id == stage_id), None)
    if stage is None:
        names = ", ".join(stage.id for stage in run.stages)
        return Evaluation(False, f"the run has no stage {stage_id!r} (it has {names})", cannot_pass=True)
    text = (
        f"{stage_id} is {stage.state.value}" + (f": {stage.message}" if stage.message else "") + _asked(run, stage_id)
    )
    if stage.state.value == wanted:
        return Evaluation(True, text)
    goal = _PASSED.get(StageState(wanted)) if wanted in {state.value for state in StageState} else None
    if goal is None:
        return Evaluation(False, text)
    return Evaluation(_PASSED.get(stage.state, -1) > goal, text, cannot_pass=stage.state in _DEAD_STAGES)


def _asked(run: RunView, stage_id: str) -> str:
    """That the run waits for somebody, if it is for another stage."""
    asking = [stage.id for stage in run.stages if stage.state is StageState.AWAITING_APPROVAL and stage.id != stage_id]
    return f" (the plan of {', '.join(asking)} waits for an approval)" if asking else ""


def _run(wanted: str, run: RunView | None) -> Evaluation:
    if run is None:
        return Evaluation(False, "no run is on screen")
    return Evaluation(run.state.value == wanted, f"the run is {run.state.value}", cannot_pass=run.state in _DEAD_RUNS)


def _pods(wanted: PodsCondition, world: ConditionContext) -> Evaluation:
    snapshot, run = world.snapshot(), world.run()
    pods = [] if snapshot is None else [pod for pod in snapshot.pods.values() if _is_meant(pod, wanted, run)]
    return Evaluation(_meets(wanted.count, len(pods)), f"{len(pods)} such pods{_phases(pods)}")


def _is_meant(pod: PodFacts, wanted: PodsCondition, run: RunView | None) -> bool:
    return (
        (not wanted.namespace or pod.namespace == wanted.namespace)
        and (not wanted.name or compile_pattern(wanted.name).search(pod.name))
        and (not wanted.phase or pod.phase == wanted.phase)
        and (not wanted.of or (run is not None and pod.run == run.id and pod.stage == wanted.of))
    )


def _phases(pods: Iterable[PodFacts]) -> str:
    phases = sorted({pod.reason or pod.phase for pod in pods})
    return f" ({', '.join(phases)})" if phases else ""


def _log(wanted: LogCondition, world: ConditionContext) -> Evaluation:
    found = world.has_line(compile_pattern(wanted.match), wanted.of)
    place = f"the log of {wanted.of}" if wanted.of else "the run's logs"
    return Evaluation(found, f"{wanted.match!r} is {'' if found else 'not '}in {place}")


def _metric(wanted: Conditions, world: ConditionContext) -> Evaluation:
    name = ALIASES.get(wanted.metric, wanted.metric)
    points = world.points(name, wanted.of)
    if not points:
        return Evaluation(False, f"no {name} has been read")
    latest = points[-1]
    holds = True
    if wanted.step != "":
        holds = any(point.step is not None and _meets(wanted.step, point.step) for point in points)
    if wanted.value != "":
        holds = holds and _meets(wanted.value, latest.value)
    return Evaluation(holds, f"{name} is {latest.value:g} at step {'?' if latest.step is None else latest.step}")


def _why(wanted: WhyCondition, world: ConditionContext) -> Evaluation:
    findings = world.findings(wanted.of)
    if not findings:
        return Evaluation(False, f"nothing is known to be wrong with {wanted.of}")
    cause = findings[0]
    said = "\n".join((cause.headline, *cause.evidence))
    holds = wanted.code in ("", cause.code) and (not wanted.says or compile_pattern(wanted.says).search(said))
    others = f" (also {', '.join(one.code for one in findings[1:])})" if findings[1:] else ""
    return Evaluation(holds, f"{cause.code}: {cause.headline}{others}")


def _nodes(wanted: NodesCondition, world: ConditionContext) -> Iterator[Evaluation]:
    nodes = _nodes_of(world, wanted.type)
    kind = f"{wanted.type} " if wanted.type else ""
    if wanted.count != "":
        yield Evaluation(_meets(wanted.count, len(nodes)), f"{len(nodes)} {kind}nodes")
    if wanted.ready != "":
        ready = sum(node.is_ready for node in nodes)
        yield Evaluation(_meets(wanted.ready, ready), f"{ready} of {len(nodes)} {kind}nodes are ready")
    if wanted.priced:
        unpriced = sorted({node.instance_type or "?" for node in nodes if world.costs().node_cost(node).price is None})
        yield Evaluation(not unpriced, f"no price for {', '.join(unpriced)}" if unpriced else "all nodes have a price")


def _accelerators(wanted: AcceleratorsCondition, world: ConditionContext) -> Iterator[Evaluation]:
    snapshot = world.snapshot()
    nodes = _nodes_of(world, "")
    total = sum(node.allocatable.gpu + node.allocatable.neuron for node in nodes)
    busy = 0
    if snapshot is not None:
        for node in nodes:
            requested = snapshot.usage.get(node.name, UNUSED).requested
            busy += requested.gpu + requested.neuron
    for amount, value in ((wanted.busy, busy), (wanted.idle, total - busy), (wanted.total, total)):
        if amount != "":
            yield Evaluation(_meets(amount, value), f"{busy} of {total} accelerators are requested")


def _nodes_of(world: ConditionContext, instance_type: str) -> list[NodeFacts]:
    snapshot = world.snapshot()
    nodes = [] if snapshot is None else list(snapshot.nodes.values())
    return [node for node in nodes if not instance_type or node.instance_type == instance_type]


def _audit(run: RunView | None) -> Evaluation:
    if run is None:
        return Evaluation(True, "nothing was launched")
    if run.audit is None:
        return Evaluation(False, "there was no audit yet")
    found = [f"left behind: {', '.join(run.audit.leftovers)}"] * bool(run.audit.leftovers)
    found += [f"unknown: {' '.join(run.audit.unknown)}"] * bool(run.audit.unknown)
    return Evaluation(
        run.audit.is_clean, "; ".join(found) or "the audit found nothing", cannot_pass=not run.audit.is_clean
    )


def _meets(amount: Amount, value: float) -> bool:
    return parse_comparison(amount).holds(value)
