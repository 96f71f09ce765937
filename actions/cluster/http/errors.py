"""The API server's `Status` objects, and the errors in the operator's terms that they become.

Source of `Retry-After`: RFC 9110, sections 5.6.7 (dates) and 10.2.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from actions.base.clock import SystemClock
from actions.base.decoding import json_decoder
from actions.base.errors import AccessError, ConflictError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.untrusted import one_line
from actions.cluster.bounds import LONGEST_WAIT_SECONDS, RETRY_AFTER_SECONDS

_THROTTLED = 429
_UNAVAILABLE_FROM = 500
ENVELOPE = b"k8s\x00"
"""The first bytes of every protobuf body."""


class StatusCause(msgspec.Struct, frozen=True):
    """One entry of `status.details.causes`: for a conflict, one field and its owner."""

    reason: str
    message: str
    field: str


class ApiStatus(msgspec.Struct, frozen=True):
    """The API server's answer to a request that it does not fulfil.

    `code` is the HTTP code, 0 for an error event that names none. `retry_after_seconds` is the wait that the server
    asks for, at most `limits.RETRY_AFTER_SECONDS`, `None` if it asks for none.
    """

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: float | None = None

    @property
    def is_expired(self) -> bool:
        """Return whether the resource version or continue token of the request is too old to serve."""
        return self.code == 410 or self.reason in {"Expired", "Gone"}

    @property
    def is_too_large(self) -> bool:
        """Return whether the resource version of the request is newer than the server's own."""
        return any(cause.reason == "ResourceVersionTooLarge" for cause in self.causes) or (
            "Too large resource version" in self.message
        )


class ApiError(ConsoleError):
    """A refusal by the API server; always also one of the error families of `base`."""

    def __init__(self, message: str, *, status: ApiStatus, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ApiAccessError(ApiError, AccessError):
    """401 or 403."""


class ApiMissingError(ApiError, MissingError):
    """404."""


class ApiConflictError(ApiError, ConflictError):
    """409, and the 403 of a namespace that is being deleted."""


class ApiUnavailableError(ApiError, UnreachableError):
    """429 or 5xx: the server is there but cannot answer now."""


class ApiRefusedError(ApiError, RefusedError):
    """Any other 4xx, 410 among them."""


class SilenceError(UnreachableError):
    """A stream has been silent for longer than its time limit: it may be dead."""


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_TITLE = re.compile(r"<title>([^<]+)</title>", re.IGNORECASE)
_status_decoder = json_decoder(_Status)


def requested_wait_seconds(error: ConsoleError) -> float:
    """Return the wait that the server asks for, at most `LONGEST_WAIT_SECONDS`; 0 if it asks for none."""
    wish = error.status.retry_after_seconds if isinstance(error, ApiError) else None
    return min(max(wish or 0.0, 0.0), LONGEST_WAIT_SECONDS)


def status_of(body: bytes, *, code: int, headers: Mapping[str, str] | None = None) -> ApiStatus:
    """Read an error body.

    Args:
        body: A `v1.Status` as JSON or protobuf, or whatever a proxy in between wrote (HTML, text, nothing).
        code: The HTTP code; 0 for an error event of a watch.
        headers: The response's headers, for `Retry-After`.
    """
    read = _read_envelope(body) if body.startswith(ENVELOPE) else _read_json(body)
    details = read.details or _Details()
    known = headers or {}
    wait = read_retry_after(known.get("Retry-After", ""), date=known.get("Date", ""))
    return ApiStatus(
        code=code or read.code or 0,
        reason=one_line(read.reason or ""),
        message=one_line(read.message or "", limit=2000),
        causes=tuple(
            StatusCause(
                one_line(cause.reason or ""), one_line(cause.message or "", limit=2000), one_line(cause.field or "")
            )
            for cause in details.causes or ()
        ),
        retry_after_seconds=_capped_wait(details.retry_after_seconds) if wait is None else wait,
    )


_DELTA = re.compile(r"[0-9]+", re.ASCII)
_LONG_DIGITS = 9


def read_retry_after(text: str, *, date: str = "", now: datetime | None = None) -> float | None:
    """Read seconds from 0 to `RETRY_AFTER_SECONDS`; `None` for a text that is neither seconds nor a date.

    Args:
        text: The header.
        date: The answer's `Date`: a moment is measured from it, so that our own clock need not be right.
        now: Used if there is no `Date`; the machine's clock by default.
    """
    text = text.strip()
    if _DELTA.fullmatch(text):
        return _capped_wait(float(text) if len(text) <= _LONG_DIGITS else math.inf)
    moment = read_date(text)
    if moment is None:
        return None
    since = read_date(date.strip()) or now or SystemClock().now()
    return _capped_wait((moment - since).total_seconds())


def _capped_wait(seconds: float | None) -> float | None:
    """Limit a requested wait, which may be any number; `None` for none."""
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS)


