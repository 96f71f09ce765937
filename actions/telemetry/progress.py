"""Progress bars in the manner of tqdm.

Source: tqdm 4.67 `std.py` format_meter; Lightning 1.9 to 2.5; captured in `tests/fixtures/corpus/logs`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from actions.telemetry.numbers import NUMBER, number_of
from actions.telemetry.outlines import outline_of, place_of, remembered
from actions.telemetry.points import Progress

_COUNTER = re.compile(
    r"(?<![\d.])(?P<done>\d{1,12})(?:/(?P<total>\d{1,12}|\?)|it) "
    r"\[(?P<elapsed>[\d:?]{1,12})(?:<(?P<left>[\d:?]{1,12}))?"
)
_RATE = re.compile(rf"[, ]\s{{0,8}}({NUMBER})(it/s|s/it)(?=[,\]]|\s|$)")
_METRIC = re.compile(rf"[,\[ ]\s{{0,4}}([A-Za-z][\w/.-]{{0,60}}(?: in s)?)[=:] ?({NUMBER})(?=\s{{0,4}}[,\]])")
_NOT_TRAINING = re.compile(
    r"(?i)^\W{0,8}(?:validati|sanity|test|predict|eval|generat|map\b|filter\b|download|loading|tokeni|extract|sav|"
    r"writ|merg|creat|resolv|fetch|convert)"
)
_POSTFIX = 4000


class Bar(NamedTuple):
    """One redraw of a bar."""

    label: str
    """What stands before it: `Epoch 0`, `Map`, empty."""
    done: int
    total: int | None
    elapsed_seconds: float | None
    remaining_seconds: float | None
    rate: float | None
    """As printed, in `rate_unit`."""
    rate_text: str
    """The same as it was printed; empty if it was not."""
    rate_unit: str
    """`it/s`, `s/it`, or empty."""
    metrics: dict[str, float]
    """The postfix: `reduced_train_loss`, `global_step`…"""
    texts: dict[str, str]
    """The same numbers as they were printed: `3.1e+4` has lost digits."""

    @property
    def is_training(self) -> bool:
        """Whether it counts steps of training, as far as its label tells."""
        return _NOT_TRAINING.match(self.label) is None

    def progress(self, rank: int) -> Progress:
        """What a person reads from it."""
        rate = self.rate
        if rate is not None and self.rate_unit == "s/it":
            rate = 1 / rate if rate else None
        return Progress(self.label, self.done, self.total, self.elapsed_seconds, self.remaining_seconds, rate, rank)


def bar_of(text: str) -> Bar | None:
    """The first bar in a record, `None` if there is none."""
    counter = _COUNTER.search(text)
    if counter is None:
        return None
    tail = text[counter.end() : counter.end() + _POSTFIX]
    closing = tail.find("]")
    postfix = tail if closing < 0 else tail[: closing + 1]
    places = _postfix_in(outline_of(postfix))
    texts = {postfix[key]: postfix[value] for key, value in places.metrics}
    rate = postfix[places.rate] if places.rate else ""
    return Bar(
        label=_label_of(text[: counter.start()]),
        done=int(counter["done"]),
        total=int(counter["total"]) if counter["total"] and counter["total"] != "?" else None,
        elapsed_seconds=_seconds_of(counter["elapsed"]),
        remaining_seconds=_seconds_of(counter["left"]),
        rate=number_of(rate) if rate else None,
        rate_text=rate,
        rate_unit=places.rate_unit,
        metrics={key: number_of(value) for key, value in texts.items()},
        texts=texts,
    )


class _Places(msgspec.Struct, frozen=True):
    """Where in what follows a counter something stands."""

    rate: slice | None
    rate_unit: str
    metrics: tuple[tuple[slice, slice], ...]
    """Keys and values."""


@remembered
def _postfix_in(outline: str) -> _Places:
    rate = _RATE.search(outline)
    metrics = ((slice(*match.span(1)), slice(*match.span(2))) for match in _METRIC.finditer(outline))
    return _Places(place_of(rate, 1), rate[2] if rate else "", tuple(metrics))


def _label_of(before: str) -> str:
    head, bar, _ = before[-600:].partition("|")
    if bar:
        head = re.sub(r"\s*\d{1,4}%$", "", head)
    return head.strip().rstrip(":").strip().rstrip(":").strip()


def _seconds_of(text: str | None) -> float | None:
    if not text or "?" in text:
        return None
    seconds = 0
    for part in text.split(":"):
        if not part:
            return None
        seconds = seconds * 60 + int(part)
    return float(seconds)
