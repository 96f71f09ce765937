"""The objects that Kubeflow Trainer makes of a TrainJob and its runtime: a JobSet, and the runtime as it was then.

Source: Kubeflow Trainer 2.3.0, `pkg/runtime`: its core and the plugins `jobset`, `plainml` and `torch`. The policies
of MPI, Flux, JAX and XGBoost are not played: pods are made without what those plugins add.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import yaml

from actions.sandbox.clientkit.kinds import Document, owner_reference
from actions.sandbox.model.quantities import value_of

_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
_NODE = "node"
_PORT = 29500
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}


def job_set_of(train_job: Document, runtime: Document) -> Document:
    """Return the JobSet of a TrainJob.

    Args:
        train_job: As it is.
        runtime: The TrainingRuntime or ClusterTrainingRuntime that it refers to.
    """
    policy = runtime["spec"].get("mlPolicy") or {}
    template = copy.deepcopy(runtime["spec"]["template"])
    order = [one["name"] for one in template["spec"]["replicatedJobs"]]
    metadata = template.get("metadata") or {}
    for patch in train_job["spec"].get("runtimePatches") or ():
        change = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        metadata = merged(metadata, change.get("metadata") or {})
        template["spec"] = merged(template["spec"], change.get("spec") or {})
    jobs = template["spec"]["replicatedJobs"]
    jobs.sort(key=lambda one: order.index(one["name"]) if one["name"] in order else len(order))
    for replicated in jobs:
        _fill(replicated, train_job, policy)
    kept = {field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)}
    return {
        "metadata": kept
        | {
            "name": train_job["metadata"]["name"],
            "namespace": train_job["metadata"]["namespace"],
            "ownerReferences": [owner_reference(train_job)],
        },
        "spec": template["spec"] | {"suspend": bool(train_job["spec"].get("suspend"))},
    }


def snapshot_of(train_job: Document, runtime: Document) -> Document:
    """Return the ConfigMap in which a TrainJob keeps its runtime as it was when the job was made."""
    return {
        "metadata": {
            "name": f"{train_job['metadata']['name']}-runtime-snapshot",
            "namespace": train_job["metadata"]["namespace"],
            "ownerReferences": [owner_reference(train_job)],
        },
        "data": {"runtime": yaml.safe_dump(runtime)},
    }


def _fill(replicated: Document, train_job: Document, policy: Document) -> None:
    """Put the values of a TrainJob into one replicated job of its runtime's template."""
    job = replicated["template"]
    ancestor = ((job.get("metadata") or {}).get("labels") or {}).get(_ANCESTOR, "")
    count = int(job["spec"].get("parallelism", 1))
    containers = {one["name"]: one for one in job["spec"]["template"]["spec"]["containers"]}
    if ancestor == "trainer":
        trainer = train_job["spec"].get("trainer") or {}
        count = int(trainer.get("numNodes") or policy.get("numNodes", 1))
        replicated["replicas"] = 1
        if _NODE in containers:
            _fill_trainer(containers[_NODE], train_job, policy, count)
    elif ancestor in _INITIALIZERS:
        replicated["replicas"] = 1
        given = (train_job["spec"].get("initializer") or {}).get(_INITIALIZERS[ancestor])
        if given and ancestor in containers:
            _fill_initializer(containers[ancestor], given)
    job["spec"] |= {"parallelism": count, "completions": count}


def _fill_initializer(container: Document, given: Document) -> None:
    if given.get("storageUri"):
        container["env"] = with_variables(container.get("env"), [{"name": "STORAGE_URI", "value": given["storageUri"]}])
    container["env"] = with_variables(container.get("env"), given.get("env") or ())
    if given.get("secretRef"):
        container.setdefault("envFrom", []).append({"secretRef": {"name": given["secretRef"]["name"]}})


def _fill_trainer(container: Document, train_job: Document, policy: Document, nodes: int) -> None:
    trainer = train_job["spec"].get("trainer")
    if trainer is None:
        return
    for field in ("image", "command", "args"):
        if trainer.get(field) is not None:
            container[field] = trainer[field]
    if trainer.get("resourcesPerNode"):
        container["resources"] = merged(container.get("resources") or {}, trainer["resourcesPerNode"])
    container["env"] = with_variables(container.get("env"), trainer.get("env") or ())
    if "torch" not in policy:
        return
    name = train_job["metadata"]["name"]
    variables = (
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": _processes(trainer, container)},
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": "PET_MASTER_ADDR", "value": f"{name}-{_NODE}-0-0.{name}"},
        {"name": "PET_MASTER_PORT", "value": str(_PORT)},
    )
    container["env"] = with_variables(container["env"], variables)
    ports = container.setdefault("ports", [])
    if not any(port["containerPort"] == _PORT for port in ports):
        ports.append({"containerPort": _PORT, "protocol": "TCP"})


def _processes(trainer: Document, container: Document) -> str:
    """Return torchrun's processes of a node: as given, `auto` if it has GPUs, else one for each CPU."""
    if trainer.get("numProcPerNode") is not None:
        return str(trainer["numProcPerNode"])
    resources = trainer.get("resourcesPerNode") or container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if any("gpu" in name.lower() for name in (*requests, *limits)):
        return "auto"
    return str(max(1, math.ceil(value_of(requests.get("cpu") or limits.get("cpu") or 0))))


def with_variables(known: Iterable[Document] | None, given: Iterable[Document]) -> list[Document]:
    """Return variables with others in the place of those of the same name, or at the end."""
    found = {one["name"]: one for one in known or ()}
    return list((found | {one["name"]: one for one in given}).values())


def merged(known: Any, change: Any) -> Any:
    """Return a value with a change over it: mappings by key, lists of named objects by name, anything else replaced."""
    if isinstance(known, dict) and isinstance(change, dict):
        return known | {key: merged(known.get(key), value) for key, value in change.items()}
    if isinstance(known, list) and isinstance(change, list) and _are_named((*known, *change)):
        by_name = {one["name"]: one for one in known}
        return list((by_name | {one["name"]: merged(by_name.get(one["name"], {}), one) for one in change}).values())
    return copy.deepcopy(change)


def _are_named(items: Iterable[Any]) -> bool:
    return all(isinstance(one, dict) and "name" in one for one in items)
