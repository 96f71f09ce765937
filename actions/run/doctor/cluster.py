"""The cluster of a launch: that it answers, what its user may do there, and objects that are in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.base.files import asset
from actions.base.wording import counted, listed
from actions.base.yamldoc import load_documents, read_input
from actions.blueprint.checks import NodesCheck, VersionCheck
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.stages import AnyStage, JobStage, ManifestsStage, PodStage
from actions.blueprint.version_rules import undeclared_pairs
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.permissions import is_allowed
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import find_kind, is_namespaced
from actions.cluster.objects.client import Discovery, ObjectRef, ref_of
from actions.cluster.prometheus import PORT, find_services
from actions.fleet.instance_types import InstanceTable
from actions.run.checks.cluster import check_nodes, version_observation
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.objects import object_questions
from actions.run.doctor.report import DoctorLine, Question, line_of
from actions.run.doctor.room import ROOM_CHECK, ROOM_REMEDY, Room, look_for_room
from actions.run.doctor.sources import find_installed, is_there, launch_objects
from actions.run.stages.manifests import all_served
from actions.run.store.kubernetes import KubernetesStore
from actions.run.store.lease_object import NAMESPACE

ROLES_FILE = "rbac.yaml"
STORE = "eksml-store"

EXPORTERS = "exporters"
"""The stage by which blueprints export the metrics of accelerators."""
PROMETHEUS_REMEDY = "Bind eksml-look in the whole cluster to look for one."

RIGHTS_REMEDY = f"Have an administrator bind roles of assets/{ROLES_FILE}, or name another namespace with -n."
LAUNCH_RIGHTS, TEARDOWN_RIGHTS, STORE_CHECK = "rights to launch", "rights to tear down", "store in the cluster"
_ALONE = "The run is on this machine alone"
_APPLIED_BY = ("get", "create", "patch")
_AT_ONCE = 8
_SHOWN = 6
_KUBECONFIG = "Choose a cluster with --kubeconfig and --context; a run that makes its own cluster needs none."


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one kind, as RBAC writes it."""

    resource: str
    """With its subresource: `pods/log`."""
    verb: str
    group: str

    @property
    def kind(self) -> str:
        """The resource as kubectl writes it: `jobs.batch`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


_FOLLOWED_BY = (Right("pods", "list", ""), Right("pods/log", "get", ""))
_WORKS = {
    "look at pods and logs": _FOLLOWED_BY,
    "launch jobs": tuple(Right("jobs", verb, "batch") for verb in _APPLIED_BY),
    "remove jobs": (Right("jobs", "delete", "batch"),),
    "open shells and ports": (Right("pods/exec", "create", ""), Right("pods/portforward", "create", "")),
}
"""Work in a namespace; each launch asks for the rights of its own kinds."""
_CLUSTER_WORKS = {
    "look at nodes": (Right("nodes", "list", ""),),
    "look at pods": (Right("pods", "list", ""),),
    "install operators": (
        Right("customresourcedefinitions", "create", "apiextensions.k8s.io"),
        Right("clusterroles", "escalate", "rbac.authorization.k8s.io"),
    ),
    "list every kind, as an audit does": (Right("*", "list", "*"),),
}


@cache
def recommended_rights(role: str) -> tuple[Right, ...]:
    """Return the rights of one of the ClusterRoles that ship with the program.

    Raises:
        KeyError: There is no such role.
    """
    path = asset(ROLES_FILE)
    roles = {item.value["metadata"]["name"]: item.value for item in load_documents(read_input(path), file=str(path))}
    return tuple(
        Right(resource, verb, group)
        for rule in roles[role]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


async def missing_rights(
    session: KubeSession, rights: Sequence[Right], namespace: str
) -> tuple[list[Right], list[Right]]:
    """Return the rights that the session's user does not have, and those that the cluster gives no answer on.

    Args:
        session: Of the user.
        rights: Asked one by one, with SelfSubjectAccessReview.
        namespace: Empty for the whole cluster.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(right: Right) -> bool | None:
        async with gate:
            return await is_allowed(session, right.verb, right.group, right.resource, namespace)

    answers = await asyncio.gather(*map(ask, rights))
    paired = list(zip(rights, answers, strict=True))
    return [right for right, answer in paired if answer is False], [right for right, answer in paired if answer is None]


