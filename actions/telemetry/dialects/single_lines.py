"""Trainers that put a whole report on one line: a table of patterns, and JSON objects with a step and a loss.

Source: `docs/facts/training-logs.md` (single lines, NeuronX Distributed, torchtitan, DeepSpeed); nxd, torchtitan 0.2.2
captured in `tests/fixtures/corpus/logs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import msgspec

from actions.telemetry.dialects.dialect import (
    TRAIN_LOSS,
    VAL_LOSS,
    WRAPPER,
    point_of,
)
from actions.telemetry.dialects.named import Named, named_points, numbers_in, points_at, report_of
from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import group_place, memoize_by_outline
from actions.telemetry.points import NUMBER, LogValue, TrainingProgress, number_of, number_or_none


class LineForm(NamedTuple):
    """A form of line, with the pattern that reads it."""

    marker: str
    """A text that such a line always has: a cheap first test."""
    head: re.Pattern[str]
    """Groups `step`, `loss`, and perhaps `epoch`."""
    key: str
    """The trainer's name of the loss."""
    names: dict[str, str] = {}  # noqa: RUF012 - never changed
    """Metric by key, of further numbers whose name is not the metric."""
    metric: str = TRAIN_LOSS
    """The metric that the loss is."""


_N = NUMBER
FORMS = (
    LineForm(
        "step_loss",
        re.compile(
            r"LOG \w{3} .{15,22} - \((?P<epoch>\d{1,9}), (?P<step>\d{1,12})\) {1,4}"
            rf"step_loss : (?P<loss>{_N})"
        ),
        "step_loss",
        {"grad-norm": "grad_norm"},
    ),
    LineForm(
        "validate step: ",
        re.compile(rf"\bvalidate step: {{1,8}}(?P<step>\d{{1,12}}) {{1,8}}loss: {{1,8}}(?P<loss>{_N})(?![\w])"),
        "loss",
        metric=VAL_LOSS,
    ),
    LineForm(
        "loss: ",
        re.compile(rf"\bstep: {{1,8}}(?P<step>\d{{1,12}}) {{1,8}}loss: {{1,8}}(?P<loss>{_N})(?![\w])"),
        "loss",
        {
            "memory": "memory_gib",
            "tps": "tokens_per_s_per_gpu",
            "wps": "tokens_per_s_per_gpu",
            "mfu": "mfu_percent",
        },
    ),
    LineForm(
        "completed step:",
        re.compile(rf"completed step: (?P<step>\d{{1,12}}),.{{0,500}}?(?<!\w)loss: (?P<loss>{_N})"),
        "loss",
        {"seconds": "step_time_s", "TFLOP/s/device": "tflops", "Tokens/s/device": "tokens_per_s_per_gpu"},
    ),
    LineForm(
        "|Loss: ",
        re.compile(rf"(?<!\d)(?P<epoch>\d{{1,9}})\|(?P<step>\d{{1,12}})\|Loss: (?P<loss>{_N}):"),
        "Loss",
    ),
    LineForm(
        "samples/sec",
        re.compile(rf"\bBatch (?P<step>\d{{1,12}}) Loss: (?P<loss>{_N}), Speed: "),
        "Loss",
        {"Speed": "samples_per_s"},
    ),
    LineForm(
        "images/sec:",
        re.compile(
            rf"(?:^|\|)(?P<step>\d{{1,12}})\s{{1,8}}images/sec: {_N} \+/- {_N} \(jitter = {_N}\)"
            rf"\s{{1,8}}(?P<loss>{_N})(?=\s|$)"
        ),
        "total_loss",
        {"images/sec": "images_per_s"},
    ),
    LineForm(
        "Epoch",
        re.compile(
            r"\bEpoch(?:\(train\))?:? {0,2}\[ {0,4}(?P<epoch>\d{1,9})\]\s{0,2}\[ {0,8}(?P<step>\d{1,12})/\d{1,12}\]"
            rf".{{0,2000}}?(?<![\w.])[Ll]oss:?\s{{1,4}}(?P<loss>{_N})(?=[\s,]|$)"
        ),
        "loss",
    ),
    LineForm(
        "(train) [",
        re.compile(
            r"\bIter\(train\) \[ {0,8}(?P<step>\d{1,12})/\d{1,12}\]"
            rf".{{0,2000}}?(?<![\w.])loss: {{1,4}}(?P<loss>{_N})(?=\s|$)"
        ),
        "loss",
    ),
    LineForm(
        "Train: ",
        re.compile(
            r"\bTrain: (?P<epoch>\d{1,9}) \[ {0,8}(?P<step>\d{1,12})/\d{1,12} {1,2}\( {0,4}\d{1,3}%\)\]"
            rf".{{0,40}}?\bLoss: {{1,4}}(?P<loss>{_N})(?=\s|$)"
        ),
        "Loss",
    ),
    LineForm(
        "Saving dict for global step ",
        re.compile(
            r"\bSaving dict for global step (?P<step>\d{1,12}): "
            rf".{{0,500}}?(?<![\w/])loss = (?P<loss>{_N})(?=[\s,]|$)"
        ),
        "loss",
        metric=VAL_LOSS,
    ),
    LineForm(
        "num_updates=",
        re.compile(
            rf"\bepoch (?P<epoch>\d{{1,9}}): {{1,8}}\d{{1,12}} / \d{{1,12}} loss=(?P<loss>{_N}),"
            r".{0,400}?\bnum_updates=(?P<step>\d{1,12})\b"
        ),
        "loss",
    ),
    LineForm(
        " loss=",
        re.compile(
            rf"\| epoch (?P<epoch>\d{{1,9}}):? {{1,8}}(?P<step>\d{{1,12}}) / \d{{1,12}} loss=(?P<loss>{_N})(?=[\s,])"
        ),
        "loss",
    ),
    LineForm(
        "batch: ",
        re.compile(
            r"\b(?P<epoch>\d{1,9})epoch:train:\d{1,12}-(?P<step>\d{1,12})batch: "
            rf"(?:[\w/]{{1,40}}=[^,\s]{{1,24}}, ){{0,40}}loss=(?P<loss>{_N})(?=,|\s|$)"
        ),
        "loss",
    ),
    LineForm(
        "alidation loss at ",
        re.compile(rf"\b[Vv]alidation loss at (?:step|iter(?:ation)?) (?P<step>\d{{1,12}}): (?P<loss>{_N})(?=[\s,]|$)"),
        "validation loss",
        metric=VAL_LOSS,
    ),
    LineForm(
        "raining loss",
        re.compile(
            r"\b[Tt]raining loss(?: \([^()]{1,40}\))? at (?:step|iter(?:ation)?) (?P<step>\d{1,12}) ?: "
            rf"(?P<loss>{_N})(?=[\s,]|$)"
        ),
        "training loss",
    ),
    LineForm(
        "oss at ",
        re.compile(
            r"(?:^|[\]:|] |\b(?:[Tt]rain|[Aa]v(?:g|erage)|[Mm]ean) )[Ll]oss at (?:step|iter(?:ation)?) "
            rf"(?P<step>\d{{1,12}}) ?[:=] {{0,4}}(?P<loss>{_N})(?=[\s,]|$)"
        ),
        "loss",
    ),
    LineForm(
        "] loss: ",
        re.compile(rf"^\[(?P<epoch>\d{{1,9}}), {{1,8}}(?P<step>\d{{1,12}})\] loss: (?P<loss>{_N})(?=\s|$)"),
        "loss",
    ),
    LineForm(
        "loss: ",
        re.compile(rf"^loss: (?P<loss>{_N}) {{1,4}}\[ {{0,8}}(?P<step>\d{{1,12}})/ {{0,8}}\d{{1,12}}\]$"),
        "loss",
    ),
    LineForm(
        "loss train: ",
        re.compile(
            r"\bEpoch (?P<epoch>\d{1,9}) \| iter {1,8}(?P<step>\d{1,12}) step {1,8}\d{1,12} \| "
            rf"loss train: (?P<loss>{_N}),"
        ),
        "loss train",
    ),
    LineForm(
        "loss=",
        re.compile(
            r"\] \[(?P<step>\d{1,12})\] (?:[\w/.-]{1,60}=[^,\s]{1,24}, ){0,60}(?:train[/_])?loss="
            rf"(?P<loss>{_N})(?=,|\s|$)"
        ),
        "loss",
    ),
    LineForm(
        " batches |",
        re.compile(
            r"\| epoch {1,4}(?P<epoch>\d{1,9}) \| {1,8}(?P<step>\d{1,12})/ {0,8}\d{1,12} batches \|"
            rf".{{0,200}}?\| loss {{1,4}}(?P<loss>{_N})(?=\s|$)"
        ),
        "loss",
    ),
    LineForm(
        "Train step ",
        re.compile(rf"\bTrain step (?P<step>\d{{1,12}}) training loss: (?P<loss>{_N})"),
        "training loss",
    ),
)
_RLHF = re.compile(r"\bepoch: (\d{1,9}) ?\| ?step: (\d{1,12})(?:/\d{1,12})? ?\| ?ppo_ep: ")
_RLHF_PAIR = re.compile(rf"\| ?([a-z_]{{1,30}}): ({NUMBER})")
_RLHF_NAMES = {"act_loss": "actor_loss", "cri_loss": "critic_loss", "unsuper_loss": "unsupervised_loss"}
_LOG_DIST = re.compile(rf"\bstep=(\d{{1,12}}), skipped=\d{{1,12}}, lr=\[({NUMBER})")
_TIMER = re.compile(rf"/global_step=(\d{{1,12}}), .{{0,200}}?\bCurrSamplesPerSec=({NUMBER})")
_PRINTED = (
    ("skipped=", _LOG_DIST, "lr", "lr"),
    ("CurrSamplesPerSec=", _TIMER, "samples_per_s", "CurrSamplesPerSec"),
)
_DOCUMENTS = re.compile(rf"\bProcessed (\d{{1,12}}) documents \(({NUMBER}) docs/s")


