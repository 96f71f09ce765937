"""Checks of the cluster and of its volumes: pods, objects, nodes, node pools, version, free space, data."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from actions.base.errors import ConsoleError
from actions.blueprint.checks import NodesCheck, PodsCheck, VersionCheck
from actions.blueprint.stages import OperatorRefusal
from actions.blueprint.targets import containers_of
from actions.cluster.objects.client import ObjectRef
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.cluster.state.pod_requests import parse_quantity
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import StageContext
from actions.run.volume.commands import Script, below, run_on_volume
from actions.run.volume.helper_job import RunVolume

INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_FAMILY = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)")
_VERSION = re.compile(r"^v?(\d+)\.(\d+)")
_TAG = re.compile(r":v?(\d{1,9})\.(\d{1,9})[^:/]*$")
_NAMED_NODES = 3

Manifest = Mapping[str, Any]


async def check_pods(connection: ClusterConnection, check: PodsCheck) -> Observation:
    """Check that enough pods match, and all that match are healthy."""
    pods = await connection.pods(namespace=check.namespace, label_selector=check.selector)
    verdicts = [(pod["metadata"]["name"], object_status(pod)) for pod in pods]
    healthy = [name for name, verdict in verdicts if verdict.state in (WorkState.RUNNING, WorkState.FINISHED)]
    for name, verdict in verdicts:
        if name not in healthy:
            return failed(f"{name}: {verdict.words()}")
    if len(healthy) < check.at_least:
        return failed(f"{len(healthy)} pods, {check.at_least} required.")
    return passed(f"{len(healthy)} pods are healthy.")


async def check_object(connection: ClusterConnection, ref: ObjectRef) -> Observation:
    """Check that an object exists and is ready."""
    found = await connection.find(ref)
    if found is None:
        return failed(f"{ref.describe()} does not exist.")
    status = object_status(found)
    detail = status.message or status.reason
    if status.state in (WorkState.RUNNING, WorkState.FINISHED):
        return passed(detail)
    return unknown(detail) if status.state is WorkState.UNKNOWN else failed(detail)


async def check_nodes(
    connection: ClusterConnection, check: NodesCheck, *, selector: str, at_least: int, amount: str
) -> Observation:
    """Check that enough ready nodes match, each with `amount` of the check's resource for pods.

    Args:
        connection: The cluster.
        check: The check; its references are filled in in the other arguments.
        selector: Label selector.
        at_least: Number of nodes.
        amount: A Kubernetes quantity.
    """
    nodes = await connection.list_objects("v1", "Node", label_selector=selector)
    return nodes_observation(nodes, resource=check.resource, at_least=at_least, amount=amount)


def nodes_observation(nodes: list[dict[str, Any]], *, resource: str, at_least: int, amount: str) -> Observation:
    """Return the result for a list of nodes, with the amounts of the first that have too little."""
    ready = [node for node in nodes if object_status(node).state is WorkState.RUNNING]
    fitting = [node for node in ready if _offered(node, resource) >= parse_quantity(amount)] if resource else ready
    if len(fitting) >= at_least:
        each = f", each with {amount} {resource} or more" if resource else ""
        return passed(f"{len(fitting)} nodes are ready{each}.")
    if not nodes:
        return failed(f"No node matches, {at_least} required.")
    short = [node for node in ready if node not in fitting][:_NAMED_NODES]
    lacking = "; ".join(f"{node['metadata']['name']} has {_shown(node, resource)} {resource}" for node in short)
    with_what = f" with {amount} {resource}" if resource else ""
    detail = f"{len(fitting)} of {len(nodes)} nodes are ready{with_what}, {at_least} required."
    return failed(f"{detail} {lacking}." if lacking else detail)


async def check_version(connection: ClusterConnection, check: VersionCheck) -> Observation:
    """Check that the server's version is in the range."""
    version = (await connection.session.identity()).version
    return version_observation(version, minimum=check.minimum, maximum=check.maximum)


def version_observation(version: str, *, minimum: str, maximum: str) -> Observation:
    """Return the result for a version such as `v1.32.3-eks-bb2d`; bounds such as `1.29`, empty for none."""
    found = _minor(version)
    if found is None:
        return unknown(f"The server reports the version {version!r}." if version else "The server reports no version.")
    shown = f"Kubernetes {found[0]}.{found[1]}"
    if minimum and found < (_minor(minimum) or found):
        return failed(f"{shown} is older than {minimum}.")
    if maximum and found > (_minor(maximum) or found):
        return failed(f"{shown} is newer than {maximum}, the newest that this blueprint supports.")
    return passed(f"{shown}.")


def operator_refusal(found: Manifest, refusals: Sequence[OperatorRefusal]) -> OperatorRefusal | None:
    """Return the reason for which an installed operator cannot be used; `None` without one.

    Args:
        found: Its Deployment.
        refusals: Those of the stage that would install it.
    """
    containers = list(containers_of(found))
    images = {str(each.get("image") or "") for each in containers}
    given = {str(word) for each in containers for word in (*(each.get("command") or ()), *(each.get("args") or ()))}
    for refusal in refusals:
        is_meant = bool(images & set(refusal.images)) or any(_is_between(image, refusal) for image in images)
        if is_meant and (not refusal.arguments or given & set(refusal.arguments)):
            return refusal
    return None


