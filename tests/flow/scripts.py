"""Playing a script that ships with the program on the sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.support.program import Program

SCRIPTS = Path(__file__).parents[2] / "assets" / "scripts"
_PATIENCE_SECONDS = 600
_SPEED = "20"
"""The rehearsal of `test_rehearsal` is at the usual speed."""
_SPEED_OF_FAILURES = "6"
"""Of containers that live for two seconds, and whose pods are then deleted, the logs are to be read."""


def play(name: str, program: Program, *arguments: str, file: Path | None = None) -> None:
    """Play a script whole; a test fails unless it ends as it says, with nothing left of its run.

    Args:
        name: Of the file, without its ending. What ends in `-fails` is a run with a stage that fails.
        program: Those of a module share one, so that a script finds the sandbox as the one before has left it.
        arguments: More options of the program.
        file: The script, if it is not the one that ships with the program.
    """
    report = program.home / "report.json"
    speed = _SPEED_OF_FAILURES if name.endswith("-fails") else _SPEED
    done = program.command(
        "--demo", "--speed", speed, "--script", str(file or SCRIPTS / f"{name}.yaml"),
        "--report", str(report), "--artifacts", str(program.home), *arguments,
        seconds=_PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert {step["result"] for step in told["steps"]} == {"passed"}
    states = {stage["state"] for stage in told["run"]["stages"]}
    assert ("failed" in states) is name.endswith("-fails")
    if shutil.which("kubectl"):
        assert _left(program, f"eksml.dev/run={told['run']['id']}") == ""


def _left(program: Program, label: str) -> str:
    environment = {**program.environment, "KUBECONFIG": str(program.kubeconfig())}

    def kubectl(*arguments: str) -> str:
        argv = ["kubectl", *arguments]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    kinds = ",".join(kubectl("api-resources", "--verbs=list", "-o", "name").split())
    return kubectl("get", kinds, "-A", "-l", label, "-o", "name")
