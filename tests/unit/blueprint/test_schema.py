"""The JSON Schema of blueprints."""

from __future__ import annotations

import json

from actions.blueprint.schema import schema_text


def test_the_schema_is_strict_and_knows_every_stage_kind() -> None:
    schema = json.loads(schema_text())
    definitions = schema["$defs"]

    assert definitions["Blueprint"]["additionalProperties"] is False
    assert "folder" not in definitions["Blueprint"]["properties"]
    kinds = {name for name in definitions if name.endswith("Stage")}
    assert {"TerraformStage", "JobStage", "HelmStage", "ImageStage"} <= kinds
