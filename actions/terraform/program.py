"""The program that carries out roots, Terraform's or OpenTofu's: where it is, and its version.

A run keeps the one that it was launched with. Each has providers of a registry of its own, with digests of their own:
what a state or a lock file names by the one, the other one does not find.

Source: OpenTofu 1.12.6, `internal/depsfile/locks.go` and `internal/tofumigrate`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, FormatError
from actions.base.process import run_tool, run_tool_now

PROGRAM_VARIABLE = "EKSML_TERRAFORM_PROGRAM"
"""The variable with its name or path; without it `terraform` is taken, and `tofu` where that is not on PATH."""
PUBLIC_REGISTRY = "registry.terraform.io"
WANTED = "Terraform 1.5 or later, below 2.0, or OpenTofu"

_NAMES = ("terraform", "tofu")
_ASKING = ("version", "-json")
_SECONDS = 20.0
_WARNINGS = re.compile(rb"\A\s*Warning: .*?(?=^\{|\Z)", re.S | re.M)
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.|$)")


def find_program(environment: Mapping[str, str] = MappingProxyType({})) -> Path | None:
    """Return the program on PATH, `None` if there is none.

    Args:
        environment: Variables of a run, which name its program and may have a PATH of its own.
    """
    given = _given(environment)
    names = _NAMES if not given else (given,) if _is_one(given) else ()  # nothing else is started, whoever names it
    found = (shutil.which(name, path=environment.get("PATH")) for name in names)
    return next((Path(path) for path in found if path), None)


def require_program(environment: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Return the program; see `find_program`.

    Raises:
        ConfigError: There is none.
    """
    program = find_program(environment)
    if program is None:
        raise ConfigError(missing_sentence(environment), hint=f"Install {_given(environment) or WANTED}.")
    return program


def missing_sentence(environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the sentence that there is no program."""
    given = _given(environment)
    if environment.get(PROGRAM_VARIABLE):
        return f"The run was launched with {given}, which is not on PATH."
    if given and not _is_one(given):
        return f"{given}, which terraform_program names, is neither terraform nor tofu."
    named = f"{given}, which terraform_program names," if given else "The terraform program"
    return f"{named} is not on PATH."


def program_variable() -> dict[str, str]:
    """Return the environment variable by which a run keeps the program that there is at its launch."""
    found = find_program()
    given = _given({}) or (found.name if found else "")
    return {PROGRAM_VARIABLE: given} if given else {}


def elsewhere(brought: str, own: str) -> str:
    """Return what a run that comes from another machine names its program by here: whose it is stays.

    Args:
        brought: As it was there, perhaps a path.
        own: As it would be for a run that was launched here; perhaps empty.
    """
    if not brought or (own and is_tofu(Path(brought)) == is_tofu(Path(own))):
        return own
    return "tofu" if is_tofu(Path(brought)) else "terraform"


def is_tofu(program: Path) -> bool:
    """Return whether a program is OpenTofu's, by its name or that of the file that it links to."""
    return any("tofu" in path.name for path in (program, program.resolve()))


def product_of(program: Path) -> str:
    """Return the name of the program for people: `Terraform` or `OpenTofu`."""
    return "OpenTofu" if is_tofu(program) else "Terraform"


def registry_of(program: Path) -> str:
    """Return the registry from which it takes providers that name none."""
    return "registry.opentofu.org" if is_tofu(program) else PUBLIC_REGISTRY


async def fetch_version(program: Path) -> str:
    """Return the version as the program reports it: `1.11.4`.

    Raises:
        FormatError: It does not report one.
        ToolError, UnreachableError: It cannot be started, or does not end.
    """
    return _read(await run_tool([str(program), *_ASKING], deadline_seconds=_SECONDS), program)


def version_now(program: Path) -> str:
    """Return the version of the program; see `fetch_version`. Blocks."""
    return _read(run_tool_now([str(program), *_ASKING], deadline_seconds=_SECONDS), program)


def parse_version(text: str) -> tuple[int, int]:
    """Return the first two parts of a version such as `1.9.5` or `1.12.0-beta1`.

    Raises:
        FormatError: It is something else.
    """
    match = _VERSION.match(text)
    if match is None:
        raise FormatError(f"It reports the version {text[:40]!r}.", hint="Install another one.")
    return int(match[1]), int(match[2])


def _is_one(given: str) -> bool:
    return Path(given).name.startswith(_NAMES)


def _given(environment: Mapping[str, str]) -> str:
    return environment.get(PROGRAM_VARIABLE) or os.environ.get(PROGRAM_VARIABLE, "")


def without_warnings(answer: bytes) -> bytes:
    """Return the JSON of an answer. OpenTofu prints warnings on its CLI configuration in front of it."""
    return _WARNINGS.sub(b"", answer)


class _Version(msgspec.Struct):
    terraform_version: str


def _read(answer: bytes, program: Path) -> str:
    try:
        return decode_json(without_warnings(answer), _Version).terraform_version
    except msgspec.DecodeError as error:
        raise FormatError(f"{program} does not report its version.", hint="Put another one on PATH.") from error
