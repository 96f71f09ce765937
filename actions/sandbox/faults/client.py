"""The fault panel of a sandbox in another process, controlled by the words of a command line."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
from msgspec.structs import replace

from actions.base.decoding import convert, decode_json
from actions.base.errors import InputError, UnreachableError
from actions.base.untrusted import one_line
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.tls import default_tls_context
from actions.sandbox.faults.fault import SCENARIOS, Fault
from actions.sandbox.faults.routes import PATH

_LISTS = ("verbs", "resources")
_TIMEOUT_SECONDS = 30.0
_LONGEST_ANSWER = 1 << 20
_LONGEST_TEXT = 200


class FaultReport(Fault, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A fault that is on, with how often it has hit."""

    hits: int = 0

    def line(self) -> str:
        """Return the line of a listing."""
        scope = ",".join(self.verbs) or "any verb", ",".join(self.resources) or self.path or "any resource"
        often = f"{self.hits} of {self.count} hits" if self.count else f"{self.hits} hits"
        return f"{self.name:<20} {self.kind.value:<14} {scope[0]} on {scope[1]}: {often}"


class _Refusal(msgspec.Struct):
    error: str = ""


def control_faults(kubeconfig: Path, words: Sequence[str]) -> list[FaultReport]:
    """Carry out the words, and return the faults that they concern.

    No words list the faults; `clear` and `clear NAME` turn them off; the name of a scenario turns it on;
    `kind=throttled resources=pods,jobs count=3` turns one fault on.

    Args:
        kubeconfig: The sandbox's, with its address and the administrator's token.
        words: The arguments of `eksml-tui sandbox faults`.

    Raises:
        InputError: The words make no sense, or the panel refuses them.
        ConfigError: The kubeconfig cannot be used.
        UnreachableError: The sandbox does not answer.
    """
    match list(words):
        case []:
            return _call(kubeconfig, "GET", PATH)
        case ["clear"]:
            return _call(kubeconfig, "DELETE", PATH)
        case ["clear", name]:
            return _call(kubeconfig, "DELETE", f"{PATH}/{quote(name, safe='')}")
        case [name] if name in SCENARIOS:
            return _call(kubeconfig, "POST", PATH, msgspec.json.encode({"scenario": name}))
    return _call(kubeconfig, "POST", PATH, msgspec.json.encode(read_fault(words)))


def read_fault(words: Sequence[str]) -> Fault:
    """Read `kind=throttled count=3`; the names are those of the JSON form.

    Raises:
        InputError: A word is not a setting.
    """
    hint = f"Write kind=throttled resources=pods count=3, or a scenario: {', '.join(sorted(SCENARIOS))}."
    settings: dict[str, object] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise InputError(f"'{word}' is neither a scenario nor a setting.", hint=hint)
        settings[name] = value.split(",") if name in _LISTS else value
    try:
        return convert(settings, Fault, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"This is not a fault: {error}.", hint=hint) from error


def _call(kubeconfig: Path, method: str, path: str, body: bytes | None = None) -> list[FaultReport]:
    chosen = load_context(ClusterTarget(kubeconfig))
    place = urlsplit(chosen.server)
    connection = http.client.HTTPSConnection(
        place.hostname or "", place.port, timeout=_TIMEOUT_SECONDS, context=default_tls_context(chosen)
    )
    try:
        connection.request(method, path, body=body, headers={"Authorization": f"Bearer {chosen.token}"})
        answer = connection.getresponse()
        data = answer.read(_LONGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreachableError(f"The sandbox at {chosen.server} does not answer: {reason}.") from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise InputError(f"The sandbox refuses: {_reason(data)}.")
    try:
        return [_sanitized(fault) for fault in decode_json(data, list[FaultReport])]
    except msgspec.DecodeError as error:
        raise UnreachableError(f"What answers at {chosen.server} is not a sandbox: {error}.") from error


def _sanitized(fault: FaultReport) -> FaultReport:
    """Return a fault whose texts can be shown: they may come from anyone who reaches the sandbox's port."""
    texts = {name: one_line(getattr(fault, name), limit=_LONGEST_TEXT) for name in ("name", "namespace", "path")}
    lists = {name: tuple(one_line(text, limit=_LONGEST_TEXT) for text in getattr(fault, name)) for name in _LISTS}
    return replace(fault, **texts, **lists)


def _reason(data: bytes) -> str:
    try:
        return decode_json(data, _Refusal).error.rstrip(".")
    except msgspec.DecodeError:
        return "it gives no reason"
