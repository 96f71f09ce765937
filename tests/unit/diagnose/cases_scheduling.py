"""Pods that no node takes: queues, quotas, taints, shortages, volumes."""

from __future__ import annotations

from tests.unit.diagnose.samples import a_node, an_event, unschedulable
from tests.unit.diagnose.troubles import GANG, Case, refused, workload

CASES: list[Case] = [
    ("no adapter free", "EFA_SHORTAGE", refused("0/2 nodes are available: 2 Insufficient vpc.amazonaws.com/efa.")),
    ("gang", "GANG_WAITING", refused(GANG)),
    ("siblings", "GANG_WAITING", refused("cannot find enough sibling pods, current 3, minMember of group: 4")),
    ("no gpu free", "GPU_SHORTAGE", refused("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")),
    ("no neuron free", "GPU_SHORTAGE", refused("0/8 nodes are available: 8 Insufficient aws.amazon.com/neuron.")),
    (
        "quota of the namespace",
        "NAMESPACE_QUOTA",
        {
            "events": [
                an_event(
                    "FailedCreate",
                    'Error creating: pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8,'
                    " used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
                    "train",
                    kind="Job",
                )
            ]
        },
    ),
    (
        "namespace that does not go",
        "NAMESPACE_STUCK",
        {
            "namespaces": [
                {
                    "kind": "Namespace",
                    "metadata": {"name": "ml", "deletionTimestamp": "2026-01-01T00:00:00Z"},
                    "status": {
                        "phase": "Terminating",
                        "conditions": [
                            {
                                "type": "NamespaceDeletionDiscoveryFailure",
                                "status": "True",
                                "reason": "DiscoveryFailed",
                                "message": "Discovery failed for some groups, 1 failing: unable to retrieve the"
                                " complete list of server APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery",
                            },
                            {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain"},
                        ],
                    },
                }
            ],
            "events": [an_event("Killing", "Stopping container main") | {"lastTimestamp": "2026-01-01T01:00:00Z"}],
        },
    ),
    (
        "unregistered resource",
        "DEVICE_PLUGIN_MISSING",
        {
            "nodeclaim": {
                "metadata": {"name": "gpu-x"},
                "status": {
                    "conditions": [
                        {"type": "Launched", "status": "True"},
                        {"type": "Registered", "status": "True"},
                        {
                            "type": "Initialized",
                            "status": "Unknown",
                            "reason": "ResourceNotRegistered",
                            "message": 'Resource "nvidia.com/gpu" was requested but not registered',
                        },
                    ]
                },
            }
        },
    ),
    (
        "taints that are not named",
        "TAINT",
        refused("0/3 nodes are available: 3 node(s) had untolerated taint(s). preemption: 0/3 nodes are available."),
    ),
    (
        "taints that are not named, of lost nodes",
        "NODE_LOST",
        refused("0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available.")
        | {"nodes": [a_node("n1", "m5.large") | {"spec": {"taints": [{"key": "node.kubernetes.io/unreachable"}]}}]},
    ),
    ("queue of a pod", "QUEUE_WAITING", refused("queue resource quota insufficient")),
    (
        "pool taint",
        "TAINT",
        refused("Failed to schedule pod, did not tolerate taint (taint=nvidia.com/gpu=true:NoSchedule)"),
    ),
    (
        "taint beside processors",
        "TAINT",
        refused(
            "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint {nvidia.com/gpu}."
        ),
    ),
    (
        "another team's taint",
        "GPU_SHORTAGE",
        refused("0/5 nodes are available: 1 node(s) had untolerated taint {team: b}, 4 Insufficient nvidia.com/gpu."),
    ),
    ("claim", "PVC_UNBOUND", refused('0/2 nodes are available: persistentvolumeclaim "fsx" not found.')),
    (
        "queue of Kueue",
        "QUEUE_WAITING",
        workload("Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu"),
    ),
    (
        "queue of Volcano",
        "QUEUE_WAITING",
        {
            "pods": [unschedulable(GANG)],
            "events": [an_event("Unschedulable", "queue resource quota insufficient", "ray-x-pg", kind="PodGroup")],
        },
    ),
    (
        "volume",
        "VOLUME_MOUNT",
        {"events": [an_event("FailedAttachVolume", 'Multi-Attach error for volume "pv-1" Volume is already used')]},
    ),
    (
        "driver of the volume",
        "VOLUME_MOUNT",
        {
            "events": [
                an_event(
                    "FailedMount",
                    'MountVolume.MountDevice failed for volume "pv" : driver name fsx.csi.aws.com not found in the'
                    " list of registered CSI drivers",
                )
            ]
        },
    ),
]
