"""Work that gives way in a queue of Kueue, and pods for which Karpenter makes a node or may make none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.realcluster.harness.kwok import kwok_folder
from tests.realcluster.harness.parts import program as built
from tests.realnode.failing import container, job, pod
from tests.realnode.installing import install_all
from tests.realnode.lives import ProgramOnNodes, program_in
from tests.realnode.running import real_nodes
from tests.realnode.support import Document, apply, apply_file, get, kubectl, make_namespace, until

_MANIFEST = Path(__file__).parent / "manifests" / "queues-of-today.yaml"
_NAMESPACE = "queues"
_QUEUE, _PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
_STAGES = (
    "node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready", "pod/fast/pod-delete",
)  # fmt: skip
"""Of kwok: nodes are ready, pods run and go."""


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    install_all()
    make_namespace(_NAMESPACE)
    kubectl("label", "namespace", _NAMESPACE, "realnode/as-written=")  # pools are asked for as much as pods want
    apply_file(_MANIFEST)
    yield
    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", str(_MANIFEST))
    kubectl("delete", "namespace", _NAMESPACE, "--wait=false")


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Iterator[ProgramOnNodes]:
    """The program; the jobs and pods of a test go with it."""
    yield program_in(tmp_path / "home")
    kubectl(
        "delete", "jobs,pods", "--all", "-n", _NAMESPACE, "--force", "--grace-period=0"
    )  # a node may have no kubelet
    until(lambda: not get("workloads.kueue.x-k8s.io", "-n", _NAMESPACE)["items"], "the end of all workloads")


def test_a_job_that_gives_way_to_a_more_urgent_one(program: ProgramOnNodes) -> None:
    _queue("patient", "research")
    _queue("other", "product")
    until(lambda: _admitted() == {"patient", "other"}, "both jobs")
    _queue("pressing", "research", priority="pressing")
    until(lambda: _admitted() == {"pressing", "other"}, "the job that presses")
    (found,) = _why(program, "job/queues/patient")
    assert found["code"] == "QUEUE_WAITING"
    assert any("due to prioritization in the ClusterQueue" in quote for quote in found["evidence"]), found
    (queue,) = [one for one in _queues(program) if one["name"] == "research"]
    assert [(one["job_name"], one["state"]) for one in queue["work"]] == [
        ("pressing", "admitted"),
        ("patient", "pending"),
    ]
    assert "Preempted to accommodate a workload" in queue["work"][1]["reason"]
    assert _why(program, "job/queues/pressing") == []


def test_a_job_that_borrows_gives_way_to_the_lender(program: ProgramOnNodes) -> None:
    _queue("own", "research")
    until(lambda: _admitted() == {"own"}, "the first job")
    _queue("borrows", "research")
    until(lambda: _admitted() == {"own", "borrows"}, "the job that borrows")
    (queue,) = [one for one in _queues(program) if one["name"] == "research"]
    assert queue["shares"] == [{"flavor": "shared", "resource": "cpu", "quota": "1", "used": "2", "borrowed": "1"}]
    _queue("lender", "product")
    until(lambda: "lender" in _admitted() and len(_admitted()) == 2, "the job of the lender")
    (waits,) = {"own", "borrows"} - _admitted()
    (found,) = _why(program, f"job/queues/{waits}")
    assert found["code"] == "QUEUE_WAITING"
    assert any("due to reclamation within the cohort" in quote for quote in found["evidence"]), found


def test_a_job_that_no_quota_can_hold(program: ProgramOnNodes) -> None:
    _queue("never", "research", cpu="4")
    until(lambda: _told("never"), "the queue's answer")
    (found,) = _why(program, "job/queues/never")
    assert "which can never hold it" in found["headline"]


def test_a_node_comes_for_a_pod_and_goes_with_it(program: ProgramOnNodes) -> None:
    _place("wanted", cpu="1")
    until(lambda: get("nodeclaims")["items"], "a claim")
    claim = get("nodeclaims")["items"][0]["metadata"]["name"]
    until(lambda: f"one is being made: nodeclaim/{claim}" in _words(program, "why", "pod/queues/wanted"), "words of it")
    until(_made_nodes, "its node")
    assert _words(program, "nodes").count("NotReady") == 1
    with _kwok():
        kubectl("wait", "-n", _NAMESPACE, "pod/wanted", "--for=condition=Ready", "--timeout=60s")
        assert _why(program, "pod/queues/wanted") == []
        kubectl("delete", "-n", _NAMESPACE, "pod/wanted", "--now")
        until(lambda: not _made_nodes(), "the end of the node")
    assert "limited" not in _words(program, "nodes")
    assert get("nodeclaims")["items"] == []


def test_a_pod_that_the_limits_of_the_pool_keep_from_a_node(program: ProgramOnNodes) -> None:
    _place("too-much", cpu="3")
    until(lambda: _has_limit(program, "pod/queues/too-much"), "Karpenter's words")
    (found,) = _why(program, "pod/queues/too-much")
    assert 'NodePool "limited" has reached its resource limit (cpu 2, of which ' in found["headline"]
    assert any("no instance type has enough resources" in quote for quote in found["evidence"]), found
    kubectl("patch", "nodepool", "limited", "--type=merge", "-p", '{"spec": {"limits": {"cpu": "0"}}}')
    _place("nothing-left", cpu="1")
    until(lambda: _has_limit(program, "pod/queues/nothing-left"), "Karpenter's words")
    (found,) = _why(program, "pod/queues/nothing-left")
    assert any("all available instance types exceed limits" in quote for quote in found["evidence"]), found


@contextmanager
def _kwok() -> Iterator[None]:
    """Play the kubelet of Karpenter's nodes."""
    stages = [(kwok_folder() / "kustomize" / "stage" / f"{name}.yaml").read_text(encoding="utf-8") for name in _STAGES]
    config = Path(real_nodes().kubeconfig).with_name("kwok.yaml")
    config.write_text("\n---\n".join(stages), encoding="utf-8")
    argv = [
        built("kwok"), "--kubeconfig", real_nodes().kubeconfig, "--config", str(config),
        "--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds", "40",
    ]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            yield
        finally:
            started.kill()


