"""A loss that has become no number."""

from __future__ import annotations

import math

from actions.telemetry.curves import Curves, divergence_of
from actions.telemetry.points import Point

NAN = math.nan


def curves(**losses: list[float]) -> Curves:
    found = Curves()
    for metric, values in losses.items():
        for step, value in enumerate(values):
            found.add(Point(metric, step * 10, value))
    return found


def test_a_loss_that_stays_nan_is_told_with_its_last_number() -> None:
    found = divergence_of(curves(train_loss=[9.1, 7.25, NAN, NAN, NAN]))

    assert found is not None
    assert found.detail == "is nan since step 20; the last number was 7.25 at 10."
    assert found.way_out.startswith("Resume from a checkpoint before step 20")


def test_a_step_that_overflowed_is_no_divergence_and_neither_is_a_recovery() -> None:
    assert divergence_of(curves(train_loss=[9.0, NAN, 8.0])) is None
    assert divergence_of(curves(train_loss=[NAN, NAN, NAN, NAN, 8.0])) is None
    assert divergence_of(curves(train_loss=[9.0, 8.0, NAN])) is None


def test_at_the_end_one_value_that_is_none_says_enough() -> None:
    found = divergence_of(curves(train_loss=[9.0, math.inf]), least=1)

    assert found is not None
    assert found.word == "inf"


def test_a_loss_of_nothing_beside_gradients_that_are_nan_is_one() -> None:
    found = divergence_of(curves(train_loss=[2.1, 0.0, 0.0, 0.0], grad_norm=[1.5, NAN, NAN, NAN]))

    assert found is not None
    assert found.detail == "is 0 beside a gradient that is nan since step 10; the last number was 2.1 at 0."
    assert divergence_of(curves(train_loss=[2.1, 0.0, 0.0, 0.0], grad_norm=[1.5, 0.0, 0.0, 0.0])) is None
    assert divergence_of(curves(train_loss=[2.1, 0.7, 0.6, 0.5], grad_norm=[1.5, NAN, NAN, NAN])) is None


def test_a_loss_that_never_was_a_number_says_so() -> None:
    found = divergence_of(curves(train_loss=[NAN] * 4))

    assert found is not None
    assert found.detail == "is nan since its first value."


def test_the_training_comes_before_the_validation_and_other_metrics_do_not_count() -> None:
    found = divergence_of(curves(grad_norm=[NAN] * 4, val_loss=[NAN] * 4, train_loss=[2.0, NAN, NAN, NAN]))

    assert found is not None
    assert found.metric == "train_loss"
    assert divergence_of(curves(grad_norm=[NAN] * 4, train_loss=[2.0])) is None


def test_a_restart_from_a_checkpoint_before_it_ends_it() -> None:
    found = curves(train_loss=[9.0, 8.0, NAN, NAN, NAN])
    found.add(Point("train_loss", 10, 7.9))

    assert divergence_of(found) is None
