"""Records of fields between bars: Megatron-LM with its relatives, NeMo 2 and BioNeMo 2 in a pipe.

Source: FORMATS 2.2 and 2.3; Megatron-LM 2026-11 captured in `tests/fixtures/corpus/logs/megatron_lm_*`.
"""

from __future__ import annotations

import math
import re

from actions.telemetry.dialects.dialect import TEST_LOSS, TRAIN_LOSS, VAL_LOSS, Finding, named_points, point_of
from actions.telemetry.lines import Record
from actions.telemetry.numbers import NUMBER, number_of
from actions.telemetry.points import Progress

_ITERATION = re.compile(r"(?<!after )\biteration {1,12}(\d{1,12})/ {0,12}(\d{1,12}) \|")
_VALIDATION = re.compile(
    rf"\bvalidation loss at iteration (\d{{1,12}})(?: on (validation|test) set)? \|"
    rf"(?: [^|\n]{{1,80}} \|){{0,3}} lm.loss value: ({NUMBER})"
)
_EPOCH = re.compile(r"\bTraining epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,12}) \|")
_FIELD = re.compile(rf"\| {{0,4}}([^:|]{{1,60}}?) {{0,4}}: {{0,16}}({NUMBER})")

_MEGATRON = {
    "lm loss": TRAIN_LOSS,
    "lm_loss": TRAIN_LOSS,
    "learning rate": "lr",
    "grad norm": "grad_norm",
    "loss scale": "loss_scale",
    "consumed samples": "consumed_samples",
    "elapsed time per iteration (ms)": "step_time_ms",
    "elapsed time per iteration (s)": "step_time_s",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_gpu",
    "TFLOPs": "tflops_per_gpu",
    "throughput": "throughput",
    "samples per second": "samples_per_s",
    "number of skipped iterations": "skipped",
    "number of nan iterations": "nan_iters",
}
_NEMO = {
    "reduced_train_loss": TRAIN_LOSS,
    "lr": "lr",
    "train_step_timing in s": "step_time_s",
    "consumed_samples": "consumed_samples",
    "grad_norm": "grad_norm",
}


class Megatron:
    """Reads iteration records and validation records. While fp16 warms up there is no loss in them."""

    marks = ("iteration",)

    def read(self, record: Record) -> list[Finding] | None:
        if "iteration" not in record.text:
            return None
        validation = _VALIDATION.search(record.text)
        if validation:
            metric = TEST_LOSS if validation[2] == "test" else VAL_LOSS
            return [point_of(record, metric, int(validation[1]), validation[3], key="lm loss value")]
        iteration = _ITERATION.search(record.text)
        if iteration is None:
            return None
        step, last = int(iteration[1]), int(iteration[2])
        fields = _fields_of(record.text, iteration.end() - 1)
        return [
            Progress("iteration", step, last, rank=record.rank),
            *named_points(record, step, fields, _MEGATRON),
        ]


class NemoFields:
    """Reads NeMo 2's lines. `iteration` begins again with each epoch, `global_step` does not."""

    marks = ("Training epoch",)

    def __init__(self) -> None:
        self._seen_validation: dict[int, str] = {}

    def read(self, record: Record) -> list[Finding] | None:
        head = _EPOCH.search(record.text) if "Training epoch" in record.text else None
        if head is None:
            return None
        epoch, iteration, last = int(head[1]), int(head[2]), int(head[3])
        fields = _fields_of(record.text, head.end() - 1)
        step = _whole(fields.get("global_step"), iteration)
        findings: list[Finding] = [Progress(f"epoch {epoch}", iteration, last, rank=record.rank)]
        findings += named_points(record, step, fields, _NEMO, epoch=epoch)
        text = fields.get("val_loss")
        if text is not None and text != self._seen_validation.get(record.rank):
            self._seen_validation[record.rank] = text
            findings.append(point_of(record, VAL_LOSS, step, text, key="val_loss", epoch=epoch))
        return findings


def _fields_of(text: str, start: int) -> dict[str, str]:
    return {key.strip(): value for key, value in _FIELD.findall(text, start)}


def _whole(text: str | None, otherwise: int) -> int:
    value = number_of(text) if text else math.nan
    return int(value) if value.is_integer() else otherwise
