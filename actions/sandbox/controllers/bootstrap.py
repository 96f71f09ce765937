"""The cluster as Terraform leaves it: namespaces, nodes, add-ons, CRDs and roles that exist before the first launch.

Source: names, namespaces, labels and container counts of the ai-on-eks base (FSx CSI 1.9, Karpenter 1.2.1, NVIDIA
device plugin 0.16.1), the Neuron chart and the EFA plugin as the EFA pattern of EKS blueprints installs it; for
Karpenter's CRDs karpenter-provider-aws 1.2.1 (names, scope, printer columns; their fields are not checked); for the
role `view`, bound to `viewer`, k8s.io/kubernetes `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go` (as there,
no Secrets, no nodes).
"""

from __future__ import annotations

from msgspec.structs import replace

from actions.fleet.instance_types import SAGEMAKER, InstanceTable
from actions.fleet.node_offers import INSTANCE_TYPE
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    NAMESPACES,
    NODE_CLAIMS,
    NODE_CLASSES,
    NODE_POOLS,
    NODES,
    STORAGE_CLASSES,
    Document,
    Kind,
    kind_named,
)
from actions.sandbox.controllers.aws.machines import EFA_PRESENT, Machine, node_document, node_status
from actions.sandbox.controllers.aws.node_groups import EFA_TAG, machines_of
from actions.sandbox.model.account import CORE_GROUP, CORE_NODES, CORE_TYPE, GroupStatus, NodeGroup, NodeGroups
from actions.sandbox.model.options import SandboxOptions

_EVERYWHERE = [{"operator": "Exists"}]
_HYPERPOD = {
    "sagemaker.amazonaws.com/compute-type": "hyperpod",
    "sagemaker.amazonaws.com/node-health-status": "Schedulable",
}


def addon_documents(types: InstanceTable) -> list[Document]:
    """Return the objects of all add-ons; plugins of GPUs and Neuron devices run on those of `types` that have some."""
    return [
        _deployment("kube-system", "coredns", {"k8s-app": "kube-dns"}, ["coredns"], cpu="100m", memory="70Mi"),
        _deployment(
            "kube-system",
            "fsx-csi-controller",
            {"app": "fsx-csi-controller"},
            ["fsx-plugin", "csi-provisioner", "csi-resizer", "liveness-probe"],
        ),
        _deployment(
            "kube-system",
            "aws-load-balancer-controller",
            {"app.kubernetes.io/name": "aws-load-balancer-controller"},
            ["aws-load-balancer-controller"],
        ),
        _deployment(
            "karpenter",
            "karpenter",
            {"app.kubernetes.io/name": "karpenter"},
            ["controller"],
            cpu="500m",
            memory="512Mi",
        ),
        _daemon_set("kube-system", "aws-node", {"k8s-app": "aws-node"}, ["aws-node", "aws-eks-nodeagent"], cpu="50m"),
        _daemon_set("kube-system", "kube-proxy", {"k8s-app": "kube-proxy"}, ["kube-proxy"], cpu="100m"),
        _daemon_set("kube-system", "ebs-csi-node", {"app": "ebs-csi-node"}, ["ebs-plugin", "node-driver-registrar"]),
        _daemon_set(
            "kube-system",
            "fsx-csi-node",
            {"app": "fsx-csi-node"},
            ["fsx-plugin", "node-driver-registrar", "liveness-probe"],
        ),
        _daemon_set(
            "nvidia-device-plugin",
            "nvidia-device-plugin",
            {"app.kubernetes.io/name": "nvidia-device-plugin"},
            ["nvidia-device-plugin-ctr"],
            types=[kind.name for kind in types if kind.gpus],
        ),
        _daemon_set(
            "kube-system",
            "neuron-device-plugin",
            {"name": "neuron-device-plugin-ds"},
            ["neuron-device-plugin"],
            types=[kind.name for kind in types if kind.neuron_devices],
        ),
        _daemon_set(
            "kube-system",
            "aws-efa-k8s-device-plugin",
            {"name": "aws-efa-k8s-device-plugin"},
            ["aws-efa-k8s-device-plugin"],
            selector={EFA_PRESENT: "true"},
        ),
    ]


def _deployment(
    namespace: str, name: str, labels: dict[str, str], containers: list[str], *, cpu: str = "10m", memory: str = "40Mi"
) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": _containers(name, containers, cpu=cpu, memory=memory)},
            },
        },
    }


def _daemon_set(
    namespace: str,
    name: str,
    labels: dict[str, str],
    containers: list[str],
    *,
    cpu: str = "10m",
    selector: dict[str, str] | None = None,
    types: list[str] | None = None,
) -> Document:
    """Return a DaemonSet for every node, or for those with the labels of `selector`, or of certain instance types."""
    spec: Document = {
        "containers": _containers(name, containers, cpu=cpu, memory="40Mi"),
        "tolerations": _EVERYWHERE,
        "priorityClassName": "system-node-critical",
    }
    if selector:
        spec["nodeSelector"] = selector
    if types:
        named = [*types, *(SAGEMAKER + name for name in types)]
        term = {"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In", "values": named}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _containers(addon: str, names: list[str], *, cpu: str, memory: str) -> list[Document]:
    """The first container carries the requests."""
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    return [
        {"name": name, "image": f"eks/{addon}/{name}:sandbox", "resources": {} if position else requests}
        for position, name in enumerate(names)
    ]


Column = tuple[str, str]
"""Name and JSON path."""

_READY: Column = ("Ready", '.status.conditions[?(@.type=="Ready")].status')
_AGE: Column = ("Age", ".metadata.creationTimestamp")


