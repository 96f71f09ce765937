"""Requests that change objects: create, replace, patch, delete, bind and scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from actions.sandbox.apiserver.endpoints.list_watch import list_objects
from actions.sandbox.apiserver.printing.view import View
from actions.sandbox.apiserver.requests.bodies import (
    json_response,
    parse_body,
    raw_json,
    read_object,
    read_optional_object,
)
from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.requests.selectors import label_text
from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.errors import bad_request, conflict, success_status, unsupported_media_type
from actions.sandbox.apiserver.storage.store import Stored
from actions.sandbox.apiserver.writes.merge_keys import merge_schema_of
from actions.sandbox.apiserver.writes.options import WriteOptions, delete_options
from actions.sandbox.apiserver.writes.patches import json_patch, merge_patch, strategic_patch

_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
PATCH_TYPES = (_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY)


def write_options(request: web.Request, target: RequestTarget) -> WriteOptions:
    """The options of a write request; the manager falls back to the first word of the user agent."""
    query = request.query
    agent = request.headers.get("User-Agent", "unknown").partition("/")[0].partition(" ")[0]
    return WriteOptions(
        manager=query.get("fieldManager") or agent,
        subresource=target.subresource,
        is_dry_run="All" in query.getall("dryRun", []),
        strictness=query.get("fieldValidation") or "Warn",
        force=query.get("force") in ("true", "1"),
    )


async def serve_create(context: ServerContext, request: web.Request, target: RequestTarget, view: View) -> web.Response:
    """POST to a collection."""
    options = write_options(request, target)
    body = await read_object(request)
    stored = context.writer.create(target.resource, target.namespace, body, options)
    return raw_json(view.one(stored), code=201, warnings=options.warnings)


async def serve_replace(
    context: ServerContext, request: web.Request, target: RequestTarget, view: View
) -> web.Response:
    """PUT of an object or its status."""
    options = write_options(request, target)
    body = await read_object(request)
    stored = context.writer.replace(target.resource, target.namespace, target.name, body, options)
    return raw_json(view.one(stored), warnings=options.warnings)


async def serve_patch(context: ServerContext, request: web.Request, target: RequestTarget, view: View) -> web.Response:
    """PATCH of an object or its status, in any of the four ways."""
    options = write_options(request, target)
    change = parse_body(await request.read(), request.content_type)
    place = (target.resource, target.namespace, target.name)
    if request.content_type == _APPLY:
        if not request.query.get("fieldManager"):
            why = "fieldManager: Required value: is required for apply patch"
            raise bad_request(f"PatchOptions.meta.k8s.io is invalid: {why}")
        stored, is_new = context.writer.apply(*place, change, options)
        return raw_json(view.one(stored), code=201 if is_new else 200, warnings=options.warnings)
    stored = context.writer.change(*place, _edit_of(target, request.content_type, change), options)
    return raw_json(view.one(stored), warnings=options.warnings)


def _edit_of(target: RequestTarget, content_type: str, change: Any) -> Callable[[Object], Object]:
    if content_type == _JSON_PATCH:
        return lambda body: json_patch(body, change)
    if not isinstance(change, dict):
        raise bad_request("the patch is not an object")
    if content_type == _MERGE:
        return lambda body: merge_patch(body, change)
    if content_type == _STRATEGIC and not target.resource.is_custom:
        return lambda body: strategic_patch(body, change, merge_schema_of(target.resource))
    accepted = [one for one in PATCH_TYPES if one != _STRATEGIC or not target.resource.is_custom]
    raise unsupported_media_type(content_type, accepted)


async def serve_delete(context: ServerContext, request: web.Request, target: RequestTarget, view: View) -> web.Response:
    """DELETE of one object."""
    options = delete_options(request.query, await read_optional_object(request))
    stored, is_gone = context.deleter.delete(target.resource, target.namespace, target.name, options)
    if not is_gone or target.resource.key == ("", "pods"):
        return raw_json(view.one(stored))
    details = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural, "uid": stored.uid}
    return json_response(success_status(details={name: value for name, value in details.items() if value}))


async def serve_delete_collection(
    context: ServerContext, request: web.Request, target: RequestTarget, view: View
) -> web.Response:
    """DELETE of all selected objects of a collection."""
    options = delete_options(request.query, await read_optional_object(request))
    selectors = _selectors(request.query)
    found, metadata = list_objects(context.store, target, selectors)
    for stored in found:
        context.deleter.delete(target.resource, stored.namespace, stored.name, options)
    return raw_json(view.many(found, metadata))


def _selectors(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query.get(name, "") for name in ("labelSelector", "fieldSelector")}


async def serve_binding(context: ServerContext, request: web.Request, target: RequestTarget) -> web.Response:
    """POST …/pods/NAME/binding: give a pod to a node."""
    node = dig(await read_object(request), "target", "name")
    if not isinstance(node, str) or not node:
        raise bad_request("target.name: Required value")
    pod = context.writer.find(target.resource, target.namespace, target.name)
    bound = dig(pod.body, "spec", "nodeName")
    if bound:
        raise conflict(target.resource, target.name, f'pod {target.name} is already assigned to node "{bound}"')
    now = context.writer.now()

    def assign(body: Object) -> Object:
        body["spec"]["nodeName"] = node
        conditions = body.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [one for one in conditions if one.get("type") != "PodScheduled"]
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now, "lastProbeTime": None})
        return body

    context.writer.rewrite(pod, assign)
    return json_response(success_status(), code=201)


async def serve_scale(context: ServerContext, request: web.Request, target: RequestTarget) -> web.Response:
    """GET, PUT and PATCH of `…/scale`: how many replicas."""
    stored = context.writer.find(target.resource, target.namespace, target.name)
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

    whole = RequestTarget(target.resource, target.namespace, target.name)
    options = write_options(request, whole)
    return json_response(
        _scale_of(context.writer.change(target.resource, target.namespace, target.name, resize, options))
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
