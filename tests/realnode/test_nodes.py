"""Nodes by themselves: what pods find on them, and what is left of them when everything is killed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.realnode.equipment import equip
from tests.realnode.running import real_nodes
from tests.realnode.support import apply, get, is_node_ready, kubectl, stopped, until

_SCRIPT = "env; nslookup kubernetes.default.svc.cluster.local; echo kept > /data/mark; sleep 600"
_VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "parts"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-parts"},
        "claimRef": {"namespace": "default", "name": "parts"},
    },
}
_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "parts"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": "parts",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "parts"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", _SCRIPT],
                "resources": {"requests": {"cpu": "64", "memory": "200Gi"}, "limits": {"nvidia.com/gpu": 2}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "parts"}}],
    },
}


def test_a_pod_has_devices_names_and_a_volume() -> None:
    nodes = real_nodes()
    name = sorted(nodes.nodes)[-1]
    equip(nodes.kubeconfig, name, Path(nodes.nodes[name]), "g5.12xlarge")
    apply(_VOLUME, _CLAIM, _POD)
    try:
        kubectl("wait", "pod/parts", "--for=condition=Ready", "--timeout=60s")
        until((Path(real_nodes().volumes) / "fs-parts" / "mark").exists, "a file on the volume")
        log = kubectl("logs", "parts")
        devices = re.search(r"NVIDIA_VISIBLE_DEVICES=(\S+)", log)
        assert devices is not None
        assert len(set(devices[1].split(","))) == 2
        assert "Address: 10.96.0.1" in log
    finally:
        kubectl("delete", "pod/parts", "pvc/parts", "pv/parts", "--now")


def test_a_kubelet_that_is_away_makes_its_node_not_ready() -> None:
    node = sorted(real_nodes().nodes)[-1]
    with stopped("kubelet", node):
        until(lambda: not is_node_ready(node), f"{node} is not ready")
        taints = {taint["key"] for taint in get("node", node)["spec"].get("taints", ())}
        assert "node.kubernetes.io/unreachable" in taints
    until(lambda: is_node_ready(node), f"{node} is ready again")


def test_nothing_is_left_when_all_is_killed() -> None:
    argv = [sys.executable, "-m", "tests.realnode.harness", "serve"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as launched:
        folder, enter = _way_into(launched)
        assert _of(folder)
        listed = subprocess.run(
            ["bash", "-c", f"{enter} kubectl get nodes -o name"], capture_output=True, text=True, check=True
        )
        assert len(listed.stdout.splitlines()) == len(real_nodes().nodes)
        launched.kill()
    until(lambda: not _of(folder), "the end of all processes", seconds=20)
    assert folder not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert links.count("node-") == len(real_nodes().nodes)


def _way_into(launched: subprocess.Popen[str]) -> tuple[str, str]:
    """The folder of a cluster that is being started, and what has to stand before a command in it, once it runs."""
    assert launched.stderr is not None
    for line in launched.stderr:
        if found := re.search(r"(nsenter .* KUBECONFIG=(\S+)/kubeconfig) bash", line):
            return found[2], found[1]
    raise AssertionError("the cluster did not start")


def _of(folder: str) -> list[str]:
    """Processes whose command names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if folder in command:
            found.append(command)
    return found