def read_date(text: str) -> datetime | None:
    """Read an HTTP date; `None` for a text that is not one."""
    from email.utils import parsedate_to_datetime  # takes as long to import as a frame to draw, and is rarely needed

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _read_json(body: bytes) -> _Status:
    try:
        return _status_decoder.decode(body)
    except msgspec.DecodeError:
        return _Status(message=_text_of(body))


def _text_of(body: bytes) -> str:
    """Return the message in a proxy's body: the title of a page, or the text as it is."""
    text = body[:4000].decode("utf-8", "replace")
    title = _TITLE.search(text)
    return one_line(title[1] if title else text, limit=200)


def _read_envelope(body: bytes) -> _Status:
    """Read a protobuf `Status`, which refuses a request that accepts protobuf."""
    from google.protobuf.message import DecodeError

    from actions.cluster.protobuf_schema import reader

    try:
        found = reader("Status")(reader("Unknown")(body[len(ENVELOPE) :]).raw)
    except DecodeError:
        return _Status(message="an answer that cannot be read")
    details = found.details
    causes = [_Cause(cause.reason, cause.message, cause.field) for cause in details.causes]
    wait = float(details.retry_after_seconds) if details.retry_after_seconds else None
    return _Status(found.code, found.reason, found.message, _Details(causes, wait))


def error_of(status: ApiStatus, *, asked: str, context: str) -> ApiError:
    """Return the error to raise for a status.

    Args:
        status: The server's answer.
        asked: Method and path, for the sentence.
        context: The kubeconfig context, for the hint.
    """
    message = (status.message or status.reason or f"HTTP {status.code}").rstrip(".")
    match status.code:
        case code if 300 <= code < 400:
            return ApiRefusedError(
                f"The address of {context} redirects, which an API server does not do ({asked}).",
                status=status,
                hint="Check the server address in the kubeconfig.",
            )
        case 401:
            return ApiAccessError(
                f"The API server of {context} does not accept our credentials ({message}).",
                status=status,
                hint="Log in again, or choose another context.",
            )
        case 403 if any(cause.reason == "NamespaceTerminating" for cause in status.causes):
            return ApiConflictError(
                f"{message}.", status=status, hint="Wait until the namespace is gone, then try again."
            )
        case 403:
            return ApiAccessError(
                f"Not allowed: {message}.",
                status=status,
                hint=f"Ask for the right, or use another user than {context}'s.",
            )
        case 404:
            is_object = message.endswith("not found") and '"' in message
            hint = "Check name and namespace; it may be gone already." if is_object else ""
            return ApiMissingError(f"{message} ({asked}).", status=status, hint=hint)
        case 409:
            return ApiConflictError(f"{message}.", status=status, hint="Look at the object, then try again.")
        case code if code == _THROTTLED or code >= _UNAVAILABLE_FROM or code == 0:
            return ApiUnavailableError(f"The API server of {context} answers {code}: {message}.", status=status)
    return ApiRefusedError(f"Refused: {message} ({asked}).", status=status)
