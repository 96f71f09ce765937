"""The version of the `terraform` program."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.process import run_tool, run_tool_now
from actions.terraform.arguments import version_arguments

_SECONDS = 20.0
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.|$)")


async def fetch_version(program: Path) -> tuple[int, int]:
    """Return the version of the program, without its last part.

    Raises:
        FormatError: It does not report one.
        ToolError, UnreachableError: It cannot be started, or does not end.
    """
    return parse_version(await fetch_version_text(program))


async def fetch_version_text(program: Path) -> str:
    """Return the version as the program reports it: `1.11.4`.

    Raises:
        FormatError, ToolError, UnreachableError: As `fetch_version`.
    """
    return _read(await run_tool(version_arguments(program), deadline_seconds=_SECONDS), program)


def version_now(program: Path) -> tuple[int, int]:
    """Return the version of the program; see `fetch_version`. Blocks."""
    return parse_version(_read(run_tool_now(version_arguments(program), deadline_seconds=_SECONDS), program))


def parse_version(text: str) -> tuple[int, int]:
    """Return the first two parts of a version such as `1.9.5` or `1.12.0-beta1`.

    Raises:
        FormatError: It is something else.
    """
    match = _VERSION.match(text)
    if match is None:
        raise FormatError(f"Terraform reports the version {text[:40]!r}.", hint="Install another one.")
    return int(match[1]), int(match[2])


class _Version(msgspec.Struct):
    terraform_version: str


def _read(answer: bytes, program: Path) -> str:
    try:
        return decode_json(answer, _Version).terraform_version
    except msgspec.DecodeError as error:
        raise FormatError(f"{program} does not report its version.", hint="Put another one on PATH.") from error
