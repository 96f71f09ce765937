"""The add-ons of the cluster, as Deployments and DaemonSets that the actors bring to life.

Source: names, namespaces, labels and container counts of the ai-on-eks base (FSx CSI 1.9, Karpenter 1.2.1, NVIDIA
device plugin 0.16.1), the Neuron chart and the EFA plugin as the EFA pattern of EKS blueprints installs it.
"""

from __future__ import annotations

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.actors.kinds import Document
from actions.sandbox.actors.machines import EFA_PRESENT, INSTANCE_TYPE

_EVERYWHERE = [{"operator": "Exists"}]


def addon_documents(types: InstanceTable) -> list[Document]:
    """All of them; `types` tells on which the Neuron plugin runs."""
    return [
        _deployment("kube-system", "coredns", {"k8s-app": "kube-dns"}, ["coredns"], cpu="100m", memory="70Mi"),
        _deployment(
            "kube-system",
            "fsx-csi-controller",
            {"app": "fsx-csi-controller"},
            ["fsx-plugin", "csi-provisioner", "csi-resizer", "liveness-probe"],
        ),
        _deployment(
            "kube-system",
            "aws-load-balancer-controller",
            {"app.kubernetes.io/name": "aws-load-balancer-controller"},
            ["aws-load-balancer-controller"],
        ),
        _deployment(
            "karpenter",
            "karpenter",
            {"app.kubernetes.io/name": "karpenter"},
            ["controller"],
            cpu="500m",
            memory="512Mi",
        ),
        _daemon_set("kube-system", "aws-node", {"k8s-app": "aws-node"}, ["aws-node", "aws-eks-nodeagent"], cpu="50m"),
        _daemon_set("kube-system", "kube-proxy", {"k8s-app": "kube-proxy"}, ["kube-proxy"], cpu="100m"),
        _daemon_set("kube-system", "ebs-csi-node", {"app": "ebs-csi-node"}, ["ebs-plugin", "node-driver-registrar"]),
        _daemon_set(
            "kube-system",
            "fsx-csi-node",
            {"app": "fsx-csi-node"},
            ["fsx-plugin", "node-driver-registrar", "liveness-probe"],
        ),
        _daemon_set(
            "nvidia-device-plugin",
            "nvidia-device-plugin",
            {"app.kubernetes.io/name": "nvidia-device-plugin"},
            ["nvidia-device-plugin-ctr"],
            selector={"accelerator": "nvidia"},
        ),
        _daemon_set(
            "kube-system",
            "neuron-device-plugin",
            {"name": "neuron-device-plugin-ds"},
            ["neuron-device-plugin"],
            types=[kind.name for kind in types if kind.neuron_devices],
        ),
        _daemon_set(
            "kube-system",
            "aws-efa-k8s-device-plugin",
            {"name": "aws-efa-k8s-device-plugin"},
            ["aws-efa-k8s-device-plugin"],
            selector={EFA_PRESENT: "true"},
        ),
    ]


def _deployment(
    namespace: str, name: str, labels: dict[str, str], containers: list[str], *, cpu: str = "10m", memory: str = "40Mi"
) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": _containers(name, containers, cpu=cpu, memory=memory)},
            },
        },
    }


def _daemon_set(
    namespace: str,
    name: str,
    labels: dict[str, str],
    containers: list[str],
    *,
    cpu: str = "10m",
    selector: dict[str, str] | None = None,
    types: list[str] | None = None,
) -> Document:
    """One that runs on every node, or only on those with the labels of `selector`, or of certain instance types."""
    spec: Document = {
        "containers": _containers(name, containers, cpu=cpu, memory="40Mi"),
        "tolerations": _EVERYWHERE,
        "priorityClassName": "system-node-critical",
    }
    if selector:
        spec["nodeSelector"] = selector
    if types:
        term = {"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In", "values": types}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _containers(addon: str, names: list[str], *, cpu: str, memory: str) -> list[Document]:
    """The first container carries the requests."""
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    return [
        {"name": name, "image": f"eks/{addon}/{name}:sandbox", "resources": {} if position else requests}
        for position, name in enumerate(names)
    ]
