"""The objects that JobSet makes: Jobs of replicated jobs, and the headless Service of their pods' names.

Source: JobSet 0.12.0, `pkg/controllers/jobset_controller.go`.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping

from actions.sandbox.clientkit.kinds import Document, labels_of, owner_reference, uid_of

NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
RESTARTS = "jobset.sigs.k8s.io/restart-attempt"
_PREFIX = "jobset.sigs.k8s.io"
_DEFAULT_GROUP = "default"


def replicas_of(replicated: Document) -> int:
    """Return the number of Jobs of a replicated job."""
    return int(replicated.get("replicas", 1))


def job_name(job_set: Document, replicated: Document, index: int) -> str:
    """Return the name of a Job."""
    return f"{job_set['metadata']['name']}-{replicated['name']}-{index}"


def restarts_of(job: Document) -> int:
    """Return the restart of the JobSet that a Job belongs to."""
    return int(labels_of(job).get(RESTARTS, "0"))


def subdomain_of(job_set: Document) -> str:
    """Return the name of the Service; empty if pods have no names of their own."""
    network = job_set["spec"].get("network") or {}
    return (network.get("subdomain") or job_set["metadata"]["name"]) if network.get("enableDNSHostnames") else ""


def job_of(job_set: Document, replicated: Document, index: int) -> Document:
    """Return a Job, with the labels of both."""
    template = copy.deepcopy(replicated["template"])
    metadata, spec = template.get("metadata") or {}, template["spec"]
    marks = _marks(job_set, replicated, index)
    pods = spec["template"]
    pods["metadata"] = _marked(pods.get("metadata") or {}, marks)
    if subdomain := subdomain_of(job_set):
        pods["spec"]["subdomain"] = subdomain
    return {
        "metadata": _marked(metadata, marks)
        | {
            "name": job_name(job_set, replicated, index),
            "namespace": job_set["metadata"]["namespace"],
            "ownerReferences": [owner_reference(job_set)],
        },
        "spec": spec | {"suspend": bool(job_set["spec"].get("suspend"))},
    }


def _marked(metadata: Document, marks: Mapping[str, str]) -> Document:
    """Return labels and annotations with the same marks in both, as JobSet has it."""
    return {field: {**(metadata.get(field) or {}), **marks} for field in ("labels", "annotations")}


def _marks(job_set: Document, replicated: Document, index: int) -> dict[str, str]:
    metadata, jobs = job_set["metadata"], list(job_set["spec"]["replicatedJobs"])
    place = jobs.index(replicated)
    group = _group_of(replicated)
    in_group = [one for one in jobs if _group_of(one) == group]
    name = job_name(job_set, replicated, index)
    marks = {
        NAME_LABEL: metadata["name"],
        f"{_PREFIX}/jobset-uid": uid_of(job_set),
        REPLICATED_JOB: replicated["name"],
        RESTARTS: str((job_set.get("status") or {}).get("restarts") or 0),
        f"{_PREFIX}/replicatedjob-replicas": str(replicas_of(replicated)),
        f"{_PREFIX}/global-replicas": str(sum(map(replicas_of, jobs))),
        f"{_PREFIX}/job-index": str(index),
        f"{_PREFIX}/job-key": hashlib.sha1(
            f"{metadata['namespace']}/{name}".encode(), usedforsecurity=False
        ).hexdigest(),
        f"{_PREFIX}/job-global-index": str(sum(map(replicas_of, jobs[:place])) + index),
        f"{_PREFIX}/group-name": group,
        f"{_PREFIX}/group-replicas": str(sum(map(replicas_of, in_group))),
        f"{_PREFIX}/job-group-index": str(sum(map(replicas_of, in_group[: in_group.index(replicated)])) + index),
    }
    if coordinator := job_set["spec"].get("coordinator"):
        job, pod = coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0)
        where = subdomain_of(job_set) or metadata["name"]
        marks[f"{_PREFIX}/coordinator"] = f"{metadata['name']}-{coordinator['replicatedJob']}-{job}-{pod}.{where}"
    return marks


def _group_of(replicated: Document) -> str:
    return replicated.get("groupName") or _DEFAULT_GROUP


def service_of(job_set: Document) -> Document:
    """Return the headless Service."""
    network = job_set["spec"].get("network") or {}
    return {
        "metadata": {
            "name": subdomain_of(job_set),
            "namespace": job_set["metadata"]["namespace"],
            "ownerReferences": [owner_reference(job_set)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {NAME_LABEL: job_set["metadata"]["name"]},
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
        },
    }


def jobs_due(job_set: Document, counts: Mapping[str, Mapping[str, int]]) -> Iterator[Document]:
    """Yield the replicated jobs whose dependencies are met, up to the first that an order of start waits for.

    Args:
        job_set: Whose.
        counts: Of the Jobs of each replicated job: ready, succeeded, failed.
    """
    is_in_order = (job_set["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    replicas = {one["name"]: replicas_of(one) for one in job_set["spec"]["replicatedJobs"]}
    for replicated in job_set["spec"]["replicatedJobs"]:
        if not all(_is_met(one, counts, replicas) for one in replicated.get("dependsOn") or ()):
            continue
        yield replicated
        if is_in_order and not has_started(counts[replicated["name"]], replicas[replicated["name"]]):
            return


def has_started(counts: Mapping[str, int], replicas: int) -> bool:
    """Return whether all Jobs of a replicated job have begun."""
    return counts["ready"] + counts["succeeded"] + counts["failed"] == replicas


def _is_met(dependency: Document, counts: Mapping[str, Mapping[str, int]], replicas: Mapping[str, int]) -> bool:
    name = dependency["name"]
    if dependency.get("status") == "Complete":
        return counts[name]["succeeded"] == replicas[name]
    return has_started(counts[name], replicas[name])
