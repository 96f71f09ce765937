"""Loops that people write themselves: a step and a loss somewhere on a line, or JSON lines.

Source: FORMATS 2.8, the last rows; llm.c and nanoGPT print this way too.
"""

from __future__ import annotations

import json
import re

from msgspec.structs import replace

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, Finding, first_of, named_points, point_of
from actions.telemetry.lines import Record
from actions.telemetry.numbers import NUMBER
from actions.telemetry.points import Point, Progress

_STEP = re.compile(
    r"(?:\b(?:global_)?[Ss]teps?|\b[Ii]ter(?:ation)?|스텝|\bBatch)[ :=]{1,12}\[?(\d{1,12})(?:/(\d{1,12}))?\]?"
    r"(?=[\s:|]|,(?!\d)|$)"
)
_EPOCH = re.compile(r"\b[Ee]poch[ :=]{1,3}\[?(\d{1,9}(?:\.\d{1,9})?)\b")
_TRAIN = re.compile(rf"(?<![\w/-])(?:[Tt]rain(?:ing)?[ _])?[Ll]oss[ =:]{{1,4}}({NUMBER})(?![\w%-]|\.\d)")
_VALIDATION = re.compile(rf"(?<![\w/-])[Vv]al(?:id(?:ation)?)?[ _][Ll]oss\)?[ =:]{{1,4}}({NUMBER})(?![\w%-]|\.\d)")
_BEFORE_TRAIN = re.compile(r"(?i)(?:val|valid|validation|eval|test|packet)[ _]\Z")
_OF_VALIDATION = re.compile(
    r"(?i)(?:^|[\s(\[|])(?:val(?:id(?:ation)?)?|eval(?:uation)?)[\])]?[ :|-]{1,3}"
    r"(?=(?:global_)?(?:step|iter|batch|epoch))"
)
"""What stands before the step of a line that is about a validation: its plain `loss` is that one's."""
_LOOK_BACK = 12
"""Characters before a loss that can say whose it is, and before its `oss` that can belong to it."""
_STEP_WORDS = ("tep", "ter", "스텝", "Batch")
"""One of them is in every name of a step, at most so many characters behind its beginning:"""
_LONGEST_STEP_WORD = len("global_s")
_VAL_ONLY = re.compile(rf"^val loss ({NUMBER})\s{{0,8}}$")

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


class OwnLoops:
    """Reads `step 20 loss 2.1` and its like.

    A validation loss without a step (llm.c) belongs to the step that follows it; at the end of the stream, to the
    last one. A line that names an epoch keeps that instead.
    """

    marks = ("oss",)

    def __init__(self) -> None:
        self._held: Point | None = None
        self._last_step: int | None = None
        self.reads_training = True
        """Whether training losses are read: not where another dialect has been recognised in the stream."""

    def read(self, record: Record) -> list[Finding] | None:
        text = record.text
        if "oss" not in text:
            return None
        alone = _VAL_ONLY.match(text)
        if alone:
            released = self.flush()
            self._held = point_of(record, VAL_LOSS, None, alone[1], key="val loss")
            return released
        step, epoch = _step_in(text), _EPOCH.search(text) if "poch" in text else None
        findings = self._losses(record, int(step[1]) if step else None, float(epoch[1]) if epoch else None)
        if step and findings:
            self._last_step = int(step[1])
            if step[2]:
                findings.append(Progress("step", int(step[1]), int(step[2]), rank=record.rank))
            findings += self._release(int(step[1]))
        return findings or None

    def flush(self) -> list[Finding]:
        """The held validation loss, on the last step."""
        return self._release(self._last_step)

    def _losses(self, record: Record, step: int | None, epoch: float | None) -> list[Finding]:
        findings: list[Finding] = []
        has_validation = "val" in record.text.lower()
        is_validation = has_validation and _OF_VALIDATION.search(record.text) is not None
        train = _training_in(record.text) if self._reads_line(step, epoch, is_validation=is_validation) else None
        if train:
            metric = VAL_LOSS if is_validation else TRAIN_LOSS
            findings.append(point_of(record, metric, step, train[1], key="loss", epoch=epoch))
        is_placed = has_validation and (step is not None or epoch is not None)
        validation = _VALIDATION.search(record.text) if is_placed else None
        if validation:
            findings.append(point_of(record, VAL_LOSS, step, validation[1], key="validation loss", epoch=epoch))
        return findings

    def _reads_line(self, step: int | None, epoch: float | None, *, is_validation: bool) -> bool:
        """Whether a plain loss is a point; that of a whole epoch only where no step has told one."""
        if step is None and (epoch is None or self._last_step is not None):
            return False
        return is_validation or self.reads_training

    def _release(self, step: int | None) -> list[Finding]:
        held, self._held = self._held, None
        if held is None:
            return []
        return [replace(held, step=step)]


def _step_in(text: str) -> re.Match[str] | None:
    """The step, looked for from where its name can begin."""
    found = [at for word in _STEP_WORDS if (at := text.find(word)) >= 0]
    return _STEP.search(text, max(0, min(found) - _LONGEST_STEP_WORD)) if found else None


def _training_in(text: str) -> re.Match[str] | None:
    """The first loss that is not one of a validation."""
    for match in _TRAIN.finditer(text, max(0, text.find("oss") - _LOOK_BACK)):
        start = match.start()
        if not _BEFORE_TRAIN.search(text, max(0, start - _LOOK_BACK), start):
            return match
    return None
