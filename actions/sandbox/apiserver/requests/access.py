"""Authentication by token, authorization by RBAC, and the reviews by which a client queries its rights.

Every request needs a token, except those for the server's health and version. A token of EKS is an administrator's if
it has been made with the account's access key. An administrator may impersonate, as `kubectl --as` does.

Source: k8s.io/kubernetes `plugin/pkg/auth/authorizer/rbac`; its role `system:public-info-viewer`, and `anonymous` of
AuthenticationConfiguration, which admits requests without a token to some paths alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping

import msgspec
from aiohttp import web

from actions.sandbox.apiserver.requests.bodies import json_response, read_object
from actions.sandbox.apiserver.requests.request_info import RequestInfo, RequestTarget, request_info_of
from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.errors import StatusError
from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.apiserver.storage.store import Store
from actions.sandbox.model.keys import AccessKey

_GROUP = "rbac.authorization.k8s.io"
_AUTHENTICATED, _MASTERS = "system:authenticated", "system:masters"
_WRITING = frozenset({"exec", "attach", "portforward", "eviction", "binding"})
_PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_SELF_REVIEWS = frozenset({"selfsubjectaccessreviews", "selfsubjectreviews"})


class User(msgspec.Struct, frozen=True):
    """The user of a request: an account, or the one that it impersonates."""

    name: str
    groups: tuple[str, ...] = (_AUTHENTICATED,)

    @property
    def is_administrator(self) -> bool:
        """Return whether every request is allowed to them."""
        return _MASTERS in self.groups


ADMINISTRATOR = User("arn:aws:sts::111122223333:assumed-role/operator/eksml", (_MASTERS, _AUTHENTICATED))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class AccessControl:
    """The users by their tokens, and their rights by the roles in the store.

    Args:
        store: With the roles and bindings.
        tokens: Token → user.
        access_key: That tokens of EKS are made with; without one none is taken.
    """

    def __init__(self, store: Store, tokens: Mapping[str, User], access_key: AccessKey | None = None) -> None:
        self._store = store
        self._users = [(token.encode(), user) for token, user in tokens.items()]
        self._access_key = access_key

    def identify(self, request: web.Request) -> User:
        """Return the user of a request.

        Raises:
            StatusError: 401, there is no token, or it is none of ours; 403, they may not impersonate.
        """
        header = request.headers.get("Authorization", "")
        if not header and request.path.rstrip("/") in _PUBLIC:
            return ANONYMOUS
        user = self._authenticated(header)
        name = request.headers.get("Impersonate-User", "")
        if not name:
            return user
        if not user.is_administrator:
            raise rbac_forbidden(RequestInfo("", "impersonate", "users", name=name), user.name)
        return User(name, (*request.headers.getall("Impersonate-Group", []), _AUTHENTICATED))

    def _authenticated(self, header: str) -> User:
        kind, _, token = header.partition(" ")
        given = token.strip() if kind.lower() == "bearer" else ""
        if given and self._access_key is not None and self._access_key.has_made(given):
            return ADMINISTRATOR
        for known, user in self._users:
            if hmac.compare_digest(known, given.encode()):
                return user
        raise StatusError(401, "Unauthorized", "Unauthorized")

    def check(self, request: web.Request) -> None:
        """Let a request pass, or refuse it.

        Raises:
            StatusError: 401 or 403.
        """
        user = self.identify(request)
        info = request_info_of(request.method, request.path, request.query)
        if not user.is_administrator and info.resource and not self.allows(user, info):
            raise rbac_forbidden(info, user.name)

    def allows(self, user: User, info: RequestInfo) -> bool:
        """Return whether some rule grants the request."""
        if user.is_administrator or (info.resource in _SELF_REVIEWS and info.verb == "create"):
            return True
        return any(_covers(rule, info) for rule in self.rules(user, info.namespace))

    def rules(self, user: User, namespace: str) -> Iterator[Object]:
        """Yield the rules that bind a user in a namespace; only those for the whole cluster if it is empty."""
        for binding in self._bodies("clusterrolebindings"):
            if _is_bound(binding, user):
                yield from self._rules_of(binding["roleRef"], "")
        for binding in self._bodies("rolebindings", namespace) if namespace else ():
            if _is_bound(binding, user):
                yield from self._rules_of(binding["roleRef"], namespace)

    def _rules_of(self, reference: Object, namespace: str) -> list[Object]:
        is_local = reference.get("kind") == "Role"
        key = GroupResource(_GROUP, "roles" if is_local else "clusterroles")
        role = self._store.get(key, namespace if is_local else "", reference.get("name", ""))
        return list((role.body.get("rules") if role is not None else None) or ())

    def _bodies(self, plural: str, namespace: str = "") -> Iterator[Object]:
        return (stored.body for stored in self._store.collection(GroupResource(_GROUP, plural)).ordered(namespace))


def rbac_forbidden(info: RequestInfo, user: str) -> StatusError:
    """Return the 403 of RBAC, in its words."""
    what = f"{info.resource}.{info.group}" if info.group else info.resource
    named = f'{what} "{info.name}"' if info.name else what
    where = f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
    message = (
        f'{named} is forbidden: User "{user}" cannot {rbac_verb(info)} resource "{_resource(info)}" '
        f'in API group "{info.group}"{where}'
    )
    details = {"name": info.name, "group": info.group, "kind": info.resource}
    return StatusError(403, "Forbidden", message, details={name: value for name, value in details.items() if value})


def rbac_verb(info: RequestInfo) -> str:
    """Return the verb of a request in RBAC: reading a log is `get`, starting a program `create`."""
    if info.verb == "log":
        return "get"
    return "create" if info.verb in _WRITING else info.verb


def _resource(info: RequestInfo) -> str:
    return info.resource + (f"/{info.subresource}" if info.subresource else "")


def _covers(rule: Object, info: RequestInfo) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _is_in(rbac_verb(info), rule.get("verbs"))
        and _is_in(info.group, rule.get("apiGroups"))
        and (_is_in(_resource(info), rule.get("resources")))
        and (not names or info.name in names)
    )


def _is_in(word: str, allowed: list[str] | None) -> bool:
    return word in (allowed or ()) or "*" in (allowed or ())


def _is_bound(binding: Object, user: User) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "ServiceAccount":
            kind, name = "User", f"system:serviceaccount:{subject.get('namespace', '')}:{name}"
        if (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups):
            return True
    return False


async def serve_review(access: AccessControl, request: web.Request, target: RequestTarget) -> web.Response:
    """POST of any review.

    Raises:
        StatusError: 400 or 415, its body cannot be read.
    """
    asked = await read_object(request)
    user = access.identify(request)
    head = {"kind": target.resource.kind, "apiVersion": target.resource.api_version, "metadata": {}}
    return json_response({**asked, **head, "status": _answer(access, user, target.resource.kind, asked)}, code=201)


def _answer(access: AccessControl, user: User, kind: str, asked: Object) -> Object:
    spec = asked.get("spec") or {}
    if kind == "SelfSubjectReview":
        return {"userInfo": {"username": user.name, "groups": list(user.groups)}}
    return {"allowed": access.allows(user, _question(spec))}


def _question(spec: Object) -> RequestInfo:
    def word(name: str) -> str:
        return str(dig(spec, "resourceAttributes", name) or "")

    return RequestInfo(
        "", word("verb"), word("resource"), word("namespace"), word("name"), word("subresource"), word("group")
    )
