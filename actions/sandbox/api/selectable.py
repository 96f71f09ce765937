"""By which fields objects of a type can be selected; a field selector with any other is refused.

Source: k8s.io/kubernetes `pkg/apis/*/v1/conversion.go` (AddFieldLabelConversionFunc), apiextensions `selectableFields`.
"""

from __future__ import annotations

from actions.sandbox.api.resources import GroupResource, ResourceType
from actions.sandbox.api.selectors import field_names
from actions.sandbox.api.status import bad_request

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: dict[GroupResource, frozenset[str]] = {
    GroupResource("", "pods"): frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    GroupResource("", "nodes"): frozenset({"spec.unschedulable"}),
    GroupResource("", "namespaces"): frozenset({"status.phase"}),
    GroupResource("", "secrets"): frozenset({"type"}),
    GroupResource("", "services"): frozenset({"spec.clusterIP", "spec.type"}),
    GroupResource("", "events"): frozenset(
        {"reason", "reportingComponent", "source", "type", *(f"involvedObject.{name}" for name in _INVOLVED)}
    ),
    GroupResource("events.k8s.io", "events"): frozenset(
        {"reason", "reportingController", "type", *(f"regarding.{name}" for name in _INVOLVED)}
    ),
    GroupResource("apps", "replicasets"): frozenset({"status.replicas"}),
    GroupResource("batch", "jobs"): frozenset({"status.successful"}),
}
_NAMES = ("metadata.name", "metadata.namespace")


def check_fields(resource: ResourceType, text: str) -> None:
    """Refuse a field selector with a field by which the type cannot be selected.

    Raises:
        ApiFault: 400.
    """
    known = _FIELDS.get(GroupResource(resource.group, resource.plural))
    allowed = {*_NAMES, *(known or ())}
    unknown = next((name for name in field_names(text) if name not in allowed), None)
    if unknown is None:
        return
    if known is not None or resource.is_custom:
        raise bad_request(f"field label not supported: {unknown}")
    known_names = ", ".join(f'"{name}"' for name in _NAMES)
    raise bad_request(f'"{unknown}" is not a known field selector: only {known_names}')
