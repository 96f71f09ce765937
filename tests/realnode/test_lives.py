"""Lives of the blueprints, from launch to audited teardown, with the real operators and pods that train."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.realnode.lives import SCRIPTS, TYPES, play
from tests.realnode.support import left_of


def _blueprint_of(script: Path) -> str:
    return max((name for name in TYPES if script.stem.startswith(name)), key=len)


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.yaml")), ids=lambda script: script.stem)
def test_life(script: Path, tmp_path: Path) -> None:
    life = play(_blueprint_of(script), script, tmp_path / "home")
    assert life.exit_code == 0, life.output
    assert {step["result"] for step in life.report["steps"]} == {"passed"}
    assert left_of(life.report["run"]["id"]) == []
