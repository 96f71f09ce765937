"""Evaluation of conditions: whether they hold, the text to show, and whether waiting can still help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from actions.base.patterns import compile_pattern
from actions.cluster.diagnose.codes import Finding
from actions.cluster.state.cluster_state import ClusterSnapshot
from actions.fleet.cost import CostModel
from actions.fleet.facts import UNUSED, NodeFacts, PodFacts
from actions.run.state.view import RunState, RunView, StageState, StageView
from actions.script.driver import ConsoleDriver
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
from actions.script.run_observer import RunObserver

_PASSED = {
    StageState.PENDING: 0,
    StageState.RUNNING: 1,
    StageState.AWAITING_APPROVAL: 1,
    StageState.SUCCEEDED: 2,
}
"""Order of a stage's states: a wait for a state ends when that or a later one is reached."""

_DEAD_STAGES = (StageState.FAILED, StageState.CANCELLED, StageState.SKIPPED, StageState.UNDONE)
_BLOCKING_STAGES = (StageState.FAILED, StageState.CANCELLED, StageState.UNDONE)
"""States of a stage in which none is begun that needs it, until it is tried again."""
_DEAD_RUNS = (RunState.FAILED, RunState.CANCELLED, RunState.TORN_DOWN)

ALIASES = {"loss": "train_loss"}
"""Metrics by their short names."""


class Evaluation(msgspec.Struct, frozen=True):
    """One condition, evaluated.

    Args:
        holds: It holds.
        text: The state that was found, for progress and reports.
        cannot_pass: It does not hold, and waiting cannot help.
    """

    holds: bool
    text: str
    cannot_pass: bool = False


def evaluate(conditions: Conditions, driver: ConsoleDriver, run: RunObserver) -> list[Evaluation]:
    """Evaluate every condition that is given.

    Args:
        conditions: The conditions.
        driver: The console: its snapshot of the cluster, its screen, its header.
        run: The run on screen.
    """
    return [
        *_of_the_run(conditions, run),
        *_of_the_cluster(conditions, driver, run),
        *_of_the_console(conditions, driver),
    ]


def _of_the_run(given: Conditions, run: RunObserver) -> Iterator[Evaluation]:
    if given.stage:
        yield _stage(given.stage, given.is_, run.newest)
    if given.run:
        yield _run(given.run, run.newest)
    if given.log is not None:
        yield _log(given.log if isinstance(given.log, LogCondition) else LogCondition(match=given.log), run)
    if given.metric:
        yield _metric(given, run)
    if given.why is not None:
        yield _why(given.why, run.findings(given.why.of))
    if given.audit:
        yield _audit(run.newest)


def _of_the_cluster(given: Conditions, driver: ConsoleDriver, run: RunObserver) -> Iterator[Evaluation]:
    if given.pods is not None:
        yield _pods(given.pods, driver.snapshot(), run.newest)
    if given.nodes is not None:
        nodes = _nodes_of(driver.snapshot(), given.nodes.type)
        yield from _nodes(given.nodes, nodes, driver.identity().get("region", ""))
    if given.accelerators is not None:
        yield from _accelerators(given.accelerators, driver.snapshot())


def _of_the_console(given: Conditions, driver: ConsoleDriver) -> Iterator[Evaluation]:
    if given.text:
        found = compile_pattern(given.text).search(driver.screen_text())
        yield Evaluation(found, f"{given.text!r} is {'' if found else 'not '}on the screen")
    for key in ("cluster", "region", "account"):
        if expected := getattr(given, key):
            actual = driver.identity().get(key, "")
            yield Evaluation(actual == expected, f"{key} is {actual or 'unknown'}")


def _stage(stage_id: str, wanted: str, run: RunView | None) -> Evaluation:
    if run is None:
        return Evaluation(False, "no run is on screen")
    stage = next((stage for stage in run.stages if stage.id == stage_id), None)
    if stage is None:
        names = ", ".join(stage.id for stage in run.stages)
        return Evaluation(False, f"the run has no stage {stage_id!r} (it has {names})", cannot_pass=True)
    message = f": {stage.message}" if stage.message else ""
    text = f"{stage_id} is {stage.state.value}{message}{_awaiting_others(run, stage_id)}"
    if stage.state.value == wanted:
        return Evaluation(True, text)
    goal = _PASSED.get(StageState(wanted)) if wanted in {state.value for state in StageState} else None
    if goal is None:
        return Evaluation(False, text)
    if stage.state is StageState.PENDING and (cause := _dead_need(run, stage)) is not None:
        why = f": {cause.message}" if cause.message else ""
        text += f", and {cause.id}, which it needs, is {cause.state.value}{why}"
        return Evaluation(False, text, cannot_pass=True)
    return Evaluation(_PASSED.get(stage.state, -1) > goal, text, cannot_pass=stage.state in _DEAD_STAGES)


