"""The JSON Schema of blueprints, and the page with every key."""

from __future__ import annotations

import json
from pathlib import Path

from actions.blueprint.model import Blueprint
from actions.blueprint.structure.key_reference import reference_page
from actions.blueprint.structure.schema import field_types, schema_text, structs_of

PAGE = Path(__file__).parents[3] / "docs" / "blueprint-keys.md"


def test_the_schema_is_strict_and_knows_every_stage_kind() -> None:
    schema = json.loads(schema_text())
    definitions = schema["$defs"]

    assert definitions["Blueprint"]["additionalProperties"] is False
    assert "folder" not in definitions["Blueprint"]["properties"]
    kinds = {name for name in definitions if name.endswith("Stage")}
    assert {"TerraformStage", "JobStage", "HelmStage", "ImageStage"} <= kinds


def test_the_page_is_current_and_names_every_key() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == reference_page(), "run make reference"
    keys = {key for struct in structs_of(Blueprint) for key in field_types(struct)} - {"folder"}
    assert all(f"| `{key}` |" in page for key in keys)
    links = {line.partition("](#")[2].partition(")")[0] for line in page.splitlines() if "](#" in line}
    headings = {line[3:].lower().replace(" ", "-").replace("`", "") for line in page.splitlines() if line[:3] == "## "}
    assert links <= headings


def test_the_schema_has_the_meaning_of_keys() -> None:
    watch = json.loads(schema_text())["$defs"]["StageWatch"]["properties"]
    assert watch["devices"]["description"].startswith("Label selector of the pods that have the accelerators")
