"""Records of fields between bars: Megatron-LM with its relatives, NeMo 2 and BioNeMo 2 in a pipe.

Source: `docs/facts/training-logs.md#nemo-2`, `docs/facts/training-logs.md#megatron-lm`; Megatron-LM 2026-11
captured in `tests/fixtures/corpus/logs/megatron_lm_*`.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from actions.telemetry.dialects.dialect import TEST_LOSS, TRAIN_LOSS, VAL_LOSS
from actions.telemetry.dialects.named import Named, named_in, points_at
from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import group_place, memoize_by_outline
from actions.telemetry.points import NUMBER, LogValue, Point, TrainingProgress, number_of

_ITERATION = re.compile(r"(?<!after )\biteration {1,12}(\d{1,12})/ {0,12}(\d{1,12}) \|")
_VALIDATION = re.compile(
    rf"\bvalidation loss at iteration (\d{{1,12}})(?: on (validation|test) set)? \|"
    rf"(?: [^|\n]{{1,80}} \|){{0,3}} lm.loss value: ({NUMBER})"
)
_EPOCH = re.compile(r"\bTraining epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,12}) \|")
_FIELD = re.compile(rf"\| {{0,4}}([^:|]{{1,60}}?) {{0,4}}: {{0,16}}({NUMBER})")

_STEP = "step"
"""No metric: what the step is read from."""

_MEGATRON = {
    "lm loss": TRAIN_LOSS,
    "lm_loss": TRAIN_LOSS,
    "loss": TRAIN_LOSS,
    "loss scale": "loss_scale",
    "consumed samples": "consumed_samples",
    "elapsed time per iteration (ms)": "step_time_ms",
    "elapsed time per iteration (s)": "step_time_s",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_gpu",
    "TFLOPs": "tflops_per_gpu",
    "samples per second": "samples_per_s",
    "number of skipped iterations": "skipped",
    "number of nan iterations": "nan_iters",
}
_NEMO = {
    "reduced_train_loss": TRAIN_LOSS,
    "train_step_timing in s": "step_time_s",
    "val_loss": VAL_LOSS,
    "global_step": _STEP,
}


class _FieldPlaces(msgspec.Struct, frozen=True):
    """The places of the numbers in records of one outline."""

    numbers: tuple[Named, ...]
    step: slice
    last_step: slice | None = None
    epoch: slice | None = None
    global_step: slice | None = None


class Megatron:
    """Reads iteration records and validation records. While fp16 warms up there is no loss in them."""

    marks: ClassVar[tuple[str, ...]] = ("iteration",)

    def read(self, record: LogRecord) -> list[LogValue] | None:
        places = _iteration_in(record.outline)
        if places is None:
            return None
        step = int(record.text[places.step])
        points = points_at(record, step, places.numbers)
        if places.last_step is None:
            return points
        return [TrainingProgress("iteration", step, int(record.text[places.last_step]), rank=record.rank), *points]


@memoize_by_outline
def _iteration_in(outline: str) -> _FieldPlaces | None:
    validation = _VALIDATION.search(outline)
    if validation:
        metric = TEST_LOSS if validation[2] == "test" else VAL_LOSS
        loss = Named(metric, "lm loss value", slice(*validation.span(3)))
        return _FieldPlaces((loss,), slice(*validation.span(1)))
    iteration = _ITERATION.search(outline)
    if iteration is None:
        return None
    fields = named_in(_FIELD.finditer(outline, iteration.end() - 1), _MEGATRON)
    return _FieldPlaces(fields, slice(*iteration.span(1)), group_place(iteration, 2))


class NemoFields:
    """Reads NeMo 2's lines. `iteration` begins again with each epoch, `global_step` does not."""

    marks: ClassVar[tuple[str, ...]] = ("Training epoch",)

    def __init__(self) -> None:
        self._seen_validation: dict[int, str] = {}

    def read(self, record: LogRecord) -> list[LogValue] | None:
        places = _nemo_in(record.outline)
        if places is None or places.epoch is None or places.last_step is None:
            return None
        text = record.text
        epoch, iteration, last = int(text[places.epoch]), int(text[places.step]), int(text[places.last_step])
        step = _whole(text[places.global_step], iteration) if places.global_step else iteration
        points = points_at(record, step, places.numbers, epoch=epoch)
        return [
            TrainingProgress(f"epoch {epoch}", iteration, last, rank=record.rank),
            *(point for point in points if not self._is_held(point)),
        ]

    def _is_held(self, point: LogValue) -> bool:
        """Return whether it is a validation loss that stood on the line before already."""
        if not isinstance(point, Point) or point.metric != VAL_LOSS:
            return False
        was = self._seen_validation.get(point.rank)
        self._seen_validation[point.rank] = point.raw
        return was == point.raw


@memoize_by_outline
def _nemo_in(outline: str) -> _FieldPlaces | None:
    head = _EPOCH.search(outline)
    if head is None:
        return None
    fields = named_in(_FIELD.finditer(outline, head.end() - 1), _NEMO)
    steps = [each.place for each in fields if each.metric == _STEP]
    losses_last = sorted((each for each in fields if each.metric != _STEP), key=lambda each: each.metric == VAL_LOSS)
    return _FieldPlaces(
        tuple(losses_last),
        slice(*head.span(2)),
        group_place(head, 3),
        group_place(head, 1),
        steps[0] if steps else None,
    )


def _whole(text: str, otherwise: int) -> int:
    value = number_of(text)
    return int(value) if value.is_integer() else otherwise
