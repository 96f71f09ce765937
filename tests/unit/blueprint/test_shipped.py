"""What all blueprints of the program have in common."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint import consistency
from actions.blueprint.parameters import bind, read_value
from actions.blueprint.source_files import variables_of
from actions.blueprint.stages import TerraformStage
from actions.blueprint.targets import text_of
from tests.unit.blueprint.shipped import shipped

BLUEPRINTS = sorted(path.parent.name for path in shipped_blueprints().glob("*/blueprint.yaml"))


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_the_targets_of_a_blueprint_read_each_terraform_root_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blueprint = shipped(name)
    stages = [stage for stage in blueprint.stages if isinstance(stage, TerraformStage)]
    presets = sum(len(preset.roots) for preset in blueprint.presets.values())
    read = Mock(side_effect=variables_of)
    monkeypatch.setattr(consistency, "variables_of", read)
    assert list(consistency.problems_of(blueprint)) == []
    assert read.call_count <= 2 * len(stages) + presets  # for the targets, and for the roots themselves


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_presets_are_possible(name: str) -> None:
    blueprint = shipped(name)
    for preset in ("", *blueprint.presets):
        bind(blueprint, {}, preset=preset)


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_every_choice_can_be_chosen_as_it_is_typed(name: str) -> None:
    """A choice of a text parameter that YAML reads as a number is refused, whatever is typed."""
    for key, parameter in shipped(name).parameters.items():
        for choice in parameter.choices:
            assert read_value(key, parameter, text_of(choice)) == choice
