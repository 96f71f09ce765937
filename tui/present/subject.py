"""What a command without a named object is about: the thing under the cursor."""

from __future__ import annotations

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """One object of the cluster, or a stage.

    Args:
        kind: Kubernetes kind; `Stage` for a stage of the run on screen, `Blueprint` and `Run` for those.
        name: Its name or id.
        namespace: Empty for what has none.
        container: Of a pod, if one was pointed at.
    """

    kind: str
    name: str
    namespace: str = ""
    container: str = ""

    def title(self) -> str:
        """As a heading: `Pod default/train-worker-0`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_SHORT_KINDS = {
    "node": "Node",
    "no": "Node",
    "pod": "Pod",
    "po": "Pod",
    "job": "Job",
    "pytorchjob": "PyTorchJob",
    "deployment": "Deployment",
    "deploy": "Deployment",
    "daemonset": "DaemonSet",
    "ds": "DaemonSet",
    "pvc": "PersistentVolumeClaim",
    "nodeclaim": "NodeClaim",
    "nodepool": "NodePool",
    "mpijob": "MPIJob",
    "rayjob": "RayJob",
    "raycluster": "RayCluster",
    "statefulset": "StatefulSet",
    "sts": "StatefulSet",
    "replicaset": "ReplicaSet",
    "rs": "ReplicaSet",
    "persistentvolumeclaim": "PersistentVolumeClaim",
    "podgroup": "PodGroup",
    "workload": "Workload",
}
API_VERSIONS = {
    "Node": "v1",
    "Pod": "v1",
    "PersistentVolumeClaim": "v1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "NodeClaim": "karpenter.sh/v1",
    "NodePool": "karpenter.sh/v1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Workload": "kueue.x-k8s.io/v1beta1",
}
"""The kinds that can be described, with the version asked for."""


def parse_subject(text: str, *, default_namespace: str) -> Subject:
    """Read what somebody typed: `namespace/pod`, `pod`, `node/NAME`, `kind/namespace/name`."""
    words = text.split("/")
    match words:
        case [kind, namespace, name]:
            return Subject(_kind(kind), name, namespace)
        case [first, name] if _kind(first) in API_VERSIONS:
            kind = _kind(first)
            namespaced = kind not in ("Node", "NodeClaim", "NodePool")
            return Subject(kind, name, default_namespace if namespaced else "")
        case [namespace, name]:
            return Subject("Pod", name, namespace)
        case _:
            return Subject("Pod", text, default_namespace)


def _kind(word: str) -> str:
    return _SHORT_KINDS.get(word.lower(), word)
