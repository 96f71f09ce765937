"""The scripts that ship with the program, played on the sandbox: whole lives, and some that fail on purpose."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program import Program

SCRIPTS = [
    script
    for script in sorted((Path(__file__).parents[2] / "assets" / "scripts").glob("*.yaml"))
    if script.stem != "bionemo-esm1nv"
]
"""All but the one that `test_rehearsal` looks at more closely."""
_PATIENCE_SECONDS = 600


@pytest.mark.parametrize(
    "script", [pytest.param(one, id=one.stem, marks=pytest.mark.xdist_group(one.stem)) for one in SCRIPTS]
)
def test_a_script_ends_as_it_says_with_nothing_left(script: Path, program: Program) -> None:
    report = program.home / "report.json"
    done = program.run(
        "--demo", "--script", str(script), "--report", str(report), "--artifacts", str(program.home),
        seconds=_PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert {step["result"] for step in told["steps"]} == {"passed"}
    states = {stage["state"] for stage in told["run"]["stages"]}
    assert ("failed" in states) is script.stem.endswith("-fails")
    if shutil.which("kubectl"):
        assert _left(program, f"eksml.dev/run={told['run']['id']}") == ""


def _left(program: Program, label: str) -> str:
    environment = {**program.environment, "KUBECONFIG": str(program.kubeconfig())}

    def kubectl(*arguments: str) -> str:
        argv = ["kubectl", *arguments]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    kinds = ",".join(kubectl("api-resources", "--verbs=list", "-o", "name").split())
    return kubectl("get", kinds, "-A", "-l", label, "-o", "name")