class _FormPlaces(msgspec.Struct, frozen=True):
    """The places of the numbers in lines of one outline."""

    marker: str
    """The marker of their form."""
    step: slice
    epoch: slice | None
    numbers: tuple[Named, ...]
    """The loss first."""


class SingleLines:
    """Tries the forms one after the other; the first that fits reads the line."""

    marks: ClassVar[tuple[str, ...]] = tuple(form.marker for form in FORMS)

    def __init__(self) -> None:
        self._has_completed_steps = False

    def read(self, record: LogRecord) -> list[LogValue] | None:
        places = _places_in(record.outline)
        if places is None:
            return None
        # MaxText's second logger repeats the loss of `completed step:` with more digits: one series, not two.
        self._has_completed_steps |= places.marker == "completed step:"
        if self._has_completed_steps and places.marker == "Train step ":
            return []
        text = record.text
        epoch = float(text[places.epoch]) if places.epoch else None
        return points_at(record, int(text[places.step]), places.numbers, epoch=epoch)


class DeepSpeed:
    """Reads DeepSpeed-Chat's three losses, and what `log_dist` prints: no loss at all."""

    marks: ClassVar[tuple[str, ...]] = ("ppo_ep: ", *(mark for mark, *_ in _PRINTED))

    def read(self, record: LogRecord) -> list[LogValue] | None:
        text = record.text
        if "step" not in text:
            return None
        head = _RLHF.search(text) if "ppo_ep: " in text else None
        if head:
            values = dict(_RLHF_PAIR.findall(text, head.end() - 1))
            return named_points(record, int(head[2]), values, _RLHF_NAMES, epoch=float(head[1]))
        for mark, pattern, metric, key in _PRINTED:
            match = pattern.search(text) if mark in text else None
            if match:
                return [point_of(record, metric, int(match[1]), match[2], key=key)]
        return None


