"""The pods of a job stage: how many are ready, which of them crash, restart or were killed, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actions.base.clock import stamp_seconds
from actions.cluster.objects.status_rules import ObjectStatus, WorkState, object_status
from actions.fleet.verdict import RECENT_SECONDS, PodTrouble
from actions.run.output.reader import OutputReader

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding

_TAIL_BYTES = 64 * 1024
_TAIL_LINES = 200

Pod = Mapping[str, Any]


def progress_of(verdict: ObjectStatus, pods: Sequence[Pod]) -> str:
    """Return how many pods are ready, of those that have not ended, and what the others wait for."""
    live = [pod for pod in pods if _phase(pod) not in ("Succeeded", "Failed")]
    ended = sum(_phase(pod) == "Succeeded" for pod in pods)
    ready = sum(_is_ready(pod) for pod in live)
    counted = f"{ready} of {len(live)} pods ready." if live else ""
    counted += f" {ended} pod{'s have' if ended > 1 else ' has'} ended." if ended else ""
    is_behind = bool(live) and verdict.reason == "PodsNotReady"  # a Job counts its pods a second later
    if ready == len(live) and (verdict.state is WorkState.RUNNING or is_behind):
        return counted.strip()
    waiting = [object_status(pod) for pod in live]
    reason = next((item for item in waiting if item.state in (WorkState.WAITING, WorkState.FAILED)), verdict)
    return f"{counted} {reason.message or reason.reason}".strip()


def troubles_of(pods: Iterable[Pod], *, job: str, now: float) -> list[PodTrouble]:
    """Return the trouble of each pod that crashes, restarts or was killed.

    Args:
        pods: The stage's pods, as the API gives them.
        job: Name of their workload, which is left out of theirs.
        now: Seconds since the epoch.
    """
    return [trouble for pod in pods if (trouble := _trouble(pod, job, now)) is not None]


def restarts_of(pods: Iterable[Pod]) -> int:
    """Return the restarts of all containers of all pods."""
    return sum(int(entry.get("restartCount") or 0) for pod in pods for entry in _statuses(pod))


def cause_in(output: OutputReader, troubled: Collection[str] = ()) -> Finding | None:
    """Return what the newest lines of the stage's log give as the reason of a failure; `None` without one.

    Args:
        output: The stage's.
        troubled: Ends of the names of pods whose logs are read; those of all without any.

    Raises:
        JournalError: The output cannot be read.
    """
    from actions.cluster.diagnose.codes import LAST_RESORTS, Severity
    from actions.cluster.diagnose.engine import diagnose  # many expressions to compile: most runs need none of them
    from actions.cluster.diagnose.evidence import Evidence, Log

    lines, _ = output.lines(output.tail_offset(_TAIL_BYTES))
    texts: dict[str, list[str]] = {}
    for line in lines:
        if not line.is_marker and (not troubled or line.pod.endswith(tuple(troubled))):
            texts.setdefault(line.pod, []).append(line.text)
    logs = tuple(Log("\n".join(said[-_TAIL_LINES:]), pod) for pod, said in texts.items())
    found = [one for one in diagnose(Evidence(logs=logs)) if one.severity is Severity.ERROR]
    return next((one for one in found if one.code not in LAST_RESORTS), None)


def _trouble(pod: Pod, job: str, now: float) -> PodTrouble | None:
    statuses = list(_statuses(pod))
    restarts = sum(int(entry.get("restartCount") or 0) for entry in statuses)
    ends = [end for entry in statuses for end in _ends(entry)]
    recent = [end for end in ends if now - stamp_seconds(end.get("finishedAt")) < RECENT_SECONDS]
    status = object_status(pod)
    if status.state is not WorkState.FAILED and not (restarts and recent):
        return None
    if _phase(pod) == "Failed" and ends and not recent:  # its workload has made another one long ago
        return None
    waiting = [status.reason] if status.state is WorkState.FAILED and _phase(pod) != "Failed" else []
    name = str((pod.get("metadata") or {}).get("name") or "")
    reasons = dict.fromkeys([*waiting, *map(_word, ends[:2])] or [status.reason])
    return PodTrouble(name.removeprefix(f"{job}-"), restarts, tuple(reason for reason in reasons if reason))


def _statuses(pod: Pod) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))


def _ends(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the bad ends of a container, the newest first."""
    for state in (entry.get("state"), entry.get("lastState")):
        end = (state or {}).get("terminated")
        if end and end.get("exitCode"):
            yield end


def _word(end: Mapping[str, Any]) -> str:
    reason = str(end.get("reason") or "")
    return reason if reason not in ("", "Error") else f"exit code {end.get('exitCode')}"


def _phase(pod: Pod) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
