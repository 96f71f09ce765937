"""Runs whose training loses its API server, its runner, its process or its node: they wait or go on, and say so."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from actions.base.files import private_directory
from tests.realnode.failing import kill_process
from tests.realnode.lives import ProgramOnNodes, program_in
from tests.realnode.running import real_nodes
from tests.realnode.support import (
    Document,
    get,
    hung_api_server,
    is_node_ready,
    kubectl,
    make_namespace,
    stopped,
    until,
    without_api_server,
    without_network,
)

_BLUEPRINT = """
schema: eksml/v1
id: counting
title: A training that counts
summary: For tests.
cluster: {name: bionemo-on-eks, region: us-west-2, namespace: counting}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: bionemo-on-eks, region: us-west-2}
  - id: train
    kind: job
    title: Train
    needs: [access]
    expect: 1s..9s
    manifests: [train.yaml]
    target: {api_version: batch/v1, kind: Job, name: train}
    watch: {logs: {pods: batch.kubernetes.io/job-name=train}, charts: [train_loss]}
"""
_TRAIN = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: counting}
spec:
  backoffLimit: 6
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: RESTART_POLICY
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: NodeGroupType, operator: DoesNotExist}]}]
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: TOLERATED}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: TOLERATED}
      volumes: [{name: data, hostPath: {path: /mnt/volumes/counting, type: Directory}}]
      containers:
        - name: main
          image: docker.io/library/busybox:latest
          imagePullPolicy: IfNotPresent
          volumeMounts: [{name: data, mountPath: /data}]
          command: [sh, -c, "PROGRAM"]
"""
_PROGRAM = (
    "s=$(cat /data/step || echo 0); until [ -e /data/stop ]; do s=$((s+1)); echo step $s/9000 loss $((9000-s)).5; "
    "[ $((s%10)) = 0 ] && echo $s > /data/step; sleep 0.1; done; exit 0"
)
"""Its checkpoint of each tenth step is on a file system that all nodes share."""
_NAMESPACE = "counting"


_SCREENS = [
    {"wait": {"cluster": "bionemo-on-eks", "within": "1m"}},
    {"open": "nodes"},
    {"wait": {"text": "─ live ─", "within": "1m"}},
    {"screenshot": "live.svg"},
    {"wait": {"text": "stale .*: ", "within": "1m"}},
    {"screenshot": "stale.svg"},
    {"wait": {"text": "─ live ─", "within": "2m"}},
]
"""Screens of a console, of an API server that is away and comes back."""
_LINE = re.compile(r"step (\d+)/9000 loss (\S+)")


@dataclass(frozen=True)
class Run:
    """A run on its way, and the program that looks at it."""

    program: ProgramOnNodes
    data: Path
    """The file system, as this machine has it."""

    def shown(self) -> Document:
        """Return the answer of `runs show`."""
        return dict(json.loads(self.program.command("runs", "show", "latest", "-o", "json").stdout))

    def message(self) -> str:
        """Return the stage of the training, as text."""
        return json.dumps([stage for stage in self.shown()["stages"] if stage["id"] == "train"])

    def step(self) -> int:
        """The step of the last checkpoint."""
        path = self.data / "step"
        return int(path.read_text(encoding="ascii") or 0) if path.exists() else 0

    def trains_on(self, steps: int = 30, *, seconds: float = 90) -> None:
        """Wait until it has trained further."""
        last = self.step()
        until(lambda: self.step() >= last + steps, "the training goes on", seconds=seconds)

    def finish(self) -> None:
        """Let the training end, and the run: no step is missing in its log or its curve, and none is a false one."""
        (self.data / "stop").touch()
        until(lambda: self.shown()["state"] not in ("running", "unknown"), "the end of the run")
        assert self.shown()["state"] == "succeeded"
        printed = [_LINE.search(line) for line in self.logged()]
        steps = {int(found[1]): float(found[2]) for found in printed if found}
        assert sorted(steps) == list(range(1, max(steps) + 1))
        assert max(steps) >= self.step()
        assert self.curve().items() <= steps.items()
        assert max(self.curve()) == max(steps)

    def logged(self) -> list[str]:
        """The lines of its log, with their markers."""
        return self.program.command("runs", "logs", "latest", "--stage", "train").stdout.splitlines()

    def markers(self) -> list[str]:
        """The markers of its log."""
        return [found[0] for line in self.logged() if (found := re.search("-- .* --", line))]

    def curve(self) -> dict[int, float]:
        """The loss of each step, as the chart has it."""
        out = self.program.command("runs", "curves", "latest", "-o", "csv").stdout
        return {int(row["step"]): float(row["train_loss"]) for row in csv.DictReader(out.splitlines())}

    def job(self) -> str:
        """The uid of the only Job."""
        (job,) = get("jobs", "-n", _NAMESPACE)["items"]
        return str(job["metadata"]["uid"])

    def why(self) -> list[Document]:
        """Return the findings about its Job."""
        argv = ("--kubeconfig", real_nodes().kubeconfig, "why", f"job/{_NAMESPACE}/train", "-o", "json")
        return list(json.loads(self.program.command(*argv).stdout))

    def pods(self) -> list[Document]:
        """The pods of the training."""
        return list(get("pods", "-n", _NAMESPACE, "-l", "job-name=train")["items"])