_REPORT = re.compile(r"Reporting training result (\d{1,9}):.{0,500}?metrics=(\{[^{}]{0,6000}\})")
_FROM_RANK = re.compile(r"\) from rank (\d{1,9})")
_REPORTED_PAIR = re.compile(rf"'([\w/.-]{{1,80}})': ({NUMBER})(?=[,}}])")


class RayReports:
    """Reads the one-line reports of Ray Train V2, which prints each of them twice."""

    marks: ClassVar[tuple[str, ...]] = ("Reporting training result",)

    def read(self, record: LogRecord) -> list[LogValue] | None:
        report = _REPORT.search(record.text) if "Reporting training result" in record.text else None
        if report is None:
            return None
        sender = _FROM_RANK.search(record.text, report.end())
        values = dict(_REPORTED_PAIR.findall(report[2]))
        located = record._replace(rank=int(sender[1]) if sender else record.rank)
        return report_of(located, values, values.get("step", report[1]))


class Preprocessing:
    """Reads Megatron's document counter."""

    marks: ClassVar[tuple[str, ...]] = ("documents (",)

    def read(self, record: LogRecord) -> list[LogValue] | None:
        match = _DOCUMENTS.search(record.text) if "documents (" in record.text else None
        if match is None:
            return None
        return [TrainingProgress("documents", int(match[1]), None, per_second=number_of(match[2]), rank=record.rank)]


