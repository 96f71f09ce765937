"""The problems of a whole cluster in a line each, from facts that are at hand: no request, no log, bounded work.

The same rules as a whole diagnosis (`actions.cluster.diagnose.engine`), over what the facts of pods, nodes and events
hold. A container's log is not among them; the cause that a run has found in one takes the place of a mere crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from actions.cluster.diagnose.codes import LAST_RESORTS, RANK, Code, Finding, Severity
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.evidence import (
    Condition,
    Container,
    Evidence,
    KubeObject,
    Node,
    ObservedState,
    Pod,
)
from actions.cluster.diagnose.select import scopes_of
from actions.cluster.kinds import JOB_NAMES
from actions.fleet.accelerators import AMD, EFA, GPU, NEURON, accelerator_of
from actions.fleet.facts import EventFacts, NodeFacts, PodFacts, Resources, WorkloadFacts
from actions.fleet.verdict import waits_badly

MOST_PODS = 48
"""So many pods are looked at, a few of each workload."""
_MOST_OF_ONE = 3
_MOST_NODES = 200
_MOST_EVENTS = 300
_SETTLING_SECONDS = 45.0
"""A pod that waits for less is starting."""
_TERMINATING_SECONDS = 600.0
_OBJECTS_WAITED_FOR = ("NodePool", "NodeClaim", "PersistentVolumeClaim")
_OF_SCHEDULERS = ("FailedScheduling", "Unschedulable")
_RESOURCES = {"gpu": GPU, "neuron": NEURON, "efa": EFA}
_URGENCY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


NO_CAUSES: Mapping[tuple[str, str], Finding] = {}


class Problem(msgspec.Struct, frozen=True):
    """One problem, with the object whose diagnosis has the details.

    Args:
        kind: Of the object; empty if the problem is of no single one.
        namespace: Of the object; empty for a node.
        name: Of the object.
        severity: An error, a warning, or something that only takes its time.
        code: Of the finding; empty for a pod for which no rule has a cause.
        text: A sentence, without the object.
        next_step: What to do about it, in a sentence; empty if no rule has one.
        cluster: The context of its cluster, where several are looked at; else empty.
    """

    kind: str
    namespace: str
    name: str
    severity: Severity
    code: str
    text: str
    next_step: str = ""
    cluster: str = ""

    @property
    def title(self) -> str:
        """`Pod default/train-worker-0`; empty without an object."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}".strip()

    @property
    def selector(self) -> str:
        """The object as it is typed after `why`: `Pod/default/train-worker-0`; empty without an object."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def problems_of(
    *,
    nodes: Mapping[str, NodeFacts],
    bad_nodes: Iterable[NodeFacts],
    pods: Iterable[PodFacts],
    events: Iterable[EventFacts],
    workloads: Iterable[WorkloadFacts],
    now: float,
    causes: Mapping[tuple[str, str], Finding] = NO_CAUSES,
) -> list[Problem]:
    """Return the problems of a cluster, the most urgent first. Pure, and bounded whatever the cluster's size.

    Args:
        nodes: By name.
        bad_nodes: Nodes that are not ready.
        pods: Pods that are not fine, or were not a moment ago: a container of theirs has been restarted.
        events: The newest ones.
        workloads: All jobs; what failed on the way of one that has finished is past.
        now: Seconds since the epoch.
        causes: What the logs of runs give as the reason that their pods fail, by run and stage.
    """
    jobs = list(workloads)
    done = {(job.kind, job.namespace, job.name) for job in jobs if job.state == "finished"}
    present = (pod for pod in pods if (pod.owner_kind, pod.namespace, pod.owner_name) not in done)
    chosen = _few_of_each(pod for pod in present if not _is_passing(pod, now))
    lost = list(bad_nodes)[:_MOST_NODES]
    evidence = Evidence(
        pods=tuple(map(_pod, chosen)),
        nodes=tuple(map(_node, _nodes_about(nodes, lost, chosen))),
        events=tuple(_events_about(events, chosen, lost)),
        jobs=tuple(_job(job) for job in jobs if job.state == "failed" and job.kind in JOB_NAMES)[:MOST_PODS],
        taken_at=now,
    )
    facts = {pod.key: pod for pod in chosen}
    found: dict[tuple[str, str], Problem] = {}
    explained: set[str] = set()
    for scope in scopes_of(evidence):
        findings = diagnose(scope)
        if findings:
            explained |= {f"{pod.namespace}/{pod.name}" for pod in scope.pods}
        for one in findings:
            known = _deeper(one, scope, facts, causes)
            found.setdefault((known.code.value, known.headline), _problem(known, scope, facts, lost))
    for pod in chosen:
        if pod.key not in explained:
            plain = _plain(pod)
            found.setdefault((plain.code, f"{plain.title} {plain.text}"), plain)
    return sorted(found.values(), key=_urgency)


def _deeper(
    one: Finding, scope: Evidence, facts: Mapping[str, PodFacts], causes: Mapping[tuple[str, str], Finding]
) -> Finding:
    """Return the cause in a run's log in the place of what the facts of its pods alone give: that they fail."""
    if one.code not in LAST_RESORTS:
        return one
    own = (facts[f"{pod.namespace}/{pod.name}"] for pod in scope.pods)
    return next((causes[pod.run, pod.stage] for pod in own if (pod.run, pod.stage) in causes), one)


