"""EKS answers about the one cluster of the sandbox."""

from __future__ import annotations

import base64
from typing import Any

from actions.sandbox.options import SandboxOptions

KUBERNETES_VERSION = "1.32"


def list_clusters(options: SandboxOptions) -> dict[str, Any]:
    """`ListClusters`."""
    return {"clusters": [options.cluster_name]}


def is_known(name: str) -> bool:
    """Whether the account has a cluster of that name: its one cluster goes by any that a rehearsal gives it."""
    return not name.startswith("missing")


def describe_cluster(
    options: SandboxOptions, *, name: str, endpoint: str, created_at: float, authority: bytes
) -> dict[str, Any]:
    """`DescribeCluster`.

    Args:
        options: Region and account.
        name: By which it was asked for.
        endpoint: Of the API server, with its scheme.
        created_at: Seconds since the epoch.
        authority: Who signed the endpoint's certificate, in PEM.
    """
    region, account = options.region, options.account
    return {
        "cluster": {
            "name": name,
            "arn": f"arn:aws:eks:{region}:{account}:cluster/{name}",
            "createdAt": created_at,
            "version": KUBERNETES_VERSION,
            "endpoint": endpoint,
            "roleArn": f"arn:aws:iam::{account}:role/{name}-cluster",
            "resourcesVpcConfig": {
                "subnetIds": ["subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"],
                "securityGroupIds": [],
                "clusterSecurityGroupId": "sg-0a1b2c3d4e5f60001",
                "vpcId": "vpc-0a1b2c3d4e5f60001",
                "endpointPublicAccess": True,
                "endpointPrivateAccess": True,
                "publicAccessCidrs": ["127.0.0.1/32"],
            },
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/SANDBOX"}},
            "status": "ACTIVE",
            "certificateAuthority": {"data": base64.b64encode(authority).decode()},
            "platformVersion": "eks.9",
            "tags": {"eksml-sandbox": "true"},
            "health": {"issues": []},
            "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
        }
    }


def no_such_cluster(name: str) -> dict[str, Any]:
    """The `ResourceNotFoundException` for a cluster of another name."""
    return {"message": f"No cluster found for name: {name}.", "clusterName": name}
