"""Write requests: from HTTP to the write path and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from actions.sandbox.api.codec import Object
from actions.sandbox.api.lists import list_objects
from actions.sandbox.api.messages import json_response, parse_body, raw_json, read_object, read_optional_object
from actions.sandbox.api.options import WriteOptions, delete_options
from actions.sandbox.api.patch import json_patch, merge_patch
from actions.sandbox.api.services import Services
from actions.sandbox.api.shapes import shape_of
from actions.sandbox.api.status import bad_request, success, unsupported_media
from actions.sandbox.api.strategic import strategic_patch
from actions.sandbox.api.target import Target
from actions.sandbox.api.view import View

_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
PATCH_TYPES = (_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY)


def write_options(request: web.Request, target: Target) -> WriteOptions:
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


async def create(services: Services, request: web.Request, target: Target, view: View) -> web.Response:
    """POST to a collection."""
    options = write_options(request, target)
    body = await read_object(request)
    stored = services.writer.create(target.resource, target.namespace, body, options)
    return raw_json(view.one(stored), code=201, warnings=options.warnings)


async def replace(services: Services, request: web.Request, target: Target, view: View) -> web.Response:
    """PUT of an object or its status."""
    options = write_options(request, target)
    body = await read_object(request)
    stored = services.writer.replace(target.resource, target.namespace, target.name, body, options)
    return raw_json(view.one(stored), warnings=options.warnings)


async def patch(services: Services, request: web.Request, target: Target, view: View) -> web.Response:
    """PATCH of an object or its status, in any of the four ways."""
    options = write_options(request, target)
    change = parse_body(await request.read(), request.content_type)
    place = (target.resource, target.namespace, target.name)
    if request.content_type == _APPLY:
        if not request.query.get("fieldManager"):
            why = "fieldManager: Required value: is required for apply patch"
            raise bad_request(f"PatchOptions.meta.k8s.io is invalid: {why}")
        stored, is_new = services.writer.apply(*place, change, options)
        return raw_json(view.one(stored), code=201 if is_new else 200, warnings=options.warnings)
    stored = services.writer.change(*place, _edit_of(target, request.content_type, change), options)
    return raw_json(view.one(stored), warnings=options.warnings)


def _edit_of(target: Target, content_type: str, change: Any) -> Callable[[Object], Object]:
    if content_type == _JSON_PATCH:
        return lambda body: json_patch(body, change)
    if not isinstance(change, dict):
        raise bad_request("the patch is no object")
    if content_type == _MERGE:
        return lambda body: merge_patch(body, change)
    if content_type == _STRATEGIC and not target.resource.is_custom:
        return lambda body: strategic_patch(body, change, shape_of(target.resource))
    accepted = [one for one in PATCH_TYPES if one != _STRATEGIC or not target.resource.is_custom]
    raise unsupported_media(content_type, accepted)


async def delete(services: Services, request: web.Request, target: Target, view: View) -> web.Response:
    """DELETE of one object."""
    options = delete_options(request.query, await read_optional_object(request))
    stored, is_gone = services.deleter.delete(target.resource, target.namespace, target.name, options)
    if not is_gone or target.resource.key == ("", "pods"):
        return raw_json(view.one(stored))
    details = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural, "uid": stored.uid}
    return json_response(success(details={name: value for name, value in details.items() if value}))


async def delete_collection(services: Services, request: web.Request, target: Target, view: View) -> web.Response:
    """DELETE of all selected objects of a collection."""
    options = delete_options(request.query, await read_optional_object(request))
    selectors = _selectors(request.query)
    found, metadata = list_objects(services.store, target, selectors)
    for stored in found:
        services.deleter.delete(target.resource, stored.namespace, stored.name, options)
    return raw_json(view.many(found, metadata))


def _selectors(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query.get(name, "") for name in ("labelSelector", "fieldSelector")}