def _listed(rights: Iterable[Right]) -> str:
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.kind, []).append(right.verb)
    shown = [f"{', '.join(names)} {kind}" for kind, names in verbs.items()]
    more = f" and {len(shown) - _SHOWN} kinds more" if len(shown) > _SHOWN else ""
    return "; ".join(shown[:_SHOWN]) + more


async def check_work(session: KubeSession, namespace: str) -> Observation:
    """Check what the user may do, in a namespace and in the whole cluster; whoever has one namespace needs no more.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    clauses = []
    for place, works in ((namespace, _WORKS), ("", _CLUSTER_WORKS)):
        asked = {work: await missing_rights(session, rights, place) for work, rights in works.items()}
        if any(unasked for _, unasked in asked.values()):
            return unknown("The cluster answers no access review.")
        allowed = [work for work, (missing, _) in asked.items() if not missing]
        where = f"in {place}" if place else "in the whole cluster"
        clauses.append(f"{where} {', '.join(allowed) or 'nothing of what is asked'}")
        if place and next(iter(works)) not in allowed:
            return failed(f"This user may not {next(iter(works))} {where}.")
    return passed(f"This user may {'; '.join(clauses)}.")


class NeededRights(msgspec.Struct, frozen=True):
    """The rights by which a launch makes what is not there yet, and what it takes for there."""

    rights: Mapping[str, Sequence[Right]]
    """By namespace; `""` is the whole cluster."""
    out_of_reach: Sequence[tuple[Right, str]] = ()
    """`get` and the name of each object that this user may neither read nor make."""


async def needed_rights(connection: ClusterConnection, launch: PlannedLaunch) -> NeededRights:
    """Return the rights by which a launch makes what is not there yet.

    What is there is used as it is, and of what may not be looked at `get` is among them.

    Raises:
        ConsoleError: The cluster does not answer, or an object of the blueprint cannot be rendered.
    """
    needed: dict[str, dict[Right, None]] = {}
    out_of_reach: dict[tuple[Right, str], None] = {}
    for stage in launch.stages:
        manifests = launch_objects(launch, stage)
        optional = stage.where_served if isinstance(stage, ManifestsStage) else ()
        if not manifests or await _is_installed(connection, stage, launch):
            continue
        for manifest in manifests:
            ref = ref_of(_placed(manifest, launch.namespace))
            kind = await _resource_of(connection, ref)
            if kind is None or (
                ref.kind in optional and not await all_served(connection, [(ref.api_version, ref.kind)])
            ):
                continue
            plural, is_namespaced = kind
            group = ref.api_version.rpartition("/")[0]
            try:
                if await connection.find(ref) is not None and not isinstance(stage, JobStage | PodStage):
                    continue
            except AccessError:
                if await connection.is_out_of_reach(ref):
                    out_of_reach[Right(plural, "get", group), ref.name] = None
                    continue
            found = needed.setdefault(ref.namespace if is_namespaced else "", {})
            found |= dict.fromkeys(Right(plural, verb, group) for verb in _APPLIED_BY)
        if isinstance(stage, JobStage | PodStage):
            needed.setdefault(launch.namespace, {}).update(dict.fromkeys(_FOLLOWED_BY))
    return NeededRights({namespace: list(rights) for namespace, rights in needed.items()}, list(out_of_reach))


async def _is_installed(connection: ClusterConnection, stage: AnyStage, launch: PlannedLaunch) -> bool:
    try:
        return isinstance(stage, ManifestsStage) and await find_installed(connection, stage, launch) is not None
    except AccessError:
        return False


async def _resource_of(connection: ClusterConnection, ref: ObjectRef) -> tuple[str, bool] | None:
    """Return the plural of a kind and whether it is namespaced; `None` for one that neither cluster nor program has."""
    try:
        served = await connection.discovery.find(ref.api_version, ref.kind)
    except MissingError:
        row = find_kind(ref.kind, ref.api_version.rpartition("/")[0])
        return (row.plural, is_namespaced(ref.api_version, ref.kind)) if row else None
    return served.plural, served.is_namespaced


async def check_launch_rights(
    connection: ClusterConnection, launch: PlannedLaunch, *, is_teardown: bool = False
) -> Observation:
    """Check the rights to make what a launch makes, or to delete it: of its own kinds, where they are needed.

    Raises:
        ConsoleError: The cluster does not answer, or an object of the blueprint cannot be rendered.
    """
    asked = {}
    needed = await needed_rights(connection, launch)
    for namespace, rights in needed.rights.items():
        deleted = [Right(right.resource, "delete", right.group) for right in rights if right.verb == "create"]
        asked[namespace] = deleted if is_teardown else rights
    clauses, remedies, unasked = [], [], 0
    for namespace, rights in asked.items():
        missing, unknown_ones = await missing_rights(connection.session, rights, namespace)
        unasked += len(unknown_ones)
        if missing:
            where = f"in {namespace}" if namespace else "in the whole cluster"
            clauses.append(f"{_listed(missing)} {where}")
            remedies.append(_grant(missing, namespace, "USER-teardown" if is_teardown else "USER-launch"))
    if clauses:
        remedy = f"Have an administrator run {' && '.join(remedies)}"
        return failed(f"This user may not {'; nor '.join(clauses)}.", remedy=remedy)
    if unasked:
        return unknown(f"The cluster answers no access review: {unasked} rights are not known.")
    places = [name or "the whole cluster" for name in asked]
    count = sum(map(len, asked.values()))
    have = f"Granted: {counted(count, 'right')} in {listed(places, _SHOWN)}." if places else "None needed."
    if needed.out_of_reach and not is_teardown:
        rights, names = zip(*needed.out_of_reach, strict=True)
        unread = listed([f"{right.kind} {name}" for right, name in needed.out_of_reach], _SHOWN)
        remedy = f"Have an administrator look, or run {_grant(rights, '', 'USER-read', names)}"
        return unknown(f"{have} Taken for there, as this user may neither read nor make it: {unread}.", remedy=remedy)
    return passed(have)


def _grant(missing: Sequence[Right], namespace: str, name: str, names: Sequence[str] = ()) -> str:
    """Return the commands that grant some rights, on objects of some names, in a namespace or in the whole cluster."""
    verbs = ",".join(dict.fromkeys(right.verb for right in missing))
    kinds = ",".join(dict.fromkeys(right.kind for right in missing))
    role, scope = ("role", f" -n {namespace}") if namespace else ("clusterrole", "")
    of_names = "".join(f" --resource-name={each}" for each in dict.fromkeys(names))
    return (
        f"kubectl create {role} {name} --verb={verbs} --resource={kinds}{of_names}{scope}"
        f" && kubectl create {role}binding {name} --{role}={name} --user=USER{scope}"
    )


async def check_store_rights(session: KubeSession, namespace: str) -> Observation:
    """Check where the run can be kept in its cluster; a run that cannot be is on its machine alone, and works as well.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    rights = recommended_rights(STORE)
    for place in dict.fromkeys((NAMESPACE, namespace)):
        missing, unasked = await missing_rights(session, rights, place)
        if unasked:
            return unknown("The cluster answers no access review.")
        if not missing:
            return passed(f"The run is kept in {place} as well.")
    return passed(f"{_ALONE}: this user may not {_listed(missing)} in {namespace}.")


