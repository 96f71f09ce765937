"""Images, the EFA rule, secrets and tags, against moto: the API as AWS describes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actions.base.errors import FormatError, MissingError
from actions.cloud.account import fetch_secret, fetch_tagged
from actions.cloud.aws_session import AwsSession
from actions.cloud.describe import ResourceDescriber
from actions.cloud.ec2 import Direction, add_self_rule, fetch_self_rules, remove_rules
from actions.cloud.ecr import Repository, fetch_digest, fetch_login, repository_of
from actions.cloud.resources import AwsResource
from tests.support.account import REGION, a_group, an_account, an_image, client

ACCOUNT = "123456789012"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture(autouse=True)
def _moto(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)


@pytest.fixture
def session() -> Iterator[AwsSession]:
    made = AwsSession(region=REGION)
    yield made
    made.close()


async def test_the_digest_of_a_tag_is_found(session: AwsSession) -> None:
    digest = an_image("nemo", "24.01")
    repository = Repository(ACCOUNT, REGION, "nemo")
    assert await fetch_digest(session, repository, "24.01") == digest
    assert await fetch_digest(session, repository, digest) == digest
    assert await fetch_digest(session, repository, "sha256:" + "0" * 64) is None
    assert await fetch_digest(session, repository, "24.07") is None
    assert await fetch_digest(session, Repository(ACCOUNT, REGION, "other"), "24.01") is None


async def test_docker_is_given_a_login_that_is_not_shown(session: AwsSession) -> None:
    login = await fetch_login(session, Repository(ACCOUNT, REGION, "nemo"))
    assert login.username == "AWS"
    assert login.password
    assert login.password not in repr(login)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("111122223333.dkr.ecr.us-west-2.amazonaws.com/team/nemo", "team/nemo"),
        ("nvcr.io/nvidia/nemo", None),
        ("public.ecr.aws/hpc-cloud/nccl-tests", None),
    ],
)
def test_an_address_is_told_apart_from_those_of_other_registries(url: str, name: str | None) -> None:
    repository = repository_of(url)
    assert (repository.name if repository else None) == name
    assert repository is None or repository.url == url


async def test_a_group_is_opened_to_itself_both_ways_and_closed_again(session: AwsSession) -> None:
    group = a_group("efa")
    assert await fetch_self_rules(session, group) == []
    for direction in Direction:
        assert (await add_self_rule(session, group, direction, {"eksml-run": "r"})).startswith("sgr-")
        assert await add_self_rule(session, group, direction, {"eksml-run": "r"}) == ""
    rules = await fetch_self_rules(session, group)
    assert {rule.direction for rule in rules} == set(Direction)
    assert all(rule.tags == {"eksml-run": "r"} for rule in rules)
    for rule in rules:
        await remove_rules(session, group, rule.direction, [rule.id])
    assert await fetch_self_rules(session, group) == []


async def test_a_narrower_rule_is_not_the_one_that_efa_needs(session: AwsSession) -> None:
    group = a_group("narrow")
    pair = {"IpProtocol": "tcp", "FromPort": 1025, "ToPort": 65535, "UserIdGroupPairs": [{"GroupId": group}]}
    client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[pair])
    assert await fetch_self_rules(session, group) == []


async def test_a_group_that_is_not_there_is_missing(session: AwsSession) -> None:
    with pytest.raises(MissingError):
        await add_self_rule(session, "sg-00000000000000000", Direction.INGRESS, {"eksml-run": "r"})


async def test_a_secret_is_fetched_by_its_name(session: AwsSession) -> None:
    client("secretsmanager").create_secret(Name="team/hf", SecretString="hf_abc\n")
    assert await fetch_secret(session, "team/hf") == "hf_abc"
    with pytest.raises(MissingError):
        await fetch_secret(session, "team/none")


async def test_a_secret_that_is_no_text_is_refused(session: AwsSession) -> None:
    client("secretsmanager").create_secret(Name="team/bytes", SecretBinary=b"\x00")
    with pytest.raises(FormatError, match="team/bytes holds no text"):
        await fetch_secret(session, "team/bytes")


async def test_what_carries_a_tag_is_listed(session: AwsSession) -> None:
    vpc = client("ec2").create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    client("ec2").create_tags(Resources=[vpc], Tags=[{"Key": "eksml-run", "Value": "run-7"}])
    (arn,) = await fetch_tagged(session, {"eksml-run": ["run-7"]})
    assert arn.endswith(f"vpc/{vpc}")
    assert await fetch_tagged(session, {"eksml-run": ["run-8"]}) == ()
    assert arn in await fetch_tagged(session, {"eksml-run": []})
    assert await fetch_tagged(session, {"eksml-run": ["run-7"], "team": []}) == ()


async def test_what_is_only_remembered_is_told_from_what_is_there(session: AwsSession) -> None:
    describer = ResourceDescriber(session, region=REGION, account=ACCOUNT, partition="aws")

    async def look(resource: str) -> AwsResource | None:
        service, _, name = resource.partition(":")
        return await describer.describe(f"arn:aws:{service}:{REGION}:{ACCOUNT}:{name}", "tagged")

    image = client("ec2").register_image(Name="nodes")["ImageId"]
    made = client("ec2").run_instances(ImageId=image, InstanceType="m5.xlarge", MinCount=1, MaxCount=1)
    instance = made["Instances"][0]["InstanceId"]
    found = await look(f"ec2:instance/{instance}")
    assert found is not None
    assert found.line().endswith(
        f"instance/{instance}: tagged; m5.xlarge; $0.192/h; remove: "
        f"aws ec2 terminate-instances --instance-ids {instance} --region {REGION}"
    )
    client("ec2").terminate_instances(InstanceIds=[instance])
    assert await look(f"ec2:instance/{instance}") is None
    for gone in (
        "ec2:instance/i-0123456789abcdef0",
        "ec2:natgateway/nat-0123456789abcdef0",
        "ec2:network-interface/eni-0123456789abcdef0",
        "ec2:security-group/sg-0123456789abcdef0",
        "ec2:volume/vol-0123456789abcdef0",
        "ec2:vpc-endpoint/vpce-0123456789abcdef0",
        "ec2:vpc/vpc-0123456789abcdef0",
        "ecr:repository/none",
        "fsx:file-system/fs-0123456789abcdef0",
        "kms:key/11111111-2222-3333-4444-555555555555",
    ):
        assert await look(gone) is None, gone
    volume = client("ec2").create_volume(AvailabilityZone=f"{REGION}a", Size=200, VolumeType="gp3")["VolumeId"]
    found = await look(f"ec2:volume/{volume}")
    assert found is not None
    assert "tagged; 200 GiB gp3; $0.0219/h; remove: aws ec2 delete-volume" in found.line()