@memoize_by_outline
def _places_in(outline: str) -> _FormPlaces | None:
    for form in FORMS:
        match = form.head.search(outline) if form.marker in outline else None
        if match:
            return _places_of(form, match)
    return None


def _places_of(form: LineForm, match: re.Match[str]) -> _FormPlaces:
    loss = Named(form.metric, form.key, slice(*match.span("loss")))
    taken = {match.start(group) for group in form.head.groupindex}
    further = numbers_in(match.string, form.names, taken=taken)
    epoch = group_place(match, "epoch") if "epoch" in form.head.groupindex else None
    return _FormPlaces(form.marker, slice(*match.span("step")), epoch, (loss, *further))


_STEP_KEYS = ("step", "global_step", "iteration", "iter", "current_steps", "num_updates")


class _Printed(str):
    """A number of a JSON text, as it stands there."""

    __slots__ = ()


_INNER = ("metrics", "data", "values", "logs", "train")
"""Keys whose objects hold values, too; others hold settings."""
_OF_VALIDATION = re.compile(
    r"""(?i)["'](?:split|phase|mode|stage|event|type|kind|prefix)["']: ?["'](?:val|eval|valid|dev)"""
)
_OBJECT = re.compile(r"\{[\"']")
_PYTHON_PAIR = re.compile(rf"'([\w/ ().-]{{1,80}})': '?{WRAPPER}({NUMBER})'?(?=[,}})])")
_STEP_BEFORE = re.compile(
    r"(?i)\b(?:global_)?(?:step|iter(?:ation)?|rollout)s?[ :=\[]{1,4}(\d{1,12})(?:/\d{1,12})?\W{0,8}\Z"
)


_COUNTED = re.compile(r"[\"']global_step/max_steps[\"']: ?[\"'](\d{1,12})/\d{1,12}")
"""The step as ms-swift prints it."""
_FINAL = {"train_loss": "train_loss_final_mean"}


class JsonLines:
    """Reads objects that have a step, as JSON or as Python prints them, also behind other words.

    The step may stand before the object, and the numbers may be texts (fairseq, metaseq).
    """

    marks: ClassVar[tuple[str, ...]] = ("step", "iter", "num_updates", "rollout", "Step", "Iter")

    def read(self, record: LogRecord) -> list[LogValue] | None:
        text = record.text.rstrip()
        found = _OBJECT.search(text) if text.endswith("}") else None
        if found is None:
            return None
        printed = text[found.start() :]
        texts = _numbers_in(printed)
        counted = _step_of(texts) or _COUNTED.search(printed) or _STEP_BEFORE.search(text, 0, found.start())
        step = counted if isinstance(counted, str) else counted[1] if counted else ""
        if not step or not number_of(step).is_integer():
            return None
        if "train_runtime" in texts:
            return named_points(record, int(number_of(step)), texts, _FINAL)
        metric = VAL_LOSS if _OF_VALIDATION.search(printed) else TRAIN_LOSS
        points = report_of(record, texts, step, metric=metric)
        return points if len(points) > 1 or any(key in text for key in ("loss", "reward")) else None


def _step_of(texts: Mapping[str, str]) -> str:
    """Return the step among numbers by name, also of `train/step` and `train_num_updates`; empty without one."""
    for key in (*_STEP_KEYS, *texts):
        if key in texts and _PREFIXED.sub("", key) in _STEP_KEYS:
            return texts[key]
    return ""


_PREFIXED = re.compile(r"^.{0,60}/|^(?:train|valid)_")


def _numbers_in(text: str) -> dict[str, str]:
    """Return the numbers of an object by name, as they are printed; those of objects within it where it has none."""
    if text[1] == "'":
        return dict(_PYTHON_PAIR.findall(text))
    try:
        parsed = json.loads(text, parse_float=_Printed, parse_int=_Printed, parse_constant=_Printed)
    except (ValueError, RecursionError):
        return {}
    inner = [parsed[key] for key in _INNER if isinstance(parsed.get(key), dict)]
    numbers: dict[str, str] = {}
    for values in (*inner, parsed):
        numbers |= {key: value for key, value in values.items() if _is_number(value)}
    return numbers


def _is_number(value: object) -> bool:
    return isinstance(value, _Printed) or (isinstance(value, str) and number_or_none(value) is not None)
