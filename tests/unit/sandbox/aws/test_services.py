"""ECR, EC2, Secrets Manager and tags of the sandbox's account, as the console's own calls see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actions.base.errors import MissingError, RefusedError
from actions.cloud.account import fetch_secret, fetch_tagged
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import (
    Direction,
    add_self_rule,
    fetch_offering_zones,
    fetch_reservation,
    fetch_self_rules,
    fetch_zones,
    remove_rules,
)
from actions.cloud.ecr import Repository, delete_image, fetch_digest, fetch_login
from actions.cloud.leftovers import SearchResult, SearchScope, search_account
from actions.cloud.quotas import LUSTRE_STORAGE, fetch_quota, fetch_use
from actions.cloud.resources import parts_of
from tests.support.sandboxes import account_of
from tests.unit.sandbox.controllers.server import FAST, whole_cluster

GROUP = "sg-0123456789abcdef0"
REPOSITORY = Repository(FAST.account, FAST.region, "nemo")


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AwsSession]:
    async with whole_cluster(tmp_path):
        for name, value in account_of(tmp_path).items():
            monkeypatch.setenv(name, value)
        made = AwsSession(region=FAST.region)
        yield made
        made.close()


async def test_every_image_is_there_but_those_that_are_called_missing(session: AwsSession) -> None:
    digest = await fetch_digest(session, REPOSITORY, "24.01")
    assert digest == await fetch_digest(session, REPOSITORY, "24.01")
    assert digest != await fetch_digest(session, REPOSITORY, "24.07")
    assert await fetch_digest(session, REPOSITORY, "missing-24.01") is None
    assert (await fetch_login(session, REPOSITORY)).username == "AWS"
    assert await delete_image(session, REPOSITORY, digest or "")


async def test_rules_of_a_group_come_and_go_and_are_found_by_their_tags(session: AwsSession) -> None:
    for direction in Direction:
        assert await add_self_rule(session, GROUP, direction, {"eksml-run": "r"})
        assert await add_self_rule(session, GROUP, direction, {"eksml-run": "r"}) == ""
    rules = await fetch_self_rules(session, GROUP)
    assert {rule.direction for rule in rules} == set(Direction)
    assert len(await fetch_tagged(session, {"eksml-run": ["r"]})) == 2
    for rule in rules:
        await remove_rules(session, GROUP, rule.direction, [rule.id])
    assert await fetch_self_rules(session, GROUP) == []
    assert await fetch_tagged(session, {"eksml-run": ["r"]}) == ()


async def test_what_ec2_does_not_have_is_missing(session: AwsSession) -> None:
    with pytest.raises(MissingError):
        await fetch_self_rules(session, "sg-none")
    with pytest.raises(MissingError):
        await remove_rules(session, GROUP, Direction.INGRESS, ["sgr-0123456789abcdef0"])
    with pytest.raises(MissingError):
        await fetch_reservation(session, "cr-id")
    with pytest.raises(RefusedError, match="does not serve DescribeSubnets"):
        await session.call("ec2", "describe_subnets")


async def test_a_reservation_is_for_the_type_that_its_id_says(session: AwsSession) -> None:
    found = await fetch_reservation(session, "cr-1123456789abcdef0")
    assert (found.state, found.instance_type, found.available) == ("active", "p5.48xlarge", 16)
    assert (found.zone, found.zone_id, found.ends_at) == ("us-west-2a", "usw2-az2", None)


async def test_a_reservation_is_scheduled_before_it_is_active_and_a_block_has_an_end(session: AwsSession) -> None:
    coming = await fetch_reservation(session, "cr-11111111111111b5c")
    assert coming.state in ("scheduled", "active")
    assert coming.starts_at is not None
    block = await fetch_reservation(session, "cr-111111111111111b1")
    assert block.ends_at is not None
    assert block.starts_at is not None
    assert block.ends_at - block.starts_at == 86_400


async def test_zones_have_ids_of_their_own_and_one_offers_no_accelerators(session: AwsSession) -> None:
    zones = await fetch_zones(session)
    assert [(zone.name, zone.id) for zone in zones[:2]] == [("us-west-2a", "usw2-az2"), ("us-west-2b", "usw2-az1")]
    assert await fetch_offering_zones(session, "trn1.32xlarge") == {"usw2-az1", "usw2-az2", "usw2-az3"}
    assert await fetch_offering_zones(session, "m5.xlarge") == {zone.id for zone in zones}
    assert await fetch_offering_zones(session, "zz9.plural") == frozenset()
    elsewhere = AwsSession(region="ap-southeast-2")
    assert (await fetch_zones(elsewhere))[0].id == "apse2-az2"
    elsewhere.close()


async def test_the_nodes_of_the_account_are_what_is_in_use_of_a_quota(session: AwsSession) -> None:
    assert await fetch_use(session, "L-1216C47A") == 8, "two m5.xlarge"
    assert await fetch_use(session, "L-34B43A08") == 0, "none of them is a spot instance"
    assert await fetch_use(session, "L-DB2E81BA") == 0
    assert await fetch_use(session, "L-0263D0A3") == await fetch_use(session, "L-F678F1CE") == 0
    assert await fetch_use(session, "L-FFFFFFFF") is None
    assert await fetch_use(session, LUSTRE_STORAGE) == 0
    assert await fetch_quota(session, "fsx", LUSTRE_STORAGE.lower()) == 100800
    with pytest.raises(MissingError, match="fsx has no quota Lustre Persistent 3"):
        await fetch_quota(session, "fsx", "Lustre Persistent 3")


async def test_the_secrets_of_a_rehearsal_can_be_read(session: AwsSession) -> None:
    assert (await fetch_secret(session, "eksml/hf-token")).startswith("hf_")
    with pytest.raises(MissingError):
        await fetch_secret(session, "somebody/else")


async def test_what_a_call_has_made_is_found_by_an_audit_and_gone_after_another(session: AwsSession) -> None:
    tags = [{"Key": "kubernetes.io/cluster/mine", "Value": "owned"}]
    specification: list[dict[str, object]] = [{"ResourceType": "volume", "Tags": tags}]
    volume = await session.call(
        "ec2",
        "create_volume",
        AvailabilityZone="us-west-2a",
        Size=100,
        VolumeType="gp3",
        TagSpecifications=specification,
    )
    specification[0]["ResourceType"] = "network-interface"
    interface = await session.call(
        "ec2",
        "create_network_interface",
        SubnetId="subnet-1",
        Description="aws-K8S-i-1",
        TagSpecifications=specification,
    )
    await session.call("iam", "create_role", RoleName="mine-node", AssumeRolePolicyDocument="{}")
    await session.call("logs", "create_log_group", logGroupName="/aws/eks/mine/cluster")
    await session.call("ecr", "create_repository", repositoryName="nemo")
    scope = SearchScope(
        "eksml-run", "r", 0.0, FAST.region, "mine", owns_cluster=True, vpc="vpc-1", repositories=("nemo",)
    )
    found = await search_account(session, scope)
    assert found.unknown == ()
    assert {parts_of(one.arn).kind for one in found.resources} == {
        "volume",
        "network-interface",
        "role",
        "log-group",
        "repository",
    }
    assert "100 GiB gp3; $0.011/h" in found.resources[0].line()
    await session.call("ec2", "delete_volume", VolumeId=volume["VolumeId"])
    interface_id = interface["NetworkInterface"]["NetworkInterfaceId"]
    await session.call("ec2", "delete_network_interface", NetworkInterfaceId=interface_id)
    await session.call("iam", "delete_role", RoleName="mine-node")
    await session.call("logs", "delete_log_group", logGroupName="/aws/eks/mine/cluster")
    await session.call("ecr", "delete_repository", repositoryName="nemo")
    assert await search_account(session, scope) == SearchResult()
    with pytest.raises(RefusedError, match="does not serve ListUsers"):
        await session.call("iam", "list_users")