def is_alone(lines: Iterable[DoctorLine]) -> bool:
    """Return whether the checks of a launch have found that its run cannot be kept in its cluster."""
    return any(line.check == STORE_CHECK and line.detail.startswith(_ALONE) for line in lines)


class ClusterReach(msgspec.Struct, frozen=True):
    """A cluster that was asked for its identity: the session, or the refusal."""

    session: KubeSession | None = None
    version: str = ""
    refusal: ConsoleError | None = None


async def reach(target: ClusterTarget) -> ClusterReach:
    """Connect to the cluster of a kubeconfig; a refusal is part of the result. Close the session afterwards."""
    try:
        session = await KubeSession.connect(target, token_factory=token_factory)
    except ConsoleError as error:
        return ClusterReach(refusal=error)
    try:
        return ClusterReach(session, (await session.identity()).version)
    except ConsoleError as error:
        await session.aclose()
        return ClusterReach(refusal=error)


def reach_lines(found: ClusterReach, *, is_needed: bool) -> list[DoctorLine]:
    """Return the lines of the present cluster itself: that it answers, or what cannot be asked since it does not.

    Args:
        found: The cluster.
        is_needed: A launch goes into it.
    """
    if found.session is not None:
        answers = passed(f"{found.session.server} answers, Kubernetes {found.version or '?'}.")
        return [line_of("cluster", answers, "")]
    error = found.refusal
    message = error.message if error else "It does not answer."
    remedy = (error.hint if error else "") or _KUBECONFIG
    unanswered = failed(message) if is_needed else unknown(message)
    return [
        line_of("cluster", unanswered, remedy, is_blocking=is_needed),
        line_of("rights", unknown("No cluster answers: selfsubjectaccessreviews cannot be created."), _KUBECONFIG),
    ]


