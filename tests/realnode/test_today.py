"""Jobs of today, by their real operators, and the words of the program about them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.realcluster.harness.kwok import kwok_folder
from tests.realcluster.harness.parts import program
from tests.realnode.failing import container, job, pod
from tests.realnode.installing import DEPLOYMENTS, install_all
from tests.realnode.lives import program_in
from tests.realnode.running import real_nodes
from tests.realnode.support import Document, apply, apply_file, get, kubectl, until

_MANIFESTS = Path(__file__).parent / "manifests"
_NAMESPACE = "today"
_FINE = "Nothing is wrong in the pods, events, nodes and logs that may be read.\n"
_STAGES = ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease", "pod/fast/pod-ready")
"""Of kwok: nodes are ready, pods run."""
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
    """What the program prints when it is run with arguments and the namespace."""
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


def test_a_queue_admits_one_job_after_the_other(say: Say) -> None:
    _queue("first", cpu="1", script="until [ -f /tmp/end ]; do sleep 0.2; done")
    until(lambda: _running("first"), "the first job's pod")
    _queue("second", cpu="1", script="true")
    _queue("never", cpu="4", script="true")
    until(lambda: _told("second") and _told("never"), "the queue's answers")
    assert "insufficient unused quota for cpu in flavor small, 1 more needed" in _told("second")
    assert "until quota is free" in say("why", "-n", _NAMESPACE, "job/second")
    assert "which can never hold it" in _words(say("why", "-n", _NAMESPACE, "job/never"))
    kubectl("exec", "-n", _NAMESPACE, _running("first")[0], "--", "touch", "/tmp/end")
    _wait("job/second", "Complete")
    assert _is_fine(say, "job/second")
    assert get("job", "-n", _NAMESPACE, "never")["spec"]["suspend"]


def test_a_node_comes_for_a_pod_and_goes_with_it(say: Say) -> None:
    wanted = pod(container("sleep 3600"), name="wanted", nodeSelector={"made": "to-order"})
    apply(_in_namespace(wanted))
    until(lambda: get("nodeclaims")["items"], "a claim")
    claim = get("nodeclaims")["items"][0]["metadata"]["name"]
    until(lambda: f"one is being made: nodeclaim/{claim}" in say("why", "-n", _NAMESPACE, "pod/wanted"), "words of it")
    until(_made_nodes, "its node")
    node = _made_nodes()[0]
    told = say("nodes")
    assert f"{len(real_nodes().nodes) + 1} nodes (1 not ready)" in told
    assert "≥ $" in told.splitlines()[0]  # kwok's instance types have no price
    until(lambda: "has never answered" in _words(say("why", f"node/{node}")), "words of the node's silence")
    with _kwok():
        kubectl("wait", "-n", _NAMESPACE, "pod/wanted", "--for=condition=Ready", "--timeout=60s")
        assert say("why", "-n", _NAMESPACE, "pod/wanted") == _FINE
        assert "not ready" not in say("nodes").splitlines()[0]
        kubectl("delete", "-n", _NAMESPACE, "pod/wanted", "--now")
        until(lambda: not _made_nodes(), "the end of the node")
    assert f"{len(real_nodes().nodes)} nodes," in say("nodes")
    assert get("nodeclaims")["items"] == []


@contextmanager
def _kwok() -> Iterator[None]:
    """Play the kubelet of Karpenter's nodes."""
    stages = [(kwok_folder() / "kustomize" / "stage" / f"{name}.yaml").read_text(encoding="utf-8") for name in _STAGES]
    config = Path(real_nodes().kubeconfig).with_name("kwok.yaml")
    config.write_text("\n---\n".join(stages), encoding="utf-8")
    argv = [
        program("kwok"), "--kubeconfig", real_nodes().kubeconfig, "--config", str(config),
        "--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds", "40",
    ]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            yield
        finally:
            started.kill()


def _queue(name: str, *, cpu: str, script: str) -> None:
    main = container(script, resources={"requests": {"cpu": cpu}})
    queued = job(main, name=name, suspend=True)
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    apply(_in_namespace(queued))


def _in_namespace(thing: Document) -> Document:
    return {**thing, "metadata": {**thing["metadata"], "namespace": _NAMESPACE}}


def _told(name: str) -> str:
    """The queue's last words about a job that it does not admit."""
    for workload in get("workloads.kueue.x-k8s.io", "-n", _NAMESPACE)["items"]:
        if workload["metadata"]["ownerReferences"][0]["name"] == name:
            conditions = workload.get("status", {}).get("conditions", ())
            return next((one["message"] for one in conditions if one["type"] == "QuotaReserved"), "")
    return ""


def _running(owner: str) -> list[str]:
    found = get("pods", "-n", _NAMESPACE, "--selector", f"batch.kubernetes.io/job-name={owner}")["items"]
    return [one["metadata"]["name"] for one in found if one["status"]["phase"] == "Running"]


def _names(kind: str) -> list[str]:
    return [one["metadata"]["name"] for one in get(kind, "-n", _NAMESPACE)["items"]]


def _made_nodes() -> list[str]:
    return [one["metadata"]["name"] for one in get("nodes", "--selector", "made=to-order")["items"]]


def _wait(thing: str, condition: str) -> None:
    kubectl("wait", "-n", _NAMESPACE, thing, f"--for=condition={condition}", "--timeout=80s")


def _is_fine(say: Say, thing: str) -> bool:
    return say("why", "-n", _NAMESPACE, thing) == _FINE


def _words(text: str) -> str:
    """A text of the program's without its line breaks."""
    return " ".join(text.split())
