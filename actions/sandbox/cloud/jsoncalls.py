"""AWS's JSON protocols: which call a request is, and how it is answered or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

JsonCall = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Answers the body of a request with the body of the answer."""

CONTENT_TYPE = "application/x-amz-json-1.1"


class JsonRefusalError(Exception):
    """The call is answered with an error: a code of the service and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def answer_json(request: web.Request, calls: Mapping[str, JsonCall]) -> web.Response:
    """Answer a request by the call that its `X-Amz-Target` names; refuse one that is not among `calls`."""
    target = request.headers.get("X-Amz-Target", "")
    try:
        if target not in calls:
            raise JsonRefusalError("UnknownOperationException", f"The sandbox does not serve {target}.")
        answer = calls[target](await request.json())
    except JsonRefusalError as refused:
        body = {"__type": refused.code, "message": str(refused)}
        return web.json_response(body, status=400, headers={"x-amzn-ErrorType": refused.code})
    return web.json_response(answer, content_type=CONTENT_TYPE)
