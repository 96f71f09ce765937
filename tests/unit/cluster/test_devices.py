"""Devices of dynamic resource allocation: offered by slices, held by claims, each counted once."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.cluster.auth.session import REVIEWS
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.device_decode import decode_device_claim, decode_slice
from actions.cluster.state.device_index import DeviceIndex
from actions.cluster.state.device_layer import DeviceLayer, own_node, own_pod, own_usage
from actions.cluster.state.kept import WatchVersions, load_kept, write_kept
from actions.cluster.state.listing import fetch_nodes, fetch_pods
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.fleet.cost import CostModel
from actions.fleet.facts import NOTHING, DeviceClaimFacts, NodeUsage, PodFacts, Resources, SliceFacts
from tests.support.builders import a_node, a_pod
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import event, page, refusal, stream
from tests.unit.cluster.samples import NODE
from tests.unit.cluster.samples import a_pod as pod_object
from tests.unit.cluster.servers import session_to
from tests.unit.cluster.test_state import Cluster, _until, _until_asked

Document = dict[str, Any]
GROUP = "/apis/resource.k8s.io"
SLICES, CLAIMS = f"{GROUP}/v1/resourceslices", f"{GROUP}/v1/resourceclaims"
NODE_NAME = NODE["metadata"]["name"]
NVIDIA, NEURON = "gpu.nvidia.com", "neuron.aws.com"


def a_gpu(index: int, *, type: str = "gpu", counters: str = "", name: str = "") -> Document:
    """A device as NVIDIA's driver publishes it."""
    device = {
        "name": name or f"gpu-{index}",
        "attributes": {
            "type": {"string": type},
            "uuid": {"string": f"GPU-{index}"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "pcieBusID": {"string": f"0000:{index:02x}:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }
    return device | ({"consumesCounters": [{"counterSet": counters, "counters": {}}]} if counters else {})


def a_slice(
    devices: Sequence[Document],
    *,
    driver: str = NVIDIA,
    node: str = NODE_NAME,
    generation: int = 1,
    count: int = 1,
    name: str = "s",
) -> Document:
    """A slice of resource.k8s.io/v1."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }


def a_claim(
    name: str,
    devices: Sequence[str],
    *,
    pods: Sequence[str] = ("other",),
    driver: str = NVIDIA,
    node: str = NODE_NAME,
    admin: Sequence[str] = (),
    **annotations: str,
) -> Document:
    """An allocated claim that pods use."""
    results = [
        {"request": "r", "driver": driver, "pool": node, "device": device}
        | ({"adminAccess": True} if device in admin else {})
        for device in devices
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"devices": {"requests": []}},
        "status": {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
            },
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
        },
    }


def slice_of(document: Document) -> SliceFacts:
    return decode_slice(json.dumps(document).encode())


def claim_of(document: Document) -> DeviceClaimFacts:
    return decode_device_claim(json.dumps(document).encode())


def counted(
    slices: Sequence[Document], claims: Sequence[Document] = (), pods: Sequence[PodFacts] = ()
) -> tuple[Resources, Resources, dict[str, Resources]]:
    """Return the devices of the node, those that claims have, and those of each pod."""
    index = DeviceIndex({pod.key: pod for pod in pods})
    for one in slices:
        index.slice_changed(None, slice_of(one))
    for document in claims:
        claim = claim_of(document)
        index.claim_changed(claim.name, None, claim)
    index.update()
    return index.offered.get(NODE_NAME, NOTHING), index.claimed.get(NODE_NAME, NOTHING), index.held


EFA_NAME = "Elastic Fabric Adapter (EFA)"


def _network(name: str, model: str, key: str = "dra.net/pciDevice") -> Document:
    return {"name": name, "attributes": {key: {"string": model}, "dra.net/rdma": {"bool": True}}}


@pytest.mark.parametrize(
    ("driver", "devices", "offered"),
    [
        (NVIDIA, [a_gpu(n) for n in range(8)], Resources(gpu=8)),
        # with passthrough a GPU is offered a second time, for virtual machines
        (NVIDIA, [a_gpu(0), a_gpu(0, type="vfio", name="gpu-vfio-0"), a_gpu(1)], Resources(gpu=2)),
        # MIG devices made beforehand, each as with the device plugin
        (NVIDIA, [a_gpu(0, type="mig", name=f"gpu-0-mig-19-{n}-1") for n in range(3)], Resources(gpu=3)),
        # a GPU and the parts that it can be cut into
        (
            NVIDIA,
            [
                *(a_gpu(n, counters=f"gpu-{n}-counter-set") for n in range(2)),
                *(a_gpu(0, type="mig", name=f"gpu-0-mig-{n}", counters="gpu-0-counter-set") for n in range(7)),
            ],
            Resources(gpu=2),
        ),
        (NEURON, [{"name": f"neuron-device-{n}", "attributes": {}} for n in range(16)], Resources(neuron=16)),
        ("gpu.amd.com", [{"name": "gpu-0"}], Resources(gpu=1)),
        (
            "dra.net",
            [_network("eth1", EFA_NAME), _network("eth2", EFA_NAME, "pciDevice"), _network("eth0", "ENA")],
            Resources(efa=2),
        ),
        ("compute-domain.nvidia.com", [{"name": "channel-0"}, {"name": "daemon-0"}], NOTHING),
    ],
)
def test_devices_of_a_driver_are_counted_as_what_they_are(
    driver: str, devices: list[Document], offered: Resources
) -> None:
    assert counted([a_slice(devices, driver=driver)])[0] == offered


def test_the_first_beta_has_the_same_devices() -> None:
    document = a_slice([a_gpu(0, counters="c"), a_gpu(1)])
    beta = copy.deepcopy(document)
    beta["spec"]["devices"] = [
        {"name": device.pop("name"), "basic": device} for device in copy.deepcopy(document["spec"]["devices"])
    ]
    assert slice_of(beta) == slice_of(document)


def test_a_device_may_name_its_node_itself() -> None:
    devices = [a_gpu(n) | {"nodeName": NODE_NAME} for n in range(2)]
    document = a_slice(devices, node="")
    document["spec"] |= {"perDeviceNodeSelection": True, "pool": {"name": "rack", "resourceSliceCount": 1}}
    del document["spec"]["nodeName"]
    assert counted([document])[0] == Resources(gpu=2)


def test_only_the_newest_generation_of_a_pool_counts_and_only_whole() -> None:
    index = DeviceIndex({})

    def offered() -> int:
        index.update()
        return index.offered.get(NODE_NAME, NOTHING).gpu

    halves = [
        slice_of(a_slice([a_gpu(n) for n in half], count=2, name=name))
        for half, name in ((range(4), "a"), (range(4, 8), "b"))
    ]
    index.slice_changed(None, halves[0])
    assert offered() == 0  # the other half is not there yet
    index.slice_changed(None, halves[1])
    assert offered() == 8
    fewer = [replace(one, generation=2, devices=one.devices[:3]) for one in halves]
    index.slice_changed(halves[0], fewer[0])
    assert offered() == 8  # neither generation is whole: as it was complete last
    index.slice_changed(halves[1], fewer[1])
    assert offered() == 6
    index.slice_changed(None, replace(halves[0], name="late"))
    assert offered() == 6  # left over of the generation before
    for one in (*fewer, replace(halves[0], name="late")):
        index.slice_changed(one, None)
    assert offered() == 0
    assert index.offered == {}


def test_claims_count_what_pods_use_and_each_device_once() -> None:
    gpus = a_slice([a_gpu(n) for n in range(8)])
    unused = a_claim("unused", ["gpu-7"], pods=[])
    for_another = a_claim("tool", ["gpu-6"])
    for_another["status"]["reservedFor"] = [{"apiGroup": "example.com", "resource": "pods", "name": "x", "uid": "u"}]
    pending = a_claim("pending", [])
    pending["status"] = {}
    claims = [
        a_claim("two", ["gpu-0", "gpu-1"], pods=["a"]),
        a_claim("shared", ["gpu-2"], pods=["a", "b"]),
        a_claim("watcher", ["gpu-0", "gpu-3"], pods=["c"], admin=["gpu-0", "gpu-3"]),
        unused,
        for_another,
        pending,
    ]
    offered, claimed, held = counted([gpus], claims)
    assert (offered, claimed) == (Resources(gpu=8), Resources(gpu=3))
    assert held == {"default/a": Resources(gpu=3), "default/b": Resources(gpu=1)}


def test_parts_of_one_gpu_are_one_gpu_in_use() -> None:
    gpu = a_gpu(0, counters="set-0")
    parts = [a_gpu(0, type="mig", name=f"part-{n}", counters="set-0") for n in range(7)]
    claims = [a_claim(f"c{n}", [f"part-{n}"], pods=[f"p{n}"]) for n in range(3)]
    assert counted([a_slice([gpu, *parts, a_gpu(1, counters="set-1")])], claims)[:2] == (
        Resources(gpu=2),
        Resources(gpu=1),
    )


def test_a_device_that_is_not_offered_any_more_is_still_in_use() -> None:
    claims = [
        a_claim("a", ["gpu-0", "gpu-1"]),
        a_claim("n", ["eth1"], driver="dra.net"),
        a_claim("x", ["y"], driver="z"),
    ]
    assert counted([], claims)[:2] == (NOTHING, Resources(gpu=2))


@pytest.mark.parametrize(("own", "claimed"), [(2, 0), (0, 2)])
def test_a_claim_that_the_scheduler_made_of_a_request_counts_once(own: int, claimed: int) -> None:
    """A pod that requests `nvidia.com/gpu` gets a claim of DRAExtendedResource; another name is not among ours."""
    mark = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claim = a_claim("made", ["gpu-0", "gpu-1"], **mark)
    pod = replace(a_pod("other"), requests=Resources(gpu=own))
    assert counted([a_slice([a_gpu(0), a_gpu(1)])], [claim], [pod])[1] == Resources(gpu=claimed)


def test_a_node_with_a_device_plugin_offers_its_devices_once() -> None:
    nodes = {"node-1": a_node(gpu=4)}
    usage = {"node-1": NodeUsage(Resources(gpu=1), 1)}
    layer = DeviceLayer(nodes, usage, {})
    layer.index.slice_changed(None, slice_of(a_slice([a_gpu(n) for n in range(4)], node="node-1")))
    layer.index.claim_changed("c", None, claim_of(a_claim("c", ["gpu-3"], node="node-1")))
    layer.update(is_counted=True, is_refused=False)
    assert layer.nodes == {}
    assert layer.usage["node-1"].requested.gpu == 2
    layer.index.slice_changed(None, slice_of(a_slice([a_gpu(n) for n in range(9)], node="node-1", generation=2)))
    layer.update(is_counted=True, is_refused=False)
    assert layer.nodes["node-1"].allocatable.gpu == 9
    assert own_node(layer.nodes["node-1"]) == nodes["node-1"]
    assert own_usage(layer.usage["node-1"]) == usage["node-1"]


def test_sums_equal_a_fresh_count_after_any_changes() -> None:
    dice = random.Random(5)
    pods = {f"default/p{n}": replace(a_pod(f"p{n}"), requests=NOTHING) for n in range(5)}
    index = DeviceIndex(pods)
    slices: dict[str, SliceFacts] = {}
    claims: dict[str, DeviceClaimFacts] = {}
    for _ in range(400):
        name, node = f"x{dice.randint(0, 9)}", f"n{dice.randint(0, 2)}"
        if dice.random() < 0.4:
            made = a_slice(
                [a_gpu(n) for n in range(dice.randint(0, 6))], node=node, name=name, count=dice.randint(1, 2)
            )
            made["spec"]["pool"]["generation"] = 1
            after = slice_of(made) if dice.random() < 0.7 else None
            before = slices.pop(name, None)
            index.slice_changed(before, after)
            slices |= {name: after} if after else {}
        else:
            devices = [f"gpu-{dice.randint(0, 7)}" for _ in range(3)]
            mark = {"resource.kubernetes.io/extended-resource-claim": dice.choice(["true", "false"])}
            users = [f"p{n}" for n in range(dice.randint(0, 3))]
            claim = claim_of(a_claim(name, devices, node=node, pods=users, **mark)) if dice.random() < 0.7 else None
            index.claim_changed(name, claims.pop(name, None), claim)
            claims |= {name: claim} if claim else {}
        if dice.random() < 0.2:
            key = dice.choice(list(pods))
            pods[key] = replace(pods[key], requests=Resources(gpu=dice.randint(0, 1)))
            index.pod_changed(key)
        index.update()
        fresh = DeviceIndex(pods)
        for one in slices.values():
            fresh.slice_changed(None, one)
        for key, known in claims.items():
            fresh.claim_changed(key, None, known)
        fresh.update()
        assert (index.claimed.keys(), index.held.keys()) == (fresh.claimed.keys(), fresh.held.keys())
        if index._whole == fresh._whole:
            assert (index.offered, index.claimed, index.held) == (fresh.offered, fresh.claimed, fresh.held)


_BARE: dict[str, Any] = copy.deepcopy(NODE)
for _name in [name for name in _BARE["status"]["allocatable"] if "/" in name]:
    del _BARE["status"]["allocatable"][_name]
_POD = pod_object("other")
_POD["spec"]["nodeName"] = NODE_NAME
for _container in _POD["spec"]["containers"]:
    _container["resources"] = {}


class Devices(Cluster):
    """A node without a device plugin, whose GPUs are in a slice; a pod has two of them."""

    def __init__(self, version: str = "v1", *, refuses: str = "", is_served: bool = True) -> None:
        super().__init__()
        self.groups = ["batch", "resource.k8s.io"]
        self.refuses = refuses
        self.is_served = is_served
        self.version = version
        self.changes: asyncio.Queue[bytes] = asyncio.Queue()
        self.items["/api/v1/nodes"] = [_BARE]
        self.items["/api/v1/pods"] = [_POD]
        if is_served:
            self.items[f"{GROUP}/{version}/resourceslices"] = [a_slice([a_gpu(n) for n in range(8)])]
            self.items[f"{GROUP}/{version}/resourceclaims"] = [a_claim("two", ["gpu-0", "gpu-1"])]

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == GROUP and self.is_served:
            self.requests[GROUP] += 1
            return web.json_response({"kind": "APIGroup", "versions": [{"version": "v9"}, {"version": self.version}]})
        if self.refuses and request.path.endswith(self.refuses):
            self.requests[request.path] += 1
            return await refusal(403, "Forbidden", f"{self.refuses} is forbidden")(request)
        if request.path == REVIEWS:
            return web.json_response({"status": {"allowed": False}})
        if request.path == "/api/v1/namespaces":
            return await page([], 3)(request)
        if request.path == CLAIMS and "watch" in request.query and "sendInitialEvents" not in request.query:
            return await stream(await self.changes.get(), then="hang")(request)
        return await super().__call__(request)


async def _followed(
    cluster: Devices, folder: Path, holds: Any, *, after: Any = None, kept: Any = None
) -> list[ClusterSnapshot]:
    async with session_to(cluster, folder) as session:
        state = ClusterState(session, kept=kept)
        seen = [state.snapshot()]
        task = asyncio.create_task(state.run())
        try:
            seen.append(await _until(state, holds))
            if after is not None:
                cluster.changes.put_nowait(event("DELETED", a_claim("two", ["gpu-0", "gpu-1"])))
                seen.append(await _until(state, after))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return seen


def _gpus(snapshot: ClusterSnapshot) -> tuple[int, int, int]:
    """Return the GPUs that the node has, those requested on it, and those of its pod."""
    node, pod = snapshot.nodes[NODE_NAME], snapshot.pods["default/other"]
    return node.allocatable.gpu, snapshot.usage[NODE_NAME].requested.gpu, pod.requests.gpu


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_a_node_whose_gpus_are_in_slices_is_not_one_without_gpus(tmp_path: Path, version: str) -> None:
    cluster = Devices(version)
    (_, full) = await _followed(cluster, tmp_path, lambda s: s.is_complete and _gpus(s)[1])
    assert _gpus(full) == (8, 2, 2)
    assert not full.leaves_out_claims
    assert full.usage[NODE_NAME].pods == 1
    cost = CostModel.load().node_cost(full.nodes[NODE_NAME], full.usage[NODE_NAME])
    assert (cost.accelerators, cost.idle_accelerators) == (8, 6)
    assert cluster.requests[GROUP] == 1
    others = [path for path in cluster.requests if path.startswith(f"{GROUP}/") and f"/{version}/" not in path]
    assert others == []


async def test_a_claim_that_ends_gives_its_devices_back(tmp_path: Path) -> None:
    cluster = Devices()
    before, full, after = await _followed(
        cluster, tmp_path, lambda s: s.is_complete and _gpus(s)[1], after=lambda s: not _gpus(s)[1]
    )
    assert not before.nodes
    assert (_gpus(full), _gpus(after)) == ((8, 2, 2), (8, 0, 0))
    changes = after.changes_since(full)
    assert changes is not None
    assert changes.nodes == {NODE_NAME}
    assert changes.pods == {"default/other"}


async def test_a_server_without_claims_is_asked_once_for_their_group(tmp_path: Path) -> None:
    cluster = Devices(is_served=False)
    cluster.groups = ["batch"]
    async with session_to(cluster, tmp_path) as session:
        state = ClusterState(session, clock=HastyClock())
        task = asyncio.create_task(state.run())
        try:
            full = await _until(state, lambda s: s.is_complete)
            await _until_asked(cluster, "/apis", 3)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert _gpus(full) == (0, 0, 0)
    assert not full.leaves_out_claims
    assert {path: count for path, count in cluster.requests.items() if path.startswith(GROUP)} == {GROUP: 1}


@pytest.mark.parametrize("refuses", ["resourceslices", "resourceclaims"])
async def test_what_may_not_be_listed_is_said_not_to_be_counted(tmp_path: Path, refuses: str) -> None:
    cluster = Devices(refuses=refuses)
    (_, seen) = await _followed(
        cluster,
        tmp_path,
        lambda s: s.is_complete and len(s.health) > 2 and refuses in s.health and _is_over(s, refuses),
    )
    assert seen.leaves_out_claims
    assert _gpus(seen) == (0, 0, 0)


def _is_over(snapshot: ClusterSnapshot, name: str) -> bool:
    return snapshot.health[name].state.value == "forbidden"


async def _kept(folder: Path) -> Any:
    """The kept snapshot of a cluster whose pod had four GPUs."""
    cluster = Devices()
    cluster.items[CLAIMS] = [a_claim("four", ["gpu-0", "gpu-1", "gpu-2", "gpu-3"])]
    (_, full) = await _followed(cluster, folder, lambda s: s.is_complete and _gpus(s)[1])
    versions = WatchVersions()
    assert write_kept(full, "ab" * 32, uid="u", taken_at=1e6, versions=versions, folder=folder)
    back = load_kept("ab" * 32, now=1e6 + 60, folder=folder)
    assert back is not None
    assert (back.snapshot.nodes, back.snapshot.usage, back.snapshot.pods) == (full.nodes, full.usage, full.pods)
    assert back.own_pods == {key: own_pod(pod) for key, pod in full.pods.items()}
    assert back.index.usage[NODE_NAME] == own_usage(full.usage[NODE_NAME])
    return back


@pytest.mark.parametrize(
    ("cluster", "gpus"),
    [
        (Devices, (8, 2, 2)),
        (lambda: Devices(is_served=False), (0, 0, 0)),
        (lambda: Devices(refuses="resourceslices"), (0, 0, 0)),
    ],
    ids=["served", "missing", "forbidden"],
)
async def test_kept_devices_are_shown_until_the_cluster_tells(
    tmp_path: Path, cluster: Any, gpus: tuple[int, int, int]
) -> None:
    back = await _kept(tmp_path)
    first, live = await _followed(
        cluster(), tmp_path, lambda s: s.is_complete and s.as_of == 0.0 and _gpus(s) == gpus, kept=back
    )
    assert (_gpus(first), first.as_of) == ((8, 4, 4), 1e6)
    assert _gpus(live) == gpus


async def test_a_listing_counts_devices_too(tmp_path: Path) -> None:
    async with session_to(Devices("v1beta2"), tmp_path) as session:
        listed = await fetch_nodes(session)
    (node,) = listed.nodes
    used = listed.usage[NODE_NAME]
    assert (node.allocatable.gpu, node.requested(used).gpu, used.pods) == (8, 2, 1)
    assert listed.unlisted_devices == ""


async def test_listed_pods_have_their_devices(tmp_path: Path) -> None:
    cluster = Devices()
    cluster.items["/api/v1/namespaces/default/pods"] = [_POD]
    cluster.items[f"{GROUP}/v1/namespaces/default/resourceclaims"] = []
    reasons: list[str] = []
    async with session_to(cluster, tmp_path) as session:
        (pod,) = await fetch_pods(session, uncounted=reasons.append)
        asked = cluster.requests[SLICES]
        (other,) = await fetch_pods(session, "default", uncounted=reasons.append)
    assert (pod.requests.gpu, other.requests.gpu, reasons) == (2, 0, ["", ""])
    assert cluster.requests[SLICES] == asked  # a namespace without claims needs none


@pytest.mark.parametrize("refuses", ["resourceslices", "resourceclaims"])
async def test_a_listing_has_the_reason_why_devices_are_not_counted(tmp_path: Path, refuses: str) -> None:
    async with session_to(Devices(refuses=refuses), tmp_path) as session:
        listed = await fetch_nodes(session)
    assert f"{refuses} is forbidden" in listed.unlisted_devices
    assert listed.nodes[0].allocatable.gpu == 0
