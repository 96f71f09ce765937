"""Small blueprints for runs on a sandbox that other tests use too. `NAME` in their files is the test's own name."""

from __future__ import annotations

from pathlib import Path

from actions.sandbox.locate import RunningSandbox
from tests.support.smallrun import a_small_run, own_name

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: bionemo-on-eks, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: bionemo-on-eks, region: us-west-2}
  - {id: objects, kind: manifests, title: Objects, needs: [access], expect: 1s..5s, manifests: [objects.yaml]}
"""

WORK = """
  - id: work
    kind: job
    title: Work
    needs: [objects]
    expect: 1s..5s
    manifests: [work.yaml]
    target: {api_version: batch/v1, kind: Job, name: NAME}
"""
LOGGED = "    watch: {logs: {pods: batch.kubernetes.io/job-name=NAME}}\n"
"""Behind `WORK`: the log of its pods is kept."""
_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: example.com/work, command: [sh, -c, "COMMAND"]}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"


def job_of(command: str) -> str:
    """The manifest of the stage `WORK`: a Job that runs a shell command once. No double quotes in it."""
    return _JOB.replace("COMMAND", command)


def a_run(
    tmp_path: Path,
    sandbox: RunningSandbox,
    stages: str = "",
    *,
    job: str = "",
    objects: str = CONFIG_MAP,
    blueprint: str = BLUEPRINT,
    name: str = "",
    home: Path | None = None,
) -> Path:
    """A run of a small blueprint; nothing is started.

    Args:
        tmp_path: The test's folder.
        sandbox: Its cluster.
        stages: What follows in the blueprint.
        job: The manifest of the stage `WORK`, if that is among them.
        objects: The manifest of the stage `objects`.
        blueprint: The beginning.
        name: Of its objects; the test's own one if not given.
        home: The folder of all runs, if not the test's own.
    """
    files = {"blueprint.yaml": blueprint + stages, "objects.yaml": objects, "work.yaml": job}
    named = {path: text.replace("NAME", name or own_name(tmp_path)) for path, text in files.items() if text}
    return a_small_run(tmp_path, named, kubeconfig=sandbox.kubeconfig, home=home)
