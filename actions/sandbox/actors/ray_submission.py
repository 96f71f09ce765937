"""How a RayJob is submitted: the Job that does it, its command, or the request that does without one.

Source: recordings of KubeRay 1.1.1.
"""

from __future__ import annotations

import copy
import json
import shlex
from typing import Any

import yaml

from actions.sandbox.actors.kinds import Document, owner_reference
from actions.sandbox.actors.podcontrol import suffix
from actions.sandbox.actors.ray_names import CLUSTER, CREATED_BY, FROM_KIND, FROM_NAME, shortened

FINALIZER = "ray.io/rayjob-finalizer"
_RETRIES = 2
_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}


def why_invalid(job: Document) -> str:
    """Why the operator does not touch a RayJob, empty if it does. It says so in its own log only."""
    spec = job["spec"]
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if spec.get("suspend") and spec.get("clusterSelector"):
        return "the ClusterSelector mode doesn't support the suspend operation"
    if spec.get("clusterSelector") and CLUSTER not in spec["clusterSelector"]:
        return f"failed to get cluster name in ClusterSelector map, the default key is {CLUSTER}"
    if not spec.get("clusterSelector") and not spec.get("rayClusterSpec"):
        return "one of RayClusterSpec or ClusterSelector must be set"
    return ""


def is_by_request(job: Document) -> bool:
    """Whether the operator submits it by a request of its own, without a submitter."""
    return bool(job["spec"].get("submissionMode") == "HTTPMode")


def identity(job: Document) -> Document:
    """The id of a new submission and the cluster that it goes to, as the status shows them."""
    name, selector = job["metadata"]["name"], job["spec"].get("clusterSelector") or {}
    return {
        "jobId": job["spec"].get("jobId") or f"{name}-{suffix()}",
        "rayClusterName": selector[CLUSTER] if selector else shortened(f"{name}-raycluster-{suffix()}"),
    }


def completed_spec(job: Document) -> Document | None:
    """The empty fields that the operator's first update leaves in a RayJob's own cluster, `None` without one."""
    cluster: Document = copy.deepcopy(job["spec"].get("rayClusterSpec") or {})
    if not cluster:
        return None
    for group in (cluster["headGroupSpec"], *(cluster.get("workerGroupSpecs") or ())):
        group["template"].setdefault("metadata", {})
    for group in cluster.get("workerGroupSpecs") or ():
        group.setdefault("scaleStrategy", {})
    return {"rayClusterSpec": cluster}


def own_cluster(job: Document, name: str) -> Document:
    """The RayCluster of a RayJob that selects none."""
    metadata = job["metadata"]
    labels = {**(metadata.get("labels") or {}), FROM_KIND: "RayJob", FROM_NAME: metadata["name"]}
    made: Document = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": labels,
        "ownerReferences": [owner_reference(job)],
    }
    if metadata.get("annotations"):
        made["annotations"] = dict(metadata["annotations"])
    return {"metadata": made, "spec": copy.deepcopy(job["spec"]["rayClusterSpec"])}


def submitter(job: Document, cluster: Document, *, job_id: str, dashboard: str) -> Document:
    """The Job that submits a RayJob and then follows its log; it bears the RayJob's name."""
    metadata = job["metadata"]
    template = copy.deepcopy(job["spec"].get("submitterPodTemplate")) or _default_template(cluster)
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        container["command"] = _command(job, job_id=job_id, dashboard=dashboard)
    container["env"] = [
        *(container.get("env") or ()),
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": dashboard},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": job_id},
    ]
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {**CREATED_BY, FROM_NAME: metadata["name"], FROM_KIND: "RayJob"},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"backoffLimit": _RETRIES, "template": template},
    }


def request(job: Document, job_id: str) -> dict[str, Any]:
    """The body of a submission by request."""
    spec = job["spec"]
    body: dict[str, Any] = {"entrypoint": str(spec["entrypoint"]).strip(), "submission_id": job_id}
    environment = _runtime_environment(job)
    if environment:
        body["runtime_env"] = environment
    if spec.get("metadata"):
        body["metadata"] = spec["metadata"]
    return body


def _default_template(cluster: Document) -> Document:
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container = {"name": "ray-job-submitter", "image": head["image"], "resources": copy.deepcopy(_RESOURCES)}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _command(job: Document, *, job_id: str, dashboard: str) -> list[str]:
    spec = job["spec"]
    options: list[str] = []
    environment = _runtime_environment(job)
    if environment:
        options += ["--runtime-env-json", _as_go_writes(environment)]
    if spec.get("metadata"):
        options += ["--metadata-json", _as_go_writes(spec["metadata"])]
    options += ["--submission-id", job_id]
    for field, flag in (("entrypointNumCpus", "--entrypoint-num-cpus"), ("entrypointNumGpus", "--entrypoint-num-gpus")):
        if float(spec.get(field) or 0) > 0:
            options += [flag, f"{float(spec[field]):f}"]
    if spec.get("entrypointResources"):
        options += ["--entrypoint-resources", spec["entrypointResources"]]
    entrypoint = shlex.split(str(spec["entrypoint"]).strip(), comments=True)
    return ["ray", "job", "submit", "--address", f"http://{dashboard}", *options, "--", *entrypoint]


def _runtime_environment(job: Document) -> dict[str, Any]:
    try:
        found = yaml.safe_load(job["spec"].get("runtimeEnvYAML") or "")
    except yaml.YAMLError as error:
        raise ValueError("runtimeEnvYAML is not YAML") from error
    return found if isinstance(found, dict) else {}


def _as_go_writes(value: object) -> str:
    """JSON with sorted keys and no blanks, safe to stand in HTML."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
