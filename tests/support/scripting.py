"""Playing a script in the real program on a cluster that is away: what it writes and says does not need one."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.answering import write_kubeconfig
from tests.support.program import Program


@dataclass(frozen=True)
class Playing(Program):
    """The program with more in its environment."""

    more: Mapping[str, str]

    @property
    def environment(self) -> Mapping[str, str]:
        return {**super().environment, **self.more}


def play(program: Program, steps: str, *arguments: str, is_executed: bool = False) -> subprocess.CompletedProcess[str]:
    """Play steps in the folder `home/artifacts`; the report is `home/report.json`, JUnit's `home/junit.xml`.

    Args:
        program: Where.
        steps: As in a script.
        arguments: More of them.
        is_executed: Start the program for real, not as a copy of this process.
    """
    script = program.home / "script.yaml"
    script.write_text(f"eksml-script: 1\ndeadline: 60s\nsteps:\n{steps}")
    kubeconfig = write_kubeconfig(program.home / "kubeconfig", "http://127.0.0.1:1")
    return (program.run if is_executed else program.command)(
        *arguments, "--kubeconfig", str(kubeconfig), "--script", str(script),
        "--report", str(program.home / "report.json"), "--junit", str(program.home / "junit.xml"),
        "--artifacts", str(program.home / "artifacts"),
    )  # fmt: skip


def texts_below(folder: Path) -> dict[Path, str]:
    """Return the text of every file below a folder."""
    return {path: path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()}
