"""Checkov's findings in the plans of the shared roots: each finding is answered in their README, and nothing else is.

Without checkov the recorded findings count (`tests/fixtures/terraform/checkov.json`), which are of the real modules.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.missing import needs
from tests.terraform.conftest import MODULES
from tests.terraform.stub import ROOTS, StubAccount
from tests.terraform.workspaces import FINDINGS, VARIABLES, Workspace

RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "terraform" / "checkov.json").read_text())["findings"]
README = ROOTS.parent / "README.md"
_ROW = re.compile(r"^\| (?P<checks>CKV[^|]+) \| (?P<roots>[^|]+) \| (?P<answer>[^|]+) \|$", re.M)

Findings = Mapping[str, Mapping[str, list[str]]]
"""By root and check: addresses."""


def answered() -> set[tuple[str, str]]:
    """Root and check of every line of the README."""
    return {
        (root, check)
        for row in _ROW.finditer(README.read_text())
        for check in row["checks"].split(", ")
        for root in re.findall(r"`(\w+)`", row["roots"])
    }


def pairs(findings: Findings) -> set[tuple[str, str]]:
    return {(root, check) for root, checks in findings.items() for check in checks}


def test_each_recorded_finding_has_its_line_and_each_line_its_finding() -> None:
    assert sorted(RECORDED) == sorted(VARIABLES)
    assert answered() == pairs(RECORDED)


@pytest.fixture(scope="module")
def found(terraform_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Return checkov's present findings; with our stand-ins for the modules, without those in the stand-ins."""
    folder = tmp_path_factory.mktemp("plans")
    argv = ["checkov", "--framework", "terraform_plan", "--output", "json", "--compact", "--quiet"]
    for root in VARIABLES:
        work = Workspace(
            root, folder / root, StubAccount(folder / f"{root}-account", FINDINGS), terraform_environment
        ).init()
        work.plan(VARIABLES[root])
        (folder / f"{root}.json").write_text(work.run("show", "-json", "test.tfplan"))
        argv += ["--file", str(folder / f"{root}.json")]
    shown = json.loads(subprocess.run(argv, cwd=folder, check=False, capture_output=True, timeout=300).stdout)
    made: dict[str, dict[str, list[str]]] = {root: {} for root in VARIABLES}
    for report in shown if isinstance(shown, list) else [shown]:
        for failed in report["results"]["failed_checks"]:
            root = Path(failed["file_path"]).stem
            made[root].setdefault(failed["check_id"], []).append(failed["resource"])
    return made


@needs("checkov")
def test_checkov_finds_what_was_recorded(found: Findings) -> None:
    is_real = Path(__file__).parent / "modules" != MODULES

    def own(findings: Findings) -> set[tuple[str, str, str]]:
        return {
            (root, check, address)
            for root, checks in findings.items()
            for check, addresses in checks.items()
            for address in addresses
            if is_real or not address.startswith("module.")
        }

    assert own(found) == own(RECORDED)
