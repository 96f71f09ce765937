"""The AWS calls of a simulated resource: those that create its counterpart in the real rehearsal.

They go to `AWS_ENDPOINT_URL`, signed with the credentials that Terraform's provider would find; without the variable no
call is made.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from actions.base.clock import Clock
from actions.base.errors import BlueprintError, ConfigError, FormatError, RefusedError, UnreachableError
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.guard import require_guard
from actions.base.untrusted import one_line
from actions.terraform.protocol import Variables

_SERVICE = "eks"
_ID, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_FILE = "AWS_SHARED_CREDENTIALS_FILE"


def signed_headers(environment: Mapping[str, str], method: str, url: str, body: bytes) -> dict[str, str]:
    """Return headers with AWS's Signature Version 4; none without credentials.

    Args:
        environment: Of the run; variables that it lacks are taken from this process.
        method: Of the request.
        url: Its whole address.
        body: As it will be sent.

    Raises:
        ConfigError: The file of credentials cannot be read.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    variables = {**os.environ, **environment}
    found = _credentials_of(variables)
    if not found.get(_ID):
        return {}
    request = AWSRequest(method=method, url=url, data=body)
    credentials = Credentials(found[_ID], found.get(_SECRET, ""), found.get(_TOKEN) or None)
    SigV4Auth(credentials, _SERVICE, variables.get("AWS_REGION") or "us-west-2").add_auth(request)
    return {name: str(value) for name, value in request.headers.items()}


def _credentials_of(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return the credentials by the names of their variables."""
    file = variables.get(_FILE, "")
    if variables.get(_ID) or not file:
        return variables
    read = configparser.ConfigParser(interpolation=None)
    profile = variables.get("AWS_PROFILE") or "default"
    try:
        read.read_string(read_file(Path(file)).decode())
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ConfigError(f"{file} holds no readable AWS credentials.", hint=f"Correct {_FILE}.") from error
    return {name: read.get(profile, name.lower(), fallback="") for name in (_ID, _SECRET, _TOKEN)}


ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.5

_PART = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")
_WHOLE = re.compile(r"^\$\{(json:|list:|text:)?([a-z][a-z0-9_]*)\}$")
_MERGED, _CHOSEN_BY, _CHOICES = "$merge", "$of", "$is"
_CALL_SECONDS = 20.0
_GONE = 404
_SHOWN_CHARACTERS = 500


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The calls that create, observe and delete one resource. In texts `${name}` stands for a variable."""

    collection: str
    """Path of the POST request."""
    path: str
    """Path of the GET and DELETE requests."""
    body: dict[str, Any]
    """A text that is only `${name}` becomes the variable itself; `${json:name}` its decoded JSON, `${list:name}` its
    parts between commas, `${text:name}` a text as Terraform writes it. `{"$merge": […]}` becomes the merged objects,
    `{"$of": name, "$is": {value: object}}` the object for the variable's value, or an empty one."""
    status: str
    """Dotted path of its state in the answer."""
    ready: str
    failed: tuple[str, ...] = ()


async def make(resource: Resource, variables: Variables, environment: Mapping[str, str], clock: Clock) -> None:
    """Create the resource, and wait until it is ready.

    Raises:
        RefusedError: It was refused, failed, or is not ready in time.
        UnreachableError: No answer.
        BlueprintError: A variable that should hold JSON does not.
    """
    if not environment.get(ENDPOINT_VARIABLE, ""):
        return
    path = filled(resource.path, variables)
    await _ask(environment, "POST", filled(resource.collection, variables), body=_typed(resource.body, variables))
    end = clock.monotonic() + WAIT_SECONDS
    while clock.monotonic() < end:
        _, answer = await _ask(environment, "GET", path)
        state = _at(answer, resource.status)
        if state == resource.ready:
            return
        if state in resource.failed:
            raise RefusedError(f"{path} is {state}: {_words(answer)}")
        await clock.sleep(LOOK_SECONDS)
    raise RefusedError(f"{path} is not {resource.ready} after {WAIT_SECONDS:.0f} s.")


async def unmake(resource: Resource, variables: Variables, environment: Mapping[str, str], clock: Clock) -> None:
    """Delete the resource, and wait until it is gone. Safe to repeat.

    Raises:
        RefusedError: It was refused, or still exists.
        UnreachableError: No answer.
    """
    if not environment.get(ENDPOINT_VARIABLE, ""):
        return
    path = filled(resource.path, variables)
    status, _ = await _ask(environment, "DELETE", path)
    end = clock.monotonic() + WAIT_SECONDS
    while status != _GONE:
        if clock.monotonic() >= end:
            raise RefusedError(f"{path} still exists after {WAIT_SECONDS:.0f} s.")
        await clock.sleep(LOOK_SECONDS)
        status, _ = await _ask(environment, "GET", path)


def filled(text: str, variables: Mapping[str, object]) -> str:
    """Return `text` with every `${name}` replaced; missing ones by nothing."""
    return _PART.sub(lambda match: str(variables.get(match[1], "")), text)


def _typed(value: Any, variables: Variables) -> Any:
    if isinstance(value, dict) and _MERGED in value:
        return {key: item for part in value[_MERGED] for key, item in (_typed(part, variables) or {}).items()}
    if isinstance(value, dict) and _CHOSEN_BY in value:
        return value[_CHOICES].get(str(variables.get(value[_CHOSEN_BY], "")), {})
    if isinstance(value, dict):
        return {key: _typed(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    whole = _WHOLE.match(value)
    if whole is None:
        return filled(value, variables)
    given = variables.get(whole[2], "")
    match whole[1]:
        case "json:":
            return _json_of(whole[2], str(given))
        case "list:":
            return [item for item in str(given).split(",") if item]
        case "text:":
            return str(given).lower() if isinstance(given, bool) else str(given)
    return given


def _json_of(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text or "null")
    except msgspec.DecodeError as error:
        raise BlueprintError(f"The variable {name} is not JSON: {error}.") from error


def _words(answer: Any) -> str:
    return one_line(str(answer))[:_SHOWN_CHARACTERS]


def _at(answer: Any, path: str) -> Any:
    for step in path.split("."):
        answer = answer.get(step) if isinstance(answer, dict) else None
    return answer


async def _ask(environment: Mapping[str, str], method: str, path: str, *, body: Any = None) -> tuple[int, Any]:
    url = environment[ENDPOINT_VARIABLE].rstrip("/") + path
    data = b"" if body is None else msgspec.json.encode(body)
    headers = await _signed(environment, method, url, data)
    timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
    if method != "GET":
        await require_guard(f"{method} {path}")
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, data=data or None, headers=headers) as reply,
        ):
            status, text = reply.status, await reply.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnreachableError(f"{url} does not answer: {error}.") from error
    if status >= 400 and status != _GONE:
        raise RefusedError(f"{method} {path} was answered with {status}: {_words(text)}")
    try:
        return status, msgspec.json.decode(text or "null")
    except msgspec.DecodeError as error:
        raise FormatError(f"{url} does not answer with JSON.") from error


async def _signed(environment: Mapping[str, str], method: str, url: str, data: bytes) -> dict[str, str]:
    """Return the signed headers of a request; in a thread, as botocore is imported and the credentials file read."""
    headers = await in_thread("signing", signed_headers, environment, method, url, data)
    return headers | {"Content-Type": "application/json"} if data else headers
