"""The user of a bearer token of EKS: the webhook that EKS gives its API servers, for one operator."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from aiohttp import web

_PREFIX = "k8s-aws-v1."
_OPERATOR = {"username": "arn:aws:sts::111122223333:assumed-role/eksml/operator", "groups": ["system:masters"]}


@asynccontextmanager
async def authenticating(path: Path) -> AsyncIterator[Path]:
    """Answer TokenReviews until the context is left.

    Args:
        path: Where the kubeconfig is written by which the API server finds it.
    """

    async def review(request: web.Request) -> web.Response:
        asked = await request.json()
        return web.json_response(asked | {"status": status_of(str(asked["spec"].get("token", "")))})

    app = web.Application()
    app.router.add_post("/", review)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        cluster = {"name": "webhook", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}/"}}
        context = {"name": "webhook", "context": {"cluster": "webhook", "user": "api-server"}}
        config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        config |= {"users": [{"name": "api-server", "user": {}}], "current-context": "webhook"}
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        yield path
    finally:
        await runner.cleanup()


def status_of(token: str) -> dict[str, Any]:
    """The review's answer: a presigned GetCallerIdentity, bound to a cluster, is the operator's."""
    body = token.removeprefix(_PREFIX)
    try:
        url = urlsplit(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode())
    except ValueError:  # not base64, or not text behind it
        return {"authenticated": False, "error": "not a token of EKS"}
    query = parse_qs(url.query)
    is_signed = "x-k8s-aws-id" in query.get("X-Amz-SignedHeaders", [""])[0]
    if not token.startswith(_PREFIX) or query.get("Action") != ["GetCallerIdentity"] or not is_signed:
        return {"authenticated": False, "error": "not a token of EKS"}
    return {"authenticated": True, "user": _OPERATOR}
