"""The collection of everything that a diagnosis reads: objects, events, and the logs of failing containers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import AccessError, MissingError, RefusedError, UnreachableError
from actions.base.executors import in_thread
from actions.base.untrusted import redact
from actions.cluster.auth.permissions import NamespaceAccess
from actions.cluster.auth.session import KubeSession
from actions.cluster.diagnose.codes import Finding
from actions.cluster.diagnose.engine import answer
from actions.cluster.diagnose.evidence import Container, Evidence, Log, ObservedState, Pod, clean_json
from actions.cluster.diagnose.parse_input import evidence_of, log_text
from actions.cluster.diagnose.select import ObjectSelector, drop_events_of_deleted_objects, select_evidence
from actions.cluster.kinds import EVIDENCE, KubeKind, kind_of
from actions.cluster.logs.follow import ContainerLog, LogLine, read_log
from actions.cluster.logs.lines import NANOSECONDS
from actions.cluster.objects.client import Discovery, list_objects, read_item

_OF_CONTAINER = ("name", "resources", "readinessProbe", "livenessProbe", "startupProbe")
_PODS = kind_of("Pod")
_EVENTS = kind_of("Event")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_TAIL_LINES = 300
_MOST_LOGS = 24
_LOG_BYTES = 1 << 20
_LOG_SECONDS = 10.0
_TOGETHER_SECONDS = 300.0
"""The end of one rank ends the others within so long."""


class _LogRequest(msgspec.Struct, frozen=True):
    """A container's log to read."""

    pod: Pod
    container: str
    is_previous: bool


async def explain(
    session: KubeSession,
    selector: ObjectSelector | None,
    *,
    namespace: str = "",
    clock: Clock | None = None,
    refused: set[str] | None = None,
) -> list[Finding]:
    """Diagnose one object, or everything in a namespace or the cluster.

    Args:
        session: The session.
        selector: The object; `None` for everything that the user may see.
        namespace: Of everything that is diagnosed without a selector; empty for all.
        clock: For the time of the evidence.
        refused: Takes the plurals of the kinds that may not be listed.

    Raises:
        MissingError: There is no such object.
        AccessError: No right to list pods.
    """
    if selector is not None and selector.kind == "Namespace":
        namespace = selector.name
        selector = None
    evidence = await collect_evidence(session, selector, namespace=namespace, clock=clock, refused=refused)
    # seconds, for long logs: not on the loop that paints
    return await in_thread("diagnosis", answer, evidence, is_one=selector is not None)


async def collect_evidence(
    session: KubeSession,
    selector: ObjectSelector | None,
    *,
    namespace: str = "",
    clock: Clock | None = None,
    refused: set[str] | None = None,
) -> Evidence:
    """Collect everything about the object, with the logs of its failing containers (at most 24, their last 300 lines).

    Kinds that may not be listed, or that the cluster does not serve, are left out; only pods must be readable, in some
    namespace. What an all-clear needs and did not get is in `unread`: events, logs, a kind without an answer.
    """
    clock, refused = clock or SystemClock(), set() if refused is None else refused
    unread: set[str] = set()
    now = clock.now().timestamp()
    namespace = selector.namespace if selector is not None else namespace
    documents = await _fetch(session, namespace, clock, refused, unread)
    evidence = await in_thread("documents", evidence_of, documents, taken_at=now)
    evidence = drop_events_of_deleted_objects(evidence)
    if selector is not None:
        evidence = select_evidence(evidence, selector)
    elif namespace:
        evidence = _within(evidence, namespace)
    logs, newest_ns = await _logs(session, evidence, unread, everything=selector is not None)
    age = now - newest_ns / NANOSECONDS if newest_ns and selector is not None else None
    unread |= refused & {_EVENTS.plural}
    return replace(evidence, logs=logs, last_log_age_s=age, unread=tuple(sorted(unread)))


def _within(evidence: Evidence, namespace: str) -> Evidence:
    """Return the evidence of one namespace without the other namespaces; without nodes none of its pods is on.

    Raises:
        MissingError: There is no such namespace, as far as they may be listed.
    """
    own = tuple(one for one in evidence.namespaces if one.name == namespace)
    if evidence.namespaces and not own:
        raise MissingError(f"There is no namespace {namespace}.", hint="Correct the name, or leave it out.")
    hosts = {pod.node for pod in evidence.pods}
    is_waiting = any(pod.is_unscheduled for pod in evidence.pods)
    return replace(
        evidence,
        namespaces=own,
        nodes=tuple(node for node in evidence.nodes if is_waiting or node.name in hosts),
        events=tuple(one for one in evidence.events if one.kind != "Node" or is_waiting or one.name in hosts),
    )


async def _fetch(session: KubeSession, namespace: str, clock: Clock, refused: set[str], unread: set[str]) -> list[Any]:
    """List the objects of a namespace; if it is empty of the whole cluster, or of the namespaces that may be listed."""
    try:
        return await _objects(session, namespace, refused, unread)
    except AccessError:
        names = () if namespace else await NamespaceAccess(session, clock=clock).namespaces("", "pods")
        if not names:
            raise
    parts = [await _objects(session, name, refused, unread, is_first=name == names[0]) for name in names]
    return [entry for part in parts for entry in part]


