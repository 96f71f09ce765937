"""Room for the pods of a launch on a cluster that is there: by the scheduler's rule, in the words of `why`.

Each stage's pods are placed by themselves, as stages follow each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.base.executors import beside, in_thread
from actions.base.wording import counted, listed
from actions.blueprint.launch_plan import counted_templates
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.evidence import clean_json
from actions.cluster.diagnose.parse_input import evidence_of
from actions.cluster.objects.client import ObjectRef
from actions.cluster.state.decode import decode_node
from actions.fleet.cost import CostModel, HourlyCost
from actions.fleet.facts import NodeFacts
from actions.fleet.fit import Fit, PodSet, fit_of, kueue_pause, kueue_refusal, quota_refusal
from actions.fleet.instance_types import InstanceTable
from actions.fleet.node_offers import INSTANCE_TYPE
from actions.fleet.placement import Document, spaces_of
from actions.fleet.prices import ON_DEMAND, PriceBook
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.train_jobs import as_applied

ROOM_CHECK = "room for the pods"
ROOM_REMEDY = "Choose other values, or add nodes that fit."
_SHOWN = 3
_QUEUE = "kueue.x-k8s.io/queue-name"
_FEWEST = "kueue.x-k8s.io/job-min-parallelism"
_ADMITTED_APART = ("Deployment", "LeaderWorkerSet", "Pod")
"""Kinds whose pods, or groups of pods, Kueue admits one by one."""
_KUEUE = "kueue.x-k8s.io/v1beta1"
_AUTOSCALER = ObjectRef("v1", "ConfigMap", "kube-system", "cluster-autoscaler-status")


class Judge(Protocol):
    """`failed` or `unknown`."""

    def __call__(self, detail: str, *, remedy: str = "") -> Observation:
        """Return the result of a check."""
        ...


class NodesAndQueues(msgspec.Struct, frozen=True):
    """Everything that pods are placed by, as documents."""

    nodes: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    pools: Sequence[Document] = ()
    local_queues: Mapping[str, Document] | None = None
    """Of the launch's namespace, by name; `None` if they may not be read, or no pod names one."""
    cluster_queues: Mapping[str, Document] = {}
    quotas: Sequence[Document] | None = ()
    """The ResourceQuotas of the namespaces of the pods; `None` if they may not be read."""
    adds_groups: bool = False
    """cluster-autoscaler may add nodes of groups that are not seen here."""
    unread: str = ""
    """A sentence on a part that could not be read; empty for none."""


class Room(msgspec.Struct, frozen=True):
    """The places that the pods of a launch have, the result of the check, and what they cost."""

    found: Observation
    shares: Mapping[str, float] = {}
    """The greatest part of each node that they take at once, by its name."""
    started: Mapping[str, int] = {}
    """The most nodes that pools start for them at once, by instance type."""
    nodes: Sequence[Document] = ()
    """The nodes that are there."""

    def uses(self, model: CostModel) -> HourlyCost:
        """Return the price of the parts of nodes that are there and that the pods take."""
        taken = [one for one in self.nodes if self.shares.get(one["metadata"]["name"])]
        costs = [(self.shares[one["metadata"]["name"]], model.node_cost(_facts_of(one)).price) for one in taken]
        known = [price.usd_per_hour * Decimal(str(share)) for share, price in costs if price is not None]
        usd = sum(known, Decimal(0)).quantize(Decimal("0.000001"))
        return HourlyCost(usd, len(known) < len(costs), is_known=bool(known) or not costs)

    def adds(self, prices: PriceBook, region: str) -> HourlyCost:
        """Return the price of the nodes that pools would start, on demand."""
        found = [(count, prices.price_of(name, region, ON_DEMAND)) for name, count in self.started.items()]
        known = [price.usd_per_hour * count for count, price in found if price is not None]
        return HourlyCost(sum(known, Decimal(0)), len(known) < len(found), is_known=bool(known) or not found)

    def cost_text(self, region: str) -> str:
        """Return both in a sentence: `It uses $110.08/h of what is there, and adds $0.00/h.`; empty without a place."""
        if not self.shares and not self.started:
            return ""
        prices = PriceBook.usual()
        uses, adds = self.uses(CostModel(prices, InstanceTable.load(), region=region)), self.adds(prices, region)
        return f"It uses {uses.text} of what is there, and adds {adds.text}."

    def budget_line(self) -> Observation:
        """Return whether a budget can be reached: it counts nodes that Karpenter starts for the run."""
        if not self.shares and not self.started:
            return unknown("It is not known which nodes the pods take; it counts those that are started for the run.")
        if self.started:
            return passed("It counts the nodes that are started for the run.")
        return failed("It is never reached: the pods use nodes that are there, and it counts what the run adds.")


