"""F33: what AWS throttles, has not heard of yet, or does not believe any more is never taken for gone."""

from __future__ import annotations

import asyncio

import pytest
from botocore.exceptions import ClientError
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from actions.base.errors import AccessError, MissingError, UnreachableError
from actions.cloud.aws_session import GRACE_SECONDS, AwsSession, aws_error_of, retry_not_found
from actions.cloud.eks import describe_cluster
from tests.unit.cloud.fake_aws import FakeAws
from tests.unit.cluster.clocks import HastyClock

PASSING = {
    *ThrottledRetryableChecker._THROTTLED_ERROR_CODES,
    *TransientRetryableChecker._TRANSIENT_ERROR_CODES,
    "ServiceUnavailable",
}


@pytest.mark.parametrize("code", sorted(PASSING))
def test_f33_what_botocore_retries_is_busy_and_no_more(code: str) -> None:
    refusal = ClientError(
        {"Error": {"Code": code, "Message": "slow down"}, "ResponseMetadata": {"HTTPStatusCode": 400}},
        "DescribeCluster",
    )
    assert isinstance(aws_error_of(refusal, action="eks:DescribeCluster"), UnreachableError)


async def test_f33_throttling_and_expiry_say_nothing_of_the_cluster(aws: FakeAws) -> None:
    session = AwsSession(region="us-west-2")
    try:
        for status, code, kind in (
            (429, "ThrottlingException", UnreachableError),
            (503, "ServiceUnavailableException", UnreachableError),
            (403, "ExpiredTokenException", AccessError),
        ):
            aws.eks_refusal = (status, code, "later")
            with pytest.raises(kind):
                await describe_cluster(session, "bionemo")
        aws.eks_refusal = None
        assert (await describe_cluster(session, "bionemo")).status == "ACTIVE"
    finally:
        session.close()


async def test_f33_a_cluster_that_was_just_made_is_waited_for(aws: FakeAws) -> None:
    made = dict(aws.clusters["bionemo"])
    session, asked = AwsSession(region="us-west-2"), 0

    async def ask() -> str:
        nonlocal asked
        asked += 1
        if asked == 3:
            aws.clusters["young"] = made | {"name": "young"}
        return (await describe_cluster(session, "young")).name

    try:
        assert await retry_not_found(ask, clock=HastyClock()) == "young"
    finally:
        session.close()
    assert asked == 3


async def test_f33_what_is_not_there_is_said_after_the_grace() -> None:
    clock, asked = HastyClock(), 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        raise MissingError("no such thing")

    with pytest.raises(MissingError):
        await retry_not_found(ask, clock=clock)
    assert GRACE_SECONDS - 1 <= sum(clock.slept) <= GRACE_SECONDS
    assert 3 < asked < 12


async def test_f33_other_failures_are_not_waited_for() -> None:
    async def ask() -> None:
        raise AccessError("no")

    clock = HastyClock()
    with pytest.raises(AccessError):
        await retry_not_found(ask, clock=clock)
    assert clock.slept == []
