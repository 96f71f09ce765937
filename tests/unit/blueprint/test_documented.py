"""The blueprint and the script that docs/blueprints.md shows are good as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from actions.blueprint.catalogue import validate
from actions.script.parse import load_script

PAGE = Path(__file__).parents[3] / "docs" / "blueprints.md"


def test_the_blueprint_in_the_documentation_is_good(tmp_path: Path) -> None:
    blueprint, manifest, _script = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "blueprint.yaml").write_text(blueprint, encoding="utf-8")
    (tmp_path / "manifests" / "train.yaml").write_text(manifest, encoding="utf-8")
    assert validate(tmp_path) == []


def test_the_script_in_the_documentation_is_one(tmp_path: Path) -> None:
    *_, script = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    path = tmp_path / "try.yaml"
    path.write_text(script, encoding="utf-8")
    assert len(load_script(path).steps) == 3
