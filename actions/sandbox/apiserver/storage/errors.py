"""Refusals as `metav1.Status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actions.sandbox.apiserver.storage.codec import Object
from actions.sandbox.apiserver.storage.resources import ServedResource


class Cause(msgspec.Struct, frozen=True):
    """A field that is wrong. `reason` is a `metav1.CauseType`, e.g. `FieldValueInvalid`."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class StatusError(Exception):
    """A request that is answered with a `Status` of failure.

    Args:
        code: HTTP status.
        reason: `metav1.StatusReason`, e.g. `NotFound`.
        message: For people.
        details: `StatusDetails` beyond the causes: group, kind (really the plural), name.
        causes: The fields that are wrong.
        retry_after_seconds: Advice to the client; 0 for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, str] | None = None,
        causes: Sequence[Cause] = (),
        retry_after_seconds: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.causes = tuple(causes)
        self.retry_after_seconds = retry_after_seconds

    def body(self) -> Object:
        """The `Status` object."""
        details: Object = dict(self.details)
        if self.causes:
            details["causes"] = [
                {"reason": cause.reason, "message": cause.message} | ({"field": cause.field} if cause.field else {})
                for cause in self.causes
            ]
        if self.retry_after_seconds:
            details["retryAfterSeconds"] = self.retry_after_seconds
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details or self.reason == "NotFound":  # by the name in it clients distinguish a path from an object
            status["details"] = details
        return status


def success_status(*, details: Mapping[str, str] | None = None) -> Object:
    """The `Status` that answers a deletion."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = dict(details)
    return status


def _details(resource: ServedResource, name: str, *, kind: str = "") -> dict[str, str]:
    details = {"name": name, "kind": kind or resource.plural}
    if resource.group:
        details["group"] = resource.group
    return details


def not_found(resource: ServedResource, name: str) -> StatusError:
    """Return a 404: there is no such object."""
    message = f'{resource.qualified_plural} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(resource, name))


def path_not_found() -> StatusError:
    """Return a 404: nothing is served at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: ServedResource, name: str) -> StatusError:
    """Return the 409 for the creation of an object that exists."""
    message = f'{resource.qualified_plural} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: ServedResource, name: str, why: str) -> StatusError:
    """Return a 409 for a write that lost a race, or whose fields another manager owns."""
    message = f'Operation cannot be fulfilled on {resource.qualified_plural} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


def stale_version(resource: ServedResource, name: str) -> StatusError:
    """Return the 409 for a resource version that is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid(resource: ServedResource, name: str, causes: Sequence[Cause]) -> StatusError:
    """Return the 422 for wrong fields, each named."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    reasons = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return StatusError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {reasons}',
        details=_details(resource, name, kind=resource.kind),
        causes=causes,
    )


def bad_request(message: str) -> StatusError:
    """Return a 400."""
    return StatusError(400, "BadRequest", message)


def type_mismatch(resource: ServedResource, namespace: str, name: str, mistakes: Sequence[str]) -> StatusError:
    """Return the 500 of API servers for an apply whose fields are unknown or of another type."""
    group_version = resource.api_version if "/" in resource.api_version else f"/{resource.api_version}"
    where = f"{namespace}/{name}; {group_version}, Kind={resource.kind}"
    text = mistakes[0] if len(mistakes) == 1 else "\n  ".join(("errors:", *mistakes))
    return StatusError(500, "", f"failed to create typed patch object ({where}): {text}")


def forbidden(resource: ServedResource, name: str, why: str, *, causes: Sequence[Cause] = ()) -> StatusError:
    """Return a 403."""
    message = f'{resource.qualified_plural} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, details=_details(resource, name), causes=causes)


def expired(message: str) -> StatusError:
    """Return a 410: the requested version is no longer kept."""
    return StatusError(410, "Expired", message)


def too_large_version(asked: int, current: int) -> StatusError:
    """Return a 504: the requested version has not been reached."""
    cause = Cause(field="", message="Too large resource version", reason="ResourceVersionTooLarge")
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, causes=[cause], retry_after_seconds=1)


def method_not_allowed() -> StatusError:
    """Return a 405."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message)


def unsupported_media_type(content_type: str, accepted: Sequence[str]) -> StatusError:
    """Return a 415."""
    message = f"the body of the request was in an unknown format ({content_type}) - accepted: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)
