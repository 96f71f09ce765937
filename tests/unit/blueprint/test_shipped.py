"""What all blueprints of the program have in common."""

from __future__ import annotations

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.parameters import bind
from tests.unit.blueprint.shipped import shipped

BLUEPRINTS = sorted(path.parent.name for path in shipped_blueprints().glob("*/blueprint.yaml"))


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_presets_are_possible(name: str) -> None:
    blueprint = shipped(name)
    for preset in ("", *blueprint.presets):
        bind(blueprint, {}, preset=preset)
