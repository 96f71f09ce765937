"""The last rule: what is neither ready nor done, and what no other rule names, in the words of whoever reports it.

Source: kubelet `status`, `prober` and kube-scheduler (v1.2x–1.34) for conditions and events; KubeRay 1.5
`ValidateRayJobSpec`, after which a job that is not accepted keeps an empty status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.base.wording import duration, listed
from actions.cluster.diagnose.codes import QUOTE_LIMIT, Code, Finding, Severity, field_quote, finding
from actions.cluster.diagnose.evidence import STARTING, Condition, Evidence, KubeObject, Pod, is_failed
from actions.cluster.diagnose.rules.last_error import end_by_signal, last_error, on_one_line, was_killed
from actions.cluster.diagnose.rules.probes import unready_by_probe
from actions.cluster.diagnose.rules.provisioning import misfit
from actions.cluster.diagnose.rules.remedies import remedy_of
from actions.cluster.diagnose.rules.scheduler_messages import refusals
from actions.fleet.facts import HARMLESS_EVENTS

_SETTLING_SECONDS = 45.0
"""So long a pod is starting."""
_PATIENCE_SECONDS = 600.0
"""So long a wait without a complaint is only an information: images, data and models take minutes."""
_LEAVING_SECONDS = 600.0
_OF_CONTAINERS = ("ContainersNotReady", "ContainersNotInitialized")
"""Reasons of conditions that repeat the state of containers."""
_BACK_OFF = re.compile(r"^[Bb]ack-?off ")
_PROBLEM = re.compile(r"Deadlock|Readonly|ReadOnly|Corrupt|Frequent|Unhealthy|Problem|Error|Fail|Lost")
"""In types of conditions that node agents set to True for something bad."""
_WORD = re.compile(r"\w")
_TRACEBACK = "Traceback (most recent call last)"
_MOST_NAMES = 4
_MOST_QUOTES = 3


def find_unexplained(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is neither ready nor done. For evidence in which no other rule has found a fault."""
    refused = [one for one in refusals(evidence) if one.reasons]
    if refused:
        yield misfit(refused)
    for pod in evidence.pods:
        if pod.deleted_at:
            if evidence.now - pod.deleted_at >= _LEAVING_SECONDS:
                yield _leaving(evidence, pod)
        elif not (pod.is_fine or _is_done_in_part(pod) or pod.name in {one.pod for one in refused}):
            yield from _waiting(evidence, pod)
    yield from _unready_nodes(evidence)
    if evidence.pods or refused:
        return
    yield from _unready_things(evidence)
    for job in evidence.jobs:
        if not job.deleted_at and not is_failed(job) and not _is_at_work(job):
            yield from _idle(evidence, job)
    yield from _ended_in_text(evidence)
    if not evidence.jobs and (told := _warnings(evidence, None)):
        yield finding(
            Code.NOT_READY,
            f"No rule knows this warning: {_on_one_line(told[0])}",
            told[:_MOST_QUOTES],
            "Read all that is reported of that object: kubectl describe.",
        )


def _ended_in_text(evidence: Evidence) -> Iterator[Finding]:
    """Yield the error with which the program of a pasted log has ended, although no pod of it is known."""
    error = last_error(evidence) if evidence.paste else ""
    cause = end_by_signal(evidence, None, error)
    if cause or any(_TRACEBACK in log.text for log in evidence.logs):
        killed = was_killed(error)
        yield finding(
            Code.KILLED_SIGKILL if killed else Code.JOB_FAILED,
            f"A program ended: {on_one_line(cause or error)}",
            [error],
            "Compare the memory limit of its pod with what its ranks use; see kubectl describe pod."
            if killed
            else remedy_of(error) or "Read what stands above it in the log, and kubectl describe of its pod.",
        )


def _unready_nodes(evidence: Evidence) -> Iterator[Finding]:
    for node in evidence.nodes:
        for problem in node.problems:
            if problem.status == "False" or _PROBLEM.search(problem.type):
                yield _unready(f"Node {node.name}", [problem])


def _unready_things(evidence: Evidence) -> Iterator[Finding]:
    for thing in (*evidence.node_claims, *evidence.others):
        open_steps = [one for one in thing.conditions if one.status != "True" and (one.message or one.reason)]
        since = max((thing.created_at, *(one.since for one in thing.conditions)))
        is_young = since and evidence.now and evidence.now - since < _PATIENCE_SECONDS
        if open_steps and not (thing.has("Ready") or thing.deleted_at or is_young):
            yield _unready(f"{thing.kind or 'NodeClaim'} {thing.name}", open_steps)


def _unready(name: str, conditions: list[Condition]) -> Finding:
    first = conditions[0]
    return finding(
        Code.NOT_READY,
        f"{name} is not ready ({first.type} is {first.status}): {_on_one_line(first.message or first.reason)}",
        [text for one in conditions[:_MOST_QUOTES] for text in (one.message or one.reason, one.type)],
        "Read its conditions and events: kubectl describe; then the log of the controller or agent that reports it.",
    )