async def look_for_room(connection: ClusterConnection, launch: PlannedLaunch, table: InstanceTable) -> Room:
    """Place the pods of a launch on its cluster.

    Raises:
        AccessError: Nodes or pods may not be listed.
        UnreachableError: The cluster does not answer.
    """
    stages, made = [], []
    for stage in launch.stages:
        objects = launch.objects(stage)
        made += [one for one in objects if one["kind"] == "NodePool"]
        try:
            applied = [await as_applied(connection, one, launch.namespace) for one in objects]
        except (AccessError, MissingError) as error:
            return Room(unknown(f"The pods of the stage {stage.id} are not known: {error.message}"))
        if groups := groups_of(applied, launch.namespace):
            stages.append(groups)
    if not stages:
        return Room(passed("It makes no pods."))
    has_queues = any(group.queue for groups in stages for group in groups)
    homes = {str(group.pod["metadata"]["namespace"]) for groups in stages for group in groups}
    read = await asyncio.gather(*(_served(connection, "v1", "ResourceQuota", home) for home in homes))
    quotas = None if None in read else [one for found in read for one in found or ()]
    if quotas:
        stages = [await asyncio.gather(*(_admitted(connection, group) for group in groups)) for groups in stages]
    try:
        cluster = await read_cluster(connection, launch.namespace if has_queues else "")
    except AccessError:
        over = next(filter(None, (_over(groups, quotas) for groups in stages)), None)
        if over is None:
            raise
        return Room(over)
    cluster = replace(cluster, quotas=quotas)
    return await in_thread("placement", room_of, stages, cluster, made, table)


async def _admitted(connection: ClusterConnection, group: PodSet) -> PodSet:
    """Return a group with its pod as admission completes it: class of priority, requests by a LimitRange.

    As it is written, if that cannot be tried: the dry run is a check of its own.
    """
    try:
        pod = await connection.create({"apiVersion": "v1", **group.pod}, dry_run=True)
    except ConsoleError:
        return group
    return replace(group, pod=pod)


async def read_cluster(connection: ClusterConnection, queues_in: str) -> NodesAndQueues:
    """Read the nodes, what is on them, and what may add some; the queues of a namespace, if one is named."""
    on_nodes = connection.list_objects("v1", "Pod", field_selector="status.phase!=Succeeded,status.phase!=Failed")
    async with beside(on_nodes) as placed, beside(_served(connection, "karpenter.sh/v1", "NodePool")) as offered:
        nodes = await connection.list_objects("v1", "Node")  # first: who may list neither is refused as by other checks
        pods, pools = await placed, await offered
    local = await _served(connection, _KUEUE, "LocalQueue", queues_in) if queues_in else None
    clusters = await _served(connection, _KUEUE, "ClusterQueue") if queues_in else []
    try:
        autoscaler = await connection.find(_AUTOSCALER) is not None
        unread = "NodePools may not be read." if pools is None else ""
    except AccessError as error:
        autoscaler, unread = False, error.message
    return NodesAndQueues(
        nodes,
        pods,
        pools or (),
        None if local is None else _by_name(local),
        _by_name(clusters),
        adds_groups=autoscaler,
        unread=unread,
    )


async def _served(
    connection: ClusterConnection, api_version: str, kind: str, namespace: str = ""
) -> list[Document] | None:
    """Return all objects of a kind; none if it is not served, `None` if they may not be read."""
    try:
        return await connection.list_objects(api_version, kind, namespace=namespace)
    except MissingError:
        return []
    except AccessError:
        return None


def _by_name(documents: Sequence[Document] | None) -> dict[str, Document]:
    return {str(one["metadata"]["name"]): one for one in documents or ()}


def groups_of(objects: Sequence[Mapping[str, Any]], namespace: str, *, with_daemons: bool = False) -> list[PodSet]:
    """Return the pods that objects ask for, each template's together; daemons run wherever they can."""
    groups = []
    for manifest in objects:
        if manifest["kind"] == "CustomResourceDefinition" or (manifest["kind"] == "DaemonSet" and not with_daemons):
            continue
        metadata = manifest["metadata"]
        queue = str((metadata.get("labels") or {}).get(_QUEUE) or "")
        fewest = str((metadata.get("annotations") or {}).get(_FEWEST) or "")
        for number, (count, least, template) in enumerate(counted_templates(dict(manifest))):
            name = f"{metadata['name']}-{number}" if number else str(metadata["name"])
            home = metadata.get("namespace") or namespace
            spec = template.get("spec") or {}
            own = {**(template.get("metadata") or {}), "name": name, "namespace": home}
            pod = {"kind": "Pod", "metadata": own, "spec": spec}
            if count and spec.get("containers"):
                admitted = least if manifest["kind"] in _ADMITTED_APART else count
                admitted, job = int(fewest) if fewest.isdigit() else admitted, f"{manifest['kind']}/{metadata['name']}"
                groups.append(PodSet(name, pod, count, least, queue, admitted, job))
    return groups


