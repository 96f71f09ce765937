"""What a release is made of: addresses, licences of what it needs, GitHub's files, the container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from yaml import safe_load

from tests.support.sources import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOW = ROOT / ".github" / "workflows" / "release.yaml"
ACTION = ROOT / "action.yml"

ALLOWED = frozenset({
    "Apache", "BSD", "ISC", "MIT", "MIT-0", "PSF", "PSF-2.0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MPL-2.0",
    "LGPL-3.0",
})  # fmt: skip
"""None of these asks for anything of a program that only imports the package."""

_BY_WORDS = {
    "Apache Software License": "Apache", "BSD License": "BSD", "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT", "Python Software Foundation License": "PSF",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
}  # fmt: skip


def locked() -> list[str]:
    """The packages of the program, by the lock file."""
    return re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)


def licences(package: str) -> set[str]:
    """The licences that a package declares: by expression, else by classifiers, else in words."""
    declared = metadata(package)
    if expression := declared.get("License-Expression"):
        return set(re.split(r" (?:AND|OR) ", expression))
    classifiers = [text for text in declared.get_all("Classifier", []) if text.startswith("License :: ")]
    words = [text.rpartition(" :: ")[2] for text in classifiers] or [declared.get("License") or "none"]
    return {_BY_WORDS.get(word, word) for word in words}


def test_every_package_of_the_program_has_a_licence_that_we_allow() -> None:
    assert len(locked()) > 40
    found = {package: licences(package) for package in locked()}
    assert {package: names for package, names in found.items() if not names <= ALLOWED} == {}


def test_the_project_has_one_address() -> None:
    address = PROJECT["project"]["urls"]["Repository"]
    texts = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "README.md", "docs/script.md")]
    named = {found for text in texts for found in re.findall(r"https://github\.com/[\w-]+/eksml-tui", text)}
    assert named == {address}


@pytest.mark.parametrize(("schema", "file"), [("github-workflows", WORKFLOW), ("github-actions", ACTION)])
def test_githubs_files_are_valid_by_its_schemas(schema: str, file: Path) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(file)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_workflow_has_no_right_that_it_does_not_need_and_no_step_that_may_change() -> None:
    workflow = safe_load(WORKFLOW.read_text("utf-8"))
    assert workflow["permissions"] == {}
    rights = {job: set(value["permissions"]) for job, value in workflow["jobs"].items()}
    assert rights == {
        "build": {"contents"}, "attest": {"attestations", "id-token"}, "publish": {"id-token"}, "notes": {"contents"},
    }  # fmt: skip
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
    assert "secrets." not in WORKFLOW.read_text("utf-8")


def test_the_notes_of_a_release_are_the_part_of_the_changelog_for_its_version(tmp_path: Path) -> None:
    from tui.cli.arguments import VERSION

    (*_, notes) = safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["notes"]["steps"]
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    program = tmp_path / "gh"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REF_NAME": f"v{VERSION}"}
    command = ["bash", "-e", "-c", notes["run"]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"release create v{VERSION} "), done.stderr
    (file,) = tmp_path.glob("notes.*")
    written = file.read_text("utf-8")
    assert 20 < len(written.splitlines()) < 100, "one page"
    assert "\n## " not in written
