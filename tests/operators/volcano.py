"""Our Volcano beside the recordings of Volcano 1.8.2, gangs made by our KubeRay."""

from __future__ import annotations

import copy
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import yaml

from actions.base.errors import RefusedError
from actions.base.files import asset
from actions.sandbox.apiserver.writes.admission import VolcanoWebhooks
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    COMMANDS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RAY_CLUSTERS,
    RAY_JOBS,
    SERVICES,
    uid_of,
)
from actions.sandbox.controllers.ray.ray_cluster import RayClusterController
from actions.sandbox.controllers.volcano.queues import VolcanoQueueController
from actions.sandbox.controllers.volcano.scheduler import VolcanoScheduler
from tests.operators.acting import create
from tests.operators.kuberay import KUBERAY
from tests.operators.operator import FIXTURES, Operator, definitions_in
from tests.operators.story import Document, Told
from tests.operators.world import World, node

_VERSION = "kuberay-1.1.1+volcano-1.8.2"
_WITH_WEBHOOKS = "webhook-"
_PERIOD_SECONDS = 3.0
"""Longer than the recorded second: on a busy machine KubeRay's next pod must still come before the next cycle."""
_TRAIN_QUEUE = {"weight": 1, "capability": {"cpu": "500", "memory": "1500Gi"}}
_NODE = re.compile(r"\b(?:core|gpu|trn)-[01x]\b")
_SHORT = re.compile(r"\d+(/\d+ tasks in gang unschedulable: [^;]*); Pending: .*")
_SPACES = re.compile(" +")
_TURNED_DOWN = re.compile(r"0/\d+ nodes are unavailable: .*|Pod \S+ can possibly .*|N/\d+ tasks in gang .*")


async def _add_node(world: World, _found: re.Match[str]) -> None:
    await world.client.create(NODES, node("trn-x", "trn", "128", "512Gi"))


async def _label_nodes(world: World, found: re.Match[str]) -> None:
    for name in ("trn-0", "trn-1"):
        await world.client.patch(NODES, name, {"metadata": {"labels": {found[1]: found[2]}}})


async def _make_queue(world: World, found: re.Match[str]) -> None:
    spec: Document = {"reclaimable": True} if found[2] else copy.deepcopy(_TRAIN_QUEUE)
    await world.client.create(QUEUES, {"metadata": {"name": found[1]}, "spec": spec})


async def _make_odd_queue(world: World, found: re.Match[str]) -> None:
    """One with a weight of its own, or none; it may be refused, as the recorded one was."""
    spec: Document = {"weight": int(found[2])} if found[2] else {}
    with suppress(RefusedError):
        await world.client.create(QUEUES, {"metadata": {"name": found[1]}, "spec": spec})


async def _patch_weight(world: World, found: re.Match[str]) -> None:
    with suppress(RefusedError):
        await world.client.patch(QUEUES, found[1], {"spec": {"weight": int(found[2])}})


async def _delete_default(world: World, _found: re.Match[str]) -> None:
    with suppress(RefusedError):
        await world.client.delete(QUEUES, "default")


async def _make_cluster(world: World, found: re.Match[str]) -> None:
    """The cluster of all recordings with one."""
    text = (FIXTURES / _VERSION / "webhook-gang-enough.yaml").read_text(encoding="utf-8")
    wanted = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one["kind"] == "RayCluster"]
    assert [one["metadata"]["name"] for one in wanted] == [found[1]]
    await create(world, wanted)


async def _command(world: World, found: re.Match[str]) -> None:
    queue = await world.client.read(QUEUES, found[2])
    assert queue is not None
    reference = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "name": found[2],
        "uid": uid_of(queue),
        "controller": True,
    }
    metadata = {"name": f"{found[2]}-{found[1].lower()}", "namespace": "default", "ownerReferences": [reference]}
    await world.client.create(COMMANDS, {"metadata": metadata, "action": found[1], "target": reference})


async def _scale(world: World, found: re.Match[str]) -> None:
    groups = copy.deepcopy(world.find("RayCluster", found[1])["spec"]["workerGroupSpecs"])
    for field in ("replicas", "minReplicas", "maxReplicas"):
        groups[0][field] = int(found[2])
    await world.client.patch(RAY_CLUSTERS, f"default/{found[1]}", {"spec": {"workerGroupSpecs": groups}})


def definitions() -> list[Document]:
    """The CRDs of the demo's KubeRay and Volcano."""
    manifests = [asset(f"mirror/{name}/manifest.yaml") for name in ("kuberay/1.1.1", "volcano/1.15.1")]
    return [definition for manifest in manifests for definition in definitions_in(manifest)]


