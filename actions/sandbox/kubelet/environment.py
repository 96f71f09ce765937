"""Variables of a container that come from Secrets and ConfigMaps."""

from __future__ import annotations

import base64
import binascii

import msgspec

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.kinds import CONFIG_MAPS, SECRETS, Document, Kind


class Reference(msgspec.Struct, frozen=True):
    """One entry of `env` with `valueFrom`, or of `envFrom`.

    `key` is empty for all keys of the object, each after `name` as a prefix.
    """

    name: str
    kind: Kind
    source: str
    key: str
    is_optional: bool


def references_of(container: Document) -> tuple[Reference, ...]:
    """What a container's manifest refers to, in the order in which it counts."""
    found = []
    for entry in container.get("envFrom") or ():
        for field, kind in (("secretRef", SECRETS), ("configMapRef", CONFIG_MAPS)):
            if field in entry:
                found.append(_reference(entry.get("prefix", ""), kind, entry[field], key=""))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for field, kind in (("secretKeyRef", SECRETS), ("configMapKeyRef", CONFIG_MAPS)):
            if field in source:
                found.append(_reference(variable["name"], kind, source[field], key=source[field]["key"]))
    return tuple(found)


def _reference(name: str, kind: Kind, source: Document, *, key: str) -> Reference:
    return Reference(name, kind, source.get("name", ""), key, bool(source.get("optional")))


async def resolve(references: tuple[Reference, ...], namespace: str, client: ApiClient) -> dict[str, str] | str:
    """The variables, or in a kubelet's words why the container cannot be made yet."""
    variables: dict[str, str] = {}
    for reference in references:
        values = await _values(reference, namespace, client)
        if values is None and not reference.is_optional:
            return f'{reference.kind.kind.lower()} "{reference.source}" not found'
        if not reference.key:
            variables |= {reference.name + key: value for key, value in (values or {}).items()}
        elif reference.key in (values or {}):
            variables[reference.name] = (values or {})[reference.key]
        elif not reference.is_optional:
            return f"couldn't find key {reference.key} in {reference.kind.kind} {namespace}/{reference.source}"
    return variables


async def _values(reference: Reference, namespace: str, client: ApiClient) -> dict[str, str] | None:
    found = await client.read(reference.kind, f"{namespace}/{reference.source}")
    if found is None:
        return None
    data = found.get("data") or {}
    return {key: _decoded(value) for key, value in data.items()} if reference.kind is SECRETS else dict(data)


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except binascii.Error:
        return ""
