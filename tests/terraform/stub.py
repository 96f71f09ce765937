"""The stub provider: built once from `tests/terraform/provider`, laid out as a file-system mirror of providers.

Its schemas are those of hashicorp/aws 5.99.1 and hashicorp/helm 2.17.0 (`README.md`). What it makes are files in a
folder that stands for an AWS account: `StubAccount`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actions.terraform.program import registry_of, require_program
from actions.terraform.providers import this_platform
from actions.terraform.working_directory import locked_providers
from tests.support.authorities import downloading_environment
from tests.support.missing import skip_without

SOURCE = Path(__file__).parent / "provider"
ROOTS = Path(__file__).parents[2] / "blueprints" / "common" / "terraform"
_BUILD_SECONDS = 600
_TRIES = 3
_QUICKLY = "-gcflags=all=-l -dwarf=false"
"""Nothing inlined, nothing for debuggers: a third less work to compile what runs for moments."""


@cache
def provider_program() -> Path:
    """The provider's program, built if its sources have changed; skip the test without Go."""
    go = shutil.which("go")
    if go is None:
        skip_without("go")
    folder = _cache_folder()
    program = folder / "provider"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(go, program)
    return program


def _cache_folder() -> Path:
    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "eksml-tui" / "stubprovider" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _build(go: str, program: Path) -> None:
    for _ in range(_TRIES):  # the module proxy is not always there
        fetched = subprocess.run(
            [go, "mod", "download"],
            cwd=SOURCE,
            check=False,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            env=downloading_environment(),
        )
        if not fetched.returncode:
            break
    else:
        pytest.fail(f"Go's modules cannot be fetched: {fetched.stderr.strip()}")
    made = program.with_suffix(".new")
    subprocess.run(
        [go, "build", "-trimpath", _QUICKLY, "-ldflags=-s -w", "-o", str(made), "."],
        cwd=SOURCE,
        check=True,
        timeout=_BUILD_SECONDS,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"},
    )
    made.rename(program)


def provider_mirror(folder: Path, account: Path | None = None) -> Path:
    """Lay the program out as every provider and version that a lock file of the shared roots names.

    Args:
        folder: Of the mirror.
        account: The account's folder, for a Terraform whose environment cannot be given `STUB_ACCOUNT`.
    """
    program, installer = provider_program(), require_program()
    versions: dict[str, str] = {}
    for root in sorted(ROOTS.iterdir()):
        versions |= locked_providers(root / ".terraform.lock.hcl")
    versions |= {"hashicorp/null": "3.2.4", "hashicorp/cloudinit": "2.3.7"}
    for name, version in versions.items():
        package = folder / registry_of(installer) / name / version / this_platform()
        package.mkdir(parents=True)
        target = package / f"terraform-provider-{name.rpartition('/')[2]}_v{version}_x5"
        if account is None:
            shutil.copy2(program, target)
        else:
            named = folder / "programs" / target.name  # it looks at its name
            named.parent.mkdir(exist_ok=True)
            shutil.copy2(program, named)
            target.write_text(f"#!/bin/sh\nSTUB_ACCOUNT='{account}' exec '{named}' \"$@\"\n")
            target.chmod(0o755)
    return folder


class StubAccount:
    """An AWS account as a folder; the provider reads and writes the same files (`provider/account.go`)."""

    def __init__(self, folder: Path, findings: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        folder.mkdir()
        self._write("data.json", list(findings))

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Every create, update and delete so far: verb, type, id."""
        log = self.folder / "calls.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(verb, kind, name) for verb, kind, name in (line.split(" ", 2) for line in lines)]

    def calls_of(self, kind: str) -> list[str]:
        """The verbs of the calls for one type."""
        return [verb for verb, called, _ in self.calls if called == kind]

    def objects(self) -> dict[str, list[str]]:
        """The ids of everything that exists, by type."""
        found: dict[str, list[str]] = {}
        for path in sorted((self.folder / "objects").glob("*/*.json")):
            found.setdefault(path.parent.name, []).append(path.stem.replace("|", "/"))
        return found

    def fail(self, verb: str, kind: str, message: str, *, times: int = 1, leaves: str = "nothing") -> None:
        """Make the next calls of one kind fail.

        Args:
            verb: `create`, `update` or `delete`.
            kind: Type of the resource.
            message: Answer of the service.
            times: Number of calls.
            leaves: After a failed create: `nothing`; `failed`, an object that Terraform learns of; `unknown`, one that
                it does not.
        """
        fault = {"verb": verb, "type": kind, "message": message, "times": times, "leaves": leaves}
        self._write("faults.json", [fault])

    def fill(self, bucket: str) -> None:
        """Put something into a bucket."""
        (self.folder / "contents").mkdir(exist_ok=True)
        (self.folder / "contents" / bucket).write_text("model.ckpt")

    def is_filled(self, bucket: str) -> bool:
        """Return whether the bucket still holds something."""
        return (self.folder / "contents" / bucket).exists()

    def lose_everything(self) -> None:
        """Remove all objects behind Terraform's back: so another account looks, too."""
        shutil.rmtree(self.folder / "objects")

    def lose(self, kind: str) -> None:
        """Remove all objects of one type behind Terraform's back."""
        shutil.rmtree(self.folder / "objects" / kind)

    def _write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(json.dumps(value))
