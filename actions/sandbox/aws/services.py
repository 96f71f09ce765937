"""ECR, Secrets Manager, Service Quotas, STS and resource tags, and AWS's JSON protocols, which most of them use.

ECR's repositories hold every image, except those whose tag begins with `missing`.

Source: botocore's service models `ecr` (2015-09-21), `secretsmanager` (2017-10-17), `resourcegroupstaggingapi`
(2017-01-26) and `sts` (2011-06-15).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from actions.sandbox.aws.capacity import ApiCallError
from actions.sandbox.aws.ec2 import SecurityGroups
from actions.sandbox.model.account import NodeGroups, has_tag
from actions.sandbox.model.options import SandboxOptions

JsonCall = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Answers the body of a request with the body of the answer."""

CONTENT_TYPE = "application/x-amz-json-1.1"


async def answer_json(request: web.Request, calls: Mapping[str, JsonCall]) -> web.Response:
    """Answer a request by the call that its `X-Amz-Target` names; refuse one that is not among `calls`."""
    target = request.headers.get("X-Amz-Target", "")
    try:
        if target not in calls:
            raise ApiCallError("UnknownOperationException", f"The sandbox does not serve {target}.")
        answer = calls[target](await request.json())
    except ApiCallError as refused:
        body = {"__type": refused.code, "message": str(refused)}
        return web.json_response(body, status=400, headers={"x-amzn-ErrorType": refused.code})
    return web.json_response(answer, content_type=CONTENT_TYPE)


ECR_TARGET = "AmazonEC2ContainerRegistry_V20150921"
_SIZE_BYTES = 21_474_836_480
_MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"

Parameters = Mapping[str, Any]


def ecr_calls(account: str) -> dict[str, Callable[[Parameters], dict[str, Any]]]:
    """The calls that are served, by `X-Amz-Target`."""

    def describe_images(asked: Parameters) -> dict[str, Any]:
        return {"imageDetails": [_detail(account, asked, image) for image in asked.get("imageIds") or ()]}

    def batch_get_image(asked: Parameters) -> dict[str, Any]:
        images, failures = [], []
        for image in asked.get("imageIds") or ():
            try:
                detail = _detail(account, asked, image)
            except ApiCallError as refused:
                failures.append({"imageId": image, "failureCode": "ImageNotFound", "failureReason": str(refused)})
                continue
            found = {"imageDigest": detail["imageDigest"], **image}
            images.append(
                {
                    "registryId": account,
                    "repositoryName": asked["repositoryName"],
                    "imageId": found,
                    "imageManifest": "{}",
                    "imageManifestMediaType": _MEDIA_TYPE,
                }
            )
        return {"images": images, "failures": failures}

    def batch_delete_image(asked: Parameters) -> dict[str, Any]:
        return {"imageIds": list(asked.get("imageIds") or ()), "failures": []}

    def get_authorization_token(_asked: Parameters) -> dict[str, Any]:
        token = base64.b64encode(b"AWS:sandbox").decode()
        endpoint = f"https://{account}.dkr.ecr.us-west-2.amazonaws.com"
        return {"authorizationData": [{"authorizationToken": token, "proxyEndpoint": endpoint}]}

    served = (describe_images, batch_get_image, batch_delete_image, get_authorization_token)
    return {f"{ECR_TARGET}.{_operation(call.__name__)}": call for call in served}


def _detail(account: str, asked: Parameters, image: Mapping[str, str]) -> dict[str, Any]:
    repository, tag = str(asked["repositoryName"]), image.get("imageTag", "")
    if not has_tag(tag):
        where = f"in the repository with name '{repository}' in the registry with id '{account}'"
        message = f"The image with imageId {{imageDigest:'null', imageTag:'{tag}'}} does not exist within {where}"
        raise ApiCallError("ImageNotFoundException", message)
    digest = image.get("imageDigest") or "sha256:" + hashlib.sha256(f"{repository}:{tag}".encode()).hexdigest()
    return {
        "registryId": account,
        "repositoryName": repository,
        "imageDigest": digest,
        "imageTags": [tag] if tag else [],
        "imageSizeInBytes": _SIZE_BYTES,
        "imageManifestMediaType": _MEDIA_TYPE,
    }


