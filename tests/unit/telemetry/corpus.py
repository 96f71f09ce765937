"""Captured samples with their expected readings, from `tests/fixtures/corpus`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from actions.telemetry.points import Point

_CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
LOSSES = ("train_loss", "val_loss", "test_loss")


def samples(category: str) -> list[Path]:
    """Every sample of a category, by name."""
    return sorted(path for path in (_CORPUS / category).iterdir() if path.suffix != ".json")


def expected_of(sample: Path) -> dict[str, Any]:
    """Return the result of a perfect reader."""
    parsed: dict[str, Any] = json.loads(sample.with_suffix(".expected.json").read_text(encoding="utf-8"))
    return parsed


def missing_points(points: list[Point], expected: dict[str, Any]) -> list[dict[str, Any]]:
    """Required points that are not among `points`."""
    return [want for want in expected["points"] if not any(matches(point, want) for point in points)]


def false_points(points: list[Point], expected: dict[str, Any]) -> list[Point]:
    """Losses that nobody printed."""
    allowed = expected["points"] + expected.get("optional", [])
    extra = expected.get("accept_extra_steps", ())
    return [
        point
        for point in points
        if point.metric in LOSSES and point.step not in extra and not any(matches(point, want) for want in allowed)
    ]


def matches(point: Point, want: dict[str, Any]) -> bool:
    """Return whether a point is the one that is meant."""
    if point.metric != want["metric"] or not is_close(point.value, want["value"]):
        return False
    accepted = want.get("accept_steps")
    if accepted == "any" or want["step"] is None:
        return want.get("epoch") is None or point.epoch is None or is_close(point.epoch, want["epoch"])
    return point.step == want["step"] or (isinstance(accepted, list) and point.step in accepted)


def is_close(value: float | None, want: float | str | None) -> bool:
    """Return whether a number is the one that is meant; `"nan"` and `"inf"` are written as texts."""
    if value is None or want is None:
        return value is want
    wanted = float(want)
    if not math.isfinite(wanted):
        return repr(value) == repr(wanted)
    return abs(value - wanted) <= 1e-9 + 1e-6 * abs(wanted)
