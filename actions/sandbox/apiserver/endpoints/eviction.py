"""Evictions: pods deleted if their disruption budget allows it.

Source: k8s.io/kubernetes `pkg/registry/core/pod/storage/eviction.go`, v1.34.
"""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.apiserver.requests.bodies import json_response, read_object
from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.requests.selectors import label_predicate, label_text
from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.errors import Cause, StatusError, success_status
from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.apiserver.storage.store import Stored
from actions.sandbox.apiserver.writes.options import DeleteOptions, delete_options

_BUDGETS = GroupResource("policy", "poddisruptionbudgets")
_UNGUARDED_PHASES = ("Succeeded", "Failed", "Pending")
_TOO_MANY_REQUESTS = 429


async def serve_eviction(context: ServerContext, request: web.Request, target: RequestTarget) -> web.Response:
    """POST …/pods/NAME/eviction: delete a pod if its disruption budget allows it.

    Raises:
        StatusError: 429, the budget allows none now; 500, the pod has several budgets; 404; 409.
    """
    body = await read_object(request)
    options = delete_options({}, dig(body, "deleteOptions") or {})
    pod = context.writer.find(target.resource, target.namespace, target.name)
    if not options.uid or options.uid == pod.uid:
        _count_against_budget(context, pod, options)
    context.deleter.delete(target.resource, target.namespace, target.name, options)
    return json_response(success_status(), code=201)


def _count_against_budget(context: ServerContext, pod: Stored, options: DeleteOptions) -> None:
    if dig(pod.body, "status", "phase") in _UNGUARDED_PHASES or "deletionTimestamp" in pod.body["metadata"]:
        return
    budgets = [budget for budget in context.store.collection(_BUDGETS).ordered(pod.namespace) if _selects(budget, pod)]
    if not budgets:
        return
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise StatusError(500, "InternalError", text)
    (budget,) = budgets
    status = budget.body.get("status") or {}
    healthy, wanted = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    if not _is_ready(pod) and _lets_unhealthy_go(budget, is_healthy=healthy >= wanted > 0):
        return
    allowed = int(status.get("disruptionsAllowed") or 0)
    if int(status.get("observedGeneration") or 0) < int(budget.body["metadata"].get("generation") or 1):
        raise _refusal(f"The disruption budget {budget.name} is still being processed by the server.")
    if allowed <= 0:
        raise _refusal(f"The disruption budget {budget.name} needs {wanted} healthy pods and has {healthy} currently")
    if not options.is_dry_run:
        context.writer.rewrite(budget, lambda body: {**body, "status": {**status, "disruptionsAllowed": allowed - 1}})


def _refusal(cause: str) -> StatusError:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [Cause("", cause, reason="DisruptionBudget")]
    return StatusError(_TOO_MANY_REQUESTS, "TooManyRequests", text, causes=causes)


def _selects(budget: Stored, pod: Stored) -> bool:
    selector = dig(budget.body, "spec", "selector")
    return selector is not None and label_predicate(label_text(selector))(pod.body)


def _lets_unhealthy_go(budget: Stored, *, is_healthy: bool) -> bool:
    """Return whether a pod that is not ready may go whatever the budget allows; `is_healthy`: it has enough others."""
    return is_healthy or dig(budget.body, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"


def _is_ready(pod: Stored) -> bool:
    conditions: list[Object] = dig(pod.body, "status", "conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
