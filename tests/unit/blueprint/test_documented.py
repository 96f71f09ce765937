"""The blueprints and the script that docs/blueprints.md shows are good as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actions.blueprint.catalogue import load_blueprint, validate
from actions.script.parse import load_script

PAGE = Path(__file__).parents[3] / "docs" / "blueprints.md"
SMALL, MANIFEST, SCRIPT, COMPOSED, *_ = re.findall(
    r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("blueprint", [SMALL, COMPOSED], ids=["small", "of components"])
def test_a_blueprint_in_the_documentation_is_good(tmp_path: Path, blueprint: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "blueprint.yaml").write_text(blueprint, encoding="utf-8")
    (tmp_path / "manifests" / "train.yaml").write_text(MANIFEST, encoding="utf-8")
    assert validate(tmp_path) == []
    assert load_blueprint(tmp_path).stages[-1].id == "train"


def test_the_script_in_the_documentation_is_one(tmp_path: Path) -> None:
    path = tmp_path / "try.yaml"
    path.write_text(SCRIPT, encoding="utf-8")
    assert len(load_script(path).steps) == 3
