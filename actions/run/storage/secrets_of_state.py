"""What of a Terraform state may be a secret, so that the state does not leave this machine in an archive."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from actions.base.files import read_file
from actions.base.untrusted import redact
from actions.base.wording import listed

_LARGEST_STATE_BYTES = 64 << 20
_SHOWN = 5
_SECRET_NAME = re.compile(r"passw|secret|token|private_key|credential|_pem$|access_key", re.I)
"""Attributes of resources that hold secrets though the state does not mark them: older Terraform marks few."""


def secrets_of_state(path: Path) -> str:
    """Return why a Terraform state is not put into an archive, as a clause; empty if nothing in it may be a secret."""
    try:
        if path.stat().st_size > _LARGEST_STATE_BYTES:
            return "a state of this size is not searched for secrets"
        data = read_file(path)
        state = msgspec.json.decode(data) if data.strip() else {}
        found = list(dict.fromkeys(_secrets_in(state)))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, AttributeError, TypeError):
        return "the state cannot be read"
    if found:
        return f"the state holds values that may be secrets, of {listed(found, _SHOWN)}"
    return "" if redact(data.decode()) == data.decode() else "the state holds a secret"


def _secrets_in(state: Mapping[str, Any]) -> Iterator[str]:
    for name, output in (state.get("outputs") or {}).items():
        if output.get("sensitive") and output.get("value") not in (None, ""):
            yield f"output {name}"
    for resource in state.get("resources") or []:
        for instance in resource.get("instances") or []:
            if instance.get("sensitive_attributes") or _has_secret(instance.get("attributes") or {}):
                yield f"{resource.get('type')}.{resource.get('name')}"


def _has_secret(value: object, name: str = "") -> bool:
    match value:
        case dict():
            return any(_has_secret(inner, key) for key, inner in value.items())
        case list():
            return any(_has_secret(inner, name) for inner in value)
        case str():
            return bool(value) and _SECRET_NAME.search(name) is not None and not value.startswith("arn:")
    return False
