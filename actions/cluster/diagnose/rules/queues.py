"""Rules for waits by design: Kueue queues, Volcano queues, gangs, quotas of a namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Evidence, KubeObject
from actions.cluster.diagnose.patterns import all_messages, find_hits, pattern
from actions.cluster.diagnose.rules.scheduler_messages import refusals

_GANG = re.compile(
    r"(?P<short>\d+)/(?P<all>\d+) tasks in gang unschedulable|pod group is not ready|minMember of group"
    r"|rejected by gang scheduling|[Ww]aiting for the gang|\bCoscheduling\b|cannot find enough sibling pods"
    r"|PodGroup \S+ gets rejected"
)
_COUNTS = re.compile(r"(\d+) minAvailable|minMember of group: (\d+)")
_PLACEABLE = re.compile(r"(\d+) Schedulable")
_QUEUE_FULL = pattern(
    r"queue resource quota insufficient",
    r"insufficient (?:unused )?quota (?:for|in)",
    r"couldn't assign flavors",
    r"borrowing limit for",
    r"(?:Local|Cluster)Queue \S{1,120} (?:doesn't exist|does not exist|is inactive|is stopped)",
    r"unable to find job queue",
    r"can only submit job to queue with state `Open`",
)
_NAMESPACE = pattern(
    r"exceeded quota: [^\n]+",
    r"forbidden: failed quota",
    r"(?:maximum|minimum) \S{1,80} usage per (?:Container|Pod|PersistentVolumeClaim)",
    r"insufficient quota to match these scopes",
    r"max limit to request ratio per (?:Container|Pod)",
)
_LIMIT_RANGE = re.compile(
    r"(?:(?:maximum|minimum) \S{1,80} usage per (?:Container|Pod|PersistentVolumeClaim)"
    r"|\S{1,80} max limit to request ratio per (?:Container|Pod)) is [^\n]{1,200}"
)
_UNSTATED = re.compile(r"failed quota: (?P<name>[^:\n]{1,253}): must specify (?P<what>[^\n]{1,300})")
_QUOTA_AMOUNTS = re.compile(
    r"requested: [^,\n]{1,253}=(?P<asked>\w{1,20}), used: [^,\n]{1,253}=(?P<used>\w{1,20}),"
    r" limited: [^,\n]{1,253}=(?P<most>\w{1,20})(?!,)"
)
_QUOTA_NAME = re.compile(r"exceeded quota: (?P<name>[^,\s]+)(?:, requested: (?P<asked>[^,\s]+))?")


def find_queued(evidence: Evidence) -> Iterator[Finding]:
    """Yield the queues, gangs and quotas that work waits for."""
    yield from _namespace_quota(evidence)
    yield from _kueue(evidence)
    yield from _volcano_queue(evidence)
    yield from _gang(evidence)


def _namespace_quota(evidence: Evidence) -> Iterator[Finding]:
    found = list(find_hits(all_messages(evidence), _NAMESPACE))
    if not found:
        return
    headline, step = _forbidden_by(found[0].line)
    yield finding(Code.NAMESPACE_QUOTA, headline, [hit.line for hit in found[:3]], step)


def _forbidden_by(line: str) -> tuple[str, str]:
    """Return what forbids a pod, and what to do about it."""
    if limit := _LIMIT_RANGE.search(line):
        return (
            f"A LimitRange of the namespace forbids the pod: {limit[0]}",
            "Keep within the limits in the pod template, or change them: kubectl describe limitrange.",
        )
    if missing := _UNSTATED.search(line):
        return (
            f"The ResourceQuota {missing['name']} takes only pods that state {missing['what']}",
            "State these in the pod template, or give the namespace a LimitRange with defaults.",
        )
    named = _QUOTA_NAME.search(line)
    headline = "A ResourceQuota of the namespace forbids the pod"
    if named:
        headline = f"The ResourceQuota {named['name']} forbids the pod"
        headline += f": it asks for {named['asked']}" if named["asked"] else ""
        amounts = _QUOTA_AMOUNTS.search(line)
        if amounts and amounts["asked"].isdigit() and amounts["most"].isdigit():
            headline += f", {amounts['used']} of {amounts['most']} are in use"
            if int(amounts["asked"]) > int(amounts["most"]):
                return headline, "Raise the quota of the namespace, or ask for less: one pod is more than all of it."
    return headline, "Raise the quota of the namespace, end other work in it, or ask for less."


def _kueue(evidence: Evidence) -> Iterator[Finding]:
    for workload in evidence.queued:
        reserved, admitted = workload.condition("QuotaReserved"), workload.condition("Admitted")
        if workload.has("Admitted") or workload.has("Finished"):
            continue
        waiting = reserved if reserved is not None and reserved.status != "True" else admitted
        evicted = workload.condition("Evicted")
        quotes = [one.message or one.reason for one in (waiting, evicted) if one is not None and one.type]
        queue = str(workload.spec.get("queueName") or "")
        yield finding(
            Code.QUEUE_WAITING,
            f"Workload {workload.name} waits in queue{f' {queue}' if queue else ''} until quota is free"
            + (f": {_brief(waiting.message)}" if waiting is not None and waiting.message else ""),
            quotes or [workload.name],
            "Wait, end admitted work of the same ClusterQueue, or raise its quota; kubectl get workloads lists it.",
        )
    if not evidence.queued and (gated := [pod for pod in evidence.pods if pod.is_gated or _is_gated(pod.conditions)]):
        condition = gated[0].condition("PodScheduled")
        yield finding(
            Code.QUEUE_WAITING,
            f"{gated[0].name} is held back by a scheduling gate until its queue admits it",
            [condition.reason if condition else "", condition.message if condition else ""],
            "Wait for the queue, or see its Workload: kubectl get workloads.",
        )


def _is_gated(conditions: object) -> bool:
    return isinstance(conditions, tuple) and any(one.reason == "SchedulingGated" for one in conditions)


def _brief(message: str) -> str:
    return message.split(". ", maxsplit=1)[0].rstrip(".")[:160]


def _volcano_queue(evidence: Evidence) -> Iterator[Finding]:
    if (
        evidence.pods
        and not any(pod.is_unscheduled for pod in evidence.pods)
        and not any(map(_is_waiting, evidence.gangs))
    ):
        return
    running = {gang.name for gang in evidence.gangs if not _is_waiting(gang)}
    texts = [(event.message, event.name) for event in evidence.events if event.name not in running]
    texts += [(one.message, one.pod) for one in refusals(evidence)]
    found = list(find_hits(texts, _QUEUE_FULL)) if not evidence.queued else []
    if found:
        yield finding(
            Code.QUEUE_WAITING,
            f"{found[0].pod or 'The work'} waits until its queue has room",
            [hit.line for hit in found[:3]],
            "Wait, raise the queue's capability or quota, or end other work in it.",
        )
        return
    for gang in evidence.gangs:
        if gang.status.get("phase") == "Pending" and not gang.conditions:
            queue = str(gang.spec.get("queue") or "default")
            yield finding(
                Code.QUEUE_WAITING,
                f"PodGroup {gang.name} waits in queue {queue}: Volcano has not reacted to it",
                [field_quote("phase", "Pending"), queue],
                f"Does the queue exist and is it Open? kubectl get queue {queue}.{_unseen_by_karpenter(evidence)}",
            )


def _is_waiting(gang: KubeObject) -> bool:
    return gang.status.get("phase") in ("Pending", "Inqueue", "Unknown", None)


def _gang(evidence: Evidence) -> Iterator[Finding]:
    lines = [one.message for one in refusals(evidence) if _GANG.search(one.message)]
    names = [gang.name for gang in evidence.gangs if _is_waiting(gang)]
    for gang in evidence.gangs:
        condition = gang.condition("Unschedulable")
        if _is_waiting(gang) and condition is not None and condition.status == "True":
            lines.insert(0, condition.message or condition.reason)
    if evidence.gangs and not names:
        # the condition and events of an earlier wait stay when the gang runs
        return
    lines = list(dict.fromkeys(lines))
    if not lines:
        return
    message = next((line for line in lines if _COUNTS.search(line)), lines[0])
    wanted, placeable, short = _COUNTS.search(message), _PLACEABLE.search(message), _GANG.search(message)
    total = (wanted[1] or wanted[2]) if wanted else (short["all"] if short else None)
    missing = short["short"] if short and short["short"] else ""
    fits = f"; {placeable[1]} fit now" if placeable else "; none fits now" if total and missing == total else ""
    who = f" of {names[0]}" if names else ""
    yield finding(
        Code.GANG_WAITING,
        f"The gang scheduler waits until all {total or ''} pods{who} fit at once{fits}".replace("  ", " "),
        [*lines[:3], *(one.message for one in refusals(evidence) if one.reasons)],
        f"Free or add room for {missing + ' ' if missing else ''}more pods, or lower minMember."
        f"{_unseen_by_karpenter(evidence)}",
    )


def _unseen_by_karpenter(evidence: Evidence) -> str:
    """Return a sentence on pods for which no node will be started: Karpenter acts on `Unschedulable` only."""
    waiting = [pod for pod in evidence.pods if pod.is_unscheduled and pod.scheduler == "volcano"]
    unseen = [
        pod.name
        for pod in waiting
        if (found := pod.condition("PodScheduled")) is None or found.reason not in ("Unschedulable", "")
    ]
    if not unseen:
        return ""
    return (
        f" Karpenter starts no node for {unseen[0]} meanwhile: its PodScheduled condition has another reason than"
        " Unschedulable."
    )
