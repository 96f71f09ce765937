"""The programs of a real node and of what runs on it, built as those of the control plane are, into the same folder."""

from __future__ import annotations

from pathlib import Path

from tests.realcluster.harness.parts import STAMPED, Part

HERE = Path(__file__).parents[1]


def _part(module: str, programs: dict[str, str], link_flags: str = "") -> Part:
    return Part(module, programs, link_flags, root=HERE)


PARTS = (
    Part("kubernetes", {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}, STAMPED, "kubelet"),
    Part("kubernetes", {"kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy"}, STAMPED, "kube-proxy"),
    _part("device-plugin", {"device-plugin": "realnode/device-plugin"}),
    _part("mpi-operator", {"mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator"}),
    _part("kuberay", {"kuberay-operator": "github.com/ray-project/kuberay/ray-operator"}),
)
