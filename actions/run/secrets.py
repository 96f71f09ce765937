"""Secrets by reference: read when they are applied, never kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from actions.base.errors import ConfigError

_LIMIT_BYTES = 64 << 10


def resolve_secret(reference: str) -> str:
    """The secret behind `env:NAME` or `file:PATH`.

    Raises:
        ConfigError: It is not there, empty, or of a form that cannot be read here. Names the reference, never a value.
    """
    scheme, _, place = reference.partition(":")
    if scheme == "env":
        value = os.environ.get(place, "")
    elif scheme == "file":
        value = _read(Path(place), reference)
    else:
        raise ConfigError(f"{reference} cannot be read here.", hint="Use env:NAME or file:/PATH.")
    if not value:
        raise ConfigError(f"{reference} holds no secret.", hint="Set it, then resume the run from where it is set.")
    return value


def referenced_environment(values: Iterable[object]) -> dict[str, str]:
    """Of this process's environment, what parameters of the form `env:NAME` refer to. For a child that will need it."""
    names = [str(value)[4:] for value in values if isinstance(value, str) and value.startswith("env:")]
    return {name: os.environ[name] for name in names if name in os.environ}


def _read(path: Path, reference: str) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LIMIT_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{reference} cannot be read: {error}.") from error
