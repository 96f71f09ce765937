"""The programs of a real node and of what runs on it, built as those of the control plane are, into the same folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.realcluster.harness import parts as realcluster
from tests.realcluster.harness.parts import BUILD, STAMPED, Part, module_folder

HERE = Path(__file__).parents[1]
VOLCANO_APIS = HERE / "volcano" / "apis"


def _part(module: str, programs: dict[str, str], link_flags: str = "") -> Part:
    return Part(module, programs, link_flags, root=HERE)


_VOLCANO = _part(
    "volcano",
    {f"vc-{name}": f"volcano.sh/volcano/cmd/{name}" for name in ("scheduler", "controller-manager", "webhook-manager")},
)
_STAND_INS = ("gate", "kwok")
"""Of nodes."""
PARTS = (
    *(part for part in realcluster.PARTS if part.name not in _STAND_INS),
    Part("kubernetes", {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}, STAMPED, "kubelet"),
    Part("kubernetes", {"kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy"}, STAMPED, "kube-proxy"),
    Part("kubernetes", {"kubectl": "k8s.io/kubernetes/cmd/kubectl"}, STAMPED, "kubectl"),
    _part("device-plugin", {"device-plugin": "realnode/device-plugin"}),
    _part("csi-driver", {"csi-driver": "realnode/csi-driver"}),
    _part("coredns", {"coredns": "realnode/coredns"}),
    _part("mpi-operator", {"mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator"}),
    _part("kuberay", {"kuberay-operator": "github.com/ray-project/kuberay/ray-operator"}),
    _VOLCANO,
    _part("jobset", {"jobset": "sigs.k8s.io/jobset"}),
    _part("trainer", {"trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"}),
    _part("registry", {"registry": "realnode/registry"}),
)

PARTS_OF_TODAY = (
    _part("kueue", {"kueue": "sigs.k8s.io/kueue/cmd/kueue"}),
    _part("lws", {"lws": "sigs.k8s.io/lws/cmd"}),
    _part("karpenter", {"karpenter": "sigs.k8s.io/karpenter/kwok"}),
    *(part for part in realcluster.PARTS if part.name == "kwok"),
)
"""Of operators that no blueprint installs, and of what keeps Karpenter's nodes; built only where they are asked for."""


def build_all(parts: Sequence[Part] = PARTS) -> list[str]:
    """Build what is out of date.

    Returns:
        The names of the parts that were built.

    Raises:
        subprocess.CalledProcessError: A build failed; the compiler has said why on stderr.
    """
    if _VOLCANO in parts:
        _complete_volcano_apis()
    return realcluster.build_all(parts)


def _complete_volcano_apis() -> None:
    """Copy the API module that Volcano is built against, with what it lacks; its go.mod names the copy."""
    source, copy = module_folder(VOLCANO_APIS, "volcano.sh/apis"), BUILD / "volcano-apis"
    shutil.rmtree(copy, ignore_errors=True)
    for path in (source / "go.mod", *source.rglob("*.go")):
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    shutil.copyfile(VOLCANO_APIS / "gate.go", copy / "pkg" / "apis" / "scheduling" / "v1beta1" / "gate.go")
