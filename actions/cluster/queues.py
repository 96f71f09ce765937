"""The queues of a cluster, Kueue's and Volcano's: quota, what has it, and what waits for it, in order.

Source: Kueue 0.17 (`pkg/workload/workload.go`: higher priority first, then creation, or the eviction by an admission
check or by pods that were not ready in time; `apis/visibility`: the positions that Kueue itself gives) and Volcano 1.15
(jobs of higher priority first, then creation; its plugins may prefer a smaller share before that).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.base.names import segment
from actions.base.untrusted import one_line
from actions.base.wording import listed
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import KINDS, KubeKind, kind_of, name_of_kind
from actions.cluster.objects.client import Discovery, list_objects
from actions.cluster.objects.status_rules import Object, condition_of, spec_of
from actions.cluster.watch.served import served_groups

_SYSTEMS = {"Kueue": "kueue.x-k8s.io", "Volcano": "scheduling.volcano.sh"}
"""The groups of their kinds."""
_PRIORITIES = kind_of("PriorityClass")
_WORK = ("Workload", "PodGroup")
_REQUEUED_LATER = ("PodsReadyTimeout", "AdmissionCheck")
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/{}/{}/{}/pendingworkloads"
BY_KUEUE, COMPUTED = "Kueue's own order", "by priority, then age"
OF_NAMESPACE = f"{COMPUTED}, of what may be seen"

Positions = Mapping[str, int]
"""The places of pending workloads in their ClusterQueues as Kueue itself gives them, from 1 on, by their keys."""


class QueueShare(msgspec.Struct, frozen=True):
    """The quota of a queue in one resource, as the API's quantities; empty where there is none."""

    flavor: str
    resource: str
    quota: str
    used: str
    borrowed: str


