"""The tree of a job: what it made, its pods, their nodes and claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import web

from actions.cluster.objects.catalogue import KindCatalogue, ServedKind
from actions.cluster.objects.operations import Target
from actions.cluster.objects.owner_tree import collect_tree
from tests.unit.cluster.servers import session_to

VERBS = ("get", "list")
RAY = ServedKind("ray.io", "v1", "rayjobs", "RayJob", verbs=VERBS)
CLUSTER = ServedKind("ray.io", "v1", "rayclusters", "RayCluster", verbs=VERBS)
POD = ServedKind("", "v1", "pods", "Pod", verbs=VERBS)
CLAIM = ServedKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", verbs=VERBS)
NODE = ServedKind("", "v1", "nodes", "Node", is_namespaced=False, verbs=VERBS)
NODE_CLAIM = ServedKind("karpenter.sh", "v1", "nodeclaims", "NodeClaim", is_namespaced=False, verbs=VERBS)
GROUP = ServedKind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", verbs=VERBS)
DEVICES = ServedKind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", verbs=VERBS)
CATALOGUE = KindCatalogue([RAY, CLUSTER, POD, CLAIM, DEVICES, NODE, NODE_CLAIM, GROUP])


def an_object(
    kind: ServedKind, name: str, *, owner: tuple[ServedKind, str] | None = None, **more: Any
) -> dict[str, Any]:
    owners = []
    if owner is not None:
        above, its_name = owner
        owners = [
            {"apiVersion": above.api_version, "kind": above.kind, "name": its_name, "uid": f"u-{its_name}",
             "controller": True}
        ]  # fmt: skip
    namespace = {"namespace": "work"} if kind.is_namespaced else {}
    metadata = {"name": name, "uid": f"u-{name}", "ownerReferences": owners} | namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata} | more


VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "fsx"}},
           {"name": "lost", "persistentVolumeClaim": {"claimName": "gone"}}]  # fmt: skip
ASKED = [{"name": "own", "resourceClaimTemplateName": "two"}, {"name": "ours", "resourceClaimName": "shared"},
         {"name": "lost", "resourceClaimName": "nowhere"}]  # fmt: skip
RESULTS = [
    {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-1", "device": name} for name in ("gpu-0", "gpu-1")
]
OBJECTS = [
    (POD, an_object(POD, "dra", spec={"nodeName": "node-1", "resourceClaims": ASKED})),
    (
        DEVICES,
        an_object(DEVICES, "dra-own-x", owner=(POD, "dra"), status={"allocation": {"devices": {"results": RESULTS}}}),
    ),
    (DEVICES, an_object(DEVICES, "shared")),
    (RAY, an_object(RAY, "tune", status={"jobDeploymentStatus": "Running"})),
    (CLUSTER, an_object(CLUSTER, "tune-cluster", owner=(RAY, "tune"), status={"state": "ready"})),
    (POD, an_object(POD, "head", owner=(CLUSTER, "tune-cluster"), spec={"nodeName": "node-1", "volumes": VOLUMES})),
    (POD, an_object(POD, "other")),
    (CLAIM, an_object(CLAIM, "fsx", status={"phase": "Bound"})),
    (NODE, an_object(NODE, "node-1")),
    (NODE_CLAIM, an_object(NODE_CLAIM, "claim-1", status={"nodeName": "node-1"})),
]


async def answer(request: web.Request) -> web.StreamResponse:
    path = request.path
    if path.endswith("/podgroups"):
        return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}, status=403)
    for kind, found in OBJECTS:
        metadata = found["metadata"]
        if path == kind.resource.path(metadata.get("namespace", ""), metadata["name"]):
            return web.json_response(found)
    items = [found for kind, found in OBJECTS if path in (kind.resource.path("work"), kind.resource.path())]
    return web.json_response({"items": items, "metadata": {}})


async def test_a_tree_goes_from_the_outermost_owner_to_nodes_and_claims(tmp_path: Path) -> None:
    async with session_to(answer, tmp_path) as session:
        tree = await collect_tree(session, CATALOGUE, [Target(POD.resource, "work", "head", "u-head")])
    assert [(entry.depth, entry.kind, entry.name) for entry in tree.entries] == [
        (0, "RayJob", "tune"),
        (1, "RayCluster", "tune-cluster"),
        (2, "Pod", "head"),
        (3, "Node", "node-1"),
        (3, "NodeClaim", "claim-1"),
        (3, "PersistentVolumeClaim", "fsx"),
        (3, "PersistentVolumeClaim", "gone"),
    ]
    states = {entry.name: entry.state for entry in tree.entries}
    assert (states["tune"], states["fsx"], states["gone"]) == ("running", "running", "waiting")
    assert tree.unlisted == ("podgroups.scheduling.volcano.sh",)


async def test_two_pods_of_one_job_have_one_tree(tmp_path: Path) -> None:
    targets = [Target(POD.resource, "work", "head"), Target(RAY.resource, "work", "tune")]
    async with session_to(answer, tmp_path) as session:
        tree = await collect_tree(session, CATALOGUE, targets)
    assert [entry.name for entry in tree.entries if entry.depth == 0] == ["tune"]


async def test_claims_of_devices_stand_below_the_pod_that_has_them_with_their_devices(tmp_path: Path) -> None:
    async with session_to(answer, tmp_path) as session:
        tree = await collect_tree(session, CATALOGUE, [Target(DEVICES.resource, "work", "dra-own-x", "u-dra-own-x")])
    assert [(entry.depth, entry.kind, entry.name, entry.state, entry.detail) for entry in tree.entries[1:]] == [
        (1, "ResourceClaim", "dra-own-x", "", "2 devices of gpu.nvidia.com: gpu-0, gpu-1"),
        (1, "Node", "node-1", "waiting", "NotReady"),
        (1, "NodeClaim", "claim-1", "waiting", "NotReady"),
        (1, "ResourceClaim", "shared", "", "no devices are allocated"),
        (1, "ResourceClaim", "nowhere", "waiting", ""),
    ]