def _queue(name: str, queue: str, *, cpu: str = "1", priority: str = "") -> None:
    """Put a job into a queue, which asks for so many cores and sleeps."""
    made = job(container("sleep 600", resources={"requests": {"cpu": cpu}}), name=name, suspend=True)
    made["metadata"] |= {
        "namespace": _NAMESPACE,
        "labels": {_QUEUE: queue} | ({_PRIORITY: priority} if priority else {}),
    }
    apply(made)


def _place(name: str, *, cpu: str) -> None:
    """Make a pod that only a node of the pool may run."""
    made = pod(
        container("sleep 3600", resources={"requests": {"cpu": cpu}}), name=name, nodeSelector={"made": "limited"}
    )
    made["metadata"] |= {"namespace": _NAMESPACE}
    apply(made)


def _admitted() -> set[str]:
    """Return the jobs that their queues have admitted."""
    found = get("workloads.kueue.x-k8s.io", "-n", _NAMESPACE)["items"]
    return {_job_of(one) for one in found if _condition(one, "Admitted").get("status") == "True"}


def _told(name: str) -> str:
    """Return the queue's words about a job that it does not admit; empty before there are any."""
    found = get("workloads.kueue.x-k8s.io", "-n", _NAMESPACE)["items"]
    return next((_condition(one, "QuotaReserved").get("message", "") for one in found if _job_of(one) == name), "")


def _job_of(workload: Document) -> str:
    return str(workload["metadata"]["ownerReferences"][0]["name"])


def _condition(thing: Document, name: str) -> Document:
    return next((one for one in thing.get("status", {}).get("conditions", ()) if one["type"] == name), {})


def _made_nodes() -> list[Document]:
    return list(get("nodes", "--selector", "made=limited")["items"])


def _queues(program: ProgramOnNodes) -> list[dict[str, Any]]:
    return list(json.loads(program.run("queues", "-o", "json").stdout)["queues"])


def _why(program: ProgramOnNodes, about: str) -> list[dict[str, Any]]:
    return list(json.loads(program.run("why", about, "-o", "json").stdout))


def _has_limit(program: ProgramOnNodes, about: str) -> bool:
    return "NODEPOOL_LIMIT" in [one["code"] for one in _why(program, about)]


def _words(program: ProgramOnNodes, *arguments: str) -> str:
    """Return what the program prints, without its line breaks."""
    return " ".join(program.run(*arguments).stdout.split())
