"""The JSON Schema of `blueprint.yaml`, for editors: made from the model, shipped as an asset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from actions.blueprint.model import Blueprint
from actions.blueprint.parts import EXPECTATION, Expectation

SCHEMA_ASSET = "schema/blueprint.schema.json"


def blueprint_schema() -> dict[str, Any]:
    """The schema, draft 2020-12."""
    schema = msgspec.json.schema(Blueprint, schema_hook=_hooked)
    body = schema["$defs"]["Blueprint"]
    body["properties"].pop("folder")  # where it was loaded from: not a key of the file
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "eksml-tui blueprint",
        **schema,
    }


def schema_text() -> str:
    """The schema as the asset holds it."""
    return msgspec.json.format(msgspec.json.encode(blueprint_schema(), order="deterministic"), indent=2).decode() + "\n"


def _hooked(kind: type) -> dict[str, Any]:
    """The schema of a type of ours; `NotImplementedError` is how msgspec wants to hear of any other."""
    if kind is Expectation:
        return {"type": "string", "pattern": EXPECTATION, "examples": ["35m..45m"]}
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)