def cluster_questions(
    found: ClusterReach,
    launch: PlannedLaunch | None,
    *,
    namespace: str,
    seen: Callable[[Room], None] = lambda _: None,
) -> list[Question]:
    """Return the questions to the present cluster; none if it does not answer.

    Args:
        found: The cluster.
        launch: A launch into it; `None` for whatever may be done there.
        namespace: For the rights that are bound in one.
        seen: Gets the room that its pods have.
    """
    session = found.session
    if session is None:
        return []
    scrapes = Question("Prometheus", partial(check_prometheus, session), PROMETHEUS_REMEDY)
    if launch is None:
        return [Question("rights", partial(check_work, session, namespace), RIGHTS_REMEDY), scrapes]
    connection = ClusterConnection(session, Discovery(session))
    objects = Question(
        "names of objects",
        partial(check_objects, connection, launch),
        "Delete it, tear its run down, or choose -n NAMESPACE.",
        is_blocking=True,
    )
    pairs = Question(
        "operators for this Kubernetes",
        partial(check_pairs, connection, launch, found.version),
        "Install a version of it that is declared, or try a small run first.",
    )
    room = Question(ROOM_CHECK, partial(check_room, connection, launch, seen), ROOM_REMEDY, is_blocking=True)
    asked_of = [  # those that refuse a launch first: in a hurry the rights, which take more requests, stay unknown
        *_check_questions(found, launch, connection),
        *object_questions(connection, launch),
        room,
        Question(LAUNCH_RIGHTS, partial(check_launch_rights, connection, launch), "", is_blocking=True),
        Question(TEARDOWN_RIGHTS, partial(check_launch_rights, connection, launch, is_teardown=True), ""),
        Question(STORE_CHECK, partial(check_store_rights, session, launch.namespace), ""),
    ]
    exports = any(stage.id == EXPORTERS for stage in launch.stages)
    return [*asked_of, pairs, objects, *([scrapes] if exports else [])]


async def check_room(connection: ClusterConnection, launch: PlannedLaunch, seen: Callable[[Room], None]) -> Observation:
    """Check that the pods of a launch find room; hand it over.

    Raises:
        AccessError: Nodes or pods may not be listed.
        UnreachableError: The cluster does not answer.
    """
    room = await look_for_room(connection, launch, InstanceTable.load())
    seen(room)
    return room.found


