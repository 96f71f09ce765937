"""The cluster of a launch: that it answers, what its user may do there, and objects that are in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.base.files import asset
from actions.base.wording import listed
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
from actions.run.doctor.sources import is_there, launch_objects
from actions.run.stages.manifests import all_served
from actions.run.store.kubernetes import KubernetesStore
from actions.run.store.lease_object import NAMESPACE

ROLES_FILE = "rbac.yaml"
LOOK, LAUNCH, PREPARE, TEARDOWN, STORE, SHELL = (
    f"eksml-{name}" for name in ("look", "launch", "prepare", "teardown", "store", "shell")
)
IN_ONE_NAMESPACE = frozenset({LAUNCH, SHELL})
"""The roles that are bound in namespaces."""

EXPORTERS = "exporters"
"""The stage by which blueprints export the metrics of accelerators."""
PROMETHEUS_REMEDY = f"Bind {LOOK} in the whole cluster to look for one."

LAUNCH_RIGHTS, TEARDOWN_RIGHTS = "rights to launch", "rights to tear down"
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


def rights_observation(missing: Sequence[Right], unasked: Sequence[Right], *, total: int, where: str) -> Observation:
    """Return the result for one role.

    Args:
        missing: The rights that were refused.
        unasked: Those without an answer.
        total: The number of rights in the role.
        where: Its scope, for the sentence: `in training`, `in the whole cluster`.
    """
    if missing:
        return failed(f"{len(missing)} of {total} rights are missing {where}: {_listed(missing)}.")
    if unasked:
        return unknown(f"The cluster answers no access review: create selfsubjectaccessreviews is refused {where}.")
    return passed(f"All {total} rights {where}.")


def _listed(rights: Iterable[Right]) -> str:
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.kind, []).append(right.verb)
    shown = [f"{', '.join(names)} {kind}" for kind, names in verbs.items()]
    more = f" and {len(shown) - _SHOWN} kinds more" if len(shown) > _SHOWN else ""
    return "; ".join(shown[:_SHOWN]) + more


def rights_remedy(role: str, namespace: str) -> str:
    """Return the command that binds a role, for an administrator of the cluster."""
    kind = "rolebinding" if namespace else "clusterrolebinding"
    scope = f" --namespace={namespace}" if namespace else ""
    return (
        f"Have an administrator run kubectl apply -f assets/{ROLES_FILE}"
        f" && kubectl create {kind} USER-{role} --clusterrole={role} --user=USER{scope}"
    )


def role_question(session: KubeSession, role: str, namespace: str) -> Question:
    """Return the question for one of the shipped roles."""
    bound = NAMESPACE if role == STORE else namespace if role in IN_ONE_NAMESPACE else ""
    rights = recommended_rights(role)

    async def look() -> Observation:
        missing, unasked = await missing_rights(session, rights, bound)
        where = f"in {bound}" if bound else "in the whole cluster"
        return rights_observation(missing, unasked, total=len(rights), where=where)

    return Question(f"rights of {role}", look, rights_remedy(role, bound))


async def needed_rights(connection: ClusterConnection, launch: PlannedLaunch) -> dict[str, list[Right]]:
    """Return the rights by which a launch makes what is not there yet, by namespace; `""` is the whole cluster.

    What is there is used as it is, and of what may not be looked at `get` is among them.

    Raises:
        ConsoleError: The cluster does not answer, or an object of the blueprint cannot be rendered.
    """
    needed: dict[str, dict[Right, None]] = {}
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
            if not isinstance(stage, JobStage | PodStage) and await _exists(connection, ref):
                continue
            group = ref.api_version.rpartition("/")[0]
            found = needed.setdefault(ref.namespace if is_namespaced else "", {})
            found |= dict.fromkeys(Right(plural, verb, group) for verb in _APPLIED_BY)
        if isinstance(stage, JobStage | PodStage):
            needed.setdefault(launch.namespace, {}).update(dict.fromkeys(_FOLLOWED_BY))
    return {namespace: list(rights) for namespace, rights in needed.items()}


async def _is_installed(connection: ClusterConnection, stage: AnyStage, launch: PlannedLaunch) -> bool:
    try:
        return await is_there(connection, stage, launch)
    except AccessError:
        return False


async def _exists(connection: ClusterConnection, ref: ObjectRef) -> bool:
    try:
        return await connection.find(ref) is not None
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
    for namespace, rights in (await needed_rights(connection, launch)).items():
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
    return passed(
        f"All {sum(map(len, asked.values()))} rights in {listed(places, _SHOWN)}." if places else "None needed."
    )


def _grant(missing: Sequence[Right], namespace: str, name: str) -> str:
    """Return the commands that grant some rights in a namespace or, if it is empty, in the whole cluster."""
    verbs = ",".join(dict.fromkeys(right.verb for right in missing))
    kinds = ",".join(dict.fromkeys(right.kind for right in missing))
    role, scope = ("role", f" -n {namespace}") if namespace else ("clusterrole", "")
    return (
        f"kubectl create {role} {name} --verb={verbs} --resource={kinds}{scope}"
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
    return passed(f"The run is on this machine alone: this user may not {_listed(missing)} in {namespace}.")


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
        asked = (LOOK, LAUNCH, PREPARE, TEARDOWN, STORE, SHELL)
        return [*(role_question(session, role, namespace) for role in asked), scrapes]
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
        Question("store in the cluster", partial(check_store_rights, session, launch.namespace), ""),
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
            document = await connection.find(ref)
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