@contextmanager
def _run(tmp_path: Path, restart_policy: str, *, tolerated_seconds: int = 1) -> Iterator[Run]:
    data = private_directory(Path(real_nodes().volumes) / _NAMESPACE)
    for path in data.iterdir():
        path.unlink()
    folder = private_directory(tmp_path / "blueprints" / _NAMESPACE)
    (folder / "blueprint.yaml").write_text(_BLUEPRINT, encoding="utf-8")
    manifest = _TRAIN.replace("RESTART_POLICY", restart_policy).replace("PROGRAM", _PROGRAM)
    manifest = manifest.replace("TOLERATED", str(tolerated_seconds))
    (folder / "train.yaml").write_text(manifest, encoding="utf-8")
    make_namespace(_NAMESPACE)
    program = program_in(tmp_path / "home")
    try:
        launched = program.run(
            "--blueprints", str(folder.parent), "--kubeconfig", real_nodes().kubeconfig, "launch", _NAMESPACE,
            "--existing-cluster", "--no-checks", "--yes",
        )  # fmt: skip
        assert launched.returncode == 0, launched.stderr
        run = Run(program, data)
        until(lambda: run.step() >= 20, "the first steps")
        yield run
    finally:
        program.end_all()
        kubectl("delete", "namespace", _NAMESPACE, "--timeout=80s")


def test_a_run_waits_for_an_api_server_that_is_away(tmp_path: Path) -> None:
    with _run(tmp_path, "OnFailure") as run:
        job, (pod,) = run.job(), run.pods()
        with without_api_server():
            until(lambda: "Logs cannot be read" in run.message(), "the warning that logs are not read")
            message = run.message()
            state = run.shown()["state"]
        run.trains_on()
        until(lambda: "cannot be reached" not in run.message(), "the end of the warnings")
        assert (run.job(), [one["metadata"]["uid"] for one in run.pods()]) == (job, [pod["metadata"]["uid"]])
        run.finish()
        markers = run.markers()
    assert state == "running"
    assert "retrying: https://127.0.0.1" in message
    assert "the log cannot be read: https://127.0.0.1" in markers[0]
    assert markers[1:] == ["-- the log goes on from where it stopped --"]