def _urgency(problem: Problem) -> tuple[int, int, str]:
    rank = RANK[Code(problem.code)] if problem.code else len(RANK)
    return _URGENCY[problem.severity], rank, problem.title


def _is_passing(pod: PodFacts, now: float) -> bool:
    """Return whether a pod is on its way: it has just been made, or is being deleted."""
    age = now - max(pod.created_at, pod.started_at)
    if pod.reason == "Terminating":
        return age < _TERMINATING_SECONDS
    is_new = age < _SETTLING_SECONDS and not pod.restarts
    return is_new and pod.phase in ("Pending", "Running") and not waits_badly(pod)


def _few_of_each(pods: Iterable[PodFacts]) -> list[PodFacts]:
    """Return a few pods of each workload: those of one workload mostly share their trouble."""
    counts: dict[tuple[str, str, str, str], int] = {}
    chosen = []
    for pod in pods:
        group = (pod.namespace, pod.owner_kind, pod.owner_name or pod.name, pod.reason or pod.phase)
        counts[group] = counts.get(group, 0) + 1
        if counts[group] <= _MOST_OF_ONE:
            chosen.append(pod)
            if len(chosen) == MOST_PODS:
                break
    return chosen


def _nodes_about(
    nodes: Mapping[str, NodeFacts], lost: Iterable[NodeFacts], pods: Iterable[PodFacts]
) -> Iterable[NodeFacts]:
    """Return lost nodes, hosts of the pods and, if a pod waits for a node, the first ones of all."""
    hosts = [nodes[pod.node] for pod in pods if pod.node in nodes]
    others = islice(nodes.values(), _MOST_NODES) if any(not pod.node for pod in pods) else ()
    return {node.name: node for node in (*lost, *hosts, *others)}.values()


def _events_about(events: Iterable[EventFacts], pods: list[PodFacts], lost: list[NodeFacts]) -> list[EventFacts]:
    """Return the newest events about what is looked at. What a scheduler wrote of a pod that has its node is past."""
    names = {(pod.namespace, pod.name) for pod in pods} | {(pod.namespace, pod.owner_name) for pod in pods}
    waiting = [pod for pod in pods if not pod.node]
    unplaced = {(pod.namespace, pod.name) for pod in waiting} | {(pod.namespace, pod.owner_name) for pod in waiting}
    hosts = {node.name for node in lost}

    def is_wanted(event: EventFacts) -> bool:
        key = (event.namespace, event.name)
        if event.kind == "Node":
            return event.name in hosts
        if event.kind in _OBJECTS_WAITED_FOR:
            return bool(waiting) and event.type == "Warning"
        return key in names and (key in unplaced or not _is_of_scheduler(event))

    return [event for event in events if is_wanted(event)][-_MOST_EVENTS:]


def _is_of_scheduler(event: EventFacts) -> bool:
    """Return whether an event reports that there is no room; operators repeat such messages as events of their jobs."""
    return event.reason in _OF_SCHEDULERS or "nodes are available" in event.message or "unavailable" in event.message


