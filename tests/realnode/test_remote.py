"""A training at work from afar: tools in its pods, ports of its web interfaces, parked and gone on with, cancelled."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from actions.run.client import load_run
from actions.run.state.view import RunState
from tests.realnode.lives import ProgramOnNodes, prepared, program_in
from tests.realnode.support import get, left_of, until

CLUSTER = "bionemo-on-eks"
BIONEMO = f"""\
eksml-script: 1
deadline: 6m
steps:
  - wait: {{cluster: {CLUSTER}, within: 1m}}
  - launch:
      blueprint: bionemo-esm1nv
      existing_cluster: true
      waive: room for the pods
      set:
        {{workers: 2, data: sample, data_dir: /fsx/sample, num_csv_files: 2, max_steps: 100000, val_check_interval: 100,
        tensorboard: true}}
      auto_approve: true
  - wait: {{metric: loss, of: train, step: ">= 110", within: 5m}}
  - wait: {{accelerators: {{busy: ">= 1"}}, within: 30s}}
"""
RAY = f"""\
eksml-script: 1
deadline: 10m
steps:
  - wait: {{cluster: {CLUSTER}, within: 1m}}
  - launch:
      blueprint: llama2-trn1-ray
      existing_cluster: true
      waive: room for the pods
      set: {{nodes: 2, data: sample, max_steps: 10000, steps_this_run: 10000, logging_interval: 1}}
      auto_approve: true
  - wait: {{stage: cluster, is: succeeded, within: 5m}}
"""


@contextmanager
def at_work(blueprint: str, script: str, home: Path) -> Iterator[tuple[ProgramOnNodes, Path]]:
    """The program, and the folder of a run that a script has left at work; in the end it is torn down."""
    program = program_in(home)
    file = home / "script.yaml"
    file.write_text(script, encoding="utf-8")
    with prepared(blueprint):
        try:
            done = program.run("--script", str(file), "--artifacts", str(home), seconds=700)
            assert done.returncode == 0, done.stdout + done.stderr
            (folder,) = program.run_folders()
            yield program, folder
        finally:
            for folder in program.run_folders():
                program.run("runs", "teardown", folder.name, "--confirm", CLUSTER, "--delete-data", seconds=240)
                until(partial(_is, folder, RunState.TORN_DOWN), "the teardown", seconds=240)
            program.end_all()


@contextmanager
def forwarded(program: ProgramOnNodes, to: str) -> Iterator[str]:
    """The link that `eksml-tui forward` prints, while it runs."""
    with subprocess.Popen(
        program.argv("forward", to),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(program.environment), cwd=program.home,
    ) as child:  # fmt: skip
        try:
            assert child.stdout is not None
            link = child.stdout.readline().strip()
            assert link.startswith("http://127.0.0.1:"), child.communicate()
            yield link
        finally:
            child.send_signal(signal.SIGINT)
            try:
                assert child.wait(timeout=60) == 130
            finally:
                child.kill()


def page(link: str, path: str = "/") -> str:
    base, _, token = link.partition("/?token=")
    request = urllib.request.Request(f"{base}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_a_training_is_looked_at_parked_gone_on_with_and_cancelled(tmp_path: Path) -> None:
    with at_work("bionemo-esm1nv", BIONEMO, tmp_path / "home") as (program, folder):
        with forwarded(program, "tensorboard") as link:
            assert "TensorBoard" in page(link)
            until(lambda: json.loads(page(link, "/data/runs")), "a curve that TensorBoard has read")
            with pytest.raises(urllib.error.HTTPError, match="401"):
                page(f"{link}x", "/data/runs")

        parked = program.run("runs", "park", folder.name)
        assert parked.returncode == 0, parked.stderr
        until(lambda: load_run(folder).state is RunState.PARKED, "that it is parked", seconds=120)
        assert get("pytorchjobs.kubeflow.org")["items"] == []

        resumed = program.run("runs", "resume", folder.name, "--yes")
        assert resumed.returncode == 0, resumed.stderr
        until(lambda: _steps_resumed(program, folder), "a step after the checkpoint", seconds=180)
        assert _steps_resumed(program, folder)[0] >= 100

        cancelled = program.run("runs", "cancel", folder.name)
        assert cancelled.returncode == 0, cancelled.stderr
        until(lambda: load_run(folder).state is RunState.CANCELLED, "that it is cancelled", seconds=120)
        assert get("pytorchjobs.kubeflow.org")["items"] == []
    assert left_of(folder.name) == []
    audit = load_run(folder).audit
    assert audit is not None
    assert audit.is_clean


def _is(folder: Path, state: RunState) -> bool:
    return load_run(folder).state is state


def _steps_resumed(program: ProgramOnNodes, folder: Path) -> list[int]:
    _, is_resumed, log = _log(program, folder).rpartition("Resuming from")
    return [int(step) for step in re.findall(r"global_step=(\d+)", log)] if is_resumed else []


def _log(program: ProgramOnNodes, folder: Path) -> str:
    return program.run("runs", "logs", folder.name, "--stage", "train").stdout


def test_the_dashboard_of_ray_is_served(tmp_path: Path) -> None:
    with (
        at_work("llama2-trn1-ray", RAY, tmp_path / "home") as (program, folder),
        forwarded(program, "dashboard") as link,
    ):
        assert "Ray Dashboard" in page(link)
        nodes = json.loads(page(link, "/nodes?view=summary"))["data"]["summary"]
        assert len(nodes) == 3, nodes
    assert left_of(folder.name) == []
