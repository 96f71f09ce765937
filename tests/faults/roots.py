"""Runs of one Terraform root and nothing else, with the real program or one that a test can hold."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.process import ProcessIdentity, is_alive
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run import launch
from actions.run.client import load_run, start_runner
from actions.run.journal.folder import load_environment, terraform_path
from actions.run.launch import LaunchOrder, create_run
from actions.run.state.records import Created
from actions.run.terraform_changes import terraform_report, terraform_table
from actions.terraform.detached import DetachedOperation
from tests.support import standin_terraform
from tests.support.leftover import send
from tests.support.missing import needs
from tests.support.polling import wait

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
"""Of the account that the tests serve, which asks nobody for a right one."""
BLUEPRINT = """
schema: eksml/v1
id: root
title: A root
summary: For tests.
cluster: {name: bionemo-on-eks, region: us-west-2, namespace: default}
stages:
  - {id: net, kind: terraform, title: Net, expect: 1s..5s, root: terraform/net, own_cluster_only: true}
"""

RESOURCE = """
resource "terraform_data" "NAME" {
  provisioner "local-exec" {
    command = "echo NAME >> LEDGER; WAIT"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo gone NAME >> LEDGER"
  }
  NEEDS
}
"""

needs_terraform = needs("terraform")


class Root:
    """A root that makes `a`, then `b` for as long as the test wants.

    Args:
        folder: The test's.
    """

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger"
        self.go_on = folder / "go-on"

    def source(self, more: str = "") -> str:
        hold = f"while [ ! -e {self.go_on} ]; do sleep 0.02; done"
        parts = [("a", "true", ""), ("b", hold, "depends_on = [terraform_data.a]")]
        text = "".join(
            RESOURCE.replace("NAME", name).replace("WAIT", command).replace("NEEDS", needs)
            for name, command, needs in parts
        )
        return more + text.replace("LEDGER", str(self.ledger))

    def told(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []


def a_root_run(
    tmp_path: Path,
    source: str,
    *,
    endpoint: str = "",
    auto_approve: bool = True,
    keeps_data: bool = False,
    home: str = "",
) -> Path:
    """A run of a root; nothing is started.

    Args:
        tmp_path: The test's folder.
        source: The root's `main.tf`.
        endpoint: Where AWS is looked for.
        auto_approve: Whether plans are carried out without being asked about.
        keeps_data: Whether its stage holds data.
        home: Where the run is replicated to.
    """
    folder = tmp_path / "blueprint"
    (folder / "terraform" / "net").mkdir(parents=True)
    (folder / "terraform" / "net" / "main.tf").write_text(source)
    text = BLUEPRINT.replace("own_cluster_only: true", "own_cluster_only: true, keeps_data: true")
    (folder / "blueprint.yaml").write_text(text if keeps_data else BLUEPRINT)
    blueprint = load_blueprint(folder)
    with pytest.MonkeyPatch.context() as patched:
        if home:
            patched.setattr(launch, "create_folder", partial(_with_home, launch.create_folder, home))
        return create_run(
            LaunchOrder(
                blueprint,
                bind(blueprint, {}),
                target=ClusterTarget(),
                environment={"AWS_ENDPOINT_URL": endpoint or "http://127.0.0.1:9", "AWS_REGION": "us-west-2"},
                clock=SystemClock(),
                auto_approve=auto_approve,
                base=tmp_path / "runs",
            )
        )


def _with_home(make: Callable[..., Path], state_home: str, created: Created, **options: Any) -> Path:
    return make(replace(created, store=state_home), **options)


def elsewhere(folder: Path, runs: Path) -> Path:
    """Copy what a home has of a run to another machine: everything but what Terraform works with."""

    def left_out(path: str, _names: list[str]) -> list[str]:
        return ["terraform"] if Path(path) == folder else []

    return Path(shutil.copytree(folder, runs / folder.name, ignore=left_out))


def work_folder(folder: Path) -> Path:
    """Return the folder in which the root's program works."""
    return terraform_path(folder, "net")


def import_by_hand(folder: Path, address: str, resource_id: str) -> None:
    """Carry out the command that the report on an open resource has."""
    text = terraform_table(terraform_report(folder, load_run(folder)), folder.name)
    command = next(line.strip() for line in text.splitlines() if " import " in line and f"'{address}'" in line)
    argv = [resource_id if word == "ID" else word for word in shlex.split(command)]
    environment = {**os.environ, **load_environment(folder)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stdout + done.stderr


def begin(folder: Path) -> ProcessIdentity:
    """Start a runner."""
    runner = start_runner(folder, environment=CREDENTIALS)
    assert runner is not None
    return runner


def running(folder: Path, operation: str = "apply") -> ProcessIdentity | None:
    """Return the process that carries out an operation of the root."""
    return DetachedOperation(work_folder(folder), operation, clock=SystemClock()).identity()


def kill(process: ProcessIdentity | None, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process of the test, and wait until it is gone."""
    assert process is not None
    send(process, number)
    wait(lambda: not is_alive(process), "a process to end")


def kill_group(process: ProcessIdentity | None) -> None:
    """Kill Terraform with what it has started, and wait until it is gone."""
    assert process is not None
    os.killpg(process.pid, signal.SIGKILL)
    wait(lambda: not is_alive(process), "a process to end")


def is_running(folder: Path, kind: str) -> bool:
    """Return whether the apply's stream holds an event of that kind."""
    path = work_folder(folder) / "apply.jsonl"
    return path.exists() and f'"type": "{kind}"'.replace(" ", "") in path.read_text().replace(" ", "")


def note_of(folder: Path, stage: str) -> str:
    """Return the stage's present message."""
    return load_run(folder).stage(stage).message


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "") -> Path:
    """Put the stand-in on PATH instead of Terraform; returns the file that says how it behaves."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "terraform"
    text = Path(standin_terraform.__file__).read_text()
    program.write_text(f"#!{sys.executable} -S\n{text}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (folder / "mode").write_text(mode)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "mode"


def a_state(*names: str, lineage: str = "l", serial: int = 1) -> str:
    """A state of `terraform_data` resources, as Terraform writes it."""
    attributes = {"id": "an-id", "input": None, "output": None, "triggers_replace": None}
    instance = {"schema_version": 0, "attributes": attributes, "sensitive_attributes": []}
    resources = [
        {
            "mode": "managed",
            "type": "terraform_data",
            "name": name,
            "provider": 'provider["terraform.io/builtin/terraform"]',
            "instances": [instance],
        }
        for name in names
    ]
    head = {"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": lineage, "outputs": {}}
    return json.dumps({**head, "resources": resources, "check_results": None})


def an_apply_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> Iterator[Path]:
    """A run of the stand-in whose apply waits for a file; for a fixture, which sees to its end."""
    stand_in(tmp_path, monkeypatch)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-west-2"}.items():
        monkeypatch.setenv(name, value)
    folder = a_root_run(tmp_path, 'resource "aws_eks_node_group" "x" {}\n', endpoint=endpoint)
    yield folder
    finish(folder)
    process = running(folder)
    wait(lambda: process is None or not is_alive(process), "the end of the apply")


def signals(folder: Path) -> list[str]:
    """The signals that the stand-in has had."""
    path = work_folder(folder) / "signals"
    return path.read_text().splitlines() if path.exists() else []


def finish(folder: Path) -> None:
    """Let the apply that waits come to its end."""
    (work_folder(folder) / "finish").touch()
