"""Numbers beside their names: every one of a record with a step is a point of a curve.

A name that trainers share gets one metric (`learning_rate` is `lr`); any other name is the metric itself:
`actor/pg_loss`, `rewards/chosen`. Source: `docs/facts/training-logs.md#named-numbers`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping

import msgspec

from actions.telemetry.dialects.dialect import TEST_LOSS, TRAIN_LOSS, VAL_LOSS, WRAPPER, first_of, point_of
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, LogValue, number_of

_NO_METRIC = re.compile(
    r"(?:(?:global|max|current)_)?steps?|iter(?:ation)?s?|epochs?|batch|num_updates|(?:local_)?rank|world_size|pid|line"
    r"|seed|eta|ts|timestamp|port|version|v_num|attempt|.{0,80}\.(?:py|cc|cpp|cu|h|go|rs|java|scala)"
)
"""Names that place a record, or that name what printed it."""
_LOSSES = frozenset({TRAIN_LOSS, VAL_LOSS, TEST_LOSS, "loss"})
"""Given by the dialects alone: a number of such a name that they leave out is another one."""
_COMMON = {
    "lr": "lr",
    "learning_rate": "lr",
    "learning rate": "lr",
    "grad norm": "grad_norm",
    "gradient_norm": "grad_norm",
    "gnorm": "grad_norm",
    "norm": "grad_norm",
    "tok/s": "tokens_per_s",
    "tok/sec": "tokens_per_s",
    "tokens/s": "tokens_per_s",
    "tokens/sec": "tokens_per_s",
    "toks/s": "tokens_per_s",
    "samples/s": "samples_per_s",
    "samples/sec": "samples_per_s",
}
"""Metric by name, in small letters, of the names that trainers share."""


def metric_of(key: str, names: Mapping[str, str]) -> str:
    """Return the metric of a name: that of `names`, the common one, or the name itself; empty if it is not a metric."""
    if key in names:
        return names[key]
    small = key.lower()
    if key in _LOSSES or _NO_METRIC.fullmatch(small.rpartition("/")[2]):
        return ""
    return _COMMON.get(small, key)


def named_points(
    record: LogRecord,
    step: int | None,
    texts: Mapping[str, str],
    names: Mapping[str, str],
    *,
    epoch: float | None = None,
    taken: Container[str] = (),
) -> list[LogValue]:
    """Return a point for each of `texts` that is a metric.

    Args:
        record: The record that holds them.
        step: Global step.
        texts: Numbers as printed, by the key that the trainer uses.
        names: Metric by key, before the common ones.
        epoch: If the record has it.
        taken: Keys that have been read.
    """
    return [
        point_of(record, metric, step, text, key=key, epoch=epoch)
        for key, text in texts.items()
        if key not in taken and (metric := metric_of(key, names))
    ]


TRAINING_NAMES = (
    *("reduced_train_loss", "train_loss", "train_loss_step", "train/loss", "train/loss_step", "training_loss"),
    *("step_loss", "gpt_loss", "loss/train/total", "loss/train"),
)
PLAIN_NAME = "loss"
VALIDATION_NAMES = (
    *("val_loss", "validation_loss", "val/loss", "valid_loss", "eval_loss", "eval/loss"),
    *("val_loss_epoch", "val/loss_epoch", "valid_loss_epoch"),
)
"""Names of the losses, those first that count where several stand together."""
_READ = frozenset({*TRAINING_NAMES, PLAIN_NAME, *VALIDATION_NAMES})


def report_of(
    record: LogRecord,
    values: Mapping[str, str],
    counted: str | None,
    *,
    metric: str = TRAIN_LOSS,
    names: Mapping[str, str] = {},
) -> list[LogValue]:
    """Return the points of a report: its losses first, then every other number.

    Args:
        record: The record that ends it.
        values: Its numbers as printed, by name.
        counted: Its step as printed.
        metric: The metric of its plain loss.
        names: Metric by key, before the common ones.
    """
    epoch = number_of(values["epoch"]) if "epoch" in values else None
    number = number_of(counted) if counted is not None else math.nan
    step = int(number) if number.is_integer() else None
    found = ((metric, first_of(values, (*TRAINING_NAMES, PLAIN_NAME))), (VAL_LOSS, first_of(values, VALIDATION_NAMES)))
    losses = [point_of(record, metric, step, values[key], key=key, epoch=epoch) for metric, key in found if key]
    return losses + named_points(record, step, values, names, epoch=epoch, taken=_READ)


class Named(msgspec.Struct, frozen=True):
    """The places of a named number in records of one outline."""

    metric: str
    """Empty where the name is the metric."""
    key: str | slice
    """The name, or its place: outlines have lost the digits of names."""
    place: slice


def named_in(pairs: Iterable[re.Match[str]], names: Mapping[str, str]) -> tuple[Named, ...]:
    """Return the numbers that are metrics.

    Args:
        pairs: The key that the trainer uses in group 1, a number in group 2; the last counts of those with one key.
        names: Metric by key, before the common ones.
    """
    found: dict[str | slice, Named] = {}
    for pair in pairs:
        key, start = pair[1].strip(), pair.start(1) + len(pair[1]) - len(pair[1].lstrip())
        metric = metric_of(key, names)
        if metric:
            named = _named(metric, key, start, pair.span(2))
            found[str(named.key)] = named
    return tuple(found.values())


def _named(metric: str, key: str, start: int, number: tuple[int, int]) -> Named:
    if "0" not in key:
        return Named(metric, key, slice(*number))
    return Named("" if metric == key else metric, slice(start, start + len(key)), slice(*number))


def points_at(
    record: LogRecord, step: int | None, numbers: Iterable[Named], *, epoch: float | None = None
) -> list[LogValue]:
    """Return a point for each of `numbers`."""
    text = record.text
    keys = ((each, text[each.key] if isinstance(each.key, slice) else each.key) for each in numbers)
    return [point_of(record, each.metric or key, step, text[each.place], key=key, epoch=epoch) for each, key in keys]


_WORD = r"[A-Za-z_][\w/.@()-]{0,80}"
_NAME = rf"(?P<name>(?:{_WORD} )?{_WORD})"
_UNIT = r"(?: ?(?:ms|s|%|x|[KMGT]i?B|it/s|tok(?:en)?s?/s(?:ec)?|/s(?:ec)?))?"
_PAIR = re.compile(
    rf"(?<![\w/.@%$-]){_NAME}['\"]?(?P<sign> ?[:=] {{0,12}}| is )['\"]?"
    rf"{WRAPPER}(?P<number>{NUMBER}){_UNIT}(?![\w:/%-]|\.\w)"
)
"""A sign between name and number. Of words in a row the last two are the name."""
_CELL = re.compile(
    rf"(?:(?:^|[\],|;\t:]) {{0,4}}|  | - ){_NAME}(?P<sign> {{1,12}})"
    rf"{WRAPPER}(?P<number>{NUMBER}){_UNIT}(?= {{0,4}}(?:[,|;\t(]|$)|  | - )"
)
"""A blank between them, where both stand between separators."""
_RUN = re.compile(
    r"(?<![\w/.@%$-])(?P<name>[Ll]earning[ _]rate|[Gg]rad norm|lr|LR|[\w/.]{0,40}(?:norm|oss|eward|ccuracy)"
    rf"|(?:tok(?:en)?s?|samples)/s(?:ec)?)(?P<sign> {{1,4}})(?P<number>{NUMBER})(?![\w:/%-]|\.\w)"
)
"""A blank between them, anywhere, for names that do not stand before numbers in sentences."""
_GLUED_COUNT = re.compile(r":['\"]?[-+]?0{1,40}")
"""A count glued to its name: behind the name of a function that may be a line of its source."""
_BY_UNIT = re.compile(rf"(?<![\w.,])({NUMBER}) ?(ms|tok(?:ens?)?/s(?:ec)?)(?=[\s,|)\]]|$)")
"""A number that its unit alone names, as llm.c and nanoGPT print: `31.25 ms`, `524,232 tok/s`."""


def numbers_in(outline: str, names: Mapping[str, str], *, taken: Container[int] = ()) -> tuple[Named, ...]:
    """Return the named numbers of a line, the first of each name.

    Args:
        outline: Of the line.
        names: Metric by key, before the common ones.
        taken: The places at which numbers begin that have been read.
    """
    matches = {match.start("number"): match for form in (_RUN, _CELL, _PAIR) for match in form.finditer(outline)}
    found: dict[str, Named] = {}
    for at, match in sorted(matches.items()):
        key = match["name"]
        is_line = "/" not in key and _GLUED_COUNT.fullmatch(outline, match.start("sign"), match.end("number"))
        metric = "" if at in taken or is_line else metric_of(key, names)
        if metric:
            named = _named(metric, key, match.start("name"), match.span("number"))
            found.setdefault(named.metric or str(named.key), named)
    for metric, named in _by_unit(outline, matches):
        found.setdefault(metric, named)
    return tuple(found.values())


def _by_unit(outline: str, named: Container[int]) -> Iterable[tuple[str, Named]]:
    """Yield the numbers without a name; of two durations either may be a step's."""
    units = [("step_time_ms" if match[2] == "ms" else "tokens_per_s", match) for match in _BY_UNIT.finditer(outline)]
    metrics = [metric for metric, _ in units]
    for metric, match in units:
        if metrics.count(metric) == 1 and (match.start(1) not in named or metric == "step_time_ms"):
            yield metric, Named(metric, match[2], slice(*match.span(1)))
