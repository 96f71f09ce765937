"""Sessions, identity, clusters: over HTTP, against the fake."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError, ReadTimeoutError

from actions.base.errors import (
    AccessError,
    ConfigError,
    ConsoleError,
    FormatError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from actions.cloud.account import fetch_identity
from actions.cloud.aws_session import AwsSession, MissingPermissionError, aws_error_of
from actions.cloud.eks import EksCluster, describe_cluster, kubeconfig_for, token_factory
from tests.unit.cloud.fake_aws import CA, FakeAws


@pytest.fixture
def session() -> Iterator[AwsSession]:
    made = AwsSession(region="us-west-2")
    yield made
    made.close()


async def test_a_cluster_is_described(aws: FakeAws, session: AwsSession) -> None:
    cluster = await describe_cluster(session, "bionemo")
    assert cluster == EksCluster(
        name="bionemo",
        region="us-west-2",
        arn="arn:aws:eks:us-west-2:111122223333:cluster/bionemo",
        status="ACTIVE",
        version="1.32",
        endpoint="https://ABC.gr7.us-west-2.eks.amazonaws.com",
        ca=CA,
    )
    assert "eksml-tui" in aws.asked[0]


async def test_a_cluster_in_another_region_says_so(aws: FakeAws, session: AwsSession) -> None:
    assert aws.url
    assert (await describe_cluster(session, "bionemo", region="us-east-1")).region == "us-east-1"


async def test_a_cluster_that_is_being_made_has_no_endpoint(aws: FakeAws, session: AwsSession) -> None:
    aws.clusters["young"] = {"name": "young", "status": "CREATING"}
    cluster = await describe_cluster(session, "young")
    assert (cluster.status, cluster.endpoint, cluster.ca) == ("CREATING", "", "")
    with pytest.raises(UnreachableError, match="young is CREATING"):
        kubeconfig_for(cluster)


async def test_a_damaged_certificate_is_an_error(aws: FakeAws, session: AwsSession) -> None:
    aws.clusters["bionemo"]["certificateAuthority"] = {"data": "!!!"}
    with pytest.raises(FormatError, match="not base64"):
        await describe_cluster(session, "bionemo")


async def test_an_unknown_cluster_is_missing(aws: FakeAws, session: AwsSession) -> None:
    assert aws.url
    with pytest.raises(MissingError, match="No cluster found for name: nope"):
        await describe_cluster(session, "nope")


@pytest.mark.parametrize(
    ("refusal", "kind", "said"),
    [
        ((403, "AccessDeniedException", "not authorized"), AccessError, "Ask for the permission eks:DescribeCluster"),
        ((403, "ExpiredTokenException", "token expired"), AccessError, "not valid any more"),
        ((400, "InvalidParameterException", "bad name"), RefusedError, "bad name"),
    ],
)
async def test_a_refusal_is_cut_by_what_to_do_next(
    aws: FakeAws, session: AwsSession, refusal: tuple[int, str, str], kind: type[ConsoleError], said: str
) -> None:
    aws.eks_refusal = refusal
    with pytest.raises(kind) as caught:
        await describe_cluster(session, "bionemo")
    assert said in caught.value.sentence()
    assert "\n" not in caught.value.sentence()


async def test_an_endpoint_without_a_server_is_unreachable(session: AwsSession) -> None:
    with pytest.raises(UnreachableError, match="sts:GetCallerIdentity"):
        await fetch_identity(session)


async def test_an_endpoint_that_is_not_aws_is_told_in_one_sentence(
    aws: FakeAws, session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{aws.url}/elsewhere")
    with pytest.raises(FormatError, match=r"The answer to sts:GetCallerIdentity is not from AWS\."):
        await fetch_identity(session)


async def test_the_caller_is_known(aws: FakeAws, session: AwsSession) -> None:
    assert aws.url
    identity = await fetch_identity(session)
    assert (identity.account, identity.region, identity.expires_at) == ("111122223333", "us-west-2", None)
    assert identity.arn == "arn:aws:iam::111122223333:user/op"


async def test_the_expiry_that_a_login_left_in_the_environment_is_told(
    aws: FakeAws, session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert aws.url
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2099-11-21T12:00:00Z")
    identity = await fetch_identity(session)
    assert identity.expires_at is not None
    assert abs(identity.expires_at - datetime(2099, 11, 21, 12, tzinfo=UTC)).total_seconds() == 0


async def test_expired_credentials_say_to_log_in(aws: FakeAws, session: AwsSession) -> None:
    aws.sts_refusal = (403, "ExpiredToken", "The security token included in the request is expired")
    with pytest.raises(AccessError) as caught:
        await fetch_identity(session)
    assert "aws sso login" in caught.value.hint


async def test_no_credentials_is_an_access_error(
    aws: FakeAws, session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert aws.url
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AccessError, match="no AWS credentials"):
        await fetch_identity(session)


async def test_an_unknown_profile_is_a_setting_to_fix() -> None:
    session = AwsSession(profile="nope")
    with pytest.raises(ConfigError, match="nope"):
        await session.region()
    session.close()


async def test_a_region_may_come_from_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "aws"
    config.write_text("[profile ops]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    session = AwsSession(profile="ops")
    assert await session.region() == "eu-west-1"
    session.close()


async def test_no_region_is_a_setting_to_fix() -> None:
    session = AwsSession()
    with pytest.raises(ConfigError) as caught:
        await describe_cluster(session, "bionemo")
    assert "--region" in caught.value.hint
    session.close()


def kubeconfig(cluster: EksCluster, profile: str = "") -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(kubeconfig_for(cluster, profile=profile))
    return parsed


async def test_the_kubeconfig_has_the_form_of_the_aws_program(aws: FakeAws, session: AwsSession) -> None:
    assert aws.url
    cluster = await describe_cluster(session, "bionemo")
    document = kubeconfig(cluster, "ops")
    assert document["current-context"] == "bionemo"
    assert document["contexts"][0]["context"] == {"cluster": cluster.arn, "user": cluster.arn}
    assert document["clusters"][0]["cluster"] == {
        "server": cluster.endpoint,
        "certificate-authority-data": CA,
    }
    plugin = document["users"][0]["user"]["exec"]
    assert plugin["env"] == [{"name": "AWS_PROFILE", "value": "ops"}]
    source = token_factory([plugin["command"], *plugin["args"]])
    assert source is not None
    assert source.cluster == "bionemo"


@pytest.mark.parametrize("ca", ["", CA])
def test_a_cluster_without_tls_gets_no_certificate(ca: str) -> None:
    cluster = EksCluster("demo", "us-west-2", "", "ACTIVE", "1.32", "http://127.0.0.1:8001", ca)
    document = kubeconfig(cluster)
    assert document["clusters"] == [{"name": "demo", "cluster": {"server": "http://127.0.0.1:8001"}}]
    assert document["users"][0]["user"]["exec"]["env"] is None


@pytest.mark.parametrize(
    "code",
    [
        "NatGatewayNotFound",
        "InvalidVolume.NotFound",
        "RepositoryNotFoundException",
        "FileSystemNotFound",
        "NoSuchEntity",
        "NoSuchBucket",
        "AWS.SimpleQueueService.NonExistentQueue",
        "InvalidPlacementGroup.Unknown",
        "DBInstanceNotFoundFault",
    ],
)
def test_what_a_service_does_not_have_is_missing_whatever_it_calls_that(code: str) -> None:
    assert isinstance(aws_error_of(refusal(code), action="ec2:DescribeX"), MissingError)


def test_a_malformed_id_is_a_refusal_and_a_missing_right_names_its_action() -> None:
    assert isinstance(aws_error_of(refusal("InvalidVolumeID.Malformed"), action="ec2:DescribeVolumes"), RefusedError)
    error = aws_error_of(refusal("AccessDenied"), action="iam:ListRoles")
    assert isinstance(error, MissingPermissionError)
    assert (error.action, error.hint) == ("iam:ListRoles", "Ask for the permission iam:ListRoles.")


def refusal(code: str) -> Exception:
    """botocore's error for a code."""
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error: Exception = ClientError(answer, "Describe")
    return error


def test_a_store_that_does_not_answer_is_named_by_its_host_alone() -> None:
    cause = ReadTimeoutError(endpoint_url="https://team-runs.s3.amazonaws.com/ml/runs/x/lease.json?versionId=1")
    error = aws_error_of(cause, action="s3:PutObject")
    assert error.message == "AWS did not answer s3:PutObject: Read timeout on team-runs.s3.amazonaws.com"