def room_of(
    stages: Sequence[Sequence[PodSet]], cluster: NodesAndQueues, made: Sequence[Document], table: InstanceTable
) -> Room:
    """Place the pods of each stage on the nodes as they are, and as they would be without anything on them.

    Args:
        stages: The pods of each stage.
        cluster: As it was read.
        made: NodePools that the launch itself makes.
        table: Known instance types.
    """
    pools = [one for one in (*cluster.pools, *made) if _is_ready(one)]
    types = list(table)
    taken, empty = spaces_of(cluster.nodes, cluster.pods), spaces_of(cluster.nodes, ())
    shares: dict[str, float] = {}
    started: Counter[str] = Counter()
    waiting: list[Observation] = []
    try:
        fits = [(fit_of(groups, taken, pools, types), fit_of(groups, empty, pools, types)) for groups in stages]
    except ValueError as error:
        wrong = f"What its pods request cannot be read: {error}."
        return Room(failed(wrong, remedy="Write amounts as 4, 500m or 16Gi."))
    for groups, (now, ever) in zip(stages, fits, strict=True):
        never = _never(groups, ever, cluster, table)
        if never is not None:
            return Room(never, nodes=cluster.nodes)
        waiting += _later(groups, now, cluster)
        shares |= {name: max(share, shares.get(name, 0.0)) for name, share in now.shares.items()}
        started |= Counter(now.started)
    unread = "" if cluster.quotas is not None else " ResourceQuotas may not be read."
    found = waiting[0] if waiting else passed(f"{_places(shares, started)}{unread}")
    return Room(found, shares, started, cluster.nodes)


def _never(groups: Sequence[PodSet], ever: Fit, cluster: NodesAndQueues, table: InstanceTable) -> Observation | None:
    """Return why some of these pods can never run, or why that is not known; `None` if they can."""
    over = _over(groups, cluster.quotas)
    if over:
        return over
    for group in groups:
        if group.queue and cluster.local_queues is not None:
            job = [one for one in groups if one.job == group.job]
            refusal = kueue_refusal(job, cluster.local_queues, cluster.cluster_queues)
            if refusal:
                return _told(group, failed, workload=refusal)
        if ever.placed[group.name] >= group.least:
            continue
        judged: Judge = failed
        named = str((group.pod["spec"].get("nodeSelector") or {}).get(INSTANCE_TYPE) or "")
        if cluster.adds_groups or cluster.unread or (cluster.pools and named and table.find(named) is None):
            judged = unknown
        broken = [pool for pool in cluster.pools if not _is_ready(pool)]
        seen = [*cluster.nodes, *(broken if fit_of([group], (), broken, list(table)).started else ())]
        return _told(group, judged, message=ever.refused[group.name], nodes=seen, placed=ever.placed)
    return None


def _over(groups: Sequence[PodSet], quotas: Sequence[Document] | None) -> Observation | None:
    """Return the quota that these pods exceed, whatever else is in the namespace; `None` for none."""
    over = quota_refusal(groups, quotas or (), is_empty=True)
    return failed(over, remedy="Raise the quota of the namespace, or ask for less.") if over else None


def _later(groups: Sequence[PodSet], now: Fit, cluster: NodesAndQueues) -> Iterator[Observation]:
    over = quota_refusal(groups, cluster.quotas or ())
    if over:
        yield unknown(over, remedy="Wait until other work of the namespace ends, or ask for less.")
    for group in groups:
        idle = kueue_pause(group, cluster.local_queues or {}, cluster.cluster_queues) if group.queue else ""
        if idle:
            yield _told(group, unknown, workload=idle)
        if now.placed[group.name] < group.count:
            yield _told(group, unknown, message=now.refused[group.name], nodes=cluster.nodes, placed=now.placed)


def _told(
    group: PodSet,
    judged: Judge,
    *,
    message: str = "",
    workload: str = "",
    nodes: Sequence[Document] = (),
    placed: Mapping[str, int] | None = None,
) -> Observation:
    """Return what `why` would say of these pods, as the result of a check."""
    if workload:
        condition = {"type": "QuotaReserved", "status": "False", "message": workload}
        told = {"kind": "Workload", "metadata": group.pod["metadata"], "spec": {"queueName": group.queue}}
        documents: list[Document] = [told | {"status": {"conditions": [condition]}}]
    else:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        documents = [group.pod | {"status": {"phase": "Pending", "conditions": [condition]}}, *nodes]
    findings = diagnose(evidence_of(clean_json(documents)))
    selected = group.pod["spec"].get("nodeSelector") or {}
    wants = f" It selects {listed([f'{key}={value}' for key, value in selected.items()], _SHOWN)}." if selected else ""
    some = (placed or {}).get(group.name, 0)
    part = f"{some} of {counted(group.count, 'pod')} of {group.name} have room: " if some else ""
    if not findings:
        return judged(f"{part}{message or workload}.")
    return judged(f"{part}{findings[0].headline}.{wants}", remedy=findings[0].next_step)


def _places(shares: Mapping[str, float], started: Mapping[str, int]) -> str:
    there = f"They fit on {counted(len(shares), 'node')} of those that are there" if shares else ""
    more = listed([f"{count} × {name}" for name, count in sorted(started.items())], _SHOWN)
    if not more:
        return f"{there}."
    return f"{there}, and node pools may start {more}." if there else f"Node pools may start {more} for them."


def _facts_of(node: Document) -> NodeFacts:
    return decode_node(msgspec.Raw(msgspec.json.encode(node)))


def _is_ready(pool: Document) -> bool:
    conditions = (pool.get("status") or {}).get("conditions") or ()
    return not any(one.get("type") == "Ready" and one.get("status") == "False" for one in conditions)
