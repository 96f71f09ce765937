"""Who am I, what may I: everybody may do everything here."""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.api.codec import Object
from actions.sandbox.api.messages import json_response, read_object
from actions.sandbox.api.target import Target

USER = "arn:aws:sts::111122223333:assumed-role/operator/eksml"
_GROUPS = ["system:masters", "system:authenticated"]


def _answer(kind: str) -> Object:
    if kind == "SelfSubjectReview":
        return {"userInfo": {"username": USER, "groups": _GROUPS}}
    if kind == "SelfSubjectRulesReview":
        rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return {"resourceRules": [rule], "nonResourceRules": [], "incomplete": False}
    return {"allowed": True, "reason": "every user of this cluster is its administrator"}


async def review(request: web.Request, target: Target) -> web.Response:
    """POST of any review: answered and forgotten.

    `kubectl auth` sends protobuf. As every answer is the same, such a question need not be read.
    """
    asked = {} if "protobuf" in request.content_type else await read_object(request)
    head = {"kind": target.resource.kind, "apiVersion": target.resource.api_version, "metadata": {}}
    return json_response({**asked, **head, "status": _answer(target.resource.kind)}, code=201)