def _is_between(image: str, refusal: OperatorRefusal) -> bool:
    """Return whether the version in an image's tag is one of those that are refused."""
    tag = _TAG.search(image)
    if tag is None or not (refusal.since or refusal.before):
        return False
    version = (int(tag[1]), int(tag[2]))
    return (_minor(refusal.since) or version) <= version < (_minor(refusal.before) or (math.inf, 0))


async def check_pool(connection: ClusterConnection, instance_type: str) -> Observation:
    """Check that there are nodes of a type, or a NodePool that may start them."""
    nodes = await connection.list_objects("v1", "Node", label_selector=f"{INSTANCE_TYPE}={instance_type}")
    if nodes:
        return passed(f"There are {len(nodes)} nodes of type {instance_type}.")
    pools = await connection.list_objects("karpenter.sh/v1", "NodePool")
    allowing = [pool["metadata"]["name"] for pool in pools if allows_instance_type(pool, instance_type)]
    if allowing:
        return passed(f"{', '.join(allowing)} may start {instance_type}.")
    return failed(f"No node is a {instance_type}, and no NodePool may start one.")


def allows_instance_type(pool: Manifest, instance_type: str) -> bool:
    """Return whether a Karpenter NodePool's requirements allow this instance type.

    Requirements on what is not derived from the type's name (zones, capacity type) do not count.

    Source: karpenter.sh/v1 NodePool, `spec.template.spec.requirements`; labels of karpenter-provider-aws v1.
    """
    family, _, size = instance_type.partition(".")
    name = _FAMILY.match(family)
    known = {
        INSTANCE_TYPE: instance_type,
        "beta.kubernetes.io/instance-type": instance_type,
        "karpenter.k8s.aws/instance-family": family,
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.k8s.aws/instance-category": name["category"] if name else "",
        "karpenter.k8s.aws/instance-generation": name["generation"] if name else "",
    }
    requirements = (((pool.get("spec") or {}).get("template") or {}).get("spec") or {}).get("requirements") or ()
    return all(_is_met(entry, known[entry["key"]]) for entry in requirements if entry.get("key") in known)


def _is_met(requirement: Manifest, value: str) -> bool:
    values = [str(item) for item in requirement.get("values") or ()]
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Gt":
            return _number(value) > _number(values[0])
        case "Lt":
            return _number(value) < _number(values[0])
        case "DoesNotExist":
            return False
    return True


def _number(text: str) -> float:
    return float(text) if text.isdigit() else math.nan


def _shown(node: Manifest, resource: str) -> str:
    return str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "no"))


def _offered(node: Manifest, resource: str) -> float:
    try:
        return float(parse_quantity(str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))))
    except ValueError:
        return 0.0


def _minor(version: str) -> tuple[int, int] | None:
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2])) if match else None


_KIB_PER_GIB = 1 << 20
_COUNTED = 100_000


async def check_disk(context: StageContext, volume: RunVolume, free_gib: float) -> Observation:
    """Check the free space of a volume."""
    text = await _asked(context, volume, lambda mount: f"df -Pk {shlex.quote(mount)}")
    if isinstance(text, Observation):
        return text
    free = free_gib_of(text)
    if free is None:
        return unknown(f"df did not report {volume.mount}.")
    detail = f"{free:,.0f} GiB are free on {volume.claim}, {free_gib:,.0f} required."
    return passed(detail) if free >= free_gib else failed(detail)


async def check_files(
    context: StageContext, volume: RunVolume, *, folder: str, pattern: str, at_least: int
) -> Observation:
    """Check the number of files in a folder of a volume.

    Args:
        context: The stage.
        volume: The volume.
        folder: Absolute, as pods of the blueprint see it.
        pattern: Shell pattern of the files' names.
        at_least: Required number.
    """

    def script(mount: str) -> str:
        place = shlex.quote(below(folder, volume.mount, mount))
        return f"find {place} -type f -name {shlex.quote(pattern)} 2>/dev/null | head -n {_COUNTED} | wc -l"

    text = await _asked(context, volume, script)
    if isinstance(text, Observation):
        return text
    count = next((int(line) for line in reversed(text.split()) if line.isdigit()), None)
    if count is None:
        return unknown(f"The files in {folder} could not be counted.")
    detail = f"{count} files {pattern} are in {folder}, {at_least} required."
    return passed(detail) if count >= at_least else failed(detail)


def free_gib_of(text: str) -> float | None:
    """Return the available space in GiB from the output of `df -Pk`; `None` if it is not there."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 6 and fields[3].isdigit():
            return int(fields[3]) / _KIB_PER_GIB
    return None


async def _asked(context: StageContext, volume: RunVolume, script: Script) -> str | Observation:
    connection = await context.connect()
    try:
        return await run_on_volume(
            connection, volume, script, run_id=context.view.id, clock=context.clock, recorder=context.journal
        )
    except ConsoleError as error:
        return unknown(error.message)