def find_unknown(evidence: Evidence) -> Iterator[Finding]:
    """Yield what forbids an all-clear: what could not be read, and what is not ready, young or of unknown age."""
    if evidence.unread:
        yield finding(
            Code.NOT_KNOWN,
            f"Whether anything is wrong is not known: {listed(evidence.unread, _MOST_NAMES)} could not be read",
            evidence.unread,
            "Ask for the right to get and list them, or somebody who has it; the rest shows no fault.",
        )
    for pod in evidence.pods:
        if pod.deleted_at:
            yield _leaving(evidence, pod)
        elif not (pod.is_fine or _is_done_in_part(pod)):
            word = next((one.state.reason for one in pod.containers if one.state.reason), pod.phase)
            yield _unfinished(pod.name, word, max(_times(pod), default=0.0), evidence.now)
    for claim in evidence.node_claims:
        if not (claim.has("Ready") or claim.deleted_at):
            step = next((f"{one.type} is {one.status}" for one in claim.conditions if one.status != "True"), "")
            yield _unfinished(f"NodeClaim {claim.name}", step, claim.created_at, evidence.now)
    for job in () if evidence.pods else evidence.jobs:
        if _is_untouched(job):
            yield _unfinished(
                job.name, f"the status of this {job.kind or 'job'} is empty", job.created_at, evidence.now
            )


def _unfinished(name: str, word: str, since: float, now: float) -> Finding:
    """Return the finding of something on its way: an information if it is young, else it is not known how it fares."""
    state = f" ({word})" if word else ""
    if since and now:
        return finding(
            Code.NOT_READY,
            f"{name} has been starting for {duration(now - since)}{state}",
            [name],
            "Wait: nothing is wrong yet.",
            severity=Severity.INFO,
        )
    return finding(
        Code.NOT_KNOWN,
        f"{name} is not ready{state}, and nothing says for how long or why",
        [name],
        "Ask again in a minute; if it stays, read all that is reported of it: kubectl describe.",
    )


def _is_done_in_part(pod: Pod) -> bool:
    """Return whether it runs, and each of its containers is ready or has succeeded."""
    mains = [one for one in pod.containers if not one.is_init]
    has_done = any(one.state.exit_code == 0 for one in mains)
    return pod.phase == "Running" and has_done and all(one.is_ready or one.state.exit_code == 0 for one in mains)


def _times(pod: Pod) -> list[float]:
    """Return when it was made, and when its containers and conditions came to be what they are."""
    since = [pod.created_at, *(one.state.since for one in pod.containers), *(one.since for one in pod.conditions)]
    return [one for one in since if one]


def _waiting(evidence: Evidence, pod: Pod) -> Iterator[Finding]:
    probed = unready_by_probe(evidence, pod, settling=_SETTLING_SECONDS, patience=_PATIENCE_SECONDS)
    if probed is not None:
        yield probed
        return
    times = _times(pod)
    age = evidence.now - max(times) if times and evidence.now else None
    told = _complaints(evidence, pod)
    is_young = age is not None and age < _SETTLING_SECONDS and not any(one.restarts for one in pod.containers)
    if is_young or (age is None and not told):
        return
    headline, step = _situation(pod, f" for {duration(age)}" if age is not None else "")
    is_patient = age is not None and age < _PATIENCE_SECONDS and not told
    yield finding(
        Code.NOT_READY,
        f"{headline}: {_on_one_line(told[0])}" if told else f"{headline}; no reason is reported",
        [*told[:_MOST_QUOTES], field_quote("phase", pod.phase) if pod.phase else pod.name],
        step,
        severity=Severity.INFO if is_patient else None,
    )


def _situation(pod: Pod, for_long: str) -> tuple[str, str]:
    """Return what the pod waits for, and where to look."""
    if pod.is_unscheduled:
        return (
            f"{pod.name} has no node{for_long}",
            "Compare what it asks for with what the nodes offer (kubectl describe nodes); see that its scheduler"
            " (schedulerName) runs.",
        )
    running = [one for one in pod.containers if one.is_init and one.state.kind == "running"]
    if running and pod.phase == "Pending":
        init = next((one for one in running if not one.is_ready), running[-1])
        return (
            f"{pod.name} waits{for_long} for its init container {init.name}",
            f"Read what that waits for: kubectl logs -c {init.name}.",
        )
    held = next((one for one in pod.containers if not one.is_ready and one.state.kind != "terminated"), None)
    if pod.phase == "Running" and (held is None or held.state.kind == "running"):
        return (
            f"{pod.name} runs but is not ready{for_long}{_share(pod)}",
            "See what its probe asks (kubectl describe pod) and what the program prints (kubectl logs): it may still"
            " load, listen on another port or address, or wait for somebody.",
        )
    reason = held.state.reason if held is not None else ""
    return (
        f"{pod.name} is not started{for_long}{f' on {pod.node}' if pod.node else ''}{f' ({reason})' if reason else ''}",
        "Read its events (kubectl describe pod); if there is none, see the kubelet and the daemons of that node.",
    )


