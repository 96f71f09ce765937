"""EKS answers: the one cluster of the sandbox, and its managed node groups.

Source: botocore's service model `eks` (2017-11-01); messages as EKS words them, 2025-04.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from json import JSONDecodeError
from typing import Any

from aiohttp import web

from actions.base.clock import Clock
from actions.fleet.instance_types import InstanceTable
from actions.sandbox.model.account import GroupStatus, NodeGroup, NodeGroups
from actions.sandbox.model.options import SandboxOptions

KUBERNETES_VERSION = "1.32"


def list_clusters(options: SandboxOptions) -> dict[str, Any]:
    """`ListClusters`."""
    return {"clusters": [options.cluster_name]}


def is_known(name: str) -> bool:
    """Return whether the cluster exists: the account's one cluster has any name that does not begin with `missing`."""
    return not name.startswith("missing")


def describe_cluster(
    options: SandboxOptions, *, name: str, endpoint: str, created_at: float, authority: bytes
) -> dict[str, Any]:
    """`DescribeCluster`.

    Args:
        options: Region and account.
        name: The one in the request.
        endpoint: Of the API server, with its scheme.
        created_at: Seconds since the epoch.
        authority: The certificate authority of the endpoint, in PEM.
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


_RELEASE = "1.32.3-20250501"
_NEEDED = ("nodegroupName", "subnets", "nodeRole")
_CAPACITY_TYPES = ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK")
_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")
_DEFAULT_SIZE = {"minSize": 1, "maxSize": 2, "desiredSize": 2}
_DEFAULT_DISK_GIB = 20
_Handler = Callable[[web.Request], Awaitable[web.Response]]


class _EksError(Exception):
    """An error of EKS, with its code and HTTP status."""

    def __init__(self, code: str, status: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def add_node_groups(app: web.Application, groups: NodeGroups, options: SandboxOptions, clock: Clock) -> None:
    """Serve CreateNodegroup, ListNodegroups, DescribeNodegroup and DeleteNodegroup.

    Groups can be made under any cluster's name: the Terraform of a rehearsal makes no cluster, and all that it names
    stand for the one cluster of the sandbox.
    """
    types = InstanceTable.load()

    async def create(request: web.Request) -> web.Response:
        group = _group_of(request.match_info["name"], await _body(request), types, created_at=clock.now().timestamp())
        if groups.get(group.key) is not None:
            message = f"NodeGroup already exists with name {group.name} and cluster name {group.cluster}"
            raise _EksError("ResourceInUseException", 409, message)
        groups.put(group)
        return _described(group, options)

    async def listed(request: web.Request) -> web.Response:
        names = sorted(group.name for group in groups if group.cluster == request.match_info["name"])
        return web.json_response({"nodegroups": names})

    async def described(request: web.Request) -> web.Response:
        return _described(_found(request, groups), options)

    async def delete(request: web.Request) -> web.Response:
        group = _found(request, groups)
        groups.move(group.key, GroupStatus.DELETING)
        return _described(groups.get(group.key) or group, options)

    path = "/clusters/{name}/node-groups"
    app.router.add_post(path, _answering(create))
    app.router.add_get(path, _answering(listed))
    app.router.add_get(f"{path}/{{group}}", _answering(described))
    app.router.add_delete(f"{path}/{{group}}", _answering(delete))


def _answering(handler: _Handler) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except _EksError as error:
            headers = {"x-amzn-ErrorType": error.code}
            return web.json_response({"message": str(error)}, status=error.status, headers=headers)

    return answer


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise _invalid("The request body is not a JSON object.")
    return body


def _found(request: web.Request, groups: NodeGroups) -> NodeGroup:
    group = groups.get(f"{request.match_info['name']}/{request.match_info['group']}")
    if group is None:
        message = f"No node group found for name: {request.match_info['group']}."
        raise _EksError("ResourceNotFoundException", 404, message)
    return group


def _group_of(cluster: str, body: dict[str, Any], types: InstanceTable, *, created_at: float) -> NodeGroup:
    """Return the group that a body describes, defaults filled in."""
    for name in _NEEDED:
        if not body.get(name):
            raise _invalid(f"{name} cannot be empty.")
    asked: dict[str, Any] = {
        "instanceTypes": ["t3.medium"],
        "scalingConfig": _DEFAULT_SIZE,
        "diskSize": _DEFAULT_DISK_GIB,
    } | body
    unknown = [name for name in asked["instanceTypes"] if types.find(name) is None]
    if unknown:
        raise _invalid(f"The following supplied instance types do not exist: [{', '.join(map(str, unknown))}]")
    if asked.get("capacityType", _CAPACITY_TYPES[0]) not in _CAPACITY_TYPES:
        raise _invalid(f"capacityType must be one of {', '.join(_CAPACITY_TYPES)}.")
    _check_size(asked["scalingConfig"])
    for taint in asked.get("taints") or ():
        if not isinstance(taint, dict) or not taint.get("key") or taint.get("effect") not in _EFFECTS:
            raise _invalid(f"A taint needs a key and one of the effects {', '.join(_EFFECTS)}.")
    return NodeGroup(cluster, str(asked["nodegroupName"]), asked, created_at)


def _check_size(size: object) -> None:
    amounts = [size.get(name) for name in _DEFAULT_SIZE] if isinstance(size, dict) else []
    low, high, desired = amounts if len(amounts) == len(_DEFAULT_SIZE) else (None, None, None)
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(desired, int)):
        raise _invalid("scalingConfig needs minSize, maxSize and desiredSize.")
    if not 0 <= low <= desired <= high:
        raise _invalid("desired capacity must lie between the minimum and the maximum size of the node group.")


def _invalid(message: str) -> _EksError:
    return _EksError("InvalidParameterException", 400, message)


def _described(group: NodeGroup, options: SandboxOptions) -> web.Response:
    arn = f"arn:aws:eks:{options.region}:{options.account}:nodegroup/{group.key}/00c0ffee-0000-4000-8000-000000000000"
    answer = {
        "nodegroupName": group.name,
        "nodegroupArn": arn,
        "clusterName": group.cluster,
        "version": KUBERNETES_VERSION,
        "releaseVersion": _RELEASE,
        "createdAt": group.created_at,
        "modifiedAt": group.created_at,
        "status": group.status.value,
        "capacityType": group.capacity_type,
        "scalingConfig": group.asked["scalingConfig"],
        "instanceTypes": group.asked["instanceTypes"],
        "subnets": group.asked["subnets"],
        "amiType": group.asked.get("amiType", "AL2023_x86_64_STANDARD"),
        "nodeRole": group.asked["nodeRole"],
        "labels": group.asked.get("labels") or {},
        "taints": group.asked.get("taints") or [],
        "resources": {"autoScalingGroups": [{"name": f"eks-{group.name}"}]},
        "diskSize": group.asked.get("diskSize"),
        "health": {"issues": [{"code": issue.code, "message": issue.message} for issue in group.issues]},
        "updateConfig": {"maxUnavailable": 1},
        "tags": group.tags,
    }
    return web.json_response({"nodegroup": answer})