def _check_questions(found: ClusterReach, launch: PlannedLaunch, connection: ClusterConnection) -> list[Question]:
    """Return those of the launch's own checks whose subject is there before it: the version and the nodes."""

    async def look(check: VersionCheck | NodesCheck) -> Observation:
        if isinstance(check, VersionCheck):
            return version_observation(found.version, minimum=check.minimum, maximum=check.maximum)
        return await check_nodes(
            connection,
            check,
            selector=launch.text(check.selector),
            at_least=int(launch.number(check.at_least)),
            amount=launch.text(str(check.amount)),
        )

    asked = {check.title: check for check in launch.checks() if isinstance(check, VersionCheck | NodesCheck)}
    return [
        Question(title, partial(look, check), check.hint or "Use another cluster.", is_blocking=check.is_required)
        for title, check in asked.items()
    ]


async def check_pairs(connection: ClusterConnection, launch: PlannedLaunch, version: str) -> Observation:
    """Check that what the launch installs is declared for the cluster's Kubernetes; what is there is used as it is.

    Raises:
        ConsoleError: The cluster does not answer.
    """
    there = [stage.id for stage in launch.stages if await is_there(connection, stage, launch)]
    pairs = undeclared_pairs(launch.original or launch.blueprint, launch.binding, version, there)
    return unknown(" ".join(pairs)) if pairs else passed("What is installed is declared for it.")


async def check_objects(connection: ClusterConnection, launch: PlannedLaunch) -> Observation:
    """Check that no object of another run, and no older job or pod, has the name of one that the launch applies.

    Other objects that are there already are used as they are.

    Raises:
        AccessError: One may not be read.
        UnreachableError: The cluster does not answer.
    """
    count = 0
    for stage in launch.stages:
        if await is_there(connection, stage, launch):
            continue
        for manifest in launch.objects(stage):
            count += 1
            ref = ref_of(_placed(manifest, launch.namespace))
            try:
                document = await connection.find(ref)
            except AccessError:
                if not await connection.is_out_of_reach(ref):
                    raise
                continue
            labels: Mapping[str, Any] = ((document or {}).get("metadata") or {}).get("labels") or {}
            if labels.get(RUN_LABEL):
                owner = await _owner_of(connection, str(labels[RUN_LABEL]), launch.namespace)
                return failed(f"{ref.describe()} belongs to the run {labels[RUN_LABEL]}{owner}.")
            if document is not None and isinstance(stage, JobStage | PodStage):
                return failed(f"{ref.describe()} exists already, so the stage {stage.id} would not start its own.")
    return passed(f"None of {count} objects belongs to another run.")


async def _owner_of(connection: ClusterConnection, run_id: str, namespace: str) -> str:
    """Return ` of USER@HOST` by the run's lease in the cluster; empty if that is not there or cannot be read."""
    try:
        lease = await KubernetesStore(connection.session, NAMESPACE, namespace).lease(run_id)
    except ConsoleError:
        return ""
    return f" of {lease.owner}" if lease is not None else ""


def _placed(manifest: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = manifest.get("metadata") or {}
    return {**manifest, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}}


async def check_prometheus(session: KubeSession) -> Observation:
    """Look for a Prometheus in the cluster; none is not a failure, as exporters wait for a later one.

    Raises:
        AccessError: Services may not be listed.
        UnreachableError: The cluster does not answer.
    """
    discovery = Discovery(session)
    found = await find_services(session, discovery)
    try:
        await discovery.resolve("monitoring.coreos.com/v1", "PodMonitor")
        way = "a PodMonitor"  # of an operator
    except MissingError:
        way = "the annotation prometheus.io/scrape"
    if not found:
        return passed(f"None is in the cluster. One installed later finds exporters by {way}.")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return passed(
        f"{found[0].title}{more}: eksml-tui forward prometheus opens port {PORT}. It finds exporters by {way}."
    )
