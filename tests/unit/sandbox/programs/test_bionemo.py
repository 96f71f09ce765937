"""The output of the containers of the BioNeMo blueprint, and what they leave behind."""

from __future__ import annotations

import re

from actions.sandbox.programs.bionemo.esm1nv import train
from actions.sandbox.programs.pytorch import lightning_bar, number
from tests.unit.sandbox.programs.containers import a_container, run, with_dataset


def test_training_without_data_ends_with_a_traceback() -> None:
    outcome = run(train(a_container()))
    assert outcome.exit_code == 1
    assert "FileNotFoundError" in outcome.err


def test_a_lost_peer_restarts_the_group_from_the_last_checkpoint() -> None:
    outcome = run(train(a_container(volume=with_dataset())), lose_a_peer_after=22.0)
    assert outcome.exit_code == 0
    steps = [int(float(value)) for value in re.findall(r"global_step=([\d.]+)", outcome.err)]
    restart = next(index for index in range(1, len(steps)) if steps[index] < steps[index - 1])
    assert steps[restart] == 20


def test_a_lost_peer_without_restarts_left_is_the_end() -> None:
    container = a_container(volume=with_dataset(), PET_MAX_RESTARTS="0")
    assert run(train(container), lose_a_peer_after=22.0).exit_code == 1


def test_a_bar_is_drawn_as_the_captured_one() -> None:
    metrics: dict[str, float | str] = {
        "loss": "2.52",
        "v_num": "",
        "reduced_train_loss": 2.51,
        "global_step": 31_000.0,
        "consumed_samples": 254e6,
        "val_loss": 2.51,
    }
    drawn = lightning_bar(34103, 1_100_000, elapsed_seconds=19738, metrics=metrics)
    assert drawn.startswith("Epoch 0:   3%|▎         | 34103/1100000 [5:28:58<171:2")
    assert drawn.endswith(
        "1.73it/s, loss=2.52, v_num=, reduced_train_loss=2.510, global_step=3.1e+4, consumed_samples=2.54e+8, "
        "val_loss=2.510]"
    )


def test_numbers_are_padded_as_lightning_pads_them() -> None:
    assert [number(value) for value in (39.0, 2.5, 0.0, 1e6)] == ["39.00", "2.500", "0.000", "1e+6"]
