"""Values read from a log: points of curves and progress, and numbers as trainers print them."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from actions.base.numbers import LATEST, MOST_DIGITS, in_bounds
from actions.base.untrusted import is_plain, plain_text

USUAL_METRICS = (
    *(
        "train_loss",
        "val_loss",
        "test_loss",
        "lr",
        "grad_norm",
        "param_norm",
        "step_time_s",
        "step_time_ms",
        "busbw_gbs",
    ),
    *("throughput", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "iters_per_second", "seconds_per_iter"),
    *(
        "consumed_samples",
        "loss_scale",
        "skipped",
        "nan_iters",
        "memory_gib",
        "tflops",
        "tflops_per_gpu",
        "mfu_percent",
    ),
    *("actor_loss", "critic_loss", "unsupervised_loss", "train_loss_final_mean"),
)
"""The metrics that trainers share under one name here. A log may have any others, by the trainer's own names."""


class Point(msgspec.Struct, frozen=True, gc=False):
    """A value of a curve."""

    metric: str
    """`train_loss`, `val_loss`, `test_loss`, or a named extra: `lr`, `grad_norm`, `throughput`…"""
    step: int | None
    """Global step; `None` if the line has none."""
    value: float
    """May be NaN or infinite: that is what the trainer printed."""
    rank: int = 0
    epoch: float | None = None
    key: str = ""
    """The name that the trainer used, e.g. `reduced_train_loss`."""
    at: float | None = None
    """Seconds since the epoch, from the log line's own timestamp."""
    raw: str = ""
    """The number as it was printed; empty for one that was worked out from another."""


class TrainingProgress(msgspec.Struct, frozen=True, gc=False):
    """The state of a progress bar or counter."""

    label: str
    done: int
    total: int | None
    elapsed_seconds: float | None = None
    remaining_seconds: float | None = None
    per_second: float | None = None
    rank: int = 0


LogValue = Point | TrainingProgress

_MOST_STEPS = 10**MOST_DIGITS
_is_plain_name = lru_cache(maxsize=1024)(is_plain)
"""A log has few names and many points."""


def sound(found: LogValue) -> LogValue | None:
    """Return what was read, or was stored, with numbers that all arithmetic behind survives and names without controls.

    Returns:
        The same, changed as little as it can be; `None` for steps that no trainer has counted to.
    """
    if isinstance(found, TrainingProgress):
        return found if max(abs(found.done), abs(found.total or 0)) < _MOST_STEPS else None
    if found.step is not None and abs(found.step) >= _MOST_STEPS:
        return None
    value, epoch = in_bounds(found.value), None if found.epoch is None else in_bounds(found.epoch)
    at = found.at if found.at is None or 0 <= found.at <= LATEST else None
    if value is found.value and epoch is found.epoch and at is found.at and _is_plain_name(found.metric + found.key):
        return found
    names = {"metric": plain_text(found.metric), "key": plain_text(found.key)}
    return replace(found, value=value, epoch=epoch, at=at, **names)


NUMBER = (
    r"(?:[-+]?(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,40})?|\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?"
    r"|[-+]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?:\.\d)?)"
)
"""Pattern of one number: `6,785`, `7.5e-9`, `nan`, and tqdm's padded `nan.0`. Every repetition is bounded."""

_NUMBER = re.compile(NUMBER)


def number_of(text: str) -> float:
    """The value of a text that `NUMBER` matches, within what arithmetic survives. May be NaN or infinite.

    Raises:
        ValueError: It does not match.
    """
    try:
        return in_bounds(float(text))
    except ValueError:
        plain = text.replace(",", "")
        return in_bounds(float(plain if plain[-1].isdigit() and plain[-3:-2].isdigit() else plain.partition(".")[0]))


def number_or_none(text: str) -> float | None:
    """The value if the whole of `text`, blanks aside, is a number."""
    stripped = text.strip()
    return number_of(stripped) if _NUMBER.fullmatch(stripped) else None
