"""The facts of other repositories, from the fixtures: each file names repository, commit and path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FIXTURES = Path(__file__).parents[1] / "fixtures" / "upstream"


@cache
def source(name: str) -> Mapping[str, Any]:
    """The fixture of that name."""
    return dict(yaml.safe_load((FIXTURES / f"{name}.yaml").read_text(encoding="utf-8")))


def flattened(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of a configuration by their dotted keys, as Hydra names them."""
    leaves: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict) and value:
            leaves |= flattened(value, f"{prefix}{key}.")
        else:
            leaves[prefix + key] = value
    return leaves


def keys_of(document: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Return the dotted keys of all nodes, those of mappings too."""
    for key, value in document.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")


def overrides_of(words: list[str]) -> dict[str, Any]:
    """Hydra's overrides among the words of a command line, by key, with a leading `+` or `++` kept."""
    pairs = (word.partition("=") for word in words if "=" in word and not word.startswith("-"))
    return {key: yaml.safe_load(value) for key, _, value in pairs}
