"""The BioNeMo rehearsal, played headless by the real program over the real protocols."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rehearsal import SKIPPED
from tests.support.leftover import read_all
from tests.support.missing import needs
from tests.support.program import Program

SCRIPT = Path(__file__).parents[2] / "assets" / "scripts" / "bionemo-esm1nv.yaml"
KINDS = (
    "pods,jobs,pytorchjobs,services,persistentvolumeclaims,persistentvolumes,deployments,configmaps,secrets,nodepools"
)


@pytest.fixture(scope="module")
def played(shared_program: Program) -> tuple[Program, dict[str, Any], str]:
    report = shared_program.home / "report.json"
    done = shared_program.run(
        "--demo", "--script", str(SCRIPT), "--report", str(report), "--junit", str(shared_program.home / "junit.xml"),
        "--artifacts", str(shared_program.home), seconds=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return shared_program, json.loads(report.read_text()), done.stdout


def test_every_stage_succeeded_in_order(played: tuple[Program, dict[str, Any], str]) -> None:
    _, report, _ = played
    stages = {stage["id"]: (stage["state"], stage["is_undone"]) for stage in report["run"]["stages"]}
    assert set(stages) >= {"provision", "kubeconfig", "operators", "preflight", "data", "train"}
    assert {name for name, (state, _) in stages.items() if state == "skipped"} == SKIPPED
    assert {found for name, found in stages.items() if name not in SKIPPED} == {("succeeded", True)}
    assert {step["result"] for step in report["steps"]} == {"passed"}
    assert report["exit_code"] == 0


def test_progress_was_told_as_it_went(played: tuple[Program, dict[str, Any], str]) -> None:
    _, report, output = played
    for stage in report["run"]["stages"]:
        assert f" {stage['id']} {'skipped' if stage['id'] in SKIPPED else 'succeeded'}" in output


def test_the_screenshot_shows_the_training(played: tuple[Program, dict[str, Any], str]) -> None:
    program, _, _ = played
    picture = (program.home / "training.svg").read_text()
    assert picture.startswith("<svg")
    assert "bionemo" in picture


@needs("kubectl")
def test_kubectl_finds_nothing_of_the_run(played: tuple[Program, dict[str, Any], str]) -> None:
    program, report, _ = played
    kinds = kubectl(program, "api-resources", "--verbs=list", "-o", "name").split()
    assert {"pods", "jobs.batch", "persistentvolumeclaims"} <= set(kinds)
    label = f"eksml.dev/run={report['run']['id']}"
    assert kubectl(program, "get", ",".join(kinds), "-A", "-l", label, "-o", "name") == ""


def kubectl(program: Program, *arguments: str) -> str:
    environment = {**program.environment, "KUBECONFIG": str(program.kubeconfig())}
    return subprocess.run(
        ["kubectl", *arguments], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


@needs("terraform")
def test_terraform_has_nothing_in_its_state(played: tuple[Program, dict[str, Any], str]) -> None:
    program, _, _ = played
    (folder,) = program.run_folders()
    roots = [path for path in (folder / "terraform").iterdir() if path.is_dir()]
    assert roots
    for root in roots:
        (state,) = root.rglob("*.tfstate")
        listed = subprocess.run(
            ["terraform", "state", "list", f"-state={state}"], capture_output=True, text=True, check=False, cwd=root
        )
        assert listed.stdout.strip() == "", root


def test_state_is_readable_by_its_owner_only(played: tuple[Program, dict[str, Any], str]) -> None:
    program, _, _ = played
    open_to_others = [
        str(path)
        for path in program.state.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o077 and "providers" not in path.parts
    ]
    assert open_to_others == []


def test_s14_no_token_of_a_cluster_is_on_disk(played: tuple[Program, dict[str, Any], str]) -> None:
    program, _, _ = played
    files = read_all(program.home)
    assert any(path.name == "journal.jsonl" for path in files)
    assert [str(path) for path, data in files.items() if b"k8s-aws-v1." in data] == []
