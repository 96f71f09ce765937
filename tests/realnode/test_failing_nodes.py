"""Nodes that fail under a pod: pressure, a taint, a kubelet that is away; and the words of `why` about them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.realnode.failing import REGISTRY, container, pod, pulling
from tests.realnode.refusals import refusing_registry
from tests.realnode.running import FOLDER, real_nodes
from tests.realnode.support import Document, apply, get, is_node_ready, kubectl, process_of, stopped, until
from tui.cli import main

_NAMESPACE = "failing-nodes"
_HOST = "kubernetes.io/hostname"
_PULLED = "/var/lib/containerd/io.containerd.content.v1.content"
"""The folder of what containerd pulls."""
_ROOM = "/run/room"


@pytest.fixture
def node() -> Iterator[str]:
    """A node with accelerators, and a namespace for the pods on it."""
    name = sorted(real_nodes().nodes)[-1]
    until(lambda: is_node_ready(name), f"{name} is ready")
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    yield name
    kubectl("delete", "namespace", _NAMESPACE, "--timeout=80s")


def _place(node: str, script: str) -> None:
    program = container(script, resources={"requests": {"memory": "16Mi"}})
    made = pod(program, restartPolicy="Never", nodeSelector={_HOST: node})
    apply({**made, "metadata": {"name": "p", "namespace": _NAMESPACE}})


def _start(node: str, script: str = "sleep 3600") -> None:
    _place(node, script)
    kubectl("wait", "pod/p", "-n", _NAMESPACE, "--for=condition=Ready", "--timeout=60s")


def _status() -> Document:
    status: Document = get("pod", "p", "-n", _NAMESPACE)["status"]
    return status


@contextmanager
def _low(node: str, resource: str) -> Iterator[None]:
    """Let the kubelet of a node find that it has been low on something for seconds, until the context is left."""
    path = Path(real_nodes().nodes[node]) / "kubelet.yaml"
    before = path.read_bytes()
    soft = {"evictionSoft": {resource: "99%"}, "evictionSoftGracePeriod": {resource: "5s"}}
    unused = {"imageMinimumGCAge": "24h"}  # it would free images first, which others need
    path.write_text(yaml.safe_dump(yaml.safe_load(before) | soft | unused), encoding="utf-8")
    try:
        with stopped("kubelet", node):
            pass
        yield
    finally:
        path.write_bytes(before)
        with stopped("kubelet", node):
            pass
        until(lambda: not _has_pressure(node), f"{node} has no pressure")


def _has_pressure(node: str) -> bool:
    return any(
        one["type"] in ("MemoryPressure", "DiskPressure") and one["status"] == "True"
        for one in get("node", node)["status"]["conditions"]
    )


def _why(about: str, capsys: pytest.CaptureFixture[str]) -> list[Document]:
    capsys.readouterr()
    assert main(["why", about, "--kubeconfig", real_nodes().kubeconfig, "-o", "json"]) == 0
    found: list[Document] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("resource", "code", "said"),
    [
        ("memory.available", "EVICTED_MEMORY", "The node was low on resource: memory."),
        # a kubelet that starts with a full disk refuses its pods before it evicts any
        ("nodefs.available", "EVICTED_DISK", "The node had condition: [DiskPressure]."),
    ],
)
def test_a_pod_that_is_evicted_from_a_node_that_runs_low(
    node: str, resource: str, code: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _start(node)
    with _low(node, resource):
        until(lambda: _status().get("reason") == "Evicted", "the eviction")
        (found,) = _why(f"pod/{_NAMESPACE}/p", capsys)
    assert found["code"] == code
    assert node in found["headline"]
    assert any(said in quote for quote in found["evidence"])


def test_a_pod_that_does_not_tolerate_the_taint_of_its_node(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl("taint", "node", node, "failures.test/busy=yes:NoSchedule")
    try:
        _place(node, "sleep 3600")
        until(lambda: _status().get("conditions"), "the scheduler's answer")
        (found,) = _why(f"pod/{_NAMESPACE}/p", capsys)
    finally:
        kubectl("taint", "node", node, "failures.test/busy-")
    assert found["code"] == "TAINT"
    assert "failures.test/busy" in found["headline"]


def test_a_pod_that_prints_as_fast_as_it_can_is_well(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    _start(node, "busybox yes 'step 12 of 100, loss 2.31, and nothing else happens on this line of a trainer'")
    folder = Path(real_nodes().nodes[node]) / "log" / "pods"
    until(lambda: len(list(folder.glob(f"{_NAMESPACE}_p_*/main/0.log*"))) > 1, "a log that was rotated")
    assert _why(f"pod/{_NAMESPACE}/p", capsys) == []


def test_an_image_that_the_disk_of_the_node_has_no_room_for(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def pull() -> None:
        async with refusing_registry([Path(real_nodes().nodes[node])], Path(FOLDER)):
            made = pulling(f"{REGISTRY}/large:1")
            made["spec"] |= {"nodeSelector": {_HOST: node}}
            apply({**made, "metadata": {"name": "p", "namespace": _NAMESPACE}})
            await asyncio.to_thread(until, _waits_for_an_image, "a pull that fails")

    with _full(node, _PULLED):
        asyncio.run(pull())
    (found,) = _why(f"pod/{_NAMESPACE}/p", capsys)
    assert found["code"] == "NODE_DISK_FULL"
    assert f"{REGISTRY}/large:1" in found["headline"]
    assert any("no space left on device" in quote for quote in found["evidence"])


@contextmanager
def _full(node: str, folder: str) -> Iterator[None]:
    """Let a folder of a node have room for one MiB more until the context is left; what is written meanwhile goes."""
    within = ["nsenter", "--target", str(process_of("containerd", node)), "--mount", "--", "sh", "-ec"]
    layers = f"lowerdir={folder},upperdir={_ROOM}/upper,workdir={_ROOM}/work"
    laid = f"mkdir -p {_ROOM}/upper {_ROOM}/work; mount -t overlay -o {layers} full {folder}"
    subprocess.run([*within, f"mkdir -p {_ROOM}; mount -t tmpfs -o size=1m full {_ROOM}; {laid}"], check=True)
    try:
        yield
    finally:
        subprocess.run([*within, f"umount --lazy {folder} {_ROOM}"], check=True)


def _waits_for_an_image() -> bool:
    states = [one["state"] for one in _status().get("containerStatuses", ())]
    return any(one.get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff") for one in states)


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_node_whose_kubelet_or_runtime_is_away(program: str, node: str, capsys: pytest.CaptureFixture[str]) -> None:
    _start(node)
    with stopped(program, node):
        until(lambda: not is_node_ready(node), f"{node} is not ready")
        (of_the_pod,) = _why(f"pod/{_NAMESPACE}/p", capsys)
        of_the_node = next(one for one in _why(f"node/{node}", capsys) if one["code"] == "NODE_LOST")
    until(lambda: is_node_ready(node), f"{node} is ready again")
    assert of_the_pod["code"] == "NODE_LOST"
    said = "container runtime is down" if program == "containerd" else "Kubelet stopped posting node status."
    for found in (of_the_pod, of_the_node):
        assert node in found["headline"]
        assert any(said in quote for quote in found["evidence"])