@pytest.mark.parametrize("what", ["api-server", "network"])
def test_a_run_of_which_nothing_is_heard_says_so_and_goes_on(what: str, tmp_path: Path) -> None:
    with _run(tmp_path, "OnFailure", tolerated_seconds=300) as run:
        job, (pod,) = run.job(), run.pods()
        node = pod["spec"]["nodeName"]
        with hung_api_server() if what == "api-server" else without_network(node):
            until(lambda: "Logs cannot be read" in run.message(), "the warning that logs are not read")
            message, state = run.message(), run.shown()["state"]
            run.trains_on()
        until(lambda: "Logs cannot be read" not in run.message(), "the end of the warning", seconds=150)
        until(lambda: is_node_ready(node), f"{node} is ready")
        assert (run.job(), [one["metadata"]["uid"] for one in run.pods()]) == (job, [pod["metadata"]["uid"]])
        run.finish()
        markers = run.markers()
    assert state == "running"
    assert f"/pods/{pod['metadata']['name']}/log" in message
    assert "whether more was printed is not known: " in markers[0]
    assert markers[1:] == ["-- the log can be read again --"]


def test_a_console_says_that_nothing_is_heard_of_an_api_server(tmp_path: Path) -> None:
    program, script = program_in(tmp_path / "home"), tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"eksml-script": 1, "deadline": "5m", "steps": _SCREENS}), encoding="utf-8")
    argv = program.argv("--kubeconfig", real_nodes().kubeconfig, "--script", str(script), "--artifacts", str(tmp_path))
    with subprocess.Popen(
        argv,
        env=dict(program.environment),
        cwd=program.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as console:
        until((tmp_path / "live.svg").exists, "a live screen")
        with hung_api_server():
            until((tmp_path / "stale.svg").exists, "a screen that says so", seconds=60)
        said, _ = console.communicate(timeout=150)
    program.end_all()
    assert console.returncode == 0, said


def test_a_runner_that_is_killed_is_taken_up_while_the_training_goes_on(tmp_path: Path) -> None:
    with _run(tmp_path, "OnFailure") as run:
        job, (folder,) = run.job(), run.program.run_folders()
        runner = run.program.runner(folder)
        assert runner is not None
        os.kill(runner.pid, signal.SIGKILL)
        until(lambda: run.shown()["state"] == "unknown", "the run without a runner")
        run.trains_on()
        assert run.program.run("runs", "resume", "latest").returncode == 0
        until(lambda: run.shown()["state"] == "running", "the run with a runner")
        assert run.job() == job
        run.finish()
        assert len(run.pods()) == 1


def test_a_killed_process_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    with _run(tmp_path, "OnFailure") as run:
        kill_process(_PROGRAM)
        run.trains_on()
        (pod,) = run.pods()
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
        run.finish()
        assert run.markers() == ["-- container restarted (exit 137, Error) --"]


def test_a_node_that_the_console_drains_gives_its_training_to_another(tmp_path: Path) -> None:
    with _run(tmp_path, "Never") as run:
        (pod,) = run.pods()
        node = pod["spec"]["nodeName"]
        script = tmp_path / "drain.yaml"
        steps = [
            {"wait": {"cluster": "bionemo-on-eks", "within": "1m"}},
            {"drain": {"object": f"node/{node}", "even_if_lost": True}},
        ]
        script.write_text(yaml.safe_dump({"eksml-script": 1, "steps": steps}), encoding="utf-8")
        try:
            played = run.program.run("--kubeconfig", real_nodes().kubeconfig, "--script", str(script))
            assert played.returncode == 0, played.stdout + played.stderr
            run.trains_on()
            assert run.shown()["state"] == "running"
            assert node not in {one["spec"]["nodeName"] for one in run.pods()}
        finally:
            kubectl("uncordon", node)
        run.finish()


def test_a_run_waits_for_a_node_that_is_lost_and_goes_on_behind_it(tmp_path: Path) -> None:
    with _run(tmp_path, "Never") as run:
        node = run.pods()[0]["spec"]["nodeName"]
        with stopped("kubelet", node):
            until(lambda: "deletionTimestamp" in run.pods()[0]["metadata"], "the eviction")
            (found, *_) = run.why()
            state, message = run.shown()["state"], run.message()
        until(lambda: is_node_ready(node), f"{node} is ready")
        until(lambda: any("deletionTimestamp" not in one["metadata"] for one in run.pods()), "another pod")
        run.trains_on()
        run.finish()
    assert (found["code"], node in found["headline"]) == ("NODE_LOST", True)
    assert state == "running"
    assert message
