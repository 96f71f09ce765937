"""Columns of built-in types, in the order and with the names of `kubectl get`.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

import msgspec

from actions.sandbox.api import cells
from actions.sandbox.api.cells import Cell
from actions.sandbox.api.resources import GroupResource


class Column(msgspec.Struct, frozen=True):
    """One column. A `priority` above 0 shows with `-o wide` only."""

    name: str
    cell: Cell
    kind: str = "string"
    priority: int = 0
    format: str = ""


NAME = Column("Name", cells.own_name, format="name")
AGE = Column("Age", cells.age)
CREATED = Column("Created At", lambda body, _: body["metadata"].get("creationTimestamp"), kind="date")

_STORAGE = ("spec", "storageClassName")
_REPLICATED = [
    Column("Containers", cells.template_part("name"), priority=1),
    Column("Images", cells.template_part("image"), priority=1),
    Column("Selector", cells.selector, priority=1),
]

BUILTIN_COLUMNS: dict[GroupResource, list[Column]] = {
    GroupResource("", "pods"): [
        NAME,
        Column("Ready", cells.pod_ready),
        Column("Status", cells.pod_status),
        Column("Restarts", cells.pod_restarts),
        AGE,
        Column("IP", cells.at("status", "podIP"), priority=1),
        Column("Node", cells.at("spec", "nodeName"), priority=1),
        Column("Nominated Node", cells.at("status", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", lambda _body, _now: "<none>", priority=1),
    ],
    GroupResource("", "nodes"): [
        NAME,
        Column("Status", cells.node_status),
        Column("Roles", cells.node_roles),
        AGE,
        Column("Version", cells.at("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", cells.node_address("InternalIP"), priority=1),
        Column("External-IP", cells.node_address("ExternalIP"), priority=1),
        Column("OS-Image", cells.at("status", "nodeInfo", "osImage", default="<unknown>"), priority=1),
        Column("Kernel-Version", cells.at("status", "nodeInfo", "kernelVersion", default="<unknown>"), priority=1),
        Column("Container-Runtime", cells.at("status", "nodeInfo", "containerRuntimeVersion"), priority=1),
    ],
    GroupResource("", "namespaces"): [NAME, Column("Status", cells.at("status", "phase", default="Active")), AGE],
    GroupResource("", "configmaps"): [NAME, Column("Data", cells.size_of("data|binaryData"), kind="integer"), AGE],
    GroupResource("", "secrets"): [
        NAME,
        Column("Type", cells.at("type", default="Opaque")),
        Column("Data", cells.size_of("data"), kind="integer"),
        AGE,
    ],
    GroupResource("", "serviceaccounts"): [NAME, Column("Secrets", cells.size_of("secrets"), kind="integer"), AGE],
    GroupResource("", "services"): [
        NAME,
        Column("Type", cells.at("spec", "type")),
        Column("Cluster-IP", cells.at("spec", "clusterIP")),
        Column("External-IP", lambda _body, _now: "<none>"),
        Column("Port(s)", cells.service_ports),
        AGE,
        Column("Selector", cells.selector, priority=1),
    ],
    GroupResource("", "persistentvolumeclaims"): [
        NAME,
        Column("Status", cells.claim_status),
        Column("Volume", cells.at("spec", "volumeName", default="")),
        Column("Capacity", cells.at("status", "capacity", "storage", default="")),
        Column("Access Modes", cells.access_modes),
        Column("StorageClass", cells.at(*_STORAGE, default="")),
        Column("VolumeAttributesClass", lambda _body, _now: "<unset>"),
        AGE,
        Column("VolumeMode", cells.at("spec", "volumeMode"), priority=1),
    ],
    GroupResource("", "persistentvolumes"): [
        NAME,
        Column("Capacity", cells.at("spec", "capacity", "storage", default="")),
        Column("Access Modes", cells.access_modes),
        Column("Reclaim Policy", cells.at("spec", "persistentVolumeReclaimPolicy", default="")),
        Column("Status", cells.claim_status),
        Column("Claim", cells.claim_of),
        Column("StorageClass", cells.at(*_STORAGE, default="")),
        Column("Reason", cells.at("status", "reason", default="")),
        AGE,
    ],
    GroupResource("", "events"): [
        Column("Last Seen", cells.event_seen),
        Column("Type", cells.at("type", default="")),
        Column("Reason", cells.at("reason", default="")),
        Column("Object", cells.event_object),
        Column("Message", lambda body, _: str(body.get("message", "")).strip()),
        Column("Source", cells.at("source", "component", default=""), priority=1),
        Column("Count", cells.at("count", default=1), kind="integer", priority=1),
        Column("Name", cells.own_name, priority=1, format="name"),
    ],
    GroupResource("batch", "jobs"): [
        NAME,
        Column("Status", cells.job_state),
        Column("Completions", cells.job_completions),
        Column("Duration", cells.job_duration),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "deployments"): [
        NAME,
        Column("Ready", cells.deployment_ready),
        Column("Up-to-date", cells.at("status", "updatedReplicas", default=0), kind="integer"),
        Column("Available", cells.at("status", "availableReplicas", default=0), kind="integer"),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "statefulsets"): [NAME, Column("Ready", cells.deployment_ready), AGE, *_REPLICATED[:2]],
    GroupResource("apps", "replicasets"): [
        NAME,
        Column("Desired", cells.at("spec", "replicas", default=0), kind="integer"),
        Column("Current", cells.at("status", "replicas", default=0), kind="integer"),
        Column("Ready", cells.at("status", "readyReplicas", default=0), kind="integer"),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "daemonsets"): [
        NAME,
        *(
            Column(name, cells.at("status", field, default=0), kind="integer")
            for name, field in (
                ("Desired", "desiredNumberScheduled"),
                ("Current", "currentNumberScheduled"),
                ("Ready", "numberReady"),
                ("Up-to-date", "updatedNumberScheduled"),
                ("Available", "numberAvailable"),
            )
        ),
        Column("Node Selector", cells.node_selector),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("batch", "cronjobs"): [
        NAME,
        Column("Schedule", cells.at("spec", "schedule")),
        Column("Timezone", cells.at("spec", "timeZone")),
        Column("Suspend", lambda body, _: str(bool(body["spec"].get("suspend")))),
        Column("Active", lambda body, _: len((body.get("status") or {}).get("active") or ()), kind="integer"),
        Column("Last Schedule", cells.since("status", "lastScheduleTime")),
        AGE,
    ],
    GroupResource("policy", "poddisruptionbudgets"): [
        NAME,
        Column("Min Available", cells.at("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", cells.at("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", cells.at("status", "disruptionsAllowed", default=0), kind="integer"),
        AGE,
    ],
    GroupResource("networking.k8s.io", "ingresses"): [
        NAME,
        Column("Class", cells.at("spec", "ingressClassName")),
        Column("Hosts", cells.ingress_hosts),
        Column("Address", lambda _body, _now: ""),
        Column("Ports", lambda body, _: "80, 443" if body["spec"].get("tls") else "80"),
        AGE,
    ],
    GroupResource("storage.k8s.io", "storageclasses"): [
        Column("Name", cells.class_name, format="name"),
        Column("Provisioner", cells.at("provisioner")),
        Column("ReclaimPolicy", cells.at("reclaimPolicy")),
        Column("VolumeBindingMode", cells.at("volumeBindingMode")),
        Column("AllowVolumeExpansion", lambda body, _: bool(body.get("allowVolumeExpansion")), kind="boolean"),
        AGE,
    ],
    GroupResource("coordination.k8s.io", "leases"): [
        NAME,
        Column("Holder", cells.at("spec", "holderIdentity", default="")),
        AGE,
    ],
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): [NAME, CREATED],
}
