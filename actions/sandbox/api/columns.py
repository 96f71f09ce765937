"""Columns of built-in types, in the order and with the names of `kubectl get`.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

import msgspec

from actions.sandbox.api.cells import (
    Cell,
    access_modes,
    age,
    at,
    claim_of,
    claim_status,
    class_name,
    deployment_ready,
    event_object,
    event_seen,
    ingress_hosts,
    job_completions,
    job_duration,
    job_state,
    node_address,
    node_roles,
    node_selector,
    node_status,
    own_name,
    pod_ready,
    pod_restarts,
    pod_status,
    selector,
    service_ports,
    since,
    size_of,
    template_part,
)
from actions.sandbox.api.resources import GroupResource


class Column(msgspec.Struct, frozen=True):
    """One column. A `priority` above 0 shows with `-o wide` only."""

    name: str
    cell: Cell
    kind: str = "string"
    priority: int = 0
    format: str = ""


NAME = Column("Name", own_name, format="name")
AGE = Column("Age", age)
CREATED = Column("Created At", lambda body, _: body["metadata"].get("creationTimestamp"), kind="date")

_STORAGE = ("spec", "storageClassName")
_REPLICATED = [
    Column("Containers", template_part("name"), priority=1),
    Column("Images", template_part("image"), priority=1),
    Column("Selector", selector, priority=1),
]

BUILTIN_COLUMNS: dict[GroupResource, list[Column]] = {
    GroupResource("", "pods"): [
        NAME,
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        AGE,
        Column("IP", at("status", "podIP"), priority=1),
        Column("Node", at("spec", "nodeName"), priority=1),
        Column("Nominated Node", at("status", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", lambda _body, _now: "<none>", priority=1),
    ],
    GroupResource("", "nodes"): [
        NAME,
        Column("Status", node_status),
        Column("Roles", node_roles),
        AGE,
        Column("Version", at("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", node_address("InternalIP"), priority=1),
        Column("External-IP", node_address("ExternalIP"), priority=1),
        Column("OS-Image", at("status", "nodeInfo", "osImage", default="<unknown>"), priority=1),
        Column("Kernel-Version", at("status", "nodeInfo", "kernelVersion", default="<unknown>"), priority=1),
        Column("Container-Runtime", at("status", "nodeInfo", "containerRuntimeVersion"), priority=1),
    ],
    GroupResource("", "namespaces"): [NAME, Column("Status", at("status", "phase", default="Active")), AGE],
    GroupResource("", "configmaps"): [NAME, Column("Data", size_of("data|binaryData"), kind="integer"), AGE],
    GroupResource("", "secrets"): [
        NAME,
        Column("Type", at("type", default="Opaque")),
        Column("Data", size_of("data"), kind="integer"),
        AGE,
    ],
    GroupResource("", "serviceaccounts"): [NAME, Column("Secrets", size_of("secrets"), kind="integer"), AGE],
    GroupResource("", "services"): [
        NAME,
        Column("Type", at("spec", "type")),
        Column("Cluster-IP", at("spec", "clusterIP")),
        Column("External-IP", lambda _body, _now: "<none>"),
        Column("Port(s)", service_ports),
        AGE,
        Column("Selector", selector, priority=1),
    ],
    GroupResource("", "persistentvolumeclaims"): [
        NAME,
        Column("Status", claim_status),
        Column("Volume", at("spec", "volumeName", default="")),
        Column("Capacity", at("status", "capacity", "storage", default="")),
        Column("Access Modes", access_modes),
        Column("StorageClass", at(*_STORAGE, default="")),
        Column("VolumeAttributesClass", lambda _body, _now: "<unset>"),
        AGE,
        Column("VolumeMode", at("spec", "volumeMode"), priority=1),
    ],
    GroupResource("", "persistentvolumes"): [
        NAME,
        Column("Capacity", at("spec", "capacity", "storage", default="")),
        Column("Access Modes", access_modes),
        Column("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy", default="")),
        Column("Status", claim_status),
        Column("Claim", claim_of),
        Column("StorageClass", at(*_STORAGE, default="")),
        Column("Reason", at("status", "reason", default="")),
        AGE,
    ],
    GroupResource("", "events"): [
        Column("Last Seen", event_seen),
        Column("Type", at("type", default="")),
        Column("Reason", at("reason", default="")),
        Column("Object", event_object),
        Column("Message", lambda body, _: str(body.get("message", "")).strip()),
        Column("Source", at("source", "component", default=""), priority=1),
        Column("Count", at("count", default=1), kind="integer", priority=1),
        Column("Name", own_name, priority=1, format="name"),
    ],
    GroupResource("batch", "jobs"): [
        NAME,
        Column("Status", job_state),
        Column("Completions", job_completions),
        Column("Duration", job_duration),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "deployments"): [
        NAME,
        Column("Ready", deployment_ready),
        Column("Up-to-date", at("status", "updatedReplicas", default=0), kind="integer"),
        Column("Available", at("status", "availableReplicas", default=0), kind="integer"),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "statefulsets"): [NAME, Column("Ready", deployment_ready), AGE, *_REPLICATED[:2]],
    GroupResource("apps", "replicasets"): [
        NAME,
        Column("Desired", at("spec", "replicas", default=0), kind="integer"),
        Column("Current", at("status", "replicas", default=0), kind="integer"),
        Column("Ready", at("status", "readyReplicas", default=0), kind="integer"),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "daemonsets"): [
        NAME,
        *(
            Column(name, at("status", field, default=0), kind="integer")
            for name, field in (
                ("Desired", "desiredNumberScheduled"),
                ("Current", "currentNumberScheduled"),
                ("Ready", "numberReady"),
                ("Up-to-date", "updatedNumberScheduled"),
                ("Available", "numberAvailable"),
            )
        ),
        Column("Node Selector", node_selector),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("batch", "cronjobs"): [
        NAME,
        Column("Schedule", at("spec", "schedule")),
        Column("Timezone", at("spec", "timeZone")),
        Column("Suspend", lambda body, _: str(bool(body["spec"].get("suspend")))),
        Column("Active", lambda body, _: len((body.get("status") or {}).get("active") or ()), kind="integer"),
        Column("Last Schedule", since("status", "lastScheduleTime")),
        AGE,
    ],
    GroupResource("policy", "poddisruptionbudgets"): [
        NAME,
        Column("Min Available", at("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", at("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", at("status", "disruptionsAllowed", default=0), kind="integer"),
        AGE,
    ],
    GroupResource("networking.k8s.io", "ingresses"): [
        NAME,
        Column("Class", at("spec", "ingressClassName")),
        Column("Hosts", ingress_hosts),
        Column("Address", lambda _body, _now: ""),
        Column("Ports", lambda body, _: "80, 443" if body["spec"].get("tls") else "80"),
        AGE,
    ],
    GroupResource("storage.k8s.io", "storageclasses"): [
        Column("Name", class_name, format="name"),
        Column("Provisioner", at("provisioner")),
        Column("ReclaimPolicy", at("reclaimPolicy")),
        Column("VolumeBindingMode", at("volumeBindingMode")),
        Column("AllowVolumeExpansion", lambda body, _: bool(body.get("allowVolumeExpansion")), kind="boolean"),
        AGE,
    ],
    GroupResource("coordination.k8s.io", "leases"): [
        NAME,
        Column("Holder", at("spec", "holderIdentity", default="")),
        AGE,
    ],
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): [NAME, CREATED],
}