def _dead_need(run: RunView, stage: StageView) -> StageView | None:
    """Return the stage, of those that one needs directly or not, that keeps it from ever being begun."""
    stages = {one.id: one for one in run.stages}
    left, seen = list(stage.needs), set[str]()
    while left:
        name = left.pop()
        need = stages.get(name)
        if need is None or name in seen:
            continue
        seen.add(name)
        if need.state in _BLOCKING_STAGES:
            return need
        left += need.needs
    return None


def _awaiting_others(run: RunView, stage_id: str) -> str:
    """Return the addition to a stage's text if plans of other stages wait for an approval."""
    waiting = [stage.id for stage in run.stages if stage.state is StageState.AWAITING_APPROVAL and stage.id != stage_id]
    return f" (the plan of {', '.join(waiting)} waits for an approval)" if waiting else ""


def _run(wanted: str, run: RunView | None) -> Evaluation:
    if run is None:
        return Evaluation(False, "no run is on screen")
    return Evaluation(run.state.value == wanted, f"the run is {run.state.value}", cannot_pass=run.state in _DEAD_RUNS)


def _pods(wanted: PodsCondition, snapshot: ClusterSnapshot | None, run: RunView | None) -> Evaluation:
    pods = [] if snapshot is None else [pod for pod in snapshot.pods.values() if _matches(pod, wanted, run)]
    return Evaluation(_meets(wanted.count, len(pods)), f"{len(pods)} such pods{_phases(pods)}")


def _matches(pod: PodFacts, wanted: PodsCondition, run: RunView | None) -> bool:
    return (
        (not wanted.namespace or pod.namespace == wanted.namespace)
        and (not wanted.name or compile_pattern(wanted.name).search(pod.name))
        and (not wanted.phase or pod.phase == wanted.phase)
        and (not wanted.of or (run is not None and pod.run == run.id and pod.stage == wanted.of))
    )


def _phases(pods: Iterable[PodFacts]) -> str:
    phases = sorted({pod.reason or pod.phase for pod in pods})
    return f" ({', '.join(phases)})" if phases else ""


def _log(wanted: LogCondition, run: RunObserver) -> Evaluation:
    found = run.has_line(compile_pattern(wanted.match), wanted.of)
    place = f"the log of {wanted.of}" if wanted.of else "the run's logs"
    return Evaluation(found, f"{wanted.match!r} is {'' if found else 'not '}in {place}")


def _metric(wanted: Conditions, run: RunObserver) -> Evaluation:
    name = ALIASES.get(wanted.metric, wanted.metric)
    points = run.points(name, wanted.of)
    if not points:
        return Evaluation(False, f"no {name} has been read")
    latest = points[-1]
    holds = True
    if wanted.step != "":
        holds = any(point.step is not None and _meets(wanted.step, point.step) for point in points)
    if wanted.value != "":
        holds = holds and _meets(wanted.value, latest.value)
    return Evaluation(holds, f"{name} is {latest.value:g} at step {'?' if latest.step is None else latest.step}")


def _why(wanted: WhyCondition, findings: Sequence[Finding]) -> Evaluation:
    if not findings:
        return Evaluation(False, f"nothing is known to be wrong with {wanted.of}")
    cause = findings[0]
    text = "\n".join((cause.headline, *cause.evidence))
    holds = wanted.code in ("", cause.code) and (not wanted.says or compile_pattern(wanted.says).search(text))
    others = f" (also {', '.join(finding.code for finding in findings[1:])})" if findings[1:] else ""
    return Evaluation(holds, f"{cause.code}: {cause.headline}{others}")


def _nodes(wanted: NodesCondition, nodes: Sequence[NodeFacts], region: str) -> Iterator[Evaluation]:
    kind = f"{wanted.type} " if wanted.type else ""
    if wanted.count != "":
        yield Evaluation(_meets(wanted.count, len(nodes)), f"{len(nodes)} {kind}nodes")
    if wanted.ready != "":
        ready = sum(node.is_ready for node in nodes)
        yield Evaluation(_meets(wanted.ready, ready), f"{ready} of {len(nodes)} {kind}nodes are ready")
    if wanted.priced:
        costs = _costs(region)
        unpriced = sorted({node.instance_type or "?" for node in nodes if costs.node_cost(node).price is None})
        yield Evaluation(not unpriced, f"no price for {', '.join(unpriced)}" if unpriced else "all nodes have a price")


@lru_cache(maxsize=4)
def _costs(region: str) -> CostModel:
    return CostModel.load(region=region)


def _accelerators(wanted: AcceleratorsCondition, snapshot: ClusterSnapshot | None) -> Iterator[Evaluation]:
    nodes = _nodes_of(snapshot, "")
    total = sum(node.allocatable.gpu + node.allocatable.neuron for node in nodes)
    busy = 0
    if snapshot is not None:
        for node in nodes:
            requested = node.requested(snapshot.usage.get(node.name, UNUSED))
            busy += requested.gpu + requested.neuron
    for amount, value in ((wanted.busy, busy), (wanted.idle, total - busy), (wanted.total, total)):
        if amount != "":
            yield Evaluation(_meets(amount, value), f"{busy} of {total} accelerators are requested")


def _nodes_of(snapshot: ClusterSnapshot | None, instance_type: str) -> list[NodeFacts]:
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
