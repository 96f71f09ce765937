"""Subresources that are verbs in disguise: binding, eviction, scale."""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.api.changing import PATCH_TYPES, write_options
from actions.sandbox.api.codec import Object, dig
from actions.sandbox.api.messages import json_response, parse_body, read_object
from actions.sandbox.api.options import DeleteOptions
from actions.sandbox.api.patch import json_patch, merge_patch
from actions.sandbox.api.selectors import label_text
from actions.sandbox.api.services import Services
from actions.sandbox.api.status import bad_request, conflict, success
from actions.sandbox.api.store import Stored
from actions.sandbox.api.target import Target


async def bind(services: Services, request: web.Request, target: Target) -> web.Response:
    """POST …/pods/NAME/binding: give a pod to a node."""
    node = dig(await read_object(request), "target", "name")
    if not isinstance(node, str) or not node:
        raise bad_request("target.name: Required value")
    pod = services.writer.find(target.resource, target.namespace, target.name)
    bound = dig(pod.body, "spec", "nodeName")
    if bound:
        raise conflict(target.resource, target.name, f'pod {target.name} is already assigned to node "{bound}"')
    now = services.writer.now()

    def assign(body: Object) -> Object:
        body["spec"]["nodeName"] = node
        conditions = body.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [one for one in conditions if one.get("type") != "PodScheduled"]
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now, "lastProbeTime": None})
        return body

    services.writer.rewrite(pod, assign)
    return json_response(success(), code=201)


async def evict(services: Services, request: web.Request, target: Target) -> web.Response:
    """POST …/pods/NAME/eviction: delete a pod, politely."""
    body = await read_object(request)
    grace = dig(body, "deleteOptions", "gracePeriodSeconds")
    options = DeleteOptions(grace_seconds=grace if isinstance(grace, int) else None)
    services.deleter.delete(target.resource, target.namespace, target.name, options)
    return json_response(success(), code=201)


async def scale(services: Services, request: web.Request, target: Target) -> web.Response:
    """GET, PUT and PATCH of `…/scale`: how many replicas."""
    stored = services.writer.find(target.resource, target.namespace, target.name)
    if request.method == "GET":
        return json_response(_scale_of(stored))
    change = parse_body(await request.read(), request.content_type)
    wanted = _patched(_scale_of(stored), request, change)
    replicas = dig(wanted, "spec", "replicas")
    if not isinstance(replicas, int) or replicas < 0:
        raise bad_request("spec.replicas: Invalid value: must be greater than or equal to 0")

    def resize(body: Object) -> Object:
        body["spec"]["replicas"] = replicas
        return body

    whole = Target(target.resource, target.namespace, target.name)
    options = write_options(request, whole)
    return json_response(
        _scale_of(services.writer.change(target.resource, target.namespace, target.name, resize, options))
    )


def _patched(current: Object, request: web.Request, change: object) -> Object:
    if request.method == "PUT" and isinstance(change, dict):
        return change
    if request.content_type == PATCH_TYPES[0]:
        return json_patch(current, change)
    merged: Object = merge_patch(current, change)
    return merged


def _scale_of(stored: Stored) -> Object:
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: value for name, value in stored.body["metadata"].items() if name in kept}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": dig(stored.body, "spec", "replicas") or 0},
        "status": {
            "replicas": dig(stored.body, "status", "replicas") or 0,
            "selector": label_text(dig(stored.body, "spec", "selector") or {}),
        },
    }