class QueuedWork(msgspec.Struct, frozen=True):
    """A workload of Kueue or a PodGroup of Volcano."""

    queue: str
    """Of Kueue the ClusterQueue; empty if its LocalQueue has none that is known."""
    local_queue: str
    namespace: str
    name: str
    job_kind: str
    """The full name of its owner's kind; empty without an owner."""
    job_name: str
    state: str
    """`admitted`, `pending`, `checked` (quota is reserved, an admission check is not ready) or `inactive`."""
    reason: str
    """In the API's words, for work that is not admitted: the reason, and the eviction or preemption before."""
    priority: int
    created_at: str
    order_at: str
    position: int = 0
    """In its queue, from 1 on; 0 for what does not wait, or in a queue that is not known."""
    ahead: tuple[str, ...] = ()
    """The keys of the work before it, as far as it may be seen."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def job(self) -> str:
        """As `why` takes it: `Job/namespace/name`; empty without a job."""
        return f"{self.job_kind}/{self.namespace}/{self.job_name}" if self.job_name else ""


class WorkQueue(msgspec.Struct, frozen=True):
    """A ClusterQueue of Kueue or a Queue of Volcano with its work: with quota, waiting in order, inactive."""

    program: str
    """`Kueue` or `Volcano`."""
    name: str
    parent: str
    """The cohort, with those above it, or the parent queue; empty without one."""
    state: str = "not seen"
    """`Active` or `Open`, or why it admits nothing."""
    order: str = COMPUTED
    """Whence the order of what waits is known: `BY_KUEUE`, `COMPUTED`, or `OF_NAMESPACE` of a part of it."""
    shares: tuple[QueueShare, ...] = ()
    work: tuple[QueuedWork, ...] = ()

    @property
    def pending(self) -> tuple[QueuedWork, ...]:
        """The waiting work, in order."""
        return tuple(one for one in self.work if one.position)


class QueueList(msgspec.Struct, frozen=True):
    """All queues that may be seen, and sentences about what is absent or refused."""

    queues: tuple[WorkQueue, ...] = ()
    remarks: tuple[str, ...] = ()

    def places_of(self, kind: str, namespace: str, name: str) -> list[QueuedWork]:
        """Return the places of a job, by its owner or its own name."""
        return [
            work
            for queue in self.queues
            for work in queue.work
            if work.namespace == namespace and ((work.job_kind, work.job_name) == (kind, name) or work.name == name)
        ]


def queues_of(documents: Iterable[Object], positions: Positions, *, is_part: bool = False) -> tuple[WorkQueue, ...]:
    """Return the queues, by system and name. A ClusterQueue that may not be seen is one by what is in it.

    Args:
        documents: ClusterQueues, Cohorts, LocalQueues and Workloads of Kueue, Queues and PodGroups of Volcano, and
            PriorityClasses, in any order.
        positions: What Kueue itself has told of its order.
        is_part: There may be work in other namespaces that is not seen.
    """
    by_kind: dict[str, list[Object]] = {}
    for document in documents:
        by_kind.setdefault(name_of_kind(document), []).append(document)
    local = {_key(one): str(spec_of(one).get("clusterQueue") or "") for one in by_kind.get("LocalQueue", ())}
    parents = {_name(one): _parent(one) for kind in ("Cohort", "ClusterQueue") for one in by_kind.get(kind, ())}
    order = OF_NAMESPACE if is_part else COMPUTED
    priorities = {_name(one): int(one.get("value") or 0) for one in by_kind.get("PriorityClass", ())}
    work = [found for one in by_kind.get("Workload", ()) if (found := _workload(one, local)) is not None]
    gangs = [found for one in by_kind.get("PodGroup", ()) if (found := _gang(one, priorities)) is not None]
    cluster = {_name(one): one for one in by_kind.get("ClusterQueue", ())}
    queues = [
        _queue(WorkQueue("Kueue", name, _above(name, parents), order=order), cluster.get(name), work, positions)
        for name in {*cluster, *(one.queue for one in work)}
    ]
    volcano = {_name(one): one for one in by_kind.get("Queue", ())}
    parents = {name: _parent(one) for name, one in volcano.items()}
    queues += [
        _queue(WorkQueue("Volcano", name, _above(name, parents), order=order), volcano.get(name), gangs, {})
        for name in {*volcano, *(one.queue for one in gangs)}
    ]
    return tuple(sorted(queues, key=lambda queue: (queue.program, queue.name)))


def _queue(queue: WorkQueue, document: Object | None, work: Iterable[QueuedWork], told: Positions) -> WorkQueue:
    """Return a queue with its state, its quota and its own part of the work, in order.

    Args:
        queue: Its names.
        document: The queue; `None` if it may not be seen.
        work: That of all queues of its system.
        told: The places that Kueue itself gives.
    """
    mine = [one for one in work if one.queue == queue.name]
    held = sorted((one for one in mine if one.state in ("admitted", "checked")), key=_by_priority)
    waiting = sorted((one for one in mine if one.state == "pending"), key=_by_priority)
    is_told = any(one.key in told for one in waiting)
    last = max((told.get(one.key, 0) for one in waiting), default=0)
    waiting.sort(key=lambda one: told.get(one.key, last + 1))
    rest = itertools.count(last + 1)
    places = [told.get(one.key) or next(rest) for one in waiting] if queue.name else [0] * len(waiting)
    keys = tuple(one.key for one in waiting) if queue.name else ()
    ordered = (replace(one, position=places[at], ahead=keys[:at]) for at, one in enumerate(waiting))
    idle = (one for one in mine if one.state == "inactive")
    found = replace(queue, order=BY_KUEUE if is_told else queue.order, work=(*held, *ordered, *idle))
    if document is None:
        return found
    state, shares = _state_and_shares(queue.program, document)
    return replace(found, state=state, shares=shares)


def _state_and_shares(system: str, document: Object) -> tuple[str, tuple[QueueShare, ...]]:
    spec, status = spec_of(document), _status(document)
    if system == "Volcano":
        quota = spec.get("capability") or spec.get("deserved") or {}
        used = status.get("allocated") or {}
        names = [name for name in sorted({*quota, *used}) if name != "pods"]
        shares = [QueueShare("", name, _text(quota.get(name)), _text(used.get(name)), "") for name in names]
        return _text(status.get("state")) or "not seen by Volcano", tuple(shares)
    used = {
        (flavor.get("name"), one.get("name")): one
        for flavor in status.get("flavorsReservation") or ()
        for one in flavor.get("resources") or ()
    }
    flavors = [flavor for group in spec.get("resourceGroups") or () for flavor in group.get("flavors") or ()]
    shares = []
    for name, one in ((flavor.get("name"), one) for flavor in flavors for one in flavor.get("resources") or ()):
        now = used.get((name, one.get("name")), {})
        amounts = (one.get("nominalQuota"), now.get("total"), now.get("borrowed"))
        shares.append(QueueShare(_text(name), _text(one.get("name")), *map(_text, amounts)))
    active = condition_of(document, "Active")
    is_active = active is not None and active.get("status") == "True"
    return "Active" if is_active else _words(active) or "not seen by Kueue", tuple(shares)


def _workload(document: Object, local: Mapping[str, str]) -> QueuedWork | None:
    """Read a Workload; `None` for one that has finished."""
    if _is_true(document, "Finished"):
        return None
    spec, status = spec_of(document), _status(document)
    is_reserved = _is_true(document, "QuotaReserved")
    state = "admitted" if _is_true(document, "Admitted") else "checked" if is_reserved else "pending"
    if spec.get("active") is False:
        state = "inactive"
    evicted, why = condition_of(document, "Evicted"), condition_of(document, "QuotaReserved")
    preempted = condition_of(document, "Preempted") if _is_true(document, "Preempted") else evicted
    reasons = [_words(why)] if state == "pending" else _unready(status) if state == "checked" else []
    if state != "admitted" and preempted is not None and preempted.get("status") == "True":
        reasons = [reason for reason in reasons if reason != _words(preempted)]
        reasons.append(f"{preempted.get('type')}: {_words(preempted)}")
    is_later = evicted is not None and evicted.get("status") == "True" and evicted.get("reason") in _REQUEUED_LATER
    queue = str((status.get("admission") or {}).get("clusterQueue") or "")
    namespace, name = _namespace(document), _text(spec.get("queueName"))
    return _work(
        document,
        queue=queue or local.get(f"{namespace}/{name}", ""),
        local_queue=name,
        state=state,
        reason=". ".join(filter(None, reasons)),
        priority=int(spec.get("priority") or 0),
        order_at=_text(evicted.get("lastTransitionTime")) if is_later and evicted is not None else "",
    )


def _unready(status: Object) -> list[str]:
    """Return the admission checks of a workload that are not ready: `provision: Pending: no capacity`."""
    checks = [one for one in status.get("admissionChecks") or () if one.get("state") != "Ready"]
    return [
        one_line(": ".join(str(one[part]) for part in ("name", "state", "message") if one.get(part))) for one in checks
    ]


def _gang(document: Object, priorities: Mapping[str, int]) -> QueuedWork | None:
    """Read a PodGroup; `None` for one that has ended."""
    spec, phase = spec_of(document), str(_status(document).get("phase") or "Pending")
    if phase == "Completed":
        return None
    waits = condition_of(document, "Unschedulable") if _is_true(document, "Unschedulable") else None
    is_held = phase in ("Running", "Unknown")  # some of its pods run, others have no place
    return _work(
        document,
        queue=_text(spec.get("queue")) or "default",
        local_queue="",
        state="admitted" if is_held else "pending",
        reason="" if phase == "Running" else _words(waits) or phase,
        priority=priorities.get(str(spec.get("priorityClassName") or ""), 0),
        order_at="",
    )


def _work(
    document: Object, *, queue: str, local_queue: str, state: str, reason: str, priority: int, order_at: str
) -> QueuedWork:
    metadata = document.get("metadata") or {}
    owner: Object = next(iter(metadata.get("ownerReferences") or ()), {})
    created = _text(metadata.get("creationTimestamp"))
    return QueuedWork(
        queue,
        local_queue,
        _namespace(document),
        _name(document),
        name_of_kind(owner),
        _text(owner.get("name")),
        state,
        reason,
        priority,
        created,
        order_at or created,
    )


def _by_priority(work: QueuedWork) -> tuple[int, str, str]:
    return -work.priority, work.order_at, work.key


def _above(name: str, parents: Mapping[str, str]) -> str:
    """Return the cohort of a ClusterQueue with those above it: `team < all`."""
    found: list[str] = []
    above = parents.get(name, "")
    while above and above not in found:
        found.append(above)
        above = parents.get(above, "")
    return " < ".join(found)


def _parent(document: Object) -> str:
    spec = spec_of(document)
    return _text(spec.get("cohortName") or spec.get("cohort") or spec.get("parentName") or spec.get("parent"))


def _is_true(document: Object, kind: str) -> bool:
    return (condition_of(document, kind) or {}).get("status") == "True"


def _status(document: Object) -> Object:
    return document.get("status") or {}


def _words(condition: Object | None) -> str:
    return (
        "" if condition is None else one_line(str(condition.get("message") or condition.get("reason") or ""), limit=500)
    )


def _text(value: object) -> str:
    return "" if value is None else one_line(str(value))


def _name(document: Object) -> str:
    return _text((document.get("metadata") or {}).get("name"))


def _namespace(document: Object) -> str:
    return _text((document.get("metadata") or {}).get("namespace"))


def _key(document: Object) -> str:
    return f"{_namespace(document)}/{_name(document)}"


async def fetch_queues(session: KubeSession, namespace: str) -> QueueList:
    """Ask the cluster for its queues, and for all that is in them.

    Where that may not be listed, for what is in them in one namespace. What is not installed or may not be listed is a
    sentence of the answer.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    discovery = Discovery(session)
    remarks: list[str] = []
    documents: list[Object] = []
    is_part = False
    groups = await served_groups(session)
    for system, group in _SYSTEMS.items():
        kinds = [row for row in KINDS if row.group == group and (groups is None or group in groups)]
        answers = await asyncio.gather(*(_listed(session, discovery, kind) for kind in kinds))
        if all(answer is None for answer in answers):
            remarks.append(f"{system} is not installed here.")
            continue
        own = [at for at, kind in enumerate(kinds) if kind.is_namespaced and isinstance(answers[at], AccessError)]
        for at, answer in zip(
            own, await asyncio.gather(*(_listed(session, discovery, kinds[at], namespace) for at in own)), strict=True
        ):
            answers[at] = answer
            is_part = is_part or kinds[at].kind in _WORK
        refused = [kind.plural for kind, answer in zip(kinds, answers, strict=True) if isinstance(answer, AccessError)]
        if refused:
            remarks.append(f"You may not list {listed(refused, len(refused))} of {system}: they are not shown.")
        documents += [one for answer in answers if isinstance(answer, list) for one in answer]
    if is_part:
        remarks.append(f"You may not list the work of all namespaces: that of {namespace} is shown.")
    classes = await _listed(session, discovery, _PRIORITIES) if documents else None
    documents += classes if isinstance(classes, list) else []
    of = "LocalQueue" if is_part else "ClusterQueue"
    asked = [_order_of(session, one) for one in documents if name_of_kind(one) == of]
    positions = {key: place for found in await asyncio.gather(*asked) for key, place in found.items()}
    return QueueList(queues_of(documents, positions, is_part=is_part), tuple(remarks))


async def _listed(
    session: KubeSession, discovery: Discovery, kind: KubeKind, namespace: str = ""
) -> list[Object] | AccessError | None:
    """Return the objects of a kind; the refusal, or `None` if the cluster does not have it."""
    try:
        return [*await list_objects(session, discovery, kind.api_version, kind.kind, namespace=namespace)]
    except AccessError as error:
        return error
    except MissingError:
        return None


async def _order_of(session: KubeSession, queue: Object) -> dict[str, int]:
    """Return the places of what waits in a ClusterQueue or LocalQueue as Kueue gives them; none where it does not."""
    scope = f"namespaces/{segment(_namespace(queue))}/localqueues" if _namespace(queue) else "clusterqueues"
    answer: Object = {}
    for version in ("v1beta2", "v1beta1"):
        with contextlib.suppress(ConsoleError):
            answer = await session.get(_VISIBILITY.format(version, scope, segment(_name(queue))))
            break
    items = [one for one in answer.get("items") or () if isinstance(one, dict)]
    return {_key(one): int(one.get("positionInClusterQueue") or 0) + 1 for one in items}
