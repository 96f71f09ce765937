"""Objects as API servers send them, cut to what matters; field names and shapes are those of v1.34."""

from __future__ import annotations

import copy
from typing import Any

Document = dict[str, Any]

POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "esm1nv-pretraining-worker-0",
        "namespace": "default",
        "uid": "0f6a2f0e-5b1c-4a5e-9a53-1f6a0b2c3d4e",
        "resourceVersion": "88123",
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "labels": {
            "eksml.dev/run": "bionemo-1",
            "eksml.dev/stage": "train",
            "training.kubeflow.org/replica-type": "worker",
        },
        "ownerReferences": [
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "PyTorchJob",
                "name": "esm1nv-pretraining",
                "uid": "9b1d",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [{"manager": "training-operator", "operation": "Update", "fieldsV1": {"f:metadata": {}}}],
    },
    "spec": {
        "nodeName": "ip-10-0-1-7.us-west-2.compute.internal",
        "restartPolicy": "OnFailure",
        "containers": [
            {
                "name": "pytorch",
                "image": "example.test/bionemo:1.2",
                "resources": {
                    "limits": {"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1"},
                    "requests": {"cpu": "40", "memory": "160Gi", "nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1"},
                },
            }
        ],
        "initContainers": [
            {
                "name": "init-pytorch",
                "resources": {"limits": {"cpu": "100m"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
            }
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-11-21T10:00:01Z",
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
        ],
        "initContainerStatuses": [
            {
                "name": "init-pytorch",
                "ready": True,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-21T10:00:02Z"}},
            }
        ],
        "containerStatuses": [
            {
                "name": "pytorch",
                "ready": True,
                "restartCount": 2,
                "started": True,
                "state": {"running": {"startedAt": "2026-11-21T10:05:00Z"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    },
}

NODE: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "ip-10-0-1-7.us-west-2.compute.internal",
        "uid": "n-1",
        "resourceVersion": "5",
        "creationTimestamp": "2026-11-21T09:00:00Z",
        "labels": {
            "node.kubernetes.io/instance-type": "g5.12xlarge",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.kubernetes.io/zone": "us-west-2b",
            "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/nodepool": "g5-gpu-karpenter",
        },
    },
    "spec": {
        "providerID": "aws:///us-west-2b/i-0abc",
        "unschedulable": True,
        "taints": [
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
            {"key": "team", "value": "ml", "effect": "NoExecute"},
        ],
    },
    "status": {
        "allocatable": {
            "cpu": "47810m",
            "memory": "189519284Ki",
            "nvidia.com/gpu": "4",
            "vpc.amazonaws.com/efa": "1",
            "pods": "234",
        },
        "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.32.3-eks-473151a"},
    },
}

EVENT: Document = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "x.18", "namespace": "default", "uid": "e-1", "creationTimestamp": "2026-11-21T10:00:00Z"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "esm1nv-pretraining-worker-0", "uid": "0f6a"},
    "reason": "FailedScheduling",
    "message": "0/2 nodes are available:\n2 Insufficient nvidia.com/gpu.",
    "type": "Warning",
    "count": 3,
    "firstTimestamp": "2026-11-21T10:00:00Z",
    "lastTimestamp": "2026-11-21T10:02:00Z",
}


def a_pod(name: str = "p", **status: Any) -> Document:
    """The sample pod under another name, with fields of its status replaced."""
    document = copy.deepcopy(POD)
    document["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    document["status"] |= status
    return document


def a_container(state: str, *, name: str = "pytorch", ready: bool = False, **detail: Any) -> Document:
    """A container status in one state."""
    return {"name": name, "ready": ready, "restartCount": 0, "state": {state: detail}}


def with_conditions(kind: str, api_version: str, **conditions: str) -> Document:
    """An object that has just these conditions."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default", "uid": "u", "creationTimestamp": "2026-11-21T10:00:00Z"},
        "status": {
            "conditions": [
                {"type": name, "status": value, "reason": f"{kind}{name}"} for name, value in conditions.items()
            ]
        },
    }
