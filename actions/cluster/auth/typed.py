"""The customer's `kubernetes` package over a session of ours: typed calls for the fixed objects that are our own.

    client = await session.typed_client("CoordinationV1Api")
    lease = await CoordinationV1Api(client).read_namespaced_lease("run", "training")

Every call is one `KubeSession.request`: its credentials, TLS, proxy, limits, read-only mode and guard hold, and what it
raises is raised, never the package's `ApiException`. `_request_timeout`, a number of seconds, is its deadline;
`_headers`, `_request_auth` and `_host_index` have no effect. Watches, logs and calls `…_without_preload_content` are
not made in this way.

The package costs 0.15 s and 22 MB at its first import, `CoreV1Api` 0.4 s and 25 MB more, other classes little. So this
module and the package are imported in functions; `KubeSession.typed_client` does so in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec
from kubernetes.aio.client import ApiClient, ApiResponse, Configuration
from kubernetes.aio.client.rest import RESTResponse
from pydantic import BaseModel, ValidationError

from actions.base.errors import FormatError
from actions.base.untrusted import one_line
from actions.cluster.bounds import TYPED_BYTES, OversizeError

_JSON_PATCH = "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_OF_DELETIONS = ("object", "V1Status")
"""The package's names for the answer of a deletion: a Status, the object while finalizers hold it, or a list."""
_DEADLINE_SECONDS = 30.0


class Request(Protocol):
    """`KubeSession.request`."""

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes | None,
        content_type: str,
        deadline_seconds: float,
    ) -> bytes:
        """Send one request and return the answer's body."""
        ...


class TypedClient(ApiClient):
    """The `api_client` of the package's classes (`CoreV1Api`, `BatchV1Api`…).

    A call raises what `KubeSession.request` raises, `FormatError` for an answer that is not the object it should be,
    `OversizeError` for one above `TYPED_BYTES`.

    Args:
        request: Sends the requests.
        context: Of the kubeconfig, for messages.
    """

    def __init__(self, request: Request, context: str) -> None:
        super().__init__(Configuration(host=""))
        self._request = request
        self._context = context

    async def call_api(
        self,
        method: str,
        url: str,
        header_params: Mapping[str, str] | None = None,
        body: object = None,
        post_params: object = None,
        _request_timeout: float | None = None,
        _preload_content: bool = True,
    ) -> RESTResponse:
        """Send what the package has put together."""
        path, _, query = url.partition("?")
        content_type = (header_params or {}).get("Content-Type", "application/json")
        if content_type == _JSON_PATCH and not isinstance(body, list):  # as the package's own client decides
            content_type = _STRATEGIC
        data = await self._request(
            method,
            path,
            query=dict(parse_qsl(query, keep_blank_values=True)),
            body=None if body is None else msgspec.json.encode(body),
            content_type=content_type,
            deadline_seconds=_request_timeout or _DEADLINE_SECONDS,
        )
        if len(data) > TYPED_BYTES:
            raise OversizeError(
                f"{self._context} answers with more than {TYPED_BYTES >> 20} MiB ({method} {path}).",
                hint="Ask for less at once.",
            )
        return RESTResponse(_Answer(data))

    def response_deserialize(
        self, response_data: RESTResponse, response_types_map: Mapping[str, Any] | None = None
    ) -> ApiResponse[Any]:
        """Return the object of an answer."""
        name = str((response_types_map or {}).get("200"))
        kind = "Status" if name in _OF_DELETIONS else name.removeprefix("V1")
        try:
            found = super().response_deserialize(response_data, dict(response_types_map or {}))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._format_error(kind, _why(error)) from None  # it has values, which may be a Secret's
        data = found.data
        named = data.get("kind") if isinstance(data, dict) else getattr(data, "kind", None)
        if not named or (name not in _OF_DELETIONS and named != kind):
            raise self._format_error(kind, "it is of another kind")
        return found

    def sanitize_for_serialization(self, obj: object) -> Any:
        """Return the JSON of a model. API servers demand six decimals of a `MicroTime`, zeros as well."""
        if isinstance(obj, datetime):
            return obj.isoformat(timespec="microseconds")
        return super().sanitize_for_serialization(obj)  # type: ignore[no-untyped-call]

    def _format_error(self, kind: str, why: str) -> FormatError:
        return FormatError(f"The API server of {self._context} did not answer with a {kind} ({why}).")


def model_document(model: BaseModel) -> dict[str, Any]:
    """Return a model as the document that it stands for, without the fields that are not set."""
    found: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _why(error: Exception) -> str:
    """Return what an answer lacks, without any of its values."""
    if not isinstance(error, ValidationError):
        return type(error).__name__
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return one_line(": ".join((*(str(part) for part in first["loc"]), first["msg"])))


class _Answer(msgspec.Struct, frozen=True):
    """A body that came with a code of success, in the place of aiohttp's response."""

    body: bytes
    status: int = 200
    reason: str = "OK"
    headers: dict[str, str] = {}

    async def read(self) -> bytes:
        """Return the body."""
        return self.body
