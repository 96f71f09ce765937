"""Who am I, what may I: reviews are answered and forgotten."""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.api.access import Access, User
from actions.sandbox.api.codec import Object, dig
from actions.sandbox.api.messages import json_response, read_object
from actions.sandbox.api.question import Question
from actions.sandbox.api.target import Target

_EVERYTHING: Object = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


async def review(access: Access, request: web.Request, target: Target) -> web.Response:
    """POST of any review.

    Raises:
        ApiFault: 400 or 415, its body cannot be read.
    """
    asked = await read_object(request)
    user = access.identify(request)
    head = {"kind": target.resource.kind, "apiVersion": target.resource.api_version, "metadata": {}}
    return json_response({**asked, **head, "status": _answer(access, user, target.resource.kind, asked)}, code=201)


def _answer(access: Access, user: User, kind: str, asked: Object) -> Object:
    spec = asked.get("spec") or {}
    match kind:
        case "SelfSubjectReview":
            return {"userInfo": {"username": user.name, "groups": list(user.groups)}}
        case "SelfSubjectRulesReview":
            rules = [_EVERYTHING] if user.is_administrator else list(access.rules(user, spec.get("namespace", "")))
            return {"resourceRules": rules, "nonResourceRules": [], "incomplete": False}
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            user = User(spec.get("user", ""), (*(spec.get("groups") or ()), "system:authenticated"))
    return {"allowed": access.allows(user, _question(spec))}


def _question(spec: Object) -> Question:
    def word(name: str) -> str:
        return str(dig(spec, "resourceAttributes", name) or "")

    return Question(
        "", word("verb"), word("resource"), word("namespace"), word("name"), word("subresource"), word("group")
    )
