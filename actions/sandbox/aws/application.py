"""AWS at one address: REST-JSON for EKS, the query protocols of STS and EC2, JSON for others, a refusal for the rest.

Source: botocore's service models `eks` (2017-11-01) and `sts` (2011-06-15); compared by calling it with boto3.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from actions.base.clock import Clock, SystemClock
from actions.cluster.auth.session import KubeSession
from actions.sandbox.aws import ec2
from actions.sandbox.aws.capacity import SIGNED_REGION, AccountCapacity
from actions.sandbox.aws.eks import add_node_groups, describe_cluster, is_known, list_clusters, no_such_cluster
from actions.sandbox.aws.permissions import RolePolicies
from actions.sandbox.aws.remains import IAM_VERSION, Remains
from actions.sandbox.aws.services import (
    SECRETS_MANAGER_TARGET,
    TAGGING_TARGET,
    JsonCall,
    answer_json,
    caller_identity,
    ecr_calls,
    quota_calls,
    secret_value,
    sts_refusal,
    tagged_resources,
)
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.keys import AccessKey
from actions.sandbox.model.options import SandboxOptions

_UNKNOWN_KEY = "UnrecognizedClientException"
_REFUSED = "The security token included in the request is invalid."
_FORM = "application/x-www-form-urlencoded"
"""The content type of the query protocols, which answer in XML."""


def create_aws_app(
    session: KubeSession,
    options: SandboxOptions,
    clock: Clock | None = None,
    *,
    key: AccessKey,
    authority: bytes,
    groups: NodeGroups | None = None,
) -> web.Application:
    """The application, to be mounted where `AWS_ENDPOINT_URL` points.

    Args:
        session: With the cluster that the account holds; its address is the cluster's endpoint.
        options: Names of cluster, region and account.
        clock: The cluster is as old as the application.
        key: The one that requests have to be signed with.
        authority: Who signed the endpoint's certificate, in PEM.
        groups: The account's node groups.
    """
    time = clock or SystemClock()
    created_at = time.now().timestamp()
    node_groups = groups if groups is not None else NodeGroups.of(options, time)
    query = _queries(node_groups, options, time)

    async def clusters(_request: web.Request) -> web.Response:
        return web.json_response(list_clusters(options))

    async def cluster(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if not is_known(name):
            answer = no_such_cluster(name)
            return web.json_response(answer, status=404, headers={"x-amzn-ErrorType": "ResourceNotFoundException"})
        answer = describe_cluster(
            options, name=name, endpoint=session.server, authority=authority, created_at=created_at
        )
        return web.json_response(answer)

    async def unknown(request: web.Request) -> web.Response:
        answer = {"__type": "UnknownOperationException", "message": f"The sandbox does not serve {request.path}."}
        return web.json_response(answer, status=400, headers={"x-amzn-ErrorType": "UnknownOperationException"})

    app = web.Application(middlewares=[_signed_with(key)])
    app.router.add_get("/clusters", clusters)
    app.router.add_get("/clusters/{name}", cluster)
    add_node_groups(app, node_groups, options, time)
    app.router.add_post("", query)
    app.router.add_post("/", query)
    app.router.add_route("*", "/{path:.*}", unknown)
    return app


def _signed_with(key: AccessKey) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if key.has_signed(request.headers.get("Authorization", "")):
            return await handler(request)
        if request.content_type == _FORM:
            error = f"<Error><Code>InvalidClientTokenId</Code><Message>{_REFUSED}</Message></Error>"
            text = f"<Response><Errors>{error}</Errors><RequestID>{_request_id()}</RequestID></Response>"
            return web.Response(text=text, status=403, content_type="text/xml")
        answer = {"__type": _UNKNOWN_KEY, "message": _REFUSED}
        return web.json_response(answer, status=403, headers={"x-amzn-ErrorType": _UNKNOWN_KEY})

    return check


def _queries(
    node_groups: NodeGroups, options: SandboxOptions, clock: Clock
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Make the handler of the root path: the query protocols, and the JSON protocols that share it."""
    remains = Remains(options, clock, RolePolicies())
    rules = ec2.SecurityGroups({**remains.ec2_calls(), **AccountCapacity(node_groups, clock).calls()})
    json_calls: dict[str, JsonCall] = {
        **quota_calls(),
        SECRETS_MANAGER_TARGET: secret_value,
        TAGGING_TARGET: lambda asked: tagged_resources(asked, node_groups, rules, options, remains.tagged()),
        **ecr_calls(options.account),
        **remains.json_calls(),
    }

    async def query(request: web.Request) -> web.Response:
        if "X-Amz-Target" in request.headers:
            return await answer_json(request, json_calls)
        form = {key: str(value) for key, value in (await request.post()).items()}
        action, request_id = form.get("Action", ""), _request_id()
        if form.get("Version") == ec2.VERSION:
            scope = request.headers.get("Authorization", "").partition("Credential=")[2].split("/")
            status, text = rules.answer({**form, SIGNED_REGION: scope[2]}, request_id)
            return web.Response(text=text, status=status, content_type="text/xml")
        if form.get("Version") == IAM_VERSION:
            status, text = remains.iam_answer(form, request_id)
            return web.Response(text=text, status=status, content_type="text/xml")
        if action == "GetCallerIdentity":
            return web.Response(text=caller_identity(options.account, request_id), content_type="text/xml")
        return web.Response(text=sts_refusal(action, request_id), status=400, content_type="text/xml")

    return query


def _request_id() -> str:
    digits = secrets.token_hex(16)
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
