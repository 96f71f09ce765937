"""The pods of a TrainJob: its runtime has their template, and Trainer makes a JobSet of both.

Source: kubeflow/trainer v2.2.0, `pkg/apis/trainer/v1alpha1` and `pkg/runtime/framework/plugins`; `podTemplateOverrides`
are those of v2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from actions.cluster.objects.client import ObjectRef
from actions.run.context.access import ClusterConnection

_KIND = "TrainJob"
_RUNTIME = "ClusterTrainingRuntime"
_NODE = "node"
"""The job of the workers, and the container in it that the trainer's image and resources are for."""


async def as_applied(connection: ClusterConnection, manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a TrainJob with the jobs of the JobSet that it becomes; any other object as it is.

    Args:
        connection: Asked for the runtime.
        manifest: An object of a launch.
        namespace: Of the launch.

    Raises:
        MissingError: Its runtime is not there, or the kind of that is not served.
        AccessError: It may not be read.
        UnreachableError: The cluster does not answer.
    """
    if manifest["kind"] != _KIND:
        return manifest
    ref = (manifest.get("spec") or {}).get("runtimeRef") or {}
    kind, home = str(ref.get("kind") or _RUNTIME), manifest["metadata"].get("namespace") or namespace
    place = "" if kind == _RUNTIME else home
    runtime = await connection.fetch(ObjectRef(manifest["apiVersion"], kind, place, str(ref.get("name") or "")))
    return with_jobs_of(manifest, runtime)


def with_jobs_of(train_job: Mapping[str, Any], runtime: Mapping[str, Any]) -> dict[str, Any]:
    """Return a TrainJob with the jobs that its runtime has for it, as far as their pods are placed by them."""
    spec, policy = train_job.get("spec") or {}, runtime["spec"].get("mlPolicy") or {}
    trainer = spec.get("trainer") or {}
    nodes = int(trainer.get("numNodes") or policy.get("numNodes") or 1)
    jobs = deepcopy(list(runtime["spec"]["template"]["spec"].get("replicatedJobs") or ()))
    for job in jobs:
        inner = job["template"]["spec"]
        pod = inner["template"]["spec"]
        if job["name"] == _NODE:
            is_launcher = bool((policy.get("mpi") or {}).get("runLauncherAsNode"))
            inner["parallelism"] = nodes - is_launcher
        for container in pod.get("containers") or ():
            if container.get("name") == _NODE and trainer.get("resourcesPerNode"):
                container["resources"] = trainer["resourcesPerNode"]
        for name, patch in _patches(spec):
            if name == job["name"]:
                _patch(pod, patch)
    return {**train_job, "spec": {"replicatedJobs": jobs}}


def _patches(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the changes of a TrainJob to the pods of its runtime's jobs, each with the name of the job."""
    for patch in spec.get("runtimePatches") or ():
        template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        for job in (template.get("spec") or {}).get("replicatedJobs") or ():
            inner = (job.get("template") or {}).get("spec") or {}
            yield job["name"], (inner.get("template") or {}).get("spec") or {}
    for override in spec.get("podTemplateOverrides") or ():
        for target in override.get("targetJobs") or ():
            yield target["name"], override.get("spec") or {}


def _patch(pod: dict[str, Any], patch: Mapping[str, Any]) -> None:
    if patch.get("nodeSelector"):
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **patch["nodeSelector"]}
    if patch.get("tolerations"):
        pod["tolerations"] = [*(pod.get("tolerations") or ()), *patch["tolerations"]]
    if patch.get("affinity"):
        pod["affinity"] = patch["affinity"]
