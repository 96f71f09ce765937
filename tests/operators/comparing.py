"""The differences between two accounts of the same scenario, as lines that a person can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MANY = 40
_LONG = 600


def differences(recorded: Any, ours: Any) -> list[str]:
    """One line for each place at which they differ; empty if they are the same."""
    found = list(_differences(recorded, ours, ""))
    return found if len(found) <= _MANY else [*found[:_MANY], f"… and {len(found) - _MANY} more"]


def _differences(recorded: Any, ours: Any, path: str) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in sorted(recorded.keys() | ours.keys(), key=str):
            yield from _under(recorded, ours, key, f"{path}/{_written(key)}")
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for index, (one, other) in enumerate(zip(recorded, ours, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif isinstance(recorded, set) and isinstance(ours, set):
        yield from (f"{path}: only recorded: {one}" for one in sorted(recorded - ours))
        yield from (f"{path}: only ours: {one}" for one in sorted(ours - recorded))
    elif recorded != ours:
        yield f"{path}: recorded {_short(recorded)}, ours {_short(ours)}"


def _under(recorded: dict[Any, Any], ours: dict[Any, Any], key: Any, path: str) -> Iterator[str]:
    if key not in ours:
        yield f"{path}: only recorded: {_short(recorded[key])}"
    elif key not in recorded:
        yield f"{path}: only ours: {_short(ours[key])}"
    elif recorded[key] != ours[key]:
        yield from _differences(recorded[key], ours[key], path)


def _written(key: Any) -> str:
    return " ".join(key) if isinstance(key, tuple) else str(key)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
