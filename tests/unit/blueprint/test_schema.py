"""The JSON Schema that ships is the one that the model gives."""

from __future__ import annotations

from actions.base.files import asset
from actions.blueprint.schema import SCHEMA_ASSET, blueprint_schema, schema_text


def test_the_shipped_schema_is_current() -> None:
    assert asset(SCHEMA_ASSET).read_text(encoding="utf-8") == schema_text(), "run make schema"


def test_the_schema_is_strict_and_knows_every_stage_kind() -> None:
    schema = blueprint_schema()
    definitions = schema["$defs"]

    assert definitions["Blueprint"]["additionalProperties"] is False
    assert "folder" not in definitions["Blueprint"]["properties"]
    kinds = {name for name in definitions if name.endswith("Stage")}
    assert {"TerraformStage", "JobStage", "HelmStage", "ImageStage"} <= kinds
