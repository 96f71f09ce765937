"""The diagnosis of a stage: from its objects in the cluster, the logs of its pods, and the journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import AccessError, ConsoleError, MissingError, UnreachableError
from actions.base.executors import NamedExecutor
from actions.base.untrusted import redact
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL
from actions.cluster.auth.session import KubeSession
from actions.cluster.diagnose.codes import LAST_RESORTS, Code, Finding, Severity, finding
from actions.cluster.diagnose.collect import collect_evidence
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.evidence import Evidence, Log
from actions.cluster.diagnose.parse_input import log_text
from actions.cluster.diagnose.rules.last_error import has_original_error
from actions.cluster.diagnose.rules.unexplained import find_unknown
from actions.cluster.diagnose.select import ObjectSelector
from actions.cluster.objects.client import Discovery
from actions.run.context.access import ClusterConnection
from actions.run.objects.inventory import ref_of_owned
from actions.run.objects.writes import CLAIM_GUARD, going, mounting_pods, seen
from actions.run.output.reader import OutputReader
from actions.run.stages.log_check import stored_divergence
from actions.run.state.view import TEARDOWN_PREFIX, RunView, StageState, StageView

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
    """Return the findings on a stage, causes before their symptoms; none for a healthy one.

    Where pods or the cluster are gone, the logs that the run has kept on disk are read instead.

    Args:
        session: The run's cluster; `None` while it cannot be reached.
        view: The run.
        folder: Its folder.
        stage_id: The stage, or with `TEARDOWN_PREFIX` the step of its teardown.
        clock: Time.

    Raises:
        MissingError: The run has no such stage.
    """
    stage = view.step(stage_id)
    if stage is None:
        known = ", ".join(each.id for each in view.stages)
        raise MissingError(f"Run {view.id} has no stage {stage_id!r}.", hint=f"It has {known}.")
    if stage_id.startswith(TEARDOWN_PREFIX):
        return await _explain_undo(session, view, stage)
    evidence = await _in_cluster(session, view, stage_id, clock=clock or SystemClock())
    # of a pod that was made anew, or started again, the run's own output has the end of the one before
    live = {log.pod for log in evidence.logs}
    told = {log.pod for log in evidence.logs if has_original_error(log)}
    thread = NamedExecutor("stage diagnosis")
    try:
        kept = await thread.call(stored_logs, folder, stage)
        # the journal first: of errors of equal weight the last one counts, and a program's log is more specific
        before = [log for log in kept if log.pod not in live or (log.pod not in told and has_original_error(log))]
        logs = (*_journal(stage), *evidence.logs, *before)
        found = await thread.call(diagnose, replace(evidence, logs=logs))
        if stage.state is StageState.FAILED and _waits(found):
            logged = await thread.call(diagnose, Evidence(logs=logs, taken_at=evidence.taken_at))
            found = _without_waiting(found, logged)
        diverged = await thread.call(_diverged, folder, stage)
        if diverged:
            found = [*(item for item in found if item.code is not Code.LOSS_DIVERGED), *diverged]
        doubts = find_unknown(evidence) if stage.state in (StageState.RUNNING, StageState.UNKNOWN) else ()
        return found or [*_unexplained(stage), *doubts]
    finally:
        thread.close()


async def _explain_undo(session: KubeSession | None, view: RunView, step: StageView) -> list[Finding]:
    """Return what holds the objects of a stage that are being deleted, else what the step itself reports."""
    if step.state not in _TROUBLED:
        return []
    held = await _held_objects(ClusterConnection(session, Discovery(session)), view, step) if session else []
    logged = diagnose(Evidence(logs=tuple(_journal(step)), taken_at=0.0))
    if held or logged:
        return [*held, *(item for item in logged if item.code not in LAST_RESORTS)]
    if step.state is StageState.FAILED or not step.message:
        return list(_unexplained(step))
    wait = "Wait: nothing that is known holds it."
    return [finding(Code.DELETION_HELD, step.message, [step.message], wait, severity=Severity.INFO)]


async def _held_objects(connection: ClusterConnection, view: RunView, step: StageView) -> list[Finding]:
    """Return a finding for each object of a stage that is being deleted; what may not be read is left out."""
    found: list[Finding] = []
    for item in view.owned_by(step.id):
        ref = ref_of_owned(item)
        with suppress(ConsoleError):
            entry = None if item.existed else await seen(connection, ref)
            if entry is None or not entry.is_going:
                continue
            pods = await mounting_pods(connection, ref) if CLAIM_GUARD in entry.finalizers else []
            names = " ".join(f"pod/{pod.partition('/')[2]}" for pod in pods)
            way = "See why the controller of that finalizer does not finish."
            if pods:
                way = f"Wait for the end of what mounts it, or end it: kubectl delete -n {ref.namespace} {names}"
            sentence = await going(connection, ref, entry)
            found.append(finding(Code.DELETION_HELD, sentence, [*entry.finalizers, *pods], way))
    return found


def _waits(found: list[Finding]) -> bool:
    """Return whether the first finding is about nodes that pods wait for."""
    return bool(found) and found[0].code in _ABOUT_NODES


def _without_waiting(found: list[Finding], logged: list[Finding]) -> list[Finding]:
    """Return the findings without those about awaited nodes, which go because the job has failed.

    Only where its logs give the reason of the failure; an echo of the end of another rank is none.
    """
    reasons = [item for item in logged if item.severity is Severity.ERROR and item.code not in _ECHOES]
    return [item for item in found if item.code not in _ABOUT_NODES] if reasons else found


async def _in_cluster(session: KubeSession | None, view: RunView, stage_id: str, *, clock: Clock) -> Evidence:
    nothing = Evidence(taken_at=clock.now().timestamp())
    unread = replace(nothing, unread=("the pods and events of the cluster",))
    if session is None:
        return unread
    selector = ObjectSelector("Stage", stage_id, labels={RUN_LABEL: view.id, STAGE_LABEL: stage_id})
    try:
        return await collect_evidence(session, selector, clock=clock)
    except (UnreachableError, AccessError):
        return unread
    except MissingError:
        return nothing


def stored_logs(folder: Path, stage: StageView) -> list[Log]:
    """Return the tails of the newest attempt's logs, by pod, from the run's output."""
    reader = OutputReader(folder, stage.id)
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
    """Return a finding if the whole curve shows a diverged loss, also for a stage that has succeeded."""
    found = stored_divergence(folder, stage.id)
    if found is None:
        return []
    quoted = f"{found.metric} {found.detail}"
    return [finding(Code.LOSS_DIVERGED, f"The training of {stage.id} diverges: {quoted}", [quoted], found.way_out)]


def _unexplained(stage: StageView) -> Iterator[Finding]:
    """Return a finding with the stage's own message, for a failure that no rule explains."""
    if stage.message and stage.state is StageState.FAILED:
        message = redact(stage.message)
        headline = f"The stage {stage.id} has failed: {message.splitlines()[0]}"
        yield finding(Code.JOB_FAILED, headline, [message], f"Fix that, then retry the stage {stage.id}.")


def _journal(stage: StageView) -> Iterator[Log]:
    """Yield the stage's message as a log, if it is failed or under way: Terraform's error, or what it waits for."""
    if stage.message and stage.state in _TROUBLED:
        yield Log(log_text(redact(stage.message)))
