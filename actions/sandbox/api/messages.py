"""Bodies of requests and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from actions.base.errors import InputError
from actions.base.yamldoc import load_document
from actions.sandbox.api.codec import Object, decode, encode
from actions.sandbox.api.protobuf import decode_object
from actions.sandbox.api.status import ApiFault, bad_request, unsupported_media

JSON = "application/json"
YAML = "application/yaml"


def raw_json(body: bytes, *, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """A response whose body is JSON already."""
    response = web.Response(body=body, status=code, content_type=JSON)
    for text in warnings:
        response.headers.add("Warning", f'299 - "{text.replace(chr(34), chr(92) + chr(34))}"')
    return response


def json_response(body: Object, *, code: int = 200) -> web.Response:
    """A response with a small JSON body."""
    return raw_json(encode(body), code=code)


def fault_response(fault: ApiFault) -> web.Response:
    """The response that a refusal becomes."""
    response = json_response(fault.body(), code=fault.code)
    if fault.retry_after_seconds:
        response.headers["Retry-After"] = str(fault.retry_after_seconds)
    return response


def parse_body(data: bytes, content_type: str) -> Any:
    """Decode a body: JSON, or YAML or protobuf where the type says so.

    Raises:
        ApiFault: 400, it is neither; 415, its type is none that is read here.
    """
    if "protobuf" in content_type:
        return decode_object(data)
    if "cbor" in content_type:
        raise unsupported_media(content_type, [JSON, YAML])
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        if "yaml" not in content_type:
            raise bad_request(f"the request's body is no JSON: {error}") from error
    try:
        return load_document(data, file="body").value
    except InputError as error:
        raise bad_request(f"the request's body is no YAML: {error.message}") from error


async def read_object(request: web.Request) -> Object:
    """The body of a request, which has to be a map.

    Raises:
        ApiFault: 400 or 415.
    """
    body = parse_body(await request.read(), request.content_type)
    if not isinstance(body, dict):
        raise bad_request("the request's body is no object")
    return body


async def read_optional_object(request: web.Request) -> Object:
    """The body of a request that may come without one."""
    return await read_object(request) if await request.read() else {}