def _pod(pod: PodFacts) -> Pod:
    unscheduled = Condition("PodScheduled", "False", "Unschedulable", pod.message)
    asked = {_RESOURCES[name]: getattr(pod.requests, name) for name in _RESOURCES}
    return Pod(
        name=pod.name,
        namespace=pod.namespace,
        node=pod.node,
        phase=pod.phase,
        reason=pod.reason if pod.phase == "Failed" else "",
        message=pod.message,
        owner=(pod.owner_kind, pod.owner_name),
        requests={name: count for name, count in asked.items() if count},
        containers=tuple(_containers(pod)),
        conditions=() if pod.node or not pod.message else (unscheduled,),
        is_gated=pod.reason == "SchedulingGated",
        created_at=pod.created_at,
    )


def _containers(pod: PodFacts) -> Iterator[Container]:
    """Yield the containers as far as the pod's reason reveals their state: it is that of one that is not ready."""
    word = pod.reason.removeprefix("Init:")
    for place, name in enumerate(pod.containers if pod.node else ()):
        is_ready = place >= len(pod.containers) - pod.ready
        if is_ready:
            state = ObservedState("running", since=pod.started_at)
        elif pod.phase != "Failed" and (waits_badly(pod) or word in ("ContainerCreating", "PodInitializing")):
            state = ObservedState("waiting", word, pod.message)
        elif word == "OOMKilled":
            state = ObservedState("terminated", word, exit_code=137)
        elif pod.phase == "Failed":
            state = ObservedState("terminated", word or "Error", pod.message)
        else:
            state = ObservedState("running", since=pod.started_at)
        yield Container(name, "", state, ObservedState(), pod.restarts, is_ready)


def _node(node: NodeFacts) -> Node:
    ready = Condition("Ready", "True" if node.is_ready else "False", "" if node.is_ready else "NotReady")
    return Node(
        name=node.name,
        instance_type=node.instance_type,
        allocatable=_texts(node.allocatable, AMD if accelerator_of(node.instance_type) == AMD else GPU),
        conditions=(ready,),
        taints=tuple(taint.partition("=")[0].partition(":")[0] for taint in node.taints),
        created_at=node.created_at,
    )


def _texts(amount: Resources, gpu: str) -> dict[str, str]:
    """Return the amounts as a node's status has them, whose GPUs are of a name."""
    names = _RESOURCES | {"gpu": gpu}
    devices = {names[name]: str(getattr(amount, name)) for name in names if getattr(amount, name)}
    return {"cpu": f"{amount.cpu_milli}m", "memory": str(amount.memory_bytes), **devices}


def _job(job: WorkloadFacts) -> KubeObject:
    failed = Condition("Failed", "True", "", job.message)
    return KubeObject(job.kind, job.namespace, job.name, (failed,), created_at=job.created_at)


def _problem(one: Finding, scope: Evidence, facts: Mapping[str, PodFacts], lost: list[NodeFacts]) -> Problem:
    kind, namespace, name = _object_of(one, scope, facts, lost)
    text = one.headline.removeprefix(f"{name} ")
    return Problem(kind, namespace, name, one.severity, one.code.value, text, one.next_step)


def _object_of(
    one: Finding, scope: Evidence, facts: Mapping[str, PodFacts], lost: list[NodeFacts]
) -> tuple[str, str, str]:
    """Return kind, namespace and name of the object that a finding is about: a node, a job, or a pod of the scope."""
    named = next((pod for pod in scope.pods if pod.name in one.headline), None)
    node = next((node.name for node in lost if node.name in one.headline), "")
    if node and named is None:
        return "Node", "", node
    if scope.pods:
        named = named or scope.pods[0]
        fact = facts[f"{named.namespace}/{named.name}"]
        if fact.owner_kind in JOB_NAMES:
            return fact.owner_kind, fact.namespace, fact.owner_name
        return "Pod", fact.namespace, fact.name
    job = next(iter(scope.jobs), None)
    return ("", "", "") if job is None else (job.kind, job.namespace, job.name)


def _plain(pod: PodFacts) -> Problem:
    """Return the problem of a pod of which no rule finds one: it runs again, or is being deleted for long."""
    if pod.is_fine:
        text = f"runs again after {pod.restarts} restart{'s' * (pod.restarts != 1)}, the last one minutes ago"
    else:
        text = f"{pod.reason or pod.phase or 'Unknown'}" + (f": {pod.message}" if pod.message else "")
    return Problem("Pod", pod.namespace, pod.name, Severity.WARNING, "", text)
