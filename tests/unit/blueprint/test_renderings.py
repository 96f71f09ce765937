"""Each preset of each blueprint of the program renders what it did: manifests, variables of Terraform, plan.

The lines of `tests/fixtures/blueprints` are digests. `UPDATE_RENDERINGS=1` writes them anew for a wanted change, and

    python -m tests.unit.blueprint.renderings FOLDER

in the version before and in the one after shows what it is.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.blueprint.renderings import blueprint_ids, lines_of

RECORDED = Path(__file__).parents[2] / "fixtures" / "blueprints"


@pytest.mark.parametrize("name", blueprint_ids())
def test_a_blueprint_renders_what_it_did(name: str) -> None:
    path, lines = RECORDED / f"{name}.txt", sorted(lines_of(name))
    if os.environ.get("UPDATE_RENDERINGS"):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    recorded = path.read_text("utf-8").splitlines()
    gone, new = sorted(set(recorded) - set(lines)), sorted(set(lines) - set(recorded))
    assert (gone, new) == ([], [])


def test_each_recorded_blueprint_is_there() -> None:
    assert sorted(path.stem for path in RECORDED.glob("*.txt")) == blueprint_ids()
