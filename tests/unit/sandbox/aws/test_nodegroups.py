"""Managed node groups, asked for with boto3; their nodes and devices, seen through the API."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.base.executors import NamedExecutor
from actions.base.files import shipped_blueprints
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import EFA, GPU, NEURON, NEURON_CORE, NODES, Document
from actions.sandbox.locate import CREDENTIALS
from actions.sandbox.terraform.simulation import RootNodeGroup
from tests.support import polling
from tests.support.account import services_read_once
from tests.support.sandboxes import account_of
from tests.unit.sandbox.controllers.server import FAST, until, whole_cluster
from tests.unit.terraform.support import needs_terraform

_CLUSTER = "trainium-inferentia"


@pytest.fixture(autouse=True, scope="module")
def _services() -> Iterator[None]:
    with services_read_once():
        yield


class Eks:
    """boto3's client of EKS, called on a thread of its own."""

    def __init__(self, account: Mapping[str, str]) -> None:
        make: Callable[..., Any] = boto3.Session(region_name=FAST.region).client
        self._client = make(
            "eks",
            endpoint_url=account["AWS_ENDPOINT_URL"],
            aws_access_key_id=account["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=account["AWS_SECRET_ACCESS_KEY"],
        )
        self._thread = NamedExecutor("boto3-test")

    async def ask(self, call: str, **arguments: Any) -> dict[str, Any]:
        def answer() -> dict[str, Any]:
            found: dict[str, Any] = getattr(self._client, call)(**{"clusterName": _CLUSTER, **arguments})
            return found

        return await self._thread.call(answer)

    async def status(self, name: str) -> str:
        return str((await self.ask("describe_nodegroup", nodegroupName=name))["nodegroup"]["status"])

    async def until(self, name: str, wanted: str) -> dict[str, Any]:
        async def is_there() -> bool:
            return await self.status(name) == wanted

        await polling.until(is_there, f"the node group {name} to be {wanted}")
        found: dict[str, Any] = (await self.ask("describe_nodegroup", nodegroupName=name))["nodegroup"]
        return found

    def close(self) -> None:
        self._client.close()
        self._thread.close()


@asynccontextmanager
async def account(folder: Path, *, instances_of_a_type: int = 16) -> AsyncIterator[tuple[ApiClient, Eks]]:
    async with whole_cluster(folder, replace(FAST, instances_of_a_type=instances_of_a_type)) as client:
        eks = Eks(account_of(folder))
        try:
            yield client, eks
        finally:
            eks.close()


def a_group(instance_type: str, *, nodes: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "nodegroupName": "accelerated",
        "scalingConfig": {"minSize": nodes, "maxSize": nodes, "desiredSize": nodes},
        "instanceTypes": [instance_type],
        "amiType": "AL2023_x86_64_NEURON",
        "subnets": ["subnet-0a1b2c3d4e5f60001"],
        "nodeRole": "arn:aws:iam::111122223333:role/node",
        "tags": {"efa": "true"},
    } | more


async def nodes_of(client: ApiClient) -> list[Document]:
    query = {"labelSelector": "eks.amazonaws.com/nodegroup=accelerated"}
    found: list[Document] = (await client.session.get(NODES.path(), query))["items"]
    return found


async def test_the_sandboxes_terraform_makes_a_node_group_with_the_accounts_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = RootNodeGroup({
        "cluster_name": _CLUSTER, "node_group_name": "simulated", "node_count": 1, "run_id": "r",
        "instance_type": "g5.8xlarge", "ami_type": "AL2023_x86_64_NVIDIA", "subnet_ids": "subnet-0a1b2c3d4e5f60001",
    })  # fmt: skip
    async with account(tmp_path) as (_, eks):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ENDPOINT_URL", account_of(tmp_path)["AWS_ENDPOINT_URL"])
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / CREDENTIALS))
        await asyncio.to_thread(group.make)
        assert await eks.status("simulated") == "ACTIVE"
        await asyncio.to_thread(group.unmake)
        assert "simulated" not in (await eks.ask("list_nodegroups"))["nodegroups"]
        (tmp_path / CREDENTIALS).write_text("[default]\naws_access_key_id = another\naws_secret_access_key = s\n")
        with pytest.raises(RefusedError, match="CreateNodegroup"):
            await asyncio.to_thread(group.make)


@needs_terraform
@pytest.mark.parametrize("run", ["ours", "theirs"])
async def test_a_group_that_an_interrupted_apply_has_left_is_taken_up_and_destroyed_and_a_foreign_one_is_left(
    tmp_path: Path, run: str
) -> None:
    root = tmp_path / "root"
    shutil.copytree(shipped_blueprints() / "common" / "rehearsal" / "nodes", root)
    variables = {
        "cluster_name": _CLUSTER, "region": FAST.region, "node_group_name": "accelerated", "node_count": 1,
        "run_id": "ours",
        "instance_type": "g5.8xlarge", "ami_type": "AL2023_x86_64_NVIDIA", "subnet_ids": "subnet-0a1b2c3d4e5f60001",
    }  # fmt: skip
    (root / "terraform.tfvars.json").write_bytes(msgspec.json.encode(variables))
    async with account(tmp_path) as (_, eks):
        endpoint = account_of(tmp_path)["AWS_ENDPOINT_URL"]
        environment = {"AWS_ENDPOINT_URL": endpoint, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / CREDENTIALS)}

        async def terraform(*words: str) -> str:
            child = await asyncio.create_subprocess_exec(
                "terraform", f"-chdir={root}", *words, stdout=PIPE, stderr=STDOUT, env={**os.environ, **environment}
            )
            return (await child.communicate())[0].decode()

        await terraform("init", "-no-color")
        await terraform("apply", "-auto-approve", "-no-color", "-target=terraform_data.node_group")
        await eks.ask("create_nodegroup", **a_group("g5.8xlarge", tags={"eksml-run": run}))
        said = await terraform("apply", "-auto-approve", "-no-color")
        assert ("Apply complete" in said) == (run == "ours"), said
        assert ("NodeGroup already exists" in said) == (run == "theirs"), said
        assert "Destroy complete" in await terraform("destroy", "-auto-approve", "-no-color")
        assert ("accelerated" in (await eks.ask("list_nodegroups"))["nodegroups"]) == (run == "theirs")


