"""A node: containerd, kubelet and kube-proxy in network, mount and host name of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from actions.base.files import private_directory
from tests.realcluster.harness.controlplane import ControlPlane
from tests.realcluster.harness.parts import program
from tests.realcluster.harness.programs import running
from tests.realcluster.harness.supervised import supervised
from tests.realnode.equipment import DEVICES, TYPE, write_devices
from tests.realnode.harness.imagestore import REGISTRY, STANDS_FOR, link_images
from tests.realnode.harness.namespaces import CGROUPS, cni_folder
from tests.realnode.harness.network import GATEWAY, Place, connect

DNS = "10.96.0.10"
PAUSE = "docker.io/library/pause:node"
"""The image of the process that holds a pod's namespaces."""
_OF_ITS_OWN = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/containerd": "containerd",
    "/var/log": "log",
    DEVICES: "devices",
    "/mnt/volumes": "../volumes",
}
"""Folders as its programs and privileged pods expect them, and as they are called in the node's folder.

Those below `/mnt` and `/var/lib` are not on folders of the machine: who removes such a folder ends mounts on it.
"""
_HOLD = """
set -e
hostname "$1"
mount -t tmpfs node /run
mount -t tmpfs node /mnt
mount -t tmpfs node /var/lib
mkdir -p /run/containerd
shift
for pair; do mkdir -p "${pair#*:}"; mount --bind "${pair%%:*}" "${pair#*:}"; done
mount --make-rshared /
touch /run/held
exec sleep infinity
"""
_CONTAINERD = """
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
                    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%(pause)s"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%(plugins)s"
    conf_dir = "%(folder)s/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%(folder)s/registries"
"""
_HOSTS = f'server = "http://{REGISTRY}"\n[host."http://{REGISTRY}"]\ncapabilities = ["pull", "resolve"]\n'


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Place, labels and identity of a node."""

    place: Place
    labels: Mapping[str, str]
    """Those that a kubelet may set itself, with the instance type and the zone."""
    provider_id: str
    """As EC2 has it: `aws:///ZONE/INSTANCE`."""


@asynccontextmanager
async def node(
    plan: NodePlan, plane: ControlPlane, folder: Path, images: Path, all_places: Sequence[Place]
) -> AsyncIterator[None]:
    """Run one until the context is left. It is entered before the node is ready.

    Args:
        plan: What it is.
        plane: Whose API server it finds.
        folder: For its files and logs.
        images: The root of a containerd with the images that are there from the beginning.
        all_places: Of all nodes of the cluster.
    """
    name = plan.place.name
    own = {target: private_directory(folder / below) for target, below in _OF_ITS_OWN.items()}
    for path in own.values():
        path.chmod(0o755)
    write_devices(plan.labels[TYPE], name, own[DEVICES])
    link_images(images, own["/var/lib/containerd"])
    async with AsyncExitStack() as stack:
        pairs = [f"{path}:{target}" for target, path in own.items()]
        hold = ["unshare", "--net", "--mount", "--uts", "--", "bash", "-c", _HOLD, "node", name, *pairs]
        holder = await stack.enter_async_context(running(hold, name="node", logs=folder))
        process = holder.process.pid
        await holder.until(lambda: _is_held(process), f"the folders of {name}", deadline_seconds=30)
        connect(plan.place, process, all_places)
        within = ["nsenter", "--target", str(process), "--net", "--mount", "--uts", "--"]
        for part, argv in _programs(plan, plane, folder).items():
            await stack.enter_async_context(supervised([*within, *argv], name=part, folder=folder))
        yield


async def _is_held(process: int) -> bool:
    return await asyncio.to_thread(Path(f"/proc/{process}/root/run/held").exists)


def _programs(plan: NodePlan, plane: ControlPlane, folder: Path) -> dict[str, list[str]]:
    containerd, kubelet, proxy = folder / "containerd.toml", folder / "kubelet.yaml", folder / "proxy.yaml"
    names = {"pause": PAUSE, "plugins": cni_folder(), "folder": folder}
    containerd.write_text(_CONTAINERD % names, encoding="utf-8")
    registries = private_directory(folder / "registries")
    for name in STANDS_FOR:
        (private_directory(registries / name) / "hosts.toml").write_text(_HOSTS, encoding="ascii")
    network = private_directory(folder / "cni") / "10-pods.conflist"
    network.write_text(json.dumps(_pod_network(plan.place)), encoding="ascii")
    _write(kubelet, _kubelet(plane, folder))
    _write(proxy, _proxy(plan, plane))
    name = plan.place.name
    labels = ",".join(f"{key}={value}" for key, value in plan.labels.items())
    return {
        "containerd": ["containerd", "--config", str(containerd)],
        "kubelet": [
            program("kubelet"), f"--config={kubelet}", f"--kubeconfig={plane.kubeconfig_of(name, address=GATEWAY)}",
            f"--hostname-override={name}", f"--node-ip={plan.place.address}", f"--node-labels={labels}",
            f"--provider-id={plan.provider_id}",
        ],
        "kube-proxy": [program("kube-proxy"), f"--config={proxy}", f"--hostname-override={name}"],
    }  # fmt: skip


def _kubelet(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    of = plane.credentials.path
    (folder / "resolv.conf").write_text("", encoding="ascii")
    group = f"/{plane.folder.name}/{folder.name}"
    for controller in (
        [one for one in CGROUPS.iterdir() if one.is_dir()] if (CGROUPS / "memory").is_dir() else [CGROUPS]
    ):
        (controller / group.strip("/")).mkdir(parents=True, exist_ok=True)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": of("ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": of("server.crt"),
        "tlsPrivateKeyFile": of("server.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 110,
        "nodeStatusUpdateFrequency": "5s",
        "registerNode": True,
        "syncFrequency": "10s",
        "logging": {"verbosity": 2},
    }


def _proxy(plan: NodePlan, plane: ControlPlane) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig_of("kube-proxy", address=GATEWAY))},
        "clusterCIDR": "10.201.0.0/16",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": f"{plan.place.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }


def _pod_network(place: Place) -> dict[str, Any]:
    ranges = {"type": "host-local", "subnet": place.pods, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": ranges},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
