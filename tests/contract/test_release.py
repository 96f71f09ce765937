"""The parts of a release: addresses, licences of its dependencies, GitHub's files, the container."""

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
    if "License-Expression" in declared:
        return set(re.split(r" (?:AND|OR) ", declared["License-Expression"]))
    classifiers = [text for text in declared.get_all("Classifier", []) if text.startswith("License :: ")]
    words = [text.rpartition(" :: ")[2] for text in classifiers] or [*declared.get_all("License", ["none"])]
    return {_BY_WORDS.get(word, word) for word in words}


def test_every_package_of_the_program_has_a_licence_that_we_allow() -> None:
    assert len(locked()) > 40
    found = {package: licences(package) for package in locked()}
    assert {package: names for package, names in found.items() if not names <= ALLOWED} == {}


def test_the_project_has_one_address() -> None:
    address = PROJECT["project"]["urls"]["Repository"]
    texts = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "README.md", "mkdocs.yml")]
    named = {found for text in texts for found in re.findall(r"https://github\.com/[\w-]+/eksml-tui", text)}
    assert named == {address}


def test_the_licence_and_classifiers_agree_with_what_is_declared() -> None:
    project = PROJECT["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert f">={versions[0]}" == project["requires-python"]
    asked = re.search(r"PYTHONS:-([\d. ]+)", (ROOT / ".ci" / "wheel").read_text("utf-8"))
    assert asked is not None
    assert asked[1].split() == versions, "each of them is tried where it is there"


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


def test_the_action_plays_a_script_and_writes_reports_and_a_summary(tmp_path: Path) -> None:
    """Its second step as it stands, with a program in the place of the one that its first step installs."""
    action = safe_load(ACTION.read_text("utf-8"))
    install, rehearse = action["runs"]["steps"]
    assert '"$GITHUB_ACTION_PATH[demo]"' in install["run"], "the version of the tag that the action was taken from"
    program = tmp_path / "temp" / "eksml-tui" / "bin" / "eksml-tui"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).parent / "eksml-tui")
    script = tmp_path / "a script.yaml"
    script.write_text("eksml-script: 1\nsteps:\n- open: nodes\n- expect: {text: 'nodes that no cluster has'}\n")
    inputs = {"SCRIPT": script.name, "BLUEPRINTS": "", "ARTIFACTS": "out of it"}
    assert set(rehearse["env"]) == set(inputs)
    files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "step_summary_1"}
    places = {"RUNNER_TEMP": tmp_path / "temp", "HOME": tmp_path, "PATH": os.environ["PATH"]}
    environment = {name: str(value) for name, value in (inputs | files | places).items()}
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", rehearse["run"]]
    done = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert files["GITHUB_OUTPUT"].read_text().splitlines() == [
        "junit=out of it/junit.xml", "report=out of it/report.json",
    ]  # fmt: skip
    assert 'failures="1"' in (tmp_path / "out of it" / "junit.xml").read_text()
    assert "| failed |" in files["GITHUB_STEP_SUMMARY"].read_text()


def test_the_container_is_made_in_two_stages_for_a_user_without_rights() -> None:
    lines = [line for line in (ROOT / "Containerfile").read_text("utf-8").splitlines() if line and line[0] not in "# "]
    stages = [line for line in lines if line.startswith("FROM ")]
    assert stages == ["FROM ${BASE} AS build", "FROM ${BASE}"]
    (base,) = (line.partition("=")[2] for line in lines if line.startswith("ARG BASE="))
    assert re.fullmatch(r"python:3\.\d+-slim", base), "no registry"
    final = lines[lines.index(stages[-1]) :]
    assert "USER 1000:1000" in final
    assert not [line for line in final if line.startswith("COPY ") and "--from=build" not in line]
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1] if "--" not in word}
    assert {name for name in copied if not (ROOT / name.lstrip("/")).exists()} == {"/opt/eksml-tui"}
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]) <= copied
