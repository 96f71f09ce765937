"""Jobs of today, by their real operators, and the words of the program about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.realnode.installing import DEPLOYMENTS, install_all
from tests.realnode.lives import program_in
from tests.realnode.support import apply, apply_file, get, kubectl, until

_MANIFESTS = Path(__file__).parent / "manifests"
_NAMESPACE = "today"
_FINE = "Nothing is wrong in the pods, events, nodes and logs that may be read.\n"
_TRAINING_SECONDS = 240
Say = Callable[..., str]


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    install_all()
    apply_file(_MANIFESTS / "ground-of-today.yaml")
    until(lambda: "default" in _names("serviceaccounts"), "the service account of pods")
    yield
    kubectl("delete", "namespace", _NAMESPACE, "--wait=false")


@pytest.fixture(name="say")
def _say(tmp_path: Path) -> Say:
    """Return a function that runs the program and returns what it prints."""
    started = program_in(tmp_path / "home")

    def run(*arguments: str) -> str:
        done = started.run(*arguments)
        return done.stdout + done.stderr

    return run


def test_all_are_ready_and_refuse_what_is_wrong() -> None:
    for namespace, name in DEPLOYMENTS.values():
        status = get("deployment", "-n", namespace, name)["status"]
        assert status["readyReplicas"] == status["replicas"]
    lost = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "lost", "namespace": _NAMESPACE},
        "spec": {"runtimeRef": {"name": "absent"}},
    }
    with pytest.raises(AssertionError, match=r"admission webhook .* denied the request"):
        apply(lost)


def test_jobs_of_each_kind(say: Say) -> None:
    apply_file(_MANIFESTS / "jobs-of-today.yaml")
    until(lambda: len(_running("torch-node-0")) == 2, "two ranks", seconds=_TRAINING_SECONDS)
    assert _is_fine(say, "trainjob/torch")
    log = say("watch", "-n", _NAMESPACE, "--plain", "job/torch-node-0")
    assert "rank 0 of 2 is done" in log
    assert "rank 1 of 2 is done" in log
    losses = [float(found) for found in re.findall(r"'loss': ([\d.]+)", log)]
    assert losses[-1] < losses[0] / 10
    _wait("trainjob/torch", "Complete")
    _wait("jobset/pair", "Completed")
    _wait("leaderworkerset/group", "Available")
    assert _is_fine(say, "trainjob/torch")
    assert _is_fine(say, "jobset/pair")
    pods = say("pods", "-n", _NAMESPACE)
    assert {"group-0", "group-0-1"} <= {line.split()[1] for line in pods.splitlines()[1:]}


def _running(owner: str) -> list[str]:
    found = get("pods", "-n", _NAMESPACE, "--selector", f"batch.kubernetes.io/job-name={owner}")["items"]
    return [one["metadata"]["name"] for one in found if one["status"]["phase"] == "Running"]


def _names(kind: str) -> list[str]:
    return [one["metadata"]["name"] for one in get(kind, "-n", _NAMESPACE)["items"]]


def _wait(thing: str, condition: str) -> None:
    kubectl("wait", "-n", _NAMESPACE, thing, f"--for=condition={condition}", "--timeout=80s")


def _is_fine(say: Say, thing: str) -> bool:
    return say("why", "-n", _NAMESPACE, thing) == _FINE
