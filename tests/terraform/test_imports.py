"""States that are lost and made whole again, by real Terraform: the shared roots on the stub provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from actions.run.takeover.imports import (
    MADE_ANEW,
    FoundResource,
    choose_ids,
    found_resource,
    import_blocks,
    not_rebuilt,
    read_planned,
)
from actions.terraform.driver import TerraformDriver, find_terraform
from actions.terraform.importing import ImportResult, StateImporter
from tests.terraform.stub import StubAccount
from tests.terraform.workspaces import VARIABLES, copied_root

REGION = "arn:aws:{}:us-west-2:123456789012:"
ARNS = {
    "aws_cloudwatch_event_rule": REGION.format("events") + "rule/{name}",
    "aws_cloudwatch_log_group": REGION.format("logs") + "log-group:{name}",
    "aws_ecr_repository": REGION.format("ecr") + "repository/{name}",
    "aws_eip": REGION.format("ec2") + "elastic-ip/{id}",
    "aws_eks_access_entry": REGION.format("eks") + "access-entry/{cluster_name}/role/123456789012/{id}/0-1-2",
    "aws_eks_addon": REGION.format("eks") + "addon/{cluster_name}/{addon_name}/0-1-2",
    "aws_eks_cluster": REGION.format("eks") + "cluster/{name}",
    "aws_eks_node_group": REGION.format("eks") + "nodegroup/{cluster_name}/{node_group_name}/0-1-2",
    "aws_eks_pod_identity_association": REGION.format("eks") + "podidentityassociation/{cluster_name}/{association_id}",
    "aws_flow_log": REGION.format("ec2") + "vpc-flow-log/{id}",
    "aws_fsx_data_repository_association": REGION.format("fsx") + "association/fs-1/{id}",
    "aws_fsx_lustre_file_system": REGION.format("fsx") + "file-system/{id}",
    "aws_iam_openid_connect_provider": "arn:aws:iam::123456789012:oidc-provider/{id}",
    "aws_iam_policy": "arn:aws:iam::123456789012:policy/{name}",
    "aws_iam_role": "arn:aws:iam::123456789012:role/{name}",
    "aws_internet_gateway": REGION.format("ec2") + "internet-gateway/{id}",
    "aws_kms_key": REGION.format("kms") + "key/{key_id}",
    "aws_launch_template": REGION.format("ec2") + "launch-template/{id}",
    "aws_nat_gateway": REGION.format("ec2") + "natgateway/{id}",
    "aws_placement_group": REGION.format("ec2") + "placement-group/{id}",
    "aws_route_table": REGION.format("ec2") + "route-table/{id}",
    "aws_s3_bucket": "arn:aws:s3:::{bucket}",
    "aws_security_group": REGION.format("ec2") + "security-group/{id}",
    "aws_sqs_queue": REGION.format("sqs") + "{name}",
    "aws_subnet": REGION.format("ec2") + "subnet/{id}",
    "aws_vpc": REGION.format("ec2") + "vpc/{id}",
    "aws_vpc_endpoint": REGION.format("ec2") + "vpc-endpoint/{id}",
    "aws_vpc_security_group_egress_rule": REGION.format("ec2") + "security-group-rule/{id}",
    "aws_vpc_security_group_ingress_rule": REGION.format("ec2") + "security-group-rule/{id}",
}
"""Forms of ARNs by attributes: Service Authorization Reference."""
FACTS: Mapping[str, tuple[str, ...]] = {
    "aws_eks_access_entry": ("principal_arn",),
    "aws_eks_pod_identity_association": ("namespace", "service_account"),
    "aws_launch_template": ("name",),
    "aws_placement_group": ("name",),
    "aws_vpc_security_group_egress_rule": ("from_port", "to_port"),
    "aws_vpc_security_group_ingress_rule": ("from_port", "to_port"),
}
"""The answers of AWS beside the ARN, as `_facts` of `terraform_state` asks for it."""
IDS = {
    "aws_cloudwatch_event_target": "{rule}/{target_id}",
    "aws_cloudwatch_event_rule": "{name}",
    "aws_ecr_lifecycle_policy": "{repository}",
    "aws_eks_access_entry": "{cluster_name}:{principal_arn}",
    "aws_eks_access_policy_association": "{cluster_name}#{principal_arn}#{policy_arn}",
    "aws_eks_addon": "{cluster_name}:{addon_name}",
    "aws_eks_pod_identity_association": "{cluster_name},{association_id}",
    "aws_iam_openid_connect_provider": ARNS["aws_iam_openid_connect_provider"],
    "aws_iam_policy": ARNS["aws_iam_policy"],
    "aws_iam_role_policy": "{role}:{name}",
    "aws_kms_alias": "{name}",
    "aws_kms_key": "{key_id}",
    "aws_route": "{route_table_id}_{destination_cidr_block}",
    "aws_route_table_association": "{subnet_id}/{route_table_id}",
    "aws_sqs_queue": "https://sqs.us-west-2.amazonaws.com/123456789012/{name}",
    "aws_sqs_queue_policy": "{queue_url}",
    "helm_release": "{namespace}/{name}",
}
"""Forms of the ids of imports, where they are not the stub's own ids: *Import* in the documentation of the provider."""


