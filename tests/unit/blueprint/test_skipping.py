"""Stages that a run leaves out: by a choice, or because the cluster is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import BlueprintError
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind, reason_to_skip, skipped_stages
from actions.blueprint.render import stage_manifests, tfvars_of
from tests.unit.blueprint.builders import a_blueprint

DATA = (
    "  token: {type",
    "  data: {type: text, title: D, default: prepare, choices: [prepare, existing]}\n  token: {type",
)
WHEN = ("root: root,", "root: root, when: {parameter: data, is: [prepare]},")


def small(folder: Path, *replacements: tuple[str, str]) -> Blueprint:
    return load_blueprint(a_blueprint(folder / "b", *replacements))


def test_a_stage_is_left_out_unless_its_condition_holds(tmp_path: Path) -> None:
    blueprint = small(tmp_path, DATA, WHEN)
    assert skipped_stages(blueprint, bind(blueprint, {})) == frozenset()
    existing = bind(blueprint, {"data": "existing"})
    assert skipped_stages(blueprint, existing) == {"provision"}
    assert reason_to_skip(blueprint.stage("provision"), existing) == "data is existing"


def test_what_a_stage_that_is_left_out_would_set_stays_as_it_is(tmp_path: Path) -> None:
    blueprint = small(tmp_path, DATA, WHEN)
    (job,) = stage_manifests(blueprint, "work", bind(blueprint, {"data": "existing"}), run_id="r", outputs={})
    assert job["metadata"]["annotations"]["example.test/a"] == "unset"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("{parameter: dat, is: [prepare]}", "depends on 'dat', which is not a parameter"),
        ("{parameter: data, is: [prepared]}", "data is 'prepared'"),
    ],
)
def test_a_condition_that_can_never_hold_is_an_error(tmp_path: Path, condition: str, words: str) -> None:
    folder = a_blueprint(tmp_path / "b", DATA, ("root: root,", f"root: root, when: {condition},"))
    error, *_ = validate(folder)
    assert words in error.message


def test_constants_of_a_stage_answer_variables_and_win_over_parameters(tmp_path: Path) -> None:
    blueprint = small(tmp_path, ("root: root,", "root: root, values: {size: 7},"))
    assert tfvars_of(blueprint, "provision", bind(blueprint, {}), run_id="r", outputs={}) == {"size": 7}


def test_a_constant_for_an_unknown_variable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BlueprintError, match="sets the variable 'sizes'"):
        small(tmp_path, ("root: root,", "root: root, values: {sizes: 7},"))
