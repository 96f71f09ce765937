"""Rules for waits by design: Kueue queues, Volcano queues, gangs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Evidence, KubeObject
from actions.cluster.diagnose.log_patterns import find_hits, pattern
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


def find_queued(evidence: Evidence) -> Iterator[Finding]:
    """Yield the queues and gangs that work waits for."""
    yield from _kueue(evidence)
    yield from _volcano_queue(evidence)
    yield from _gang(evidence)


_UNTIL_QUOTA = (
    " until quota is free",
    "Wait, end admitted work of the same ClusterQueue, or raise its quota; kubectl get workloads lists it.",
)
_UNTIL = (
    (
        re.compile(r"> maximum capacity"),
        ", which can never hold it",
        "Ask for less, or raise the quota of its ClusterQueue: kubectl describe clusterqueue.",
    ),
    (
        re.compile(r"resource \S{1,120} unavailable in ClusterQueue"),
        ", which has no quota of a resource",
        "Ask for what its ClusterQueue covers, or have the resource added there: kubectl describe clusterqueue.",
    ),
    (
        re.compile(r"doesn't match ClusterQueue selector"),
        " whose ClusterQueue does not take this namespace",
        "Use another queue, or have the namespaceSelector of its ClusterQueue changed: kubectl describe clusterqueue.",
    ),
    (
        re.compile(r"Queue \S{1,120} (?:doesn't|does not) exist|Queue \S{1,120} not found"),
        " that is not there",
        "Correct the label kueue.x-k8s.io/queue-name, or make the queue: kubectl get localqueues,clusterqueues -A.",
    ),
    (
        re.compile(r"is (?:inactive|stopped)|isn't active|StopPolicy"),
        " that admits nothing now",
        "See why the queue is stopped or inactive (a flavor or admission check that is missing): kubectl describe"
        " clusterqueue.",
    ),
)
"""Words of Kueue, what a workload then waits for, and what to do."""


def _kueue(evidence: Evidence) -> Iterator[Finding]:
    for workload in evidence.queued:
        reserved, admitted = workload.condition("QuotaReserved"), workload.condition("Admitted")
        if workload.has("Admitted") or workload.has("Finished"):
            continue
        waiting = reserved if reserved is not None and reserved.status != "True" else admitted
        evicted = workload.condition("Evicted")
        quotes = [one.message or one.reason for one in (waiting, evicted) if one is not None and one.type]
        queue = str(workload.spec.get("queueName") or "")
        said = waiting.message if waiting is not None else ""
        told = _brief(said)
        until, step = (
            next((row[1:] for row in _UNTIL if row[0].search(said)), _UNTIL_QUOTA)
            if not workload.has("QuotaReserved")
            else (" until its admission checks are ready", "See what they wait for: kubectl describe workload.")
        )
        yield finding(
            Code.QUEUE_WAITING,
            f"Workload {workload.name} waits in queue{f' {queue}' if queue else ''}{until}"
            + (f": {told}" if told else ""),
            quotes or [workload.name],
            step,
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
    return message.split(". ", maxsplit=1)[0].rstrip(".")[:200]


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
    waiting = [gang for gang in evidence.gangs if _is_waiting(gang)]
    if evidence.gangs and not waiting:
        # the condition and events of an earlier wait stay when the gang runs
        return
    told = [one.message for gang in waiting for one in gang.conditions if one.status == "True" and one.message]
    told += [one.message for one in refusals(evidence) if not one.reasons or _GANG.search(one.message)]
    lines = [line for line in dict.fromkeys(told) if _GANG.search(line)]
    others = [line for line in dict.fromkeys(told) if line not in lines]
    if not lines and not (waiting and others):
        return
    message = next((line for line in lines if _COUNTS.search(line)), next(iter(lines or others)))
    wanted, placeable, short = _COUNTS.search(message), _PLACEABLE.search(message), _GANG.search(message)
    total = (wanted[1] or wanted[2]) if wanted else (short["all"] if short else None)
    missing = short["short"] if short and short["short"] else ""
    fits = f"; {placeable[1]} fit now" if placeable else "; none fits now" if total and missing == total else ""
    who = f" of {waiting[0].name}" if waiting else ""
    whole = f"its pod{who} fits" if total == "1" else f"all {f'{total} ' if total else ''}pods{who} fit at once"
    yield finding(
        Code.GANG_WAITING,
        f"The gang scheduler waits until {whole}{fits}" + (f": {others[0]}" if others else ""),
        [*lines[:3], *others[:2], *(one.message for one in refusals(evidence) if one.reasons)],
        f"Free or add room for {f'{missing} more ' if missing not in ('', '1') else 'the '}pods, or lower minMember."
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