def karpenter_definitions() -> list[Document]:
    """NodePool, NodeClaim and EC2NodeClass."""
    pool = (("NodeClass", ".spec.template.spec.nodeClassRef.name"), ("Nodes", ".status.resources.nodes"), _READY, _AGE)
    claim = (
        ("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
        ("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
        ("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
        ("Node", ".status.nodeName"),
        _READY,
        _AGE,
    )
    return [
        _definition(NODE_POOLS, ["karpenter"], [], pool),
        _definition(NODE_CLAIMS, ["karpenter"], [], claim),
        _definition(NODE_CLASSES, ["karpenter"], ["ec2nc", "ec2ncs"], (_READY, _AGE)),
    ]


def _definition(kind: Kind, categories: list[str], short: list[str], columns: tuple[Column, ...]) -> Document:
    group, _, version = kind.api_version.partition("/")
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "categories": categories,
                "shortNames": short,
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "jsonPath": path, "type": "date" if name == "Age" else "string"}
                        for name, path in columns
                    ],
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}},
                    },
                }
            ],
        },
    }


_READ = ["get", "list", "watch"]
_RULES = (
    ("", "configmaps events namespaces persistentvolumeclaims pods pods/log pods/status resourcequotas "
         "serviceaccounts services"),
    ("apps", "daemonsets deployments deployments/scale replicasets statefulsets"),
    ("batch", "cronjobs jobs"),
    ("kubeflow.org", "mpijobs pytorchjobs"),
    ("policy", "poddisruptionbudgets"),
)  # fmt: skip


def viewer_documents() -> list[Document]:
    """The role and its binding."""
    rules = [{"apiGroups": [group], "resources": names.split(), "verbs": _READ} for group, names in _RULES]
    api = "rbac.authorization.k8s.io"
    return [
        {"kind": "ClusterRole", "metadata": {"name": "view"}, "rules": rules},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": "viewer"}],
        },
    ]


_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "karpenter", "nvidia-device-plugin")


async def bootstrap_cluster(
    client: ApiClient, types: InstanceTable, options: SandboxOptions, groups: NodeGroups
) -> None:
    """Make what is missing of the initial cluster, and declare the nodes of its groups; existing objects stay.

    Raises:
        UnreachableError: The API does not answer.
    """
    for name in _NAMESPACES:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    for document in karpenter_definitions():
        await client.create(kind_named(document["kind"]), document)
    await client.create(STORAGE_CLASSES, _storage_class())
    for document in viewer_documents():
        await client.create(kind_named(document["kind"]), document)
    machines = core_machines(types, options)
    core = groups.get(f"{options.cluster_name}/{CORE_GROUP}")
    if core is not None:
        groups.put(replace(core, nodes=tuple(machine.name for machine in machines)))
    for machine in (*machines, *asked_machines(types, options, groups, client.clock.now().timestamp())):
        node = await client.create(NODES, node_document(machine, options.region))
        if node is not None:
            await client.patch_status(NODES, node, node_status(machine, is_ready=True, now=client.timestamp()))
    for document in addon_documents(types):
        await client.create(kind_named(document["kind"]), document)


def core_machines(types: InstanceTable, options: SandboxOptions) -> list[Machine]:
    """The managed node group that runs the add-ons."""
    kind = types.find(CORE_TYPE)
    if kind is None:
        return []
    return [
        Machine(
            name=f"ip-100-64-{128 * index}-{21 + index}.{options.region}.compute.internal",
            instance_id=f"i-0c0de{index:012x}",
            address=f"100.64.{128 * index}.{21 + index}",
            type=kind,
            zone=f"{options.region}{'ab'[index]}",
            labels={
                "WorkerType": "ON_DEMAND",
                "NodeGroupType": "core",
                "eks.amazonaws.com/capacityType": "ON_DEMAND",
                "eks.amazonaws.com/nodegroup": CORE_GROUP,
                "alpha.eksctl.io/cluster-name": options.cluster_name,
            },
        )
        for index in range(CORE_NODES)
    ]


def asked_machines(
    types: InstanceTable, options: SandboxOptions, groups: NodeGroups, created_at: float
) -> list[Machine]:
    """Return the nodes that are there because of `options.nodes`: of a managed group, or of HyperPod if of `ml.NAME`.

    Args:
        types: Known instance types.
        options: The sandbox's.
        groups: The managed groups are put into it.
        created_at: Seconds since the epoch.
    """
    found: list[Machine] = []
    for name, count in options.nodes.items():
        kind = types.find(name)
        group_name = name.replace(".", "-")
        asked = {
            "nodegroupName": group_name,
            "scalingConfig": {"minSize": 0, "maxSize": count, "desiredSize": count},
            "instanceTypes": [name],
            "amiType": "AL2023_x86_64_NVIDIA" if kind and kind.gpus else "AL2023_x86_64_NEURON",
            "capacityType": "ON_DEMAND",
            "subnets": ["subnet-0a1b2c3d4e5f60001"],
            "nodeRole": f"arn:aws:iam::{options.account}:role/{options.cluster_name}-nodes",
            "tags": {EFA_TAG: "true"} if kind and kind.efa_interfaces else {},
        }
        group = NodeGroup(options.cluster_name, group_name, asked, created_at, GroupStatus.ACTIVE)
        machines = machines_of(group, types, options.region)
        if name.startswith(SAGEMAKER):
            labels = _HYPERPOD | {"sagemaker.amazonaws.com/instance-group-name": group.name}
            machines = [replace(one, name=f"hyperpod-{one.instance_id}", labels=labels) for one in machines]
        else:
            groups.put(replace(group, nodes=tuple(machine.name for machine in machines)))
        found += machines
    return found


def _storage_class() -> Document:
    return {
        "metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