class Lost(msgspec.Struct):
    """A resource of a state that is lost."""

    address: str
    kind: str
    attributes: dict[str, Any]

    @property
    def import_id(self) -> str:
        """The id with which the provider imports it."""
        values = {key: value for key, value in self.attributes.items() if value is not None}
        if self.kind != "aws_security_group_rule":
            return IDS.get(self.kind, "{id}").format(**values)
        groups = [values.get("source_security_group_id", "")]
        sources = [*(values.get("cidr_blocks") or ()), *(["self"] if values.get("self") else []), *groups]
        sources = [text for text in sources if text and not text.startswith(("cidr-blocks-", "source-security-group-"))]
        protocol = "all" if values["protocol"] == "-1" else values["protocol"]
        words = (values["security_group_id"], values["type"], protocol, values["from_port"], values["to_port"])
        return "_".join(map(str, [*words, *sources]))


def lost_resources(state: Path) -> list[Lost]:
    """The managed resources of a state."""
    found = []
    for item in json.loads(state.read_text())["resources"]:
        for instance in item["instances"] if item["mode"] == "managed" else ():
            key = instance.get("index_key")
            index = "" if key is None else f"[{json.dumps(key)}]"
            module = f"{item['module']}." if "module" in item else ""
            address = f"{module}{item['type']}.{item['name']}{index}"
            found.append(Lost(address, item["type"], instance["attributes"]))
    return found


def found_in(resources: list[Lost], run_id: str = "run-1") -> tuple[FoundResource, ...]:
    """The list of AWS by the run's tag: nothing that has no tags of its own."""
    found = []
    for item in resources:
        if item.kind not in ARNS:
            assert "eksml-run" not in (item.attributes.get("tags_all") or {}) or item.kind in MADE_ANEW, item.address
            continue
        assert item.attributes["tags_all"]["eksml-run"] == run_id, item.address
        facts = {name: item.attributes[name] for name in FACTS.get(item.kind, ())}
        if "security_group_" in item.kind:
            facts["is_egress"] = "egress" in item.kind
        one = found_resource(ARNS[item.kind].format(**item.attributes), item.attributes["tags_all"], facts)
        assert one is not None, item.kind
        invented = {str(item.attributes[name]) for name in ("arn", "url") if item.attributes.get(name)}
        found.append(replace(one, names=one.names | invented))  # as AWS' own follow from the name
    return tuple(found)


