"""Secrets by reference: read when they are applied, never kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from actions.base.errors import ConfigError, ConsoleError
from actions.base.files import read_file
from actions.base.untrusted import KNOWN
from actions.cloud.account import fetch_secret
from actions.cloud.aws_session import AwsSession

_LIMIT_BYTES = 64 << 10
_REMOTE = "secretsmanager"


def is_remote(reference: str) -> bool:
    """Return whether a secret is in AWS Secrets Manager."""
    return reference.startswith(f"{_REMOTE}:")


async def fetch_secrets(references: Iterable[str], *, region: str) -> dict[str, str]:
    """Return the secrets behind references of any form. Use them at once and keep them nowhere.

    Args:
        references: `env:NAME`, `file:/PATH`, `secretsmanager:NAME` or with an ARN in its place.
        region: Region of Secrets Manager, unless an ARN names another.

    Raises:
        ConfigError: One does not exist, or is empty. Names the reference, never a value.
        AccessError, MissingError, UnreachableError: From Secrets Manager.
    """
    return {reference: await _fetched(reference, region) for reference in dict.fromkeys(references)}


def resolve_secret(reference: str) -> str:
    """Return the secret behind `env:NAME` or `file:PATH`.

    Raises:
        ConfigError: It does not exist, is empty, or is of a form that cannot be read here. Names the reference, never a
            value.
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
    KNOWN.add(value, reference)
    return value


def referenced_environment(values: Iterable[object]) -> dict[str, str]:
    """Return the variables of this process that parameters of the form `env:NAME` refer to, for a child process."""
    names = [str(value)[4:] for value in values if isinstance(value, str) and value.startswith("env:")]
    found = {name: os.environ[name] for name in names if name in os.environ}
    for name, value in found.items():
        KNOWN.add(value, f"env:{name}")
    return found


async def _fetched(reference: str, region: str) -> str:
    if not is_remote(reference):
        return resolve_secret(reference)
    name = reference.partition(":")[2]
    fields = name.split(":")
    session = AwsSession(region=fields[3] if fields[0] == "arn" and len(fields) > 3 else region, threads=1)
    try:
        value = await fetch_secret(session, name)
    except ConsoleError as error:
        error.message = f"{reference}: {error.message}"
        raise
    finally:
        session.close()
    KNOWN.add(value, reference)
    return value


def _read(path: Path, reference: str) -> str:
    try:
        return read_file(path, _LIMIT_BYTES, may_be_pipe=True).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{reference} cannot be read: {error}.") from error
