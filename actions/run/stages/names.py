"""Objects that a blueprint names: as references in the run's namespace, as kubectl commands."""

from __future__ import annotations

from actions.blueprint.parts import ObjectName
from actions.blueprint.render import CLUSTER_SCOPED
from actions.cluster.objects.client import ObjectRef


def ref_of_name(name: ObjectName, namespace: str) -> ObjectRef:
    """The reference; a namespaced kind without a namespace is in the run's."""
    scope = "" if name.kind in CLUSTER_SCOPED else name.namespace or namespace
    return ObjectRef(name.api_version, name.kind, scope, name.name)


def wait_command(ref: ObjectRef) -> str:
    """The `kubectl wait` that stands for waiting until an object is ready or finished."""
    scope = f"-n {ref.namespace} " if ref.namespace else ""
    return f"kubectl {scope}wait --for={_WAITS.get(ref.kind, 'condition=Ready')} {ref.kind.lower()}/{ref.name}"


_WAITS = {
    "CustomResourceDefinition": "condition=Established",
    "Deployment": "condition=Available",
    "Job": "condition=Complete",
    "MPIJob": "condition=Succeeded",
    "PersistentVolumeClaim": "jsonpath='{.status.phase}'=Bound",
    "PyTorchJob": "condition=Succeeded",
}