def _controllers(client: ApiClient, caches: Caches) -> list[Controller]:
    return [
        RayClusterController(client, caches, needs_operator=False),
        VolcanoQueueController(client, caches, needs_operator=False),
        VolcanoScheduler(client, caches, needs_operator=False, period_seconds=_PERIOD_SECONDS),
    ]


def _essence(kind: str, status: Document) -> object:
    if kind == "PodGroup":
        conditions = [
            (one["type"], one["status"], one.get("reason", ""), one.get("message", ""))
            for one in status.get("conditions") or ()
        ]
        return [status.get("phase"), conditions]
    if kind == "Pod":
        return [one["status"] for one in status.get("conditions") or () if one["type"] == "PodScheduled"]
    if kind == "Queue":
        return status.get("state")
    return KUBERAY.essence(kind, status)


def _settled(account: Document) -> Document:
    """Without what the real one takes by chance.

    It chooses among nodes that are as good as each other, and tries the pods of a gang in any order, so that the texts
    go round between its pods. Our client takes double spaces out of what servers say. A pod's status is the kubelet's;
    whether it was scheduled stays.
    """
    told = _anywhere(KUBERAY.settled(account))
    if "events" in told:
        told["events"] = {_of_gang(event) for event in told["events"]}
    told["statuses"] = {thing: one for thing, one in told["statuses"].items() if thing[0] != "Pod"}
    told["steps"] = {thing: _once(one) for thing, one in told["steps"].items()}
    return {name: _of_record(part) for name, part in told.items()}


def _of_record(part: Any) -> Any:
    """Without the Queue that was there before, and the Commands, which the recorder did not follow."""
    if not isinstance(part, dict):
        return part
    return {
        thing: value
        for thing, value in part.items()
        if thing != ("Queue", "default") and thing[0] != "Command" and not str(thing).startswith("Queue ")
    }


def _of_gang(event: Told) -> Told:
    """The same for whichever pod of a gang it was told of."""
    kind, reason, message, source, about = event
    is_turned_down = about.startswith("Pod ") and _TURNED_DOWN.fullmatch(message)
    return (kind, reason, "turned down", source, about) if is_turned_down else event


def _once(steps: list[object]) -> list[object]:
    return [step for index, step in enumerate(steps) if step not in steps[:index]]


def _anywhere(account: Any) -> Any:
    if isinstance(account, str):
        return _in_text(account)
    if isinstance(account, dict):
        return {name: _anywhere(value) for name, value in account.items()}
    if isinstance(account, set | tuple):
        return type(account)(_anywhere(value) for value in account)
    return [_anywhere(value) for value in account] if isinstance(account, list) else account


@cache
def _in_text(text: str) -> str:
    return _SPACES.sub(" ", _NODE.sub("a node", _SHORT.sub(r"N\1", text)))


def _recorded() -> list[str]:
    return sorted(path.stem for path in (FIXTURES / _VERSION).glob("*.jsonl"))


VOLCANO = Operator(
    version=_VERSION,
    resources=(RAY_CLUSTERS, POD_GROUPS, QUEUES),
    made=(SERVICES,),
    watched=(DEPLOYMENTS, JOBS, RAY_JOBS, COMMANDS),
    followed=(PODS,),
    definitions=definitions,
    controllers=_controllers,
    sources=frozenset({"raycluster-controller", "volcano"}),
    essence=_essence,
    performers={
        r"a third trn1-32xl node joins": _add_node,
        r"both trn nodes get the label ([^=]+)=(\S+)": _label_nodes,
        r"create Queue (\S+)( without a weight \(no admission webhook running\))?": _make_queue,
        r"create Queue (\S+) (?:without a weight|with weight (-?\d+))": _make_odd_queue,
        r"PATCH Queue (\S+) \(merge\) {\"spec\": {\"weight\": (-?\d+)}}": _patch_weight,
        r"DELETE Queue default": _delete_default,
        r"create RayCluster (\S+) in the closed queue": _make_cluster,
        r"create Command \(bus\S+\) in namespace default, action (\w+), target and owner = Queue (\S+)": _command,
        r"PUT RayCluster (\w+): replicas = minReplicas = maxReplicas \d -> (\d)": _scale,
    },
    settled=_settled,
    left_out={name: "played with webhooks, below" for name in _recorded() if name.startswith(_WITH_WEBHOOKS)}
    | {"gang-autoscaling": "no blueprint and no plain job has Ray's own autoscaler"},
)
VOLCANO_WEBHOOKS = replace(
    VOLCANO,
    webhooks=(VolcanoWebhooks(needs_operator=False),),
    left_out={name: "played without webhooks, above" for name in _recorded() if not name.startswith(_WITH_WEBHOOKS)}
    | {
        "webhook-down": "the webhooks answer as long as the API does: they are part of it in the sandbox",
        "webhook-queue-missing": "what a gang without pods is told hangs on the second in which its queue appears",
    },
)
