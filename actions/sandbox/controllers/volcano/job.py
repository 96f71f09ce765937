"""The pods, the gang and the status of a Job of Volcano.

Source: the real Volcano 1.15.1 (`pkg/controllers/job`), compared with it in `tests/realnode`. Without what restarts
(`RestartJob`, `RestartTask`, `RestartPod`), commands, exit codes and timeouts of policies, `dependsOn`, volumes, every
plugin but `env`, the defaults that the webhook writes, `minResources` of the gang, and of the status `version` and
`runningDuration`. The pods are made at once, not when the gang is let into its queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from actions.cluster.pod_roles import PodRole, at, pod_roles
from actions.sandbox.clientkit.kinds import POD_GROUPS, Document, uid_of
from actions.sandbox.controllers.core.made import Made
from actions.sandbox.controllers.core.pods import add_variables, pod_of_role

_GROUP = "volcano.sh"
_ENDINGS = {
    "CompleteJob": ("Completing", "Completed"),
    "TerminateJob": ("Terminating", "Terminated"),
    "AbortJob": ("Aborting", "Aborted"),
}
"""Action of a policy → the phases while pods are ended for it, and afterwards."""
ENDING = frozenset(passing for passing, _ in _ENDINGS.values())
ENDED = frozenset({"Completed", "Failed", *(last for _, last in _ENDINGS.values())})
_COUNTS = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def phase_of_job(job: Document) -> str:
    """Return the phase; empty before it has one."""
    return str(at(job, ("status", "state", "phase")) or "")


def volcano_pods(job: Document) -> Iterator[Document]:
    """Yield its pods."""
    name, queue = job["metadata"]["name"], job["spec"].get("queue") or "default"
    for role in pod_roles(job):
        for index in range(role.total):
            place = {"task-index": str(index), "job-name": name, "task-spec": role.name, "queue-name": queue}
            both = {f"{_GROUP}/{key}": value for key, value in place.items()}
            first = {"job-version": "0", "job-retry-count": "0", "template-uid": f"{name}-{role.name}"}
            pod = pod_of_role(role, f"{name}-{role.name}-{index}")
            metadata = pod["metadata"]
            metadata["labels"] |= both | {f"{_GROUP}/job-namespace": job["metadata"]["namespace"]}
            metadata["annotations"] = (
                (metadata.get("annotations") or {})
                | both
                | {f"{_GROUP}/{key}": value for key, value in first.items()}
                | {"scheduling.k8s.io/group-name": _group_name(job)}
            )
            pod["spec"]["schedulerName"] = job["spec"].get("schedulerName") or "volcano"
            if "env" in (job["spec"].get("plugins") or {}):
                add_variables(pod, {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)})
            yield pod


def volcano_gang(job: Document, _pod: str) -> Iterator[Made]:
    """Yield the PodGroup."""
    roles = list(pod_roles(job))
    spec = {
        "minMember": _least(job, roles),
        "minTaskMember": {role.name: role.least for role in roles},
        "queue": job["spec"].get("queue") or "default",
    }
    kept = {name: job["metadata"][name] for name in ("labels", "annotations") if job["metadata"].get(name)}
    yield Made(POD_GROUPS, {"metadata": {"name": _group_name(job)} | kept, "spec": spec}, ends=True)


def volcano_status(job: Document, by_pod: Mapping[str, str], now: str) -> Document:
    """Return what is to change in the status. Once a job ends, it counts no pods any more."""
    roles, old = list(pod_roles(job)), phase_of_job(job)
    phases = {name: "Running" if phase == "Ready" else phase for name, phase in by_pod.items()}
    of_roles = {
        role.name: Counter(
            phases.get(f"{job['metadata']['name']}-{role.name}-{index}", "") for index in range(role.total)
        )
        for role in roles
    }
    states = Counter(phases.values())
    phase = _next_phase(job, roles, states, of_roles)
    is_counted = phase not in ENDING | ENDED
    change: Document = {
        "minAvailable": _least(job, roles),
        "conditions": list(at(job, ("status", "conditions")) or ()),
        "taskStatusCount": {
            name: {"phase": {state: found[state] or None for state in _COUNTS}} for name, found in of_roles.items()
        }
        if is_counted
        else None,
    }
    change |= {field: (is_counted and states[state]) or None for state, field in _COUNTS.items()}
    if phase != old:
        change["state"] = {"phase": phase, "lastTransitionTime": now}
        kept = (one for one in change["conditions"] if one["status"] != phase)
        change["conditions"] = [*kept, {"status": phase, "lastTransitionTime": now}]
    return change


def volcano_events(_job: Document, change: Document, _pods: Mapping[str, Document]) -> Iterator[tuple[str, str]]:
    """Yield reason and message of the event that goes with a change of the status."""
    phase = (change.get("state") or {}).get("phase")
    for action, (passing, _) in _ENDINGS.items():
        if phase == passing:
            yield "ExecuteAction", f"Start to execute action {action} "


def _next_phase(
    job: Document, roles: Sequence[PodRole], states: Counter[str], of_roles: Mapping[str, Counter[str]]
) -> str:
    old, least, total = phase_of_job(job) or "Pending", _least(job, roles), sum(role.total for role in roles)
    over = states["Succeeded"] + states["Failed"]
    if old in ENDING:
        return next(last for passing, last in _ENDINGS.values() if passing == old) if over == states.total() else old
    action = _action(job, roles, of_roles)
    if action in _ENDINGS:
        return _ENDINGS[action][0]
    if old == "Pending":
        return "Running" if states["Running"] + over >= least else old
    enough = int(job["spec"].get("minSuccess") or 0)
    if enough and states["Succeeded"] >= enough:
        return "Completed"
    if over == total > 0:
        is_short = any(of_roles[role.name]["Succeeded"] < role.least for role in roles)
        return "Failed" if enough or is_short or states["Succeeded"] < least else "Completed"
    return "Pending" if states["Pending"] > total - least else old


def _action(job: Document, roles: Sequence[PodRole], of_roles: Mapping[str, Counter[str]]) -> str:
    """Return the action of the first policy that applies, a task's before the job's; empty for none."""
    for role in roles:
        happened = {"PodFailed"} if of_roles[role.name]["Failed"] else set()
        happened |= {"TaskCompleted"} if of_roles[role.name]["Succeeded"] == role.total else set()
        task = at(job, role.path[:-1])
        for policy in (*(task.get("policies") or ()), *(job["spec"].get("policies") or ())) if happened else ():
            if happened & {policy.get("event"), *(policy.get("events") or ())} or policy.get("event") == "*":
                return str(policy.get("action") or "")
    return ""


def _least(job: Document, roles: Sequence[PodRole]) -> int:
    return int(job["spec"].get("minAvailable") or sum(role.least for role in roles))


def _group_name(job: Document) -> str:
    return f"{job['metadata']['name']}-{uid_of(job)}"