def _operation(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


QUOTA_TARGET = "ServiceQuotasV20190624.GetServiceQuota"
"""`X-Amz-Target` of the quota by its code."""

_VALUE = 1152.0


def service_quota(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`GetServiceQuota` for any service and code.

    Source: botocore's service model `service-quotas` (2019-06-24).
    """
    return {
        "Quota": {
            "ServiceCode": str(asked.get("ServiceCode", "")),
            "QuotaCode": str(asked.get("QuotaCode", "")),
            "Value": _VALUE,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
    }


_LUSTRE_STORAGE = {
    "QuotaCode": "L-00000000",
    "QuotaName": "Lustre Persistent 2 file storage capacity",
    "Value": 100800.0,
}
"""The code is made up: AWS documents the name alone."""


def _default_quotas(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`ListAWSDefaultServiceQuotas`: of FSx the one that launches ask for, of other services none; none is changed."""
    service = str(asked.get("ServiceCode", ""))
    return {"Quotas": [{"ServiceCode": service, **_LUSTRE_STORAGE}] if service == "fsx" else []}


def quota_calls() -> dict[str, JsonCall]:
    """The calls of Service Quotas, and that of FSx for what is in use: there are no file systems."""
    return {
        QUOTA_TARGET: service_quota,
        "ServiceQuotasV20190624.ListServiceQuotas": lambda _asked: {"Quotas": []},
        "ServiceQuotasV20190624.ListAWSDefaultServiceQuotas": _default_quotas,
        "AWSSimbaAPIService_v20180301.DescribeFileSystems": lambda _asked: {"FileSystems": []},
    }


SECRETS_MANAGER_TARGET = "secretsmanager.GetSecretValue"

_VALUES = {
    "eksml/hf-token": "hf_sandbox0000000000000000000000000000",
    "eksml/hf-token-refused": "hf_refused0000000000000000000000000000",
    "eksml/ngc-api-key": "sandbox-ngc-key",
}


def secret_value(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`GetSecretValue`."""
    name = str(asked.get("SecretId", ""))
    if name not in _VALUES:
        raise ApiCallError("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
    return {
        "ARN": f"arn:aws:secretsmanager:us-west-2:111122223333:secret:{name}",
        "Name": name,
        "SecretString": _VALUES[name],
    }


_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


def caller_identity(account: str, request_id: str) -> str:
    """Answer `GetCallerIdentity`: every caller is the sandbox's operator."""
    return (
        f'<GetCallerIdentityResponse xmlns="{_NAMESPACE}"><GetCallerIdentityResult>'
        f"<Arn>arn:aws:sts::{account}:assumed-role/eksml-sandbox/operator</Arn>"
        f"<UserId>AROASANDBOX000000000:operator</UserId><Account>{account}</Account></GetCallerIdentityResult>"
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></GetCallerIdentityResponse>"
    )


def sts_refusal(action: str, request_id: str) -> str:
    """The error for an action that the sandbox does not serve."""
    message = escape(f"The sandbox does not serve {action or 'this request'}.")
    return (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>Sender</Type><Code>InvalidAction</Code>'
        f"<Message>{message}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )


TAGGING_TARGET = "ResourceGroupsTaggingAPI_20170126.GetResources"


def tagged_resources(
    asked: Mapping[str, Any],
    groups: NodeGroups,
    rules: SecurityGroups,
    options: SandboxOptions,
    others: Iterable[tuple[str, Mapping[str, str]]] = (),
) -> dict[str, Any]:
    """`GetResources` with any tag filters; all of it on one page. `others` are further ARNs with their tags."""
    filters = [(str(entry["Key"]), entry.get("Values") or []) for entry in asked.get("TagFilters") or ()]
    found = [
        {"ResourceARN": arn, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        for arn, tags in (*_resources(groups, rules, options), *others)
        if all(key in tags and (not values or tags[key] in values) for key, values in filters)
    ]
    return {"PaginationToken": "", "ResourceTagMappingList": found}


def _resources(
    groups: NodeGroups, rules: SecurityGroups, options: SandboxOptions
) -> Iterator[tuple[str, Mapping[str, str]]]:
    place = f"{options.region}:{options.account}"
    for group in groups:
        yield f"arn:aws:eks:{place}:nodegroup/{group.cluster}/{group.name}/sandbox", group.tags
    for rule in rules:
        yield f"arn:aws:ec2:{place}:security-group-rule/{rule.id}", rule.tags
