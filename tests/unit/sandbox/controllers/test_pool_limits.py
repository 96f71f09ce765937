"""A NodePool starts no more than its limits allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.fleet.instance_types import InstanceTable
from actions.fleet.node_offers import exceeds, limit_amounts
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import EVENTS, NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, PODS, Document
from tests.unit.sandbox.controllers.server import until, whole_cluster

_TYPE = "g5.12xlarge"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({}, False), ({"nvidia.com/gpu": 4}, False), ({"nvidia.com/gpu": "3"}, True), ({"cpu": "47"}, True),
     ({"memory": "1000Gi"}, False), ({"memory": "1Gi"}, True), ({"nodes": "1"}, False), ({"nodes": 0}, True)],
)  # fmt: skip
def test_limits_count_cores_memory_devices_and_nodes(limits: Document, expected: bool) -> None:
    kind = InstanceTable.load().find(_TYPE)
    assert kind is not None
    assert exceeds(limits, limit_amounts(kind)) is expected


async def test_pods_beyond_the_limit_wait_and_are_told_why(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await client.create(NODE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"role": "x", "amiFamily": "AL2023"}})
        await client.create(NODE_POOLS, _pool({"nvidia.com/gpu": 4}))
        for name in ("one", "two"):
            await client.create(PODS, _pod(name))
        await until(client, PODS, "default/one", lambda pod: (pod or {})["status"].get("phase") == "Running")
        await _told(client, "two", 'all available instance types exceed limits for nodepool: "gpu"')
        claims = (await client.session.get(NODE_CLAIMS.path()))["items"]
        assert len(claims) == 1
        await client.patch(NODE_POOLS, "gpu", {"spec": {"limits": {"nvidia.com/gpu": 8}}})
        await until(client, PODS, "default/two", lambda pod: (pod or {})["status"].get("phase") == "Running")


async def _told(client: ApiClient, pod: str, text: str) -> None:
    path = EVENTS.path(namespace="default")
    while True:
        events = (await client.session.get(path, {"fieldSelector": f"involvedObject.name={pod}"}))["items"]
        if any(text in event["message"] for event in events):
            return


def _pool(limits: Document) -> Document:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [_TYPE]}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    labels = {"accelerator": "nvidia"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeClassRef": reference, "requirements": [requirement]}}
    return {"metadata": {"name": "gpu"}, "spec": {"limits": limits, "template": template}}


def _pod(name: str) -> Document:
    amounts = {"nvidia.com/gpu": "4"}
    container = {"name": "m", "image": "busybox:1", "command": ["sleep", "100000"], "resources": {"limits": amounts}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}
