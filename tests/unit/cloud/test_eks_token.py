"""Tokens made in this process, without a network."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from actions.base.errors import AccessError, ConfigError
from actions.cloud.aws_session import AwsSession
from actions.cloud.eks import REFRESH_SECONDS, EksToken, TokenRequest, request_of, token_factory


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class CountingSession(AwsSession):
    """Counts how often a token is made."""

    made = 0

    def raw(self) -> object:
        self.made += 1
        return super().raw()


def url_in(token: str) -> str:
    prefix, _, body = token.partition(".")
    assert prefix == "k8s-aws-v1"
    assert "=" not in body
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()


async def test_a_token_is_what_the_authenticator_checks() -> None:
    source = EksToken("bionemo", AwsSession(region="us-west-2"))
    parts = urlsplit(url_in(await source.token()))
    query = parse_qs(parts.query)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "sts.us-west-2.amazonaws.com", "/")
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    allowed = {"action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires"}
    allowed |= {"x-amz-security-token", "x-amz-signature", "x-amz-signedheaders"}
    assert {name.lower() for name in query} <= allowed
    assert all(len(values) == 1 for values in query.values())
    assert int(query["X-Amz-Expires"][0]) <= 900


async def test_the_token_names_the_region_of_other_partitions() -> None:
    source = EksToken("bionemo", AwsSession(region="cn-north-1"))
    assert urlsplit(url_in(await source.token())).netloc == "sts.cn-north-1.amazonaws.com.cn"


async def test_a_session_token_is_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "short")
    query = parse_qs(urlsplit(url_in(await EksToken("c", AwsSession(region="us-west-2")).token())).query)
    assert query["X-Amz-Security-Token"] == ["short"]


async def test_the_token_is_kept_for_ten_minutes_and_then_made_anew() -> None:
    clock, session = HandClock(), CountingSession(region="us-west-2")
    source = EksToken("bionemo", session, clock=clock)
    await source.token()
    made = session.made
    clock.seconds = REFRESH_SECONDS - 1
    await source.token()
    assert session.made == made
    clock.seconds = REFRESH_SECONDS
    await source.token()
    assert session.made > made


async def test_callers_at_the_same_time_share_one_token() -> None:
    session = CountingSession(region="us-west-2")
    source = EksToken("bionemo", session)
    await source.token()
    once = session.made
    other = CountingSession(region="us-west-2")
    shared = EksToken("bionemo", other)
    tokens = await asyncio.gather(*(shared.token() for _ in range(8)))
    assert len(set(tokens)) == 1
    assert other.made == once


async def test_without_credentials_there_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AccessError, match="no AWS credentials"):
        await EksToken("bionemo", AwsSession(region="us-west-2")).token()


async def test_the_region_may_stand_in_either_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert ".eu-west-1." in url_in(await EksToken("bionemo", AwsSession()).token())
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert ".us-east-2." in url_in(await EksToken("bionemo", AwsSession()).token())
    assert ".us-west-2." in url_in(await EksToken("bionemo", AwsSession(region="us-west-2")).token())


async def test_without_a_region_there_is_no_token() -> None:
    with pytest.raises(ConfigError, match="No AWS region"):
        await EksToken("bionemo", AwsSession()).token()


@pytest.mark.parametrize(
    ("argv", "request_"),
    [
        ("aws --region r eks get-token --cluster-name c --output json", TokenRequest("c", "r", "")),
        ("aws eks get-token --cluster-name=c --profile p --region=r", TokenRequest("c", "r", "p")),
        ("/opt/aws/bin/aws eks get-token --cluster-name c", TokenRequest("c", "", "")),
        ("aws --region r eks get-token --cluster-name c --region other", TokenRequest("c", "r", "")),
        ("aws-iam-authenticator token -i c", TokenRequest("c", "", "")),
    ],
)
def test_the_usual_plugins_are_recognised(argv: str, request_: TokenRequest) -> None:
    assert request_of(argv.split()) == request_


@pytest.mark.parametrize(
    "argv",
    [
        "",
        "gcloud config helper",
        "aws eks get-token",
        "aws eks get-token --cluster-name",
        "aws eks get-token --cluster-name c --role-arn arn:aws:iam::1:role/r",
        "aws eks get-token --cluster-id c",
        "aws eks list-clusters --cluster-name c",
        "aws eks get-token --cluster-name c --output text",
        "aws-iam-authenticator token -i c -r role",
    ],
)
def test_what_does_more_than_we_do_is_left_to_the_plugin(argv: str) -> None:
    assert token_factory(argv.split()) is None


async def test_profile_and_region_of_the_console_stand_in_where_the_plugin_names_none() -> None:
    source = token_factory(["aws", "eks", "get-token", "--cluster-name", "c"], region="eu-west-1")
    assert source is not None
    assert urlsplit(url_in(await source.token())).netloc == "sts.eu-west-1.amazonaws.com"
