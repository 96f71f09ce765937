"""Why a stage of a run does not get on: its objects in the cluster, what its pods have said, what the journal says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import AccessError, MissingError, UnreachableError
from actions.base.executors import NamedExecutor
from actions.base.untrusted import redact
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL
from actions.cluster.auth.session import KubeSession
from actions.cluster.diagnose.codes import LAST_RESORTS, Code, Finding, Severity, finding
from actions.cluster.diagnose.collect import collect_evidence
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.evidence import Evidence, Log
from actions.cluster.diagnose.parse_input import log_text
from actions.cluster.diagnose.select import ObjectSelector
from actions.run.spool.reader import SpoolReader
from actions.run.stages.log_check import spooled_divergence
from actions.run.state.view import RunView, StageState, StageView

_TAIL_BYTES = 1 << 20
_TAIL_LINES = 300
_ABOUT_NODES = frozenset(
    {Code.NODE_LOST, Code.NODEPOOL_MISMATCH, Code.GPU_SHORTAGE, Code.EFA_SHORTAGE, Code.TAINT, Code.WAITING_FOR_NODE}
    | {Code.GANG_WAITING, Code.QUEUE_WAITING, Code.NODE_NOT_JOINING}
)
_ECHOES = LAST_RESORTS | {Code.NCCL_PEER_DIED, Code.NCCL_TIMEOUT, Code.RENDEZVOUS}
_TROUBLED = (StageState.FAILED, StageState.RUNNING, StageState.UNKNOWN)


async def explain_stage(
    session: KubeSession | None, view: RunView, folder: Path, stage_id: str, *, clock: Clock | None = None
) -> list[Finding]:
    """What is the matter with a stage, causes before their symptoms; nothing for one that is fine.

    Pods vanish and clusters are torn down: what the run has kept on disk is read where the cluster has nothing.

    Args:
        session: The run's cluster; `None` while there is no way to it.
        view: The run.
        folder: Its folder.
        stage_id: The stage.
        clock: Time.

    Raises:
        MissingError: The run has no such stage.
    """
    stage = next((one for one in view.stages if one.id == stage_id), None)
    if stage is None:
        known = ", ".join(one.id for one in view.stages)
        raise MissingError(f"Run {view.id} has no stage {stage_id!r}.", hint=f"It has {known}.")
    evidence = await _in_cluster(session, view, stage_id, clock=clock or SystemClock())
    told = {log.pod for log in evidence.logs}
    thread = NamedExecutor("stage diagnosis")
    try:
        kept = await thread.call(spooled_logs, folder, stage)
        # the journal first: of errors that weigh the same, the last one counts, and a program knows more than the run
        logs = (*_journal(stage), *evidence.logs, *(log for log in kept if log.pod not in told))
        found = await thread.call(diagnose, replace(evidence, logs=logs))
        if stage.state is StageState.FAILED and _waits(found):
            said = await thread.call(diagnose, Evidence(logs=logs, taken_at=evidence.taken_at))
            found = _of_the_past(found, said)
        diverged = await thread.call(_diverged, folder, stage)
        if diverged:
            found = [*(one for one in found if one.code is not Code.LOSS_DIVERGED), *diverged]
        return found or list(_as_told(stage))
    finally:
        thread.close()


def _waits(found: list[Finding]) -> bool:
    """Whether the first thing that is found is about nodes that somebody waits for."""
    return bool(found) and found[0].code in _ABOUT_NODES


def _of_the_past(found: list[Finding], said: list[Finding]) -> list[Finding]:
    """Without what a job that has failed would wait for: its nodes go, because it has failed.

    Only where its programs have said why; what only echoes the end of another rank is no reason.
    """
    reasons = [one for one in said if one.severity is Severity.ERROR and one.code not in _ECHOES]
    return [one for one in found if one.code not in _ABOUT_NODES] if reasons else found


async def _in_cluster(session: KubeSession | None, view: RunView, stage_id: str, *, clock: Clock) -> Evidence:
    nothing = Evidence(taken_at=clock.now().timestamp())
    if session is None:
        return nothing
    question = ObjectSelector("Stage", stage_id, labels={RUN_LABEL: view.id, STAGE_LABEL: stage_id})
    try:
        return await collect_evidence(session, question, clock=clock)
    except (MissingError, UnreachableError, AccessError):
        return nothing


def spooled_logs(folder: Path, stage: StageView) -> list[Log]:
    """The ends of the logs of the newest attempt, by pod, as the run has kept them."""
    reader = SpoolReader(folder, stage.id)
    since_ns = (stage.started_at or 0.0) * 1e9
    lines: dict[str, list[str]] = {}
    offset = reader.tail_offset(_TAIL_BYTES)
    while True:
        found, end = reader.lines(offset)
        for line in found:
            if line.at_ns >= since_ns and not line.is_marker:
                lines.setdefault(line.pod, []).append(line.text)
        if end == offset:
            break
        offset = end
    return [Log(log_text(redact("\n".join(texts[-_TAIL_LINES:]))), pod) for pod, texts in lines.items()]


def _diverged(folder: Path, stage: StageView) -> list[Finding]:
    """A loss that is no number, by the whole curve: also of a stage that has ended well."""
    found = spooled_divergence(folder, stage.id)
    if found is None:
        return []
    said = f"{found.metric} {found.detail}"
    return [finding(Code.LOSS_DIVERGED, f"The training of {stage.id} goes nowhere: {said}", [said], found.way_out)]


def _as_told(stage: StageView) -> Iterator[Finding]:
    """A stage that has failed of what no rule knows: in the run's own words."""
    if stage.message and stage.state is StageState.FAILED:
        told = redact(stage.message)
        headline = f"The stage {stage.id} has failed: {told.splitlines()[0]}"
        yield finding(Code.JOB_FAILED, headline, [told], f"Correct what it says, then retry the stage {stage.id}.")


def _journal(stage: StageView) -> Iterator[Log]:
    """What the run itself has noted of a stage that is in trouble: Terraform's error, what an object waits for."""
    if stage.message and stage.state in _TROUBLED:
        yield Log(log_text(redact(stage.message)))