async def _objects(
    session: KubeSession, namespace: str, refused: set[str], unread: set[str], *, is_first: bool = True
) -> list[Any]:
    discovery = Discovery(session)

    async def take(few: list[msgspec.Raw]) -> list[dict[str, Any]]:
        return await in_thread("documents", lambda: [clean_json(_of_interest(read_item(raw))) for raw in few])

    async def listed(kind: KubeKind, scope: str) -> list[dict[str, Any]]:
        return await list_objects(session, discovery, kind.api_version, kind.kind, namespace=scope, take=take)

    async def allowed(kind: KubeKind, scope: str) -> list[dict[str, Any]]:
        try:
            return await listed(kind, scope)
        except AccessError:
            refused.add(kind.plural)
            return []
        except MissingError:
            return []
        except (RefusedError, UnreachableError):
            unread.add(kind.plural)  # perhaps only this kind: its conversion webhook or API service is down
            return []

    asked = [listed(_PODS, namespace)]
    asked += [allowed(kind, namespace) for kind in EVIDENCE if kind.is_namespaced and kind is not _PODS]
    if is_first:  # cluster-scoped objects are listed once
        asked += [allowed(kind, "") for kind in EVIDENCE if not kind.is_namespaced]
    if is_first and namespace not in ("", "default"):
        asked.append(allowed(_EVENTS, "default"))  # it has the events about nodes
    # wait for all of them: one that still runs would break when the session is closed
    answers = await asyncio.gather(*asked, return_exceptions=True)
    failed = next((answer for answer in answers if isinstance(answer, BaseException)), None)
    if failed is not None:
        raise failed
    return [entry for part in answers if isinstance(part, list) for entry in part]


def _of_interest(document: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an object that a diagnosis reads: a sixth of a pod, without managed fields or programs."""
    metadata, spec = document.get("metadata"), document.get("spec")
    if not isinstance(metadata, dict):
        return document
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    if isinstance(annotations := metadata.get("annotations"), dict):
        kept["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list):
        return document | {"metadata": kept}
    containers = [
        {key: one[key] for key in _OF_CONTAINER if key in one} for one in spec["containers"] if isinstance(one, dict)
    ]
    return document | {"metadata": kept, "spec": spec | {"containers": containers, "initContainers": []}}


async def _logs(
    session: KubeSession, evidence: Evidence, unread: set[str], *, everything: bool
) -> tuple[tuple[Log, ...], int]:
    """Read the logs of failing containers, with `everything` those of running ones too; return the newest time, too."""
    wanted = list(_failing(evidence.pods))
    if everything:
        wanted += [
            _LogRequest(pod, one.name, False) for pod in evidence.pods for one in pod.containers if _is_running(one)
        ]
    wanted = list({(one.pod.namespace, one.pod.name, one.container, one.is_previous): one for one in wanted}.values())
    wanted = wanted[:_MOST_LOGS]
    read = await asyncio.gather(*(_log(session, one, unread) for one in wanted))
    logs = tuple(
        Log(log_text(redact("\n".join(line.text for line in lines))), one.pod.name)
        for one, lines in zip(wanted, read, strict=True)
        if lines
    )
    return logs, max((lines[-1].at_ns for lines in read if lines), default=0)


def _failing(pods: Sequence[Pod]) -> Iterable[_LogRequest]:
    """Yield the logs of containers that failed; also of one that runs again and had failed with those of other pods."""
    failed_at = [end.since for pod in pods if not pod.is_fine for one in pod.containers for end in _bad_ends(one)]
    for pod in pods:
        for container in pod.containers if pod.is_fine else ():
            if any(abs(end.since - at) < _TOGETHER_SECONDS for end in _bad_ends(container) for at in failed_at):
                yield _LogRequest(pod, container.name, True)
        for container in () if pod.is_fine else pod.containers:
            has_ended = container.state.kind == "terminated"
            is_open = container.state.kind == "running" and (container.restarts or container.is_init)
            if (has_ended and container.state.exit_code != 0) or is_open:
                yield _LogRequest(pod, container.name, False)
            if container.restarts or container.state.reason == "CrashLoopBackOff":
                yield _LogRequest(pod, container.name, True)


def _bad_ends(container: Container) -> list[ObservedState]:
    return [end for end in container.endings if end.exit_code]


def _is_running(container: Container) -> bool:
    return container.state.kind == "running" and not container.is_init


async def _log(session: KubeSession, wanted: _LogRequest, unread: set[str]) -> list[LogLine]:
    source = ContainerLog(wanted.pod.namespace, wanted.pod.name, wanted.container)
    try:
        return await read_log(
            session,
            source,
            tail_lines=_TAIL_LINES,
            previous=wanted.is_previous,
            limit_bytes=_LOG_BYTES,
            deadline_seconds=_LOG_SECONDS,
        )
    except AccessError:
        unread.add("logs")
        return []
    except (MissingError, RefusedError, UnreachableError):
        return []  # the diagnosis is useful without this log
