"""ECR, EC2, Secrets Manager and tags of the sandbox's account, as the console's own calls see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actions.base.errors import MissingError, RefusedError
from actions.cloud.account import fetch_secret, fetch_tagged
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Direction, add_self_rule, fetch_reservation, fetch_self_rules, remove_rules
from actions.cloud.ecr import Repository, delete_image, fetch_digest, fetch_login
from tests.support.sandboxes import account_of
from tests.unit.sandbox_actors.server import FAST, whole_cluster

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
    assert len(await fetch_tagged(session, "eksml-run", "r")) == 2
    for rule in rules:
        await remove_rules(session, GROUP, rule.direction, [rule.id])
    assert await fetch_self_rules(session, GROUP) == []
    assert await fetch_tagged(session, "eksml-run", "r") == ()


async def test_what_ec2_does_not_have_is_missing(session: AwsSession) -> None:
    with pytest.raises(MissingError):
        await fetch_self_rules(session, "sg-none")
    with pytest.raises(MissingError):
        await remove_rules(session, GROUP, Direction.INGRESS, ["sgr-0123456789abcdef0"])
    with pytest.raises(MissingError):
        await fetch_reservation(session, "cr-id")
    with pytest.raises(RefusedError, match="does not serve DescribeVpcs"):
        await session.call("ec2", "describe_vpcs")


async def test_a_reservation_is_for_the_type_that_its_id_says(session: AwsSession) -> None:
    found = await fetch_reservation(session, "cr-1123456789abcdef0")
    assert (found.state, found.instance_type, found.available) == ("active", "p5.48xlarge", 16)


async def test_the_secrets_of_a_rehearsal_can_be_read(session: AwsSession) -> None:
    assert (await fetch_secret(session, "eksml/hf-token")).startswith("hf_")
    with pytest.raises(MissingError):
        await fetch_secret(session, "somebody/else")
