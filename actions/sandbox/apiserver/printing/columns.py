"""The columns of built-in types, as `kubectl get` prints them.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`; compared with a real server by
`tests/flow/test_cluster_layer.py`.
"""

from __future__ import annotations

import msgspec

from actions.sandbox.apiserver.printing.cells import (
    Cell,
    access_modes,
    age,
    at,
    claim_of,
    claim_status,
    class_name,
    deployment_ready,
    event_first_seen,
    event_object,
    event_seen,
    event_source,
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
    quota_of,
    role_of_binding,
    selector,
    service_ports,
    since,
    size_of,
    slice_addresses,
    slice_ports,
    subjects_of,
    template_part_of,
    truth,
)
from actions.sandbox.apiserver.storage.resources import GroupResource


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column. A `priority` above 0 shows with `-o wide` only."""

    name: str
    cell: Cell
    kind: str = "string"
    priority: int = 0
    format: str = ""


NAME = PrinterColumn("Name", own_name, format="name")
AGE = PrinterColumn("Age", age)
CREATED = PrinterColumn("Created At", lambda body, _: body["metadata"].get("creationTimestamp"), kind="date")

_STORAGE = ("spec", "storageClassName")
_REPLICATED = [
    PrinterColumn("Containers", template_part_of("name", "spec", "template"), priority=1),
    PrinterColumn("Images", template_part_of("image", "spec", "template"), priority=1),
    PrinterColumn("Selector", selector, priority=1),
]

_BINDING = [
    NAME,
    PrinterColumn("Role", role_of_binding),
    AGE,
    PrinterColumn("Users", subjects_of("User"), priority=1),
    PrinterColumn("Groups", subjects_of("Group"), priority=1),
    PrinterColumn("ServiceAccounts", subjects_of("ServiceAccount"), priority=1),
]
_COUNTED = [
    NAME,
    PrinterColumn("Desired", at("spec", "replicas", default=0), kind="integer"),
    PrinterColumn("Current", at("status", "replicas", default=0), kind="integer"),
    PrinterColumn("Ready", at("status", "readyReplicas", default=0), kind="integer"),
    AGE,
    *_REPLICATED,
]
_WEBHOOKS = [NAME, PrinterColumn("Webhooks", size_of("webhooks"), kind="integer"), AGE]
_OF_JOBS = ("spec", "jobTemplate", "spec", "template")

BUILTIN_COLUMNS: dict[GroupResource, list[PrinterColumn]] = {
    GroupResource("", "pods"): [
        NAME,
        PrinterColumn("Ready", pod_ready),
        PrinterColumn("Status", pod_status),
        PrinterColumn("Restarts", pod_restarts),
        AGE,
        PrinterColumn("IP", at("status", "podIP"), priority=1),
        PrinterColumn("Node", at("spec", "nodeName"), priority=1),
        PrinterColumn("Nominated Node", at("status", "nominatedNodeName"), priority=1),
        PrinterColumn("Readiness Gates", lambda _body, _now: "<none>", priority=1),
    ],
    GroupResource("", "nodes"): [
        NAME,
        PrinterColumn("Status", node_status),
        PrinterColumn("Roles", node_roles),
        AGE,
        PrinterColumn("Version", at("status", "nodeInfo", "kubeletVersion", default="")),
        PrinterColumn("Internal-IP", node_address("InternalIP"), priority=1),
        PrinterColumn("External-IP", node_address("ExternalIP"), priority=1),
        PrinterColumn("OS-Image", at("status", "nodeInfo", "osImage", default="<unknown>"), priority=1),
        PrinterColumn("Kernel-Version", at("status", "nodeInfo", "kernelVersion", default="<unknown>"), priority=1),
        PrinterColumn("Container-Runtime", at("status", "nodeInfo", "containerRuntimeVersion"), priority=1),
    ],
    GroupResource("", "namespaces"): [NAME, PrinterColumn("Status", at("status", "phase", default="Active")), AGE],
    GroupResource("", "configmaps"): [NAME, PrinterColumn("Data", size_of("data|binaryData")), AGE],
    GroupResource("", "secrets"): [
        NAME,
        PrinterColumn("Type", at("type", default="Opaque")),
        PrinterColumn("Data", size_of("data")),
        AGE,
    ],
    GroupResource("", "serviceaccounts"): [NAME, PrinterColumn("Secrets", size_of("secrets")), AGE],
    GroupResource("", "services"): [
        NAME,
        PrinterColumn("Type", at("spec", "type")),
        PrinterColumn("Cluster-IP", at("spec", "clusterIP")),
        PrinterColumn("External-IP", lambda _body, _now: "<none>"),
        PrinterColumn("Port(s)", service_ports),
        AGE,
        PrinterColumn("Selector", selector, priority=1),
    ],
    GroupResource("", "persistentvolumeclaims"): [
        NAME,
        PrinterColumn("Status", claim_status),
        PrinterColumn("Volume", at("spec", "volumeName", default="")),
        PrinterColumn("Capacity", at("status", "capacity", "storage", default="")),
        PrinterColumn("Access Modes", access_modes),
        PrinterColumn("StorageClass", at(*_STORAGE, default="")),
        PrinterColumn("VolumeAttributesClass", lambda _body, _now: "<unset>"),
        AGE,
        PrinterColumn("VolumeMode", at("spec", "volumeMode"), priority=1),
    ],
    GroupResource("", "persistentvolumes"): [
        NAME,
        PrinterColumn("Capacity", at("spec", "capacity", "storage", default="")),
        PrinterColumn("Access Modes", access_modes),
        PrinterColumn("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy", default="")),
        PrinterColumn("Status", claim_status),
        PrinterColumn("Claim", claim_of),
        PrinterColumn("StorageClass", at(*_STORAGE, default="")),
        PrinterColumn("VolumeAttributesClass", lambda _body, _now: "<unset>"),
        PrinterColumn("Reason", at("status", "reason", default="")),
        AGE,
        PrinterColumn("VolumeMode", at("spec", "volumeMode"), priority=1),
    ],
    GroupResource("", "events"): [
        PrinterColumn("Last Seen", event_seen),
        PrinterColumn("Type", at("type", default="")),
        PrinterColumn("Reason", at("reason", default="")),
        PrinterColumn("Object", event_object),
        PrinterColumn("Subobject", at("involvedObject", "fieldPath", default=""), priority=1),
        PrinterColumn("Source", event_source, priority=1),
        PrinterColumn("Message", lambda body, _: str(body.get("message", "")).strip()),
        PrinterColumn("First Seen", event_first_seen, priority=1),
        PrinterColumn("Count", at("count", default=1), priority=1),
        PrinterColumn("Name", own_name, priority=1, format="name"),
    ],
    GroupResource("batch", "jobs"): [
        NAME,
        PrinterColumn("Status", job_state),
        PrinterColumn("Completions", job_completions),
        PrinterColumn("Duration", job_duration),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "deployments"): [
        NAME,
        PrinterColumn("Ready", deployment_ready),
        PrinterColumn("Up-to-date", at("status", "updatedReplicas", default=0)),
        PrinterColumn("Available", at("status", "availableReplicas", default=0)),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("apps", "statefulsets"): [NAME, PrinterColumn("Ready", deployment_ready), AGE, *_REPLICATED[:2]],
    GroupResource("apps", "replicasets"): _COUNTED,
    GroupResource("", "resourcequotas"): [
        NAME,
        PrinterColumn("Request", quota_of(is_limit=False)),
        PrinterColumn("Limit", quota_of(is_limit=True)),
        AGE,
    ],
    GroupResource("apps", "daemonsets"): [
        NAME,
        *(
            PrinterColumn(name, at("status", field, default=0), kind="integer")
            for name, field in (
                ("Desired", "desiredNumberScheduled"),
                ("Current", "currentNumberScheduled"),
                ("Ready", "numberReady"),
                ("Up-to-date", "updatedNumberScheduled"),
                ("Available", "numberAvailable"),
            )
        ),
        PrinterColumn("Node Selector", node_selector),
        AGE,
        *_REPLICATED,
    ],
    GroupResource("batch", "cronjobs"): [
        NAME,
        PrinterColumn("Schedule", at("spec", "schedule")),
        PrinterColumn("Timezone", at("spec", "timeZone")),
        PrinterColumn("Suspend", lambda body, _: str(bool(body["spec"].get("suspend"))), kind="boolean"),
        PrinterColumn("Active", lambda body, _: len((body.get("status") or {}).get("active") or ()), kind="integer"),
        PrinterColumn("Last Schedule", since("status", "lastScheduleTime")),
        AGE,
        PrinterColumn("Containers", template_part_of("name", *_OF_JOBS), priority=1),
        PrinterColumn("Images", template_part_of("image", *_OF_JOBS), priority=1),
        PrinterColumn("Selector", lambda _body, _now: "<none>", priority=1),
    ],
    GroupResource("policy", "poddisruptionbudgets"): [
        NAME,
        PrinterColumn("Min Available", at("spec", "minAvailable", default="N/A")),
        PrinterColumn("Max Unavailable", at("spec", "maxUnavailable", default="N/A")),
        PrinterColumn("Allowed Disruptions", at("status", "disruptionsAllowed", default=0), kind="integer"),
        AGE,
    ],
    GroupResource("storage.k8s.io", "storageclasses"): [
        PrinterColumn("Name", class_name, format="name"),
        PrinterColumn("Provisioner", at("provisioner")),
        PrinterColumn("ReclaimPolicy", at("reclaimPolicy")),
        PrinterColumn("VolumeBindingMode", at("volumeBindingMode")),
        PrinterColumn("AllowVolumeExpansion", lambda body, _: bool(body.get("allowVolumeExpansion"))),
        AGE,
    ],
    GroupResource("coordination.k8s.io", "leases"): [
        NAME,
        PrinterColumn("Holder", at("spec", "holderIdentity", default="")),
        AGE,
    ],
    GroupResource("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    GroupResource("scheduling.k8s.io", "priorityclasses"): [
        NAME,
        PrinterColumn("Value", at("value", default=0), kind="integer"),
        PrinterColumn("Global-Default", truth("globalDefault"), kind="boolean"),
        AGE,
        PrinterColumn("PreemptionPolicy", at("preemptionPolicy", default="PreemptLowerPriority")),
    ],
    GroupResource("discovery.k8s.io", "endpointslices"): [
        NAME,
        PrinterColumn("AddressType", at("addressType", default="")),
        PrinterColumn("Ports", slice_ports),
        PrinterColumn("Endpoints", slice_addresses),
        AGE,
    ],
    GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): [NAME, CREATED],
}
