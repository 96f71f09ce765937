"""The rehearsal of a job on the embedded cluster: script, nodes, and stand-ins for what the job does not bring."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actions.blueprint.begin.job_manifests import Needed, places_of
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import KubeKind
from actions.cluster.objects.editing import yaml_text
from actions.cluster.pod_roles import PodRole, at, pod_roles
from actions.fleet.instance_types import MOST_ASKED, SAGEMAKER, InstanceTable
from actions.fleet.node_amounts import allocatable_of
from actions.fleet.node_offers import instance_labels
from actions.fleet.placement import NodeSpace, reasons_against, requests_of
from actions.fleet.quantity import parse_quantity

SCRIPT, STAND_INS = "rehearse.yaml", "manifests/stand-ins.yaml"
_CLUSTER = "bionemo-on-eks"
"""The name of the embedded cluster."""
_OF_ADDONS = {"cpu": 0.4, "memory": 0.5 * 2**30}
"""The part of a node that its daemons take."""
_SPARE = {"cpu": 3.0, "memory": 12 * 2**30}
"""The part of the nodes that the embedded cluster has by itself that pods may take."""
_KEPT_KEYS = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}


def script_of(blueprint_id: str, nodes: Mapping[str, int], *, metric: str) -> str:
    """Return the script that plays the job's life."""
    steps: list[dict[str, Any]] = [
        {"launch": {"blueprint": blueprint_id, "existing_cluster": True}},
        {"wait": {"run": "succeeded", "within": "10m"}},
    ]
    if metric:
        steps.append({"expect": {"metric": metric, "of": "train"}})
    document = {
        "eksml-script": 1,
        **({"nodes": ",".join(f"{name}={count}" for name, count in nodes.items())} if nodes else {}),
        "steps": steps,
        "always": [{"teardown": {"confirm": _CLUSTER}}, {"expect": {"audit": "empty"}}],
    }
    return f"# The whole life of the job on the embedded cluster: for CI, too.\n{yaml_text(document, is_compact=True)}"


def nodes_of(objects: Sequence[Manifest], table: InstanceTable) -> tuple[dict[str, int], list[str]]:
    """Return the smallest nodes on which the pods of objects fit, by instance type, and what fits on none, in words."""
    nodes: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    odd: list[str] = []
    spaces = list(_spaces(table))
    for role in (role for item in objects for role in pod_roles(item)):
        pod = {"spec": {**role.spec, "containers": [container for _, container in role.containers()]}}
        try:
            wanted = requests_of(pod)
        except ValueError as error:
            odd.append(f"What the pods of {role.name} request cannot be read: {error}.")
            continue
        total = {name: amount * role.total for name, amount in wanted.items()}
        is_small = all(taken[name] + total.get(name, 0) <= most for name, most in _SPARE.items())
        is_bound = {*wanted} - {"cpu", "memory", "pods", "ephemeral-storage"} or reasons_against(pod, _CORE)
        if is_small and not is_bound:
            taken.update(total)
            continue
        space = next((space for space in spaces if not reasons_against(pod, space)), None)
        if space is None:
            odd.append(_refusal(role, pod, spaces))
        else:
            fitting = min(space.free(name) // amount for name, amount in wanted.items() if amount)
            nodes[space.name] += math.ceil(role.total / fitting)
    return {name: min(count, MOST_ASKED) for name, count in nodes.items()}, odd


_GRAVITON = re.compile(r"[a-z]+\d+[a-z]*g")
_HYPERPOD = {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}
_CORE = NodeSpace("core", {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}, [], {"pods": 30.0, **_SPARE})


def _spaces(table: InstanceTable) -> Iterator[NodeSpace]:
    """Yield an empty node of each type, the smallest first; those of HyperPod last."""
    x86 = (kind for kind in table if not _GRAVITON.match(kind.name))
    ordered = sorted(x86, key=lambda one: (one.accelerators, one.vcpu, one.memory_bytes))
    for prefix in ("", SAGEMAKER):
        for kind in ordered:
            name = f"{prefix}{kind.name}"
            labels = {key: name if value == kind.name else value for key, value in instance_labels(kind).items()}
            offered = allocatable_of(kind, has_devices=True, has_efa=True, is_managed=not prefix)
            labels |= _HYPERPOD if prefix else {}
            space = NodeSpace(name, {**_CORE.labels, **labels}, [], {k: parse_quantity(v) for k, v in offered.items()})
            space.promise(_OF_ADDONS)
            yield space


def _refusal(role: PodRole, pod: dict[str, Any], spaces: Sequence[NodeSpace]) -> str:
    why = Counter(reason for space in spaces for reason in reasons_against(pod, space)).most_common(1)[0][0]
    return f"The embedded cluster has no node for the pods of {role.name}: {why}."


def stand_ins_of(needed: Sequence[Needed], job: Manifest, undefined: KubeKind | None) -> str:
    """Return objects without a use that are there in the place of those that a job names; empty for none.

    Args:
        needed: Those.
        job: Names them.
        undefined: Its kind, if the cluster has no definition of it.
    """
    found = [] if undefined is None else [_definition(undefined, str(job["apiVersion"]).rpartition("/")[2])]
    return "---\n".join(yaml_text(each) for each in (*found, *(_stand_in(each, job) for each in needed)))


def _definition(row: KubeKind, version: str) -> Manifest:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    names = {"kind": row.kind, "plural": row.plural, "singular": row.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{row.plural}.{row.group}"},
        "spec": {"group": row.group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


def _stand_in(needed: Needed, job: Manifest) -> Manifest:
    base = {"apiVersion": needed.api_version, "kind": needed.kind, "metadata": {"name": needed.name}}
    match needed.kind:
        case "Secret" | "ConfigMap":
            field = "stringData" if needed.kind == "Secret" else "data"
            return base | {field: dict.fromkeys(_keys(needed, job), "stand-in")}
        case "PersistentVolumeClaim":
            return base | {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        case "PriorityClass":
            return base | {"value": 0}
        case "TrainingRuntime" | "ClusterTrainingRuntime":
            container = {"name": "node", "image": "stand-in"}
            labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
            template = {"metadata": {"labels": labels}, "spec": {"template": {"spec": {"containers": [container]}}}}
            node = {"name": "node", "template": template}
            return base | {"spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}}}
    return base


def _keys(needed: Needed, job: Manifest) -> list[str]:
    """Return the keys of an object that a job names."""
    places = ((path, value) for path, value in places_of(job) if path[-1] == "key")
    named = ((path, value) for path, value in places if at(job, (*path[:-1], "name")) == needed.name)
    return list(dict.fromkeys(str(value) for path, value in named if _KEPT_KEYS.get(str(path[-2])) == needed.kind))