@pytest.mark.parametrize(
    ("instance_type", "labels", "devices"),
    [
        ("trn1.32xlarge", {"accelerator": "neuron"}, {NEURON: "16", NEURON_CORE: "32", EFA: "8"}),
        ("p4de.24xlarge", {"accelerator": "nvidia"}, {GPU: "8", EFA: "4", "hugepages-2Mi": "21122Mi", "pods": "250"}),
        ("p5.48xlarge", {"accelerator": "nvidia"}, {GPU: "8", EFA: "32", "hugepages-2Mi": "42242Mi"}),
        ("g5.8xlarge", {"accelerator": "nvidia"}, {GPU: "1", EFA: "1"}),
    ],
)
async def test_nodes_come_with_their_devices_and_go_with_the_group(
    tmp_path: Path, instance_type: str, labels: dict[str, str], devices: dict[str, str]
) -> None:
    async with account(tmp_path) as (client, eks):
        taints = [{"key": "test/only", "value": "true", "effect": "NO_SCHEDULE"}]
        made = await eks.ask("create_nodegroup", **a_group(instance_type, nodes=2, labels=labels, taints=taints))
        assert made["nodegroup"]["status"] == "CREATING"
        await eks.until("accelerated", "ACTIVE")
        assert (await eks.ask("list_nodegroups"))["nodegroups"] == ["accelerated"]
        nodes = await nodes_of(client)
        assert len(nodes) == 2
        for node in nodes:
            assert labels.items() <= node["metadata"]["labels"].items()
            assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == instance_type
            assert node["spec"]["taints"] == [{"key": "test/only", "value": "true", "effect": "NoSchedule"}]

            def has_devices(found: Document | None) -> bool:
                return found is not None and devices.items() <= found["status"]["allocatable"].items()

            await until(client, NODES, node["metadata"]["name"], has_devices)
        await eks.ask("delete_nodegroup", nodegroupName="accelerated")
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            await eks.until("accelerated", "never")
        assert await nodes_of(client) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scalingConfig": {"minSize": 3, "maxSize": 3, "desiredSize": 3}},
         "InsufficientInstanceCapacity - We currently do not have sufficient p5.48xlarge capacity"),
        ({"tags": {"capacity-reservation-id": "cr-id"}}, "The capacity reservation 'cr-id' does not exist"),
    ],
)  # fmt: skip
async def test_what_cannot_be_launched_fails_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    async with account(tmp_path, instances_of_a_type=2) as (client, eks):
        await eks.ask("create_nodegroup", **a_group("p5.48xlarge") | changes)
        failed = await eks.until("accelerated", "CREATE_FAILED")
        (issue,) = failed["health"]["issues"]
        assert issue["code"] == "AsgInstanceLaunchFailures"
        assert told in issue["message"]
        await eks.ask("delete_nodegroup", nodegroupName="accelerated")
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            await eks.until("accelerated", "never")
        assert await nodes_of(client) == []


_WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"instanceTypes": ["p9.huge"]}, r"InvalidParameterException.*do not exist: \[p9.huge\]"),
    ({"scalingConfig": {"minSize": 2, "maxSize": 1, "desiredSize": 1}}, "InvalidParameterException.*desired"),
    ({"subnets": []}, "InvalidParameterException.*subnets"),
    ({"taints": [{"key": "x", "effect": "NoSchedule"}]}, "InvalidParameterException.*NO_SCHEDULE"),
)


async def test_a_wrong_request_is_refused_as_eks_does(tmp_path: Path) -> None:
    async with account(tmp_path) as (_client, eks):
        for changes, error in _WRONG:
            with pytest.raises(ClientError, match=error):
                await eks.ask("create_nodegroup", **a_group("trn1.32xlarge") | changes)
        assert (await eks.ask("list_nodegroups"))["nodegroups"] == []


async def test_a_name_is_taken_once_and_the_core_group_is_listed(tmp_path: Path) -> None:
    async with account(tmp_path) as (_, eks):
        await eks.ask("create_nodegroup", **a_group("trn1.32xlarge"))
        with pytest.raises(ClientError, match="ResourceInUseException"):
            await eks.ask("create_nodegroup", **a_group("trn1.32xlarge"))
        listed = await eks.ask("list_nodegroups", clusterName=FAST.cluster_name)
        assert listed["nodegroups"] == ["core-node-group"]
