"""Durations that follow the parameters: work divided by a rate, or the words that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.durations import FOR_THE_DEFAULTS, StageDuration, expectation_of
from actions.blueprint.parameters import bind
from actions.fleet.instance_types import InstanceTable

DAY = 86400.0


def expected(blueprint_id: str, stage: str, preset: str = "", **given: Any) -> StageDuration:
    blueprint = load_blueprint(shipped_blueprints() / blueprint_id)
    binding = bind(blueprint, given, preset=preset)
    return expectation_of(blueprint, blueprint.under(preset).stage(stage), binding, InstanceTable.load())


def test_the_defaults_take_what_the_blueprint_says() -> None:
    found = expected("bionemo-esm1nv", "train")
    assert (found.low_seconds, found.high_seconds) == (3 * DAY, 4 * DAY)
    assert found.basis.startswith("64 M sequences, 667 k to 889 k an hour: 3 to 4 days for 1,000,000 steps")


@pytest.mark.parametrize(
    ("blueprint_id", "stage", "given", "factor"),
    [
        ("bionemo-esm1nv", "train", {"max_steps": 500_000}, 0.5),
        ("bionemo-esm1nv", "train", {"micro_batch_size": 16}, 2),
        ("bionemo-esm1nv", "train", {"workers": 16}, 1),  # twice the processes, each with the same batch
        ("nemo-gpt3-5b", "train", {"nodes": 4}, 0.5),
        ("nemo-gpt3-5b", "train", {"max_steps": 3000}, 3),
        ("nemo-gpt3-5b", "data", {"files": 3}, 0.5),
        ("llama2-trn1-mpi", "train", {"max_steps": 10_000}, 0.5),
        ("llama2-trn1-ray", "train", {"steps_this_run": 1000}, 0.1),
    ],
)
def test_a_duration_is_work_divided_by_a_rate(
    blueprint_id: str, stage: str, given: dict[str, Any], factor: float
) -> None:
    before, after = expected(blueprint_id, stage), expected(blueprint_id, stage, **given)
    assert after.low_seconds == pytest.approx(before.low_seconds * factor)
    assert after.high_seconds == pytest.approx(before.high_seconds * factor)


def test_a_preset_with_its_own_duration_is_the_base_of_its_rate() -> None:
    as_it_is = expected("nemo-gpt3-5b", "train", "short")
    longer = expected("nemo-gpt3-5b", "train", "short", max_steps=200)
    assert (as_it_is.low_seconds, as_it_is.high_seconds) == (600, 1200)
    assert longer.low_seconds == pytest.approx(1200)
    assert longer.basis.endswith(" an hour: the rate of preset short")


def test_hardware_of_which_no_rate_is_known_keeps_the_duration_of_the_defaults_and_says_so() -> None:
    found = expected("nemo-gpt3-5b", "train", instance_type="p5.48xlarge")
    assert found.low_seconds == 4 * 3600
    assert found.basis == f"{FOR_THE_DEFAULTS}: no rate is known for this instance_type"


def test_a_job_without_a_rate_says_so_once_its_parameters_move() -> None:
    assert not expected("efa-nccl-tests", "nccl").basis
    assert expected("efa-nccl-tests", "nccl", iterations=500).basis == FOR_THE_DEFAULTS
    assert not expected("efa-nccl-tests", "network", iterations=500).basis
