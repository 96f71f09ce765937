"""JSON lines: an object on each line, with a step and a loss in it.

Source: `docs/facts/training-logs.md#own-loops`.
"""

from __future__ import annotations

import json

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, Finding, first_of, named_points, point_of
from actions.telemetry.lines import Record

_STEP_KEYS = ("step", "global_step", "iteration", "iter", "trainer/global_step", "current_steps")
_TRAIN_KEYS = ("train_loss", "train/loss", "loss", "reduced_train_loss")
_VALIDATION_KEYS = ("val_loss", "eval_loss", "val/loss", "eval/loss", "validation_loss")
_EXTRAS = {"lr": "lr", "learning_rate": "lr", "grad_norm": "grad_norm", "throughput": "throughput"}


class _Printed(str):
    """A number of a JSON text, as it stands there."""

    __slots__ = ()


class JsonLines:
    """Reads objects that have a step and a loss."""

    marks = ('{"',)

    def read(self, record: Record) -> list[Finding] | None:
        text = record.text.strip()
        if not text.startswith('{"') or not text.endswith("}"):
            return None
        try:
            parsed = json.loads(text, parse_float=_Printed, parse_int=_Printed, parse_constant=_Printed)
        except (ValueError, RecursionError):
            return None
        texts: dict[str, str] = {key: value for key, value in parsed.items() if isinstance(value, _Printed)}
        step_key = first_of(texts, _STEP_KEYS)
        if not step_key or not float(texts[step_key]).is_integer():
            return None
        step, epoch = int(float(texts[step_key])), float(texts["epoch"]) if "epoch" in texts else None
        points: list[Finding] = []
        for metric, keys in ((TRAIN_LOSS, _TRAIN_KEYS), (VAL_LOSS, _VALIDATION_KEYS)):
            key = first_of(texts, keys)
            if key:
                points.append(point_of(record, metric, step, texts[key], key=key, epoch=epoch))
        return points + named_points(record, step, texts, _EXTRAS, epoch=epoch) if points else None
