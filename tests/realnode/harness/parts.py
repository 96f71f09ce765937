"""The programs of a real node and of what runs on it, built as those of the control plane are, into the same folder."""

from __future__ import annotations

from tests.realcluster.harness.parts import STAMPED, Part

PARTS = (
    Part("kubernetes", {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}, STAMPED, "kubelet"),
    Part("kubernetes", {"kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy"}, STAMPED, "kube-proxy"),
)
