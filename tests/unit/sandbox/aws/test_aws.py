"""EKS and STS as boto3 sees them at `AWS_ENDPOINT_URL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from actions.base.executors import NamedExecutor
from tests.support.sandboxes import account_of
from tests.unit.sandbox.controllers.server import FAST, whole_cluster


async def _ask(account: Mapping[str, str], service: str, call: str, **arguments: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        make: Callable[..., Any] = boto3.Session(region_name=FAST.region).client
        client = make(
            service,
            endpoint_url=account["AWS_ENDPOINT_URL"],
            aws_access_key_id=account["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=account["AWS_SECRET_ACCESS_KEY"],
        )
        try:
            answer: dict[str, Any] = getattr(client, call)(**arguments)
            return answer
        finally:
            client.close()

    thread = NamedExecutor("boto3-test")
    try:
        return await thread.call(ask)
    finally:
        thread.close()


async def test_the_cluster_and_the_caller_are_described(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        account = account_of(tmp_path)
        cluster = (await _ask(account, "eks", "describe_cluster", name=FAST.cluster_name))["cluster"]
        assert (cluster["status"], cluster["endpoint"]) == ("ACTIVE", client.session.server)
        assert cluster["arn"].endswith(f"cluster/{FAST.cluster_name}")
        assert (await _ask(account, "eks", "list_clusters"))["clusters"] == [FAST.cluster_name]
        renamed = (await _ask(account, "eks", "describe_cluster", name="given-by-a-run"))["cluster"]
        assert (renamed["name"], renamed["endpoint"]) == ("given-by-a-run", client.session.server)
        caller = await _ask(account, "sts", "get_caller_identity")
        assert caller["Account"] == FAST.account


async def test_what_is_not_served_is_refused_by_name(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path):
        account = account_of(tmp_path)
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            await _ask(account, "eks", "describe_cluster", name="missing")
        with pytest.raises(ClientError, match="InvalidAction"):
            await _ask(account, "sts", "get_session_token")
        with pytest.raises(ClientError, match="UnknownOperationException"):
            await _ask(account, "fsx", "describe_backups")


async def test_who_has_not_the_accounts_key_is_refused(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path):
        account = {**account_of(tmp_path), "AWS_ACCESS_KEY_ID": "AKIABBBBBBBBBBBBBBBB"}
        for service, call in (("sts", "get_caller_identity"), ("eks", "list_clusters"), ("ec2", "describe_vpcs")):
            with pytest.raises(ClientError) as refused:
                await _ask(account, service, call)
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        with pytest.raises(ClientError, match="UnrecognizedClientException"):
            await _ask(account, "eks", "list_clusters")