def ids_of_the_stub(lost: list[Lost], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the stub's ids for those that the provider documents; any other is refused, as the provider does."""
    kinds = {item.address: item.kind for item in lost}
    known = {(item.kind, item.import_id): str(item.attributes["id"]) for item in lost}
    return {address: known.get((kinds.get(address, ""), name), name) for address, name in ids.items()}


class Rebuilding:
    """A root whose state is lost, and the import of it by another machine.

    Args:
        root: The shared root.
        folder: The test's.
        account: In which it was made.
        environment: Of Terraform.
    """

    def __init__(self, root: str, folder: Path, account: StubAccount, environment: Mapping[str, str]) -> None:
        program = find_terraform()
        assert program is not None
        self.variables = VARIABLES[root]
        self._surroundings = {**environment, "STUB_ACCOUNT": str(account.folder)}
        source = copied_root(root, folder / "root")
        self._state = folder / "lost" / "terraform.tfstate"
        self.first = TerraformDriver(source, folder / "lost", self._surroundings, program=program)
        self.importer = StateImporter(source, folder / "new", self._surroundings, program=program)
        self.lost: list[Lost] = []

    async def make(self) -> None:
        """Apply the root."""
        await self.first.init()
        await self.first.plan(self.variables)
        try:
            await self.first.apply()
        finally:
            self.lost = lost_resources(self._state)

    async def rebuild(self, found: tuple[FoundResource, ...] | None = None) -> ImportResult:
        """Import everything that can be, into a new state."""
        await self.importer.init()
        known = found_in(self.lost) if found is None else found
        return await self.importer.import_all(
            self.variables,
            choose=lambda shown: choose_ids(read_planned(shown), known),
            blocks=lambda ids: import_blocks(ids_of_the_stub(self.lost, ids)),
            makes=lambda shown: tuple(item.address for item in not_rebuilt(read_planned(shown))),
        )


@pytest.mark.parametrize("root", ["registry", "nodes", "filesystem", "network", "cluster"])
async def test_a_lost_state_is_whole_again_and_can_be_destroyed(
    root: str, tmp_path: Path, account: StubAccount, terraform_environment: Mapping[str, str]
) -> None:
    rebuilding = Rebuilding(root, tmp_path, account, terraform_environment)
    await rebuilding.make()
    done = await rebuilding.rebuild()
    assert (done.missing, dict(done.refused)) == ((), {}), dict(done.refused)
    importer, managed = rebuilding.importer, {item.address for item in rebuilding.lost}
    assert set((await importer.state()).managed) == managed
    anew = {item.address for item in rebuilding.lost if item.kind in MADE_ANEW}
    assert set(done.imported) == managed - anew
    creates = [call for call in account.calls if call[0] == "create"]
    assert len(creates) == len(managed) + len(anew)
    planned = await importer.plan(rebuilding.variables)
    assert planned.is_empty, planned.resources
    await importer.destroy(rebuilding.variables)
    left = {kind: names for kind, names in account.objects().items() if kind not in MADE_ANEW}
    assert left == {}


async def test_what_is_not_there_is_named_and_not_made(
    tmp_path: Path, account: StubAccount, terraform_environment: Mapping[str, str]
) -> None:
    account.fail("create", "aws_eks_node_group", "RequestTimeout", leaves="nothing")
    rebuilding = Rebuilding("nodes", tmp_path, account, terraform_environment)
    with pytest.raises(Exception, match="RequestTimeout"):
        await rebuilding.make()
    before = account.calls
    done = await rebuilding.rebuild()
    assert done.missing == ("aws_eks_node_group.this",)
    assert account.calls == before
    assert "aws_iam_role.this" in (await rebuilding.importer.state()).addresses
    await rebuilding.importer.destroy(rebuilding.variables)
    assert account.objects() == {}


async def test_an_import_that_is_refused_is_left_out_and_keeps_no_other(
    tmp_path: Path, account: StubAccount, terraform_environment: Mapping[str, str]
) -> None:
    """A resource that was deleted by hand has its tags for a while, and AWS lists it."""
    rebuilding = Rebuilding("nodes", tmp_path, account, terraform_environment)
    await rebuilding.make()
    account.lose("aws_placement_group")
    done = await rebuilding.rebuild()
    assert set(done.refused) == {"aws_placement_group.this[0]"}
    assert "couldn't find resource" in done.refused["aws_placement_group.this[0]"]
    assert "aws_eks_node_group.this" in (await rebuilding.importer.state()).addresses
    await rebuilding.importer.destroy(rebuilding.variables)
    assert account.objects() == {}
