"""S14: the token of a cluster is no more than it has to be, also with the longest credentials."""

from __future__ import annotations

import base64
from urllib.parse import parse_qsl, urlsplit

import pytest

from actions.cloud.aws_session import AwsSession
from actions.cloud.eks import EksCluster, EksToken, kubeconfig_for

LONGEST_TOKEN_BYTES = 4096
"""Source: aws-iam-authenticator's verifier, which refuses longer ones, other parameters, and a parameter twice."""
ALLOWED = {
    "action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-security-token",
    "x-amz-signature", "x-amz-signedheaders",
}  # fmt: skip


async def test_s14_the_longest_token_is_one_that_the_authenticator_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIA" + "A" * 124)  # as long as IAM lets it be
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s" * 40)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "FwoGZXIvYXdz/+=" * 100)
    token = await EksToken("c" * 100, AwsSession(region="ap-southeast-2")).token()
    assert len(token) <= LONGEST_TOKEN_BYTES
    body = token.removeprefix("k8s-aws-v1.")
    parts = urlsplit(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode())
    names = [name.lower() for name, _ in parse_qsl(parts.query)]
    assert (parts.scheme, parts.path) == ("https", "/")
    assert set(names) == ALLOWED
    assert len(names) == len(set(names))


def test_s14_a_kubeconfig_says_how_a_token_is_made_and_holds_none() -> None:
    certificate = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()
    cluster = EksCluster(
        name="bionemo",
        arn="arn:aws:eks:us-west-2:111122223333:cluster/bionemo",
        region="us-west-2",
        endpoint="https://x.eks.amazonaws.com",
        ca=certificate,
        version="1.32",
        status="ACTIVE",
    )
    text = kubeconfig_for(cluster).decode()
    assert "get-token" in text
    assert "k8s-aws-v1" not in text
    assert "token:" not in text
