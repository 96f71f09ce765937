"""TensorBoard, the exporters and a Prometheus of the cluster, as an operator has them: chosen, forwarded, torn down."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef
from actions.run.client import load_run
from actions.run.context.access import ClusterConnection
from actions.run.state.view import RunState, StageState
from tests.faults.rehearsal import a_sandbox
from tests.support.applying import apply_all
from tests.support.definitions import recorded_definitions
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.smallrun import a_small_run, carry_out, torn_down
from tests.upstream.sources import source

LAUNCH = """\
eksml-script: 1
deadline: 5m
steps:
  - launch:
      blueprint: nemo-gpt3-5b
      preset: rehearsal
      auto_approve: true
      set: {tensorboard: true, exporters: true, max_steps: 1000000}
  - wait: {stage: tensorboard, is: succeeded, within: 5m}
  - wait: {stage: exporters, is: succeeded, within: 3m}
  - wait: {metric: train_loss, of: train, step: ">= 5", within: 4m}
  - forward: {to: tensorboard}
  - forward: {to: prometheus}
"""
BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: unserved, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: unserved, region: us-west-2}
  - id: objects
    kind: manifests
    title: Objects
    needs: [access]
    expect: 1s..5s
    manifests: [objects.yaml]
    where_served: [PodMonitor]
"""
OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: exporter}
spec: {selector: {}}
"""
MONITORS = "prometheus-operator-0.93.0-podmonitors"


def a_prometheus() -> list[dict[str, Any]]:
    said = source("prometheus_operator")["pods"]
    container = {
        "name": said["container"],
        "image": "quay.io/prometheus/prometheus:v3",
        "ports": [{"containerPort": 9090}],
    }
    metadata = {"name": "prometheus-k8s-0", "namespace": "monitoring", "labels": said["label"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}},
    ]


async def install(program: Program) -> None:
    session = await KubeSession.connect(ClusterTarget(program.kubeconfig()))
    await apply_all(session, Discovery(session), [*recorded_definitions(MONITORS), *a_prometheus()])
    await session.aclose()


async def objects_of(program: Program, *refs: ObjectRef) -> list[dict[str, Any] | None]:
    session = await KubeSession.connect(ClusterTarget(program.kubeconfig()))
    try:
        connection = ClusterConnection(session, Discovery(session))
        return [await connection.find(ref) for ref in refs]
    finally:
        await session.aclose()


@contextmanager
def forwarded(program: Program, to: str) -> Iterator[str]:
    """The link that `eksml-tui forward` prints, while it runs."""
    with subprocess.Popen(
        program.argv("--demo", "forward", to),
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
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(answer.read().decode())


def test_what_is_chosen_serves_while_it_trains_and_goes_with_the_run(program: Program) -> None:
    assert program.run("--demo", "--speed", "20", "nodes").returncode == 0
    asyncio.run(install(program))
    early = program.command("--demo", "forward", "tensorboard")
    assert (early.returncode, early.stdout) == (1, "")
    assert "No running pod serves TensorBoard." in early.stderr
    nowhere = program.command("--demo", "forward", "default/nope:80")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "No pod default/nope runs." in nowhere.stderr
    script = program.home / "launch.yaml"
    script.write_text(LAUNCH)
    done = program.run("--demo", "--script", str(script), "--artifacts", str(program.home), seconds=400)
    assert done.returncode == 0, done.stdout + done.stderr

    with forwarded(program, "tensorboard") as link:
        assert json.loads(page(link, "/data/runs"))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            page(f"{link}x", "/data/runs")
    listed = program.command("--demo", "forward").stdout
    assert "prometheus   monitoring/prometheus-k8s-0:9090\n" in listed
    assert "tensorboard  default/" in listed
    with forwarded(program, "prometheus") as link:
        assert "prometheus-k8s-0" in page(link)

    daemon, monitor = (
        ObjectRef("apps/v1", "DaemonSet", "default", "dcgm-exporter"),
        ObjectRef("monitoring.coreos.com/v1", "PodMonitor", "default", "dcgm-exporter"),
    )
    found, made = asyncio.run(objects_of(program, daemon, monitor))
    assert found is not None
    assert found["status"]["numberReady"] == found["status"]["desiredNumberScheduled"] > 0
    assert made is not None
    pod = next(name for name in pods_of(program) if "/dcgm-exporter-" in name)
    with forwarded(program, f"{pod}:9400") as link:
        assert "\nDCGM_FI_DEV_GPU_UTIL{" in page(link, "/metrics")

    (folder,) = program.run_folders()
    assert "exporters" in {stage.id for stage in load_run(folder).stages if stage.state is StageState.SUCCEEDED}
    ended = program.run("runs", "teardown", folder.name, "--confirm", "nemo-gpt3-5b", "--delete-data", seconds=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    wait(lambda: load_run(folder).state is RunState.TORN_DOWN, "the teardown", deadline_seconds=240)
    assert asyncio.run(objects_of(program, daemon, monitor)) == [None, None]


def pods_of(program: Program) -> list[str]:
    async def listed() -> list[str]:
        session = await KubeSession.connect(ClusterTarget(program.kubeconfig()))
        try:
            found = await session.get("/api/v1/pods")
        finally:
            await session.aclose()
        return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found["items"]]

    return asyncio.run(listed())


async def test_an_object_of_a_kind_that_is_not_served_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with a_sandbox("unserved", speed=100.0) as running:
        files = {"blueprint.yaml": BLUEPRINT, "objects.yaml": OBJECTS}
        folder = a_small_run(tmp_path, files, kubeconfig=running.kubeconfig)
        view = await carry_out(folder)
        assert view.state is RunState.SUCCEEDED, [stage.message for stage in view.stages]
        assert view.stages[-1].message == "1 object applied. The cluster does not serve PodMonitor: left out."
        assert [item.kind for item in view.owned] == ["ConfigMap"]
        assert (await torn_down(folder)).state is RunState.TORN_DOWN
