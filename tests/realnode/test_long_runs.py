"""Runs whose training loses its API server, its runner, its process or its node: they wait or go on, and say so."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from actions.base.files import private_directory
from tests.realnode.lives import ProgramOnNodes, program_in
from tests.realnode.running import real_nodes
from tests.realnode.support import Document, apply, get, is_node_ready, kubectl, stopped, until, without_api_server

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
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
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


@dataclass(frozen=True)
class Run:
    """A run on its way, and the program that looks at it."""

    program: ProgramOnNodes
    data: Path
    """The file system, as this machine has it."""

    def shown(self) -> Document:
        """What `runs show` says."""
        return dict(json.loads(self.program.command("runs", "show", "latest", "-o", "json").stdout))

    def step(self) -> int:
        """The step of the last checkpoint."""
        path = self.data / "step"
        return int(path.read_text(encoding="ascii") or 0) if path.exists() else 0

    def trains_on(self, steps: int = 30, *, seconds: float = 90) -> None:
        """Wait until it has trained further."""
        last = self.step()
        until(lambda: self.step() >= last + steps, "the training goes on", seconds=seconds)

    def finish(self) -> None:
        """Let the training end, and the run."""
        (self.data / "stop").touch()
        until(lambda: self.shown()["state"] not in ("running", "unknown"), "the end of the run")
        assert self.shown()["state"] == "succeeded"

    def logged(self) -> list[str]:
        """The lines of its log, with their markers."""
        return self.program.command("runs", "logs", "latest", "--stage", "train").stdout.splitlines()

    def curve(self) -> list[tuple[int, float]]:
        """Step and loss of each point."""
        out = self.program.command("runs", "curves", "latest", "-o", "csv").stdout
        return [(int(row["step"]), float(row["value"])) for row in csv.DictReader(out.splitlines())]

    def pods(self) -> list[Document]:
        """The pods of the training."""
        return list(get("pods", "-n", _NAMESPACE, "-l", "job-name=train")["items"])


@contextmanager
def _run(tmp_path: Path, restart_policy: str) -> Iterator[Run]:
    data = private_directory(Path(real_nodes().volumes) / _NAMESPACE)
    for path in data.iterdir():
        path.unlink()
    folder = private_directory(tmp_path / "blueprints" / _NAMESPACE)
    (folder / "blueprint.yaml").write_text(_BLUEPRINT, encoding="utf-8")
    manifest = _TRAIN.replace("RESTART_POLICY", restart_policy).replace("PROGRAM", _PROGRAM)
    (folder / "train.yaml").write_text(manifest, encoding="utf-8")
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
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


def test_explore(tmp_path: Path) -> None:
    import sys

    with _run(tmp_path, "OnFailure") as run:
        sys.stderr.write(json.dumps(run.shown(), indent=1)[:6000])
        with without_api_server():
            last = run.step()
            until(lambda: run.step() >= last + 200, "away")
            sys.stderr.write(json.dumps(run.shown(), indent=1)[:6000])
            sys.stderr.write(run.program.command("runs", "show", "latest").stdout)
            sys.stderr.write("\n".join(run.logged()[-5:]))
        run.trains_on()
        run.finish()
        sys.stderr.write("\n".join(run.logged()[-5:]))
        sys.stderr.write(repr(run.curve()[-5:]))
        sys.stderr.write(run.program.command("runs", "show", "latest").stdout)
        lines = run.logged()
        sys.stderr.write(repr([l for l in lines if "step" not in l]))
        numbers = [int(l.split("step ")[1].split("/")[0]) for l in lines if "step " in l]
        sys.stderr.write(repr((len(numbers), numbers == list(range(1, len(numbers) + 1)))))
