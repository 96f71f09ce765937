"""From an object's name in a blueprint to a reference in the run's namespace."""

from __future__ import annotations

from actions.blueprint.parts import ObjectName
from actions.blueprint.render import CLUSTER_SCOPED
from actions.cluster.objects import ObjectRef


def ref_of_name(name: ObjectName, namespace: str) -> ObjectRef:
    """The reference; a namespaced kind without a namespace is in the run's."""
    scope = "" if name.kind in CLUSTER_SCOPED else name.namespace or namespace
    return ObjectRef(name.api_version, name.kind, scope, name.name)
