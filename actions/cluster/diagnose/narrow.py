"""The part of a case that is about one object: itself, its pods, where they run, what was said of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.cluster.diagnose.awaited import awaited_by
from actions.cluster.diagnose.case import Case, Event, Pod, Thing
from actions.cluster.diagnose.scopes import workload_of


class Question(msgspec.Struct, frozen=True):
    """What is asked about: an object by kind and name, or all that carries some labels.

    `namespace` is empty for objects outside namespaces, and where any namespace will do.
    """

    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)

    def describe(self) -> str:
        """For sentences."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def narrowed(evidence: Case, question: Question) -> Case:
    """What of the case is about the object.

    Raises:
        MissingError: Nothing in the case is about it.
    """
    jobs = tuple(job for job in evidence.jobs if _is_job(job, question))
    pods = tuple(pod for pod in evidence.pods if _is_pod(pod, question, jobs))
    names = {question.name, *(pod.name for pod in pods), *(job.name for job in jobs)}
    awaited = awaited_by(evidence, pods)
    hosts = {pod.node for pod in pods if pod.node} | ({question.name} if question.kind == "Node" else set())
    found = replace(
        evidence,
        pods=pods,
        jobs=jobs,
        nodes=tuple(node for node in evidence.nodes if awaited.is_homeless or node.name in hosts),
        events=tuple(one for one in evidence.events if _is_event(one, names, hosts) or awaited.holds_event(one)),
        logs=tuple(log for log in evidence.logs if log.pod in names or not log.pod),
        node_claims=tuple(
            one for one in evidence.node_claims if awaited.holds_claim(one) or _is_itself(one, "NodeClaim", question)
        ),
        volume_claims=tuple(one for one in evidence.volume_claims if one.name in names | awaited.volume_claims),
        queued=tuple(one for one in evidence.queued if any(name in one.name for name in names)),
        gangs=tuple(one for one in evidence.gangs if any(name in one.name for name in names)),
    )
    if not _is_known(found, question):
        raise MissingError(f"There is nothing about {question.describe()}.", hint="Check kind, name and namespace.")
    return found


def _is_known(evidence: Case, question: Question) -> bool:
    if question.kind == "Node":
        return any(node.name == question.name for node in evidence.nodes)
    if question.labels and evidence.jobs:
        return True
    things = (*evidence.jobs, *evidence.node_claims, *evidence.volume_claims, *evidence.queued, *evidence.gangs)
    named = (thing.name for thing in things)
    return (
        bool(evidence.pods) or question.name in named or any(event.name == question.name for event in evidence.events)
    )


def _carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def _is_here(namespace: str, question: Question) -> bool:
    return not question.namespace or namespace in ("", question.namespace)


def _is_job(job: Thing, question: Question) -> bool:
    if question.labels:
        return _carries(job.labels, question.labels)
    is_kind = job.kind in ("", question.kind) or (question.kind == "RayJob" and job.kind in ("RayCluster", "Job"))
    is_named = job.name == question.name or (
        question.kind in ("RayJob", "MPIJob") and job.name.startswith(f"{question.name}-")
    )
    return is_kind and is_named and _is_here(job.namespace, question)


def _is_pod(pod: Pod, question: Question, jobs: tuple[Thing, ...]) -> bool:
    if question.labels:
        return _carries(pod.labels, question.labels)
    if question.kind == "Node":
        return pod.node == question.name
    if not _is_here(pod.namespace, question):
        return False
    if question.kind == "Pod":
        return pod.name == question.name
    owners = {question.name, *(job.name for job in jobs)}
    workload = workload_of(pod)
    if question.kind == "Deployment":
        return workload.rpartition("-")[0] == question.name
    return workload in owners or pod.owner == (question.kind, question.name)


def _is_event(event: Event, names: set[str], hosts: set[str]) -> bool:
    if event.kind == "Node":
        return event.name in hosts
    return event.name in names


def _is_itself(thing: Thing, kind: str, question: Question) -> bool:
    return question.kind == kind and thing.name == question.name
