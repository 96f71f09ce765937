"""A gang of Volcano's that cannot be placed, and the words of `why` about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realnode.failing import Document, container, pod
from tests.realnode.installing import running_volcano
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
    with running_volcano(tmp_path):
        yield


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
