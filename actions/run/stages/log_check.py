"""Checks of a stage's log against its result: expected values, a diverged loss, an incomplete log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from actions.base.errors import AccessError, JournalError, MissingError, RefusedError
from actions.blueprint.checks import AdapterLogCheck, AnyLogCheck, BandwidthLogCheck
from actions.blueprint.stages import JobStage
from actions.cluster.logs.follow import ContainerLog, read_log
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import ANSWERED, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.output.reader import OutputLine, OutputReader
from actions.run.state.records import CheckResult, StageFinding
from actions.telemetry.curves import STEADY, Curves, Divergence, divergence_of
from actions.telemetry.points import Point
from actions.telemetry.tools.bandwidth import Judgement, judge_adapters, judge_bandwidth, load_references
from actions.telemetry.tools.collectives import read_nccl
from actions.telemetry.tools.efa import read_fi_info

_KEPT_BYTES = 32 << 20
_RESULTS = {True: CheckResult.PASSED, False: CheckResult.FAILED, None: CheckResult.UNKNOWN}


async def check_log_result(
    context: StageContext, connection: ClusterConnection, stage: JobStage, message: str
) -> Performed:
    """Return the result of a stage whose job has succeeded, after the check of its log.

    Args:
        context: The stage.
        connection: To read the job's log.
        stage: With a log check or without.
        message: The result of the job itself.

    Raises:
        StageFailedError: The log does not hold what the check requires.
    """
    if stage.verdict is None:
        return Performed(message)
    log = await _log_of(context, connection, stage)
    judgements = _judgements(context, stage.verdict, log)
    findings = tuple(_finding(judgement, stage.verdict.hint) for judgement in judgements)
    worst = next((judgement for judgement in judgements if judgement.is_good is False), None)
    if worst is not None:
        raise StageFailedError(f"{worst.subject}: {worst.detail}", findings=findings, hint=stage.verdict.hint)
    return Performed(f"{message} {_capital(judgements[-1])}", findings=findings)


def _judgements(context: StageContext, verdict: AnyLogCheck, log: str) -> tuple[Judgement, ...]:
    match verdict:
        case AdapterLogCheck():
            ranks, adapters = context.whole(verdict.ranks), context.whole(verdict.adapters)
            return judge_adapters(read_fi_info(log), ranks=ranks, adapters=adapters)
        case BandwidthLogCheck():
            nodes = (
                context.text(verdict.instance_type),
                context.whole(verdict.nodes),
                context.whole(verdict.ranks_per_node),
            )
            known = {(one.instance_type, one.nodes, one.ranks_per_node): one for one in load_references()}
            return judge_bandwidth(
                read_nccl(log),
                known.get(nodes),
                at_least_percent=context.number(verdict.at_least_percent),
                from_bytes=context.whole(verdict.from_bytes),
            )
        case _ as never:
            assert_never(never)


async def _log_of(context: StageContext, connection: ClusterConnection, stage: JobStage) -> str:
    """Return the log of the newest pod that the stage watches; if it cannot be read, from the run's output."""
    logs = stage.watch.logs if stage.watch is not None else None
    if logs is None or not logs.pods:
        return ""
    selector, container = logs.pods, logs.container

    async def read() -> str:
        pods = await connection.pods(namespace=context.namespace, label_selector=selector)
        if not pods:
            return ""
        newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        metadata = newest["metadata"]
        name = container or newest["spec"]["containers"][0]["name"]
        source = ContainerLog(metadata["namespace"], metadata["name"], name, metadata["uid"])
        return "\n".join(line.text for line in await read_log(connection.session, source))

    try:
        found = await retry_unreachable(read, clock=context.clock, note=context.journal.note, policy=ANSWERED)
    except (AccessError, MissingError, RefusedError):
        found = stored_log(context.folder, stage.id)
        if not found:
            raise
    return found or stored_log(context.folder, stage.id)


def stored_log(folder: Path, stage: str) -> str:
    """Return the stored log of the pod that was followed last; its tail if it is very long."""
    reader, lines = OutputReader(folder, stage), list[OutputLine]()
    offset = reader.tail_offset(_KEPT_BYTES)
    while True:
        found, end = reader.lines(offset)
        lines += [line for line in found if not line.is_marker]
        if end == offset:
            break
        offset = end
    last = max(lines, key=lambda line: line.at_ns, default=None)
    return "\n".join(line.text for line in lines if last is not None and line.pod == last.pod)


def _finding(judgement: Judgement, hint: str) -> StageFinding:
    fix = hint if judgement.is_good is False else ""
    return StageFinding(_RESULTS[judgement.is_good], judgement.subject, judgement.detail, fix)


def _capital(judgement: Judgement) -> str:
    text = f"{judgement.subject}: {judgement.detail}"
    return text[:1].upper() + text[1:]


def stored_divergence(folder: Path, stage: str, *, least: int = STEADY) -> Divergence | None:
    """Find a diverged loss in the stage's stored curves. Long curves take long: call it in a thread.

    Raises:
        JournalError: The output cannot be read.
    """
    reader, curves, offset = OutputReader(folder, stage), Curves(), 0
    while True:
        found, end = reader.values(offset)
        for item in found:
            if isinstance(item.value, Point):
                curves.add(item.value)
        if end == offset:
            return divergence_of(curves, least=least)
        offset = end


def with_warning(done: Performed, folder: Path, stage: str) -> Performed:
    """Return the result of a stage with a warning if its loss has diverged: most trainers succeed all the same."""
    try:
        found = stored_divergence(folder, stage, least=1)
    except JournalError:
        return done  # its log shows the error when it is opened
    if found is None:
        return done
    warning = StageFinding(CheckResult.FAILED, found.metric, found.detail, found.way_out)
    message = f"{done.message} But {found.metric} {found.detail}".strip()
    return replace(done, message=message, findings=(*done.findings, warning))


def with_gaps(done: Performed, losses: Sequence[str]) -> Performed:
    """Return the result of a stage with the gaps in its logs, one sentence each."""
    if not losses:
        return done
    warning = StageFinding(CheckResult.UNKNOWN, "log", " ".join(losses), "Read the rest of it where it was written.")
    return replace(done, message=" ".join([done.message, *losses]).strip(), findings=(*done.findings, warning))
