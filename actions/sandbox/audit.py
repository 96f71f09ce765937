"""The audit log of a sandbox: each request that would change something, as kube-apiserver and CloudTrail note it.

Requests of the sandbox's own controllers are left out. Source: k8s.io/apiserver `audit.k8s.io/v1`, level Metadata; the
name of an object that is created is read from the body, as in `pkg/audit/request.go`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from actions.base.clock import Clock, format_rfc3339
from actions.base.decoding import decode_json
from actions.sandbox.apiserver.requests.request_info import CONTROLLER_AGENT, request_info_of

AUDIT_LOG = "audit.jsonl"
_MOST_BYTES = 16 << 20
_FORM = "application/x-www-form-urlencoded"
_READING = ("Describe", "Get", "List", "BatchGet", "Simulate")
"""Prefixes of the names of AWS actions that change nothing."""


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class AuditLog:
    """The file of a sandbox's audit log. At its limit it begins anew; the one before is kept.

    Args:
        folder: The sandbox's.
        clock: Stamps the lines.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / AUDIT_LOG
        self._clock = clock

    def of_cluster(self) -> Middleware:
        """Return the middleware of the Kubernetes API."""

        @web.middleware
        async def audited(request: web.Request, handler: Handler) -> web.StreamResponse:
            agent = request.headers.get("User-Agent", "")
            if request.method in ("GET", "HEAD", "OPTIONS") or agent.startswith(CONTROLLER_AGENT):
                return await handler(request)
            info = request_info_of(request.method, request.path, request.query)
            event: dict[str, Any] = {"verb": info.verb, "requestURI": request.path_qs, "userAgent": agent}
            if info.is_api:
                name = info.name or (await _named(request) if request.method == "POST" else "")
                event["objectRef"] = {"resource": info.resource, "namespace": info.namespace, "name": name}
            return await self._noted(event, request, handler)

        return audited

    def of_account(self) -> Middleware:
        """Return the middleware of AWS."""

        @web.middleware
        async def audited(request: web.Request, handler: Handler) -> web.StreamResponse:
            action = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
            if request.content_type == _FORM:
                action = str((await request.post()).get("Action", ""))
            if request.method in ("GET", "HEAD") or action.startswith(_READING):
                return await handler(request)
            event = {
                "verb": action or request.method.lower(),
                "requestURI": request.path_qs,
                "userAgent": request.headers.get("User-Agent", ""),
            }
            return await self._noted(event, request, handler)

        return audited

    async def _noted(self, event: dict[str, Any], request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, and write it down with its answer's status; 0 for one that was cut off."""
        received, code = format_rfc3339(self._clock.now()), 0
        try:
            response = await handler(request)
            code = response.status
        except web.HTTPException as error:
            code = error.status
            raise
        finally:
            self._write({**event, "requestReceivedTimestamp": received, "responseStatus": {"code": code}})
        return response

    def _write(self, event: dict[str, Any]) -> None:
        line = msgspec.json.encode(
            {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": "Metadata",
                "stage": "ResponseComplete",
                **event,
            }
        )
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            if self._path.exists() and self._path.stat().st_size > _MOST_BYTES:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
            descriptor = os.open(self._path, flags, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(line + b"\n")
        except OSError:
            return  # a full disk, or a folder that is gone: the sandbox answers all the same


async def _named(request: web.Request) -> str:
    """Return the name in the body of a creation, which is read once for all; empty if it has none."""
    try:
        read = decode_json(await request.read(), _Named)
    except (msgspec.MsgspecError, web.HTTPException, OSError):
        return ""
    return read.metadata.name
