"""The rehearsals of all blueprints on the real cluster, played beside each other where they do not meet."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.sandbox.statefiles import write_terraform
from tests.realcluster.running import real_cluster
from tests.support.program import Program

SCRIPTS = tuple(sorted((Path(__file__).parents[2] / "assets" / "scripts").glob("*.yaml")))
"""Those that ship with the program: for each blueprint a whole life, and one that fails on purpose."""
_LANES = 2
_PATIENCE_SECONDS = 600
_NEURON = "llama2"


@dataclass(frozen=True)
class ProgramOnAws(Program):
    """The program, in an account that has the cluster."""

    @property
    def environment(self) -> dict[str, str]:
        account = {
            "AWS_ENDPOINT_URL": real_cluster().aws_endpoint_url,
            "AWS_REGION": "us-west-2",
            "AWS_ACCESS_KEY_ID": "realcluster",
            "AWS_SECRET_ACCESS_KEY": "realcluster",
        }
        if shutil.which("terraform") is None:
            account["PATH"] = f"{write_terraform(self.home)}:{os.environ['PATH']}"
        return {**super().environment, **account}


@dataclass(frozen=True)
class Played:
    """The outcome of a script."""

    exit_code: int
    output: str
    report: dict[str, Any]
    """Empty if the program ended before it could write one."""

    @property
    def run(self) -> str:
        """The id of the script's run."""
        return str(self.report["run"]["id"])


@contextmanager
def playing(scripts: Iterable[Path], folder: Path) -> Iterator[dict[Path, Future[Played]]]:
    """Play scripts: those of systems on Neuron one after the other, and beside them those on GPUs.

    Args:
        scripts: Which.
        folder: For the homes of the programs.
    """
    chosen = sorted(scripts)
    lanes = [[one for one in chosen if one.name.startswith(_NEURON) is is_neuron] for is_neuron in (False, True)]
    results: dict[Path, Future[Played]] = {script: Future() for script in chosen}
    with ThreadPoolExecutor(_LANES) as pool:
        for request_class in lanes:
            pool.submit(_play_all, request_class, folder, results)
        yield results


def _play_all(scripts: list[Path], folder: Path, results: dict[Path, Future[Played]]) -> None:
    for script in scripts:
        try:
            results[script].set_result(_play(script, folder / script.stem))
        except BaseException as error:
            results[script].set_exception(error)
            raise


def _play(script: Path, home: Path) -> Played:
    home.mkdir()
    program, report = ProgramOnAws(home), home / "report.json"
    try:
        done = program.run(
            "--kubeconfig", real_cluster().kubeconfig, "--script", str(script), "--report", str(report),
            "--artifacts", str(home), seconds=_PATIENCE_SECONDS,
        )  # fmt: skip
    finally:
        program.end_all()
    told = dict(json.loads(report.read_text())) if report.exists() else {}
    return Played(done.returncode, done.stdout + done.stderr, told)
