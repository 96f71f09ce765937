"""A server with one object that is changed, and the pods of a node that are evicted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

BUDGET = "The disruption budget web needs 3 healthy pods and has 3 currently"
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


def a_pod(name: str, **more: Any) -> dict[str, Any]:
    owner = {"kind": more.pop("owner", "ReplicaSet"), "name": "x", "controller": True}
    metadata = {"namespace": "work", "name": name, "uid": f"u-{name}", "annotations": more.pop("annotations", {})}
    owners = {"ownerReferences": [owner]} if owner["kind"] else {}
    return {"metadata": metadata | owners, "spec": {"volumes": more.pop("volumes", [])}, "status": more}


@dataclass
class Objects:
    """A server with one object, which changes as often as it is told, and the pods of a node."""

    uid: str = "u1"
    conflicts: int = 0
    has_scale: bool = True
    spec: dict[str, Any] = field(default_factory=lambda: {"replicas": 2})
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    protected: int = 0
    refuses: str = ""
    after_conflict: dict[str, Any] = field(default_factory=dict)
    sent: list[Any] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        if request.path == "/api/v1/pods":
            return web.json_response({"items": list(self.pods.values()), "metadata": {}})
        if request.path.startswith("/api/v1/namespaces/work/pods/"):
            return self._pod(request, body)
        if request.path.endswith("/scale") and not self.has_scale:
            return refused(404, "NotFound")
        if request.method in ("PATCH", "PUT") and self.conflicts:
            self.conflicts -= 1
            self.spec = self.after_conflict or self.spec
            return refused(409, "Conflict")
        if request.method == "PUT" and self.refuses:
            return refused(422, self.refuses)
        if request.method in ("PATCH", "PUT", "DELETE"):
            self.sent.append(body)
        return web.json_response({"metadata": {"uid": self.uid, "resourceVersion": "5"}, "spec": self.spec})

    def _pod(self, request: web.Request, body: Any) -> web.StreamResponse:
        name = request.path.split("/")[6]
        if name not in self.pods:
            return refused(404, "NotFound")
        if request.method == "GET":
            return web.json_response(self.pods[name])
        is_trial = body["deleteOptions"].get("dryRun") == ["All"] == request.query.getall("dryRun", [])
        if not is_trial:
            self.sent.append(body["deleteOptions"]["preconditions"]["uid"])
        if self.protected and name.startswith("protected"):
            self.protected -= not is_trial
            return refused(429, _REFUSAL, cause=BUDGET)
        if not is_trial:
            del self.pods[name]
        return web.json_response({}, status=201)


def refused(code: int, message: str, *, cause: str = "") -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": message, "message": message}
    details = {"details": {"causes": [{"reason": "DisruptionBudget", "message": cause}]}} if cause else {}
    return web.json_response(body | details, status=code)
