"""A problem of a blueprint, with its place."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import msgspec

from actions.base.errors import BlueprintError

Where = tuple[str | int, ...]


class BlueprintProblem(msgspec.Struct, frozen=True):
    """A mistake, a sentence for the operator, and its place."""

    where: Where
    """Path in the blueprint with its components."""
    message: str = ""
    hint: str = ""
    error: BlueprintError | None = None
    """Instead of a message: an error of another file, with its own position."""


def known_names(names: Collection[str]) -> str:
    """A hint that lists the names; empty if there are none."""
    return f"Known: {', '.join(sorted(names))}." if names else ""


def nearest_name(name: str, known: Collection[str], heading: str = "Known keys") -> str:
    """A hint with the known name that is most like `name`, or with all of them."""
    if close := difflib.get_close_matches(name, known, n=1):
        return f"Did you mean {close[0]!r}?"
    return f"{heading}: {', '.join(known)}." if known else "Remove it, or see the blueprint schema."
