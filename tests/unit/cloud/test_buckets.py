"""Regions of buckets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actions.base.errors import MissingError, UnreachableError
from actions.cloud.buckets import bucket_region
from tests.support.account import REGION, an_account, client


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with an_account() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "tests")
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        yield


def test_a_bucket_names_its_region_to_whoever_asks_from_another() -> None:
    client("s3").create_bucket(Bucket="team", CreateBucketConfiguration={"LocationConstraint": REGION})
    assert bucket_region("team") == REGION


def test_a_bucket_that_does_not_exist_is_missing() -> None:
    with pytest.raises(MissingError, match="There is no bucket absent"):
        bucket_region("absent")


def test_s3_that_does_not_answer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(UnreachableError):
        bucket_region("team")
