"""A gang of Volcano's that cannot be placed, and the words of `why` about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realnode.failing import Document, container, pod
from tests.realnode.harness.sources import fill_mirror
from tests.realnode.running import real_nodes
from tests.realnode.support import apply, get, kubectl, until
from tui.cli import main

_NAMESPACE = "failing-gangs"
_GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "ranks", "namespace": _NAMESPACE},
    "spec": {"minMember": 3, "queue": "default"},
}


@pytest.fixture
def volcano(tmp_path: Path) -> Iterator[None]:
    """Volcano from its own manifest, until the test is over."""
    manifest = next(str(path) for path in fill_mirror(tmp_path) if "volcano" in str(path))
    kubectl("apply", "--server-side", "-f", manifest)
    try:
        kubectl("wait", "deployments", "--all", "-n", "volcano-system", "--for=condition=Available", "--timeout=80s")
        until(lambda: _is_open("default"), "the default queue")
        yield
    finally:
        kubectl("delete", "-f", manifest, "--timeout=80s")


def _is_open(queue: str) -> bool:
    return any(
        one["metadata"]["name"] == queue and one["status"].get("state") == "Open"
        for one in get("queues.scheduling.volcano.sh")["items"]
    )


def _rank(number: int) -> Document:
    gpus = {"limits": {"nvidia.com/gpu": "4"}}
    made = pod(container("sleep 600", resources=gpus), schedulerName="volcano", restartPolicy="Never")
    annotations = {"scheduling.k8s.io/group-name": "ranks"}
    return {**made, "metadata": {"name": f"rank-{number}", "namespace": _NAMESPACE, "annotations": annotations}}


@pytest.mark.usefixtures("volcano")
def test_a_gang_of_three_on_two_nodes_waits(capsys: pytest.CaptureFixture[str]) -> None:
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}, _GROUP, *map(_rank, range(3)))
    try:
        until(lambda: "Unschedulable" in json.dumps(get("podgroup", "ranks", "-n", _NAMESPACE)), "Volcano's refusal")
        capsys.readouterr()
        main(["why", f"pod/{_NAMESPACE}/rank-0", "--kubeconfig", real_nodes().kubeconfig, "-o", "json"])
        (found,) = json.loads(capsys.readouterr().out)
    finally:
        kubectl("delete", "namespace", _NAMESPACE, "--timeout=80s")
    assert (found["code"], found["severity"]) == ("GANG_WAITING", "warning")
    assert "all 3 pods of ranks fit at once" in found["headline"]
    assert any("tasks in gang unschedulable" in quote for quote in found["evidence"])
