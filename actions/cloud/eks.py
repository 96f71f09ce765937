"""EKS clusters: where they answer, and the kubeconfig that reaches them."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec
import yaml

from actions.base.errors import FormatError, UnreachableError
from actions.base.untrusted import one_line
from actions.cloud.session import AwsSession


class EksCluster(msgspec.Struct, frozen=True):
    """One cluster as EKS describes it."""

    name: str
    region: str
    arn: str
    status: str
    """CREATING, ACTIVE, DELETING, FAILED, UPDATING or PENDING."""
    version: str
    endpoint: str
    """URL of the API server; empty while the cluster is being made."""
    ca: str
    """Certificate of its authority, PEM in base64; empty where there is none."""


async def describe_cluster(session: AwsSession, name: str, *, region: str = "") -> EksCluster:
    """Ask EKS about a cluster.

    Args:
        session: Whose credentials.
        name: Of the cluster.
        region: Instead of the session's.

    Raises:
        MissingError: There is no such cluster in the region.
        AccessError, UnreachableError, RefusedError, ConfigError: As `AwsSession.call`.
        FormatError: The certificate is not base64.
    """
    answer = await session.call("eks", "describe_cluster", region=region, name=name)
    return _cluster_of(answer.get("cluster") or {}, region or await session.region())


def kubeconfig_for(cluster: EksCluster, *, profile: str = "") -> bytes:
    """A kubeconfig with one context, named like the cluster, for kubectl too: its token comes from `aws eks get-token`.

    Args:
        cluster: With an endpoint.
        profile: Handed to that command as AWS_PROFILE; empty to leave it to the environment.

    Raises:
        UnreachableError: The cluster has no endpoint yet.

    Source: `aws eks update-kubeconfig`, AWS CLI 2.
    """
    if not cluster.endpoint:
        raise UnreachableError(
            f"The cluster {cluster.name} is {cluster.status or 'not ready'} and has no endpoint yet.",
            hint="Wait until it is ACTIVE.",
        )
    server: dict[str, str] = {"server": cluster.endpoint}
    if cluster.ca and cluster.endpoint.startswith("https://"):
        server["certificate-authority-data"] = cluster.ca
    user = cluster.arn or cluster.name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": user, "cluster": server}],
        "contexts": [{"name": cluster.name, "context": {"cluster": user, "user": user}}],
        "current-context": cluster.name,
        "preferences": {},
        "users": [{"name": user, "user": {"exec": _exec_of(cluster, profile)}}],
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _exec_of(cluster: EksCluster, profile: str) -> dict[str, object]:
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": [
            *("--region", cluster.region),
            *("eks", "get-token"),
            *("--cluster-name", cluster.name),
            *("--output", "json"),
        ],
        "env": [{"name": "AWS_PROFILE", "value": profile}] if profile else None,
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }


def _cluster_of(found: dict[str, Any], region: str) -> EksCluster:
    ca = str((found.get("certificateAuthority") or {}).get("data") or "")
    try:
        base64.b64decode(ca, validate=True)
    except binascii.Error as error:
        raise FormatError(f"EKS gave a certificate for {found.get('name')} that is not base64.") from error
    return EksCluster(
        name=one_line(str(found.get("name") or "")),
        region=region,
        arn=one_line(str(found.get("arn") or "")),
        status=one_line(str(found.get("status") or "")),
        version=one_line(str(found.get("version") or "")),
        endpoint=one_line(str(found.get("endpoint") or "")),
        ca=ca,
    )
