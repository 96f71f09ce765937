"""The addresses in the API of the kinds that controllers and kubelet work with."""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]
"""A Kubernetes object as JSON gives it."""

GPU = "nvidia.com/gpu"
"""The resource that the NVIDIA device plugin offers."""
NEURON = "aws.amazon.com/neuron"
"""Neuron devices, as the Neuron device plugin offers them."""
NEURON_CORE = "aws.amazon.com/neuroncore"
"""The cores of the same devices: never added to them."""
EFA = "vpc.amazonaws.com/efa"
"""The resource that the EFA device plugin offers."""

HOLLOW = "eksml.dev/hollow"
"""The label of nodes and pods that are only there to be many."""
NOT_HOLLOW = f"!{HOLLOW}"
"""Selects the objects that controllers act on."""


class Kind(msgspec.Struct, frozen=True):
    """A kind of object, addressed without discovery."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True
    is_custom: bool = False
    """A CRD defines it, so its absence is not an error."""

    def path(self, key: str = "", *, namespace: str = "") -> str:
        """The path of an object (`namespace/name` or `name`), or of the list if `key` is empty."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope, _, name = key.rpartition("/")
        scope = scope or namespace
        middle = f"/namespaces/{scope}" if self.is_namespaced and scope else ""
        return f"{root}{middle}/{self.plural}" + (f"/{name}" if name else "")


NAMESPACES = Kind("v1", "Namespace", "namespaces", is_namespaced=False)
NODES = Kind("v1", "Node", "nodes", is_namespaced=False)
PODS = Kind("v1", "Pod", "pods")
SERVICES = Kind("v1", "Service", "services")
EVENTS = Kind("v1", "Event", "events")
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
SECRETS = Kind("v1", "Secret", "secrets")
CLAIMS = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = Kind("v1", "PersistentVolume", "persistentvolumes", is_namespaced=False)
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
REPLICA_SETS = Kind("apps/v1", "ReplicaSet", "replicasets")
STATEFUL_SETS = Kind("apps/v1", "StatefulSet", "statefulsets")
DAEMON_SETS = Kind("apps/v1", "DaemonSet", "daemonsets")
JOBS = Kind("batch/v1", "Job", "jobs")
BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
STORAGE_CLASSES = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", is_namespaced=False)
SERVICE_ACCOUNTS = Kind("v1", "ServiceAccount", "serviceaccounts")
ROLES = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", is_namespaced=False)
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", is_namespaced=False
)
DEFINITIONS = Kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", is_namespaced=False
)
PYTORCH_JOBS = Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", is_custom=True)
MPI_JOBS = Kind("kubeflow.org/v2beta1", "MPIJob", "mpijobs", is_custom=True)
RAY_CLUSTERS = Kind("ray.io/v1", "RayCluster", "rayclusters", is_custom=True)
RAY_JOBS = Kind("ray.io/v1", "RayJob", "rayjobs", is_custom=True)
JOB_SETS = Kind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", is_custom=True)
TRAIN_JOBS = Kind("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs", is_custom=True)
RUNTIMES = Kind("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "trainingruntimes", is_custom=True)
CLUSTER_RUNTIMES = Kind(
    "trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes", is_namespaced=False,
    is_custom=True,
)  # fmt: skip
POD_GROUPS = Kind("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", is_custom=True)
QUEUES = Kind("scheduling.volcano.sh/v1beta1", "Queue", "queues", is_namespaced=False, is_custom=True)
NODE_POOLS = Kind("karpenter.sh/v1", "NodePool", "nodepools", is_namespaced=False, is_custom=True)
NODE_CLAIMS = Kind("karpenter.sh/v1", "NodeClaim", "nodeclaims", is_namespaced=False, is_custom=True)
NODE_CLASSES = Kind("karpenter.k8s.aws/v1", "EC2NodeClass", "ec2nodeclasses", is_namespaced=False, is_custom=True)

_BY_KIND = {kind.kind: kind for kind in list(globals().values()) if isinstance(kind, Kind)}


def kind_named(name: str) -> Kind:
    """Return the kind of that name.

    Raises:
        KeyError: No controller works with it.
    """
    return _BY_KIND[name]


def key_of(document: Document) -> str:
    """`namespace/name`, or `name` for kinds outside namespaces."""
    metadata = document["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def uid_of(document: Document) -> str:
    """The object's uid."""
    return str(document["metadata"].get("uid", ""))


def labels_of(document: Document) -> dict[str, str]:
    """The object's labels."""
    return document["metadata"].get("labels") or {}


def is_deleting(document: Document) -> bool:
    """Return whether its deletion has been requested."""
    return bool(document["metadata"].get("deletionTimestamp"))


def owner_of(document: Document) -> Document | None:
    """The owner reference of its controller, or `None`."""
    owners = document["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def owner_reference(owner: Document) -> Document:
    """Return the owner reference that a controller sets in the objects it makes for `owner`."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