def _share(pod: Pod) -> str:
    mains = [one for one in pod.containers if not one.is_init]
    return f" ({sum(one.is_ready for one in mains)} of {len(mains)} containers are)" if len(mains) > 1 else ""


def _complaints(evidence: Evidence, pod: Pod) -> list[str]:
    """Return what is said of the pod, the most telling first: by the scheduler, the kubelet, its owners."""
    states = [one.state for one in pod.containers if one.state.kind == "waiting"]
    inits = {one.name for one in pod.containers if one.is_init and one.state.kind == "running"}
    logs = [log.text for log in evidence.logs_of(pod)] if inits and pod.phase == "Pending" else []
    said = [
        *(one.message for one in pod.conditions if one.status == "False" and one.type == "PodScheduled"),
        pod.message,
        *(one.message for one in states),
        *(one for one in _warnings(evidence, pod.name) if " probe failed" not in one),
        *(one.message for one in pod.conditions if one.status == "False" and one.reason not in _OF_CONTAINERS),
        *(one.reason for one in states if one.reason not in STARTING),
        *_warnings(evidence, None),
        *(one.message for gang in evidence.gangs for one in gang.conditions if one.status == "True"),
        *(next((line for line in reversed(text.splitlines()) if _WORD.search(line)), "") for text in logs),
        pod.reason,
    ]
    return list(dict.fromkeys(one.strip() for one in said if one.strip() and not _BACK_OFF.search(one)))


def _warnings(evidence: Evidence, pod: str | None) -> list[str]:
    """Return the warnings about the pod of that name, the newest first; without a name, about anything else."""
    told = [
        event
        for event in evidence.events
        if event.type == "Warning"
        and event.kind != "Node"
        and event.reason not in HARMLESS_EVENTS
        and (event.name == pod if pod is not None else event.kind != "Pod" or not evidence.pods)
    ]
    return [event.message or event.reason for event in sorted(told, key=lambda one: -one.last_seen_at)]


def _leaving(evidence: Evidence, pod: Pod) -> Finding:
    """Return the finding of a pod that is being deleted: an information while that may still come to its end."""
    age = evidence.now - pod.deleted_at
    held = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers else ""
    told = _warnings(evidence, pod.name)
    state = f" for {duration(age)} and does not go{held}" if age >= _LEAVING_SECONDS else held
    return finding(
        Code.NOT_READY,
        f"{pod.name} is being deleted{state}" + (f": {_on_one_line(told[0])}" if told else ""),
        [*told[:_MOST_QUOTES], *pod.finalizers, pod.name],
        "See why the controller of that finalizer does not finish."
        if pod.finalizers
        else "Wait until it is gone; if it stays, see whether its node answers (kubectl get node): the API server keeps"
        " the pod until its kubelet has ended it.",
        severity=Severity.INFO if age < _LEAVING_SECONDS else None,
    )


def _is_at_work(job: KubeObject) -> bool:
    """Return whether it runs, has succeeded or is suspended."""
    status, state = job.status, job.status.get("state")
    policy = job.spec.get("runPolicy")
    return (
        any(job.has(kind) for kind in ("Running", "Succeeded", "Complete", "Completed", "Suspended"))
        or bool(status.get("active") or status.get("ready") or status.get("replicatedJobsStatus"))
        or "RUNNING" in (status.get("jobStatus"), str(status.get("jobDeploymentStatus")).upper())
        or state in ("ready", "suspended")
        or (isinstance(state, dict) and state.get("phase") in ("Running", "Completed", "Aborting", "Aborted"))
        or bool(job.spec.get("suspend") or (isinstance(policy, dict) and policy.get("suspend")))
    )


def _is_untouched(job: KubeObject) -> bool:
    return not job.status and not job.conditions and not _is_at_work(job)


def _idle(evidence: Evidence, job: KubeObject) -> Iterator[Finding]:
    """Yield a job that has no pods and does not run."""
    age = evidence.now - job.created_at if job.created_at and evidence.now else None
    said = [*_warnings(evidence, None), *(one.message for one in job.conditions if one.message)]
    said += [str(job.status.get("message") or "")]
    told = [one for one in dict.fromkeys(said) if one]
    if (age is None and not told) or (age is not None and age < _SETTLING_SECONDS):
        return
    name, for_long = f"{job.kind or 'Job'} {job.name}", f" for {duration(age)}" if age is not None else ""
    what = "its status is empty: no operator has taken it up" if _is_untouched(job) else "it has no pods"
    ray = " KubeRay 1.5 and later with Volcano ignore one with a clusterSelector." if job.kind == "RayJob" else ""
    yield finding(
        Code.NOT_READY,
        f"{name} is there{for_long}, and {what}" + (f": {_on_one_line(told[0])}" if told else ""),
        [*told[:_MOST_QUOTES], job.name],
        f"See whether its operator runs, watches this namespace and accepts it: read the operator's log.{ray}",
        severity=Severity.INFO if age is not None and age < _PATIENCE_SECONDS and not told else None,
    )


def _on_one_line(words: str) -> str:
    return " ".join(words.split())[:QUOTE_LIMIT]
