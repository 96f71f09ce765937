"""Small jobs of each operator: manifests, changes by a user, and the condition by which they are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actions.cluster.kinds import full_name
from actions.sandbox.clientkit.kinds import (
    JOB_SETS,
    JOBS,
    MPI_JOBS,
    POD_GROUPS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RUNTIMES,
    TRAIN_JOBS,
    Kind,
)
from actions.sandbox.controllers.replica_groups import REPLICA_GROUPS

Document = dict[str, Any]
Statuses = Mapping[tuple[str, str], Document]
"""The newest status of each object that is there, by kind and name."""
Condition = Callable[[Statuses], bool]

TF_JOBS, VOLCANO_JOBS, LEADER_WORKER_SETS = (
    next(one.kind for one in REPLICA_GROUPS if one.name == name)
    for name in ("TFJob", "Job.batch.volcano.sh", "LeaderWorkerSet")
)
_BUSYBOX = "public.ecr.aws/docker/library/busybox:1.36"
_RAY = "public.ecr.aws/data-on-eks/ray-pytorch-training-neuronx:latest"
WHILE_SECONDS = 15
"""The life of a pod that ends: so late an operator may see that it runs. On a busy machine five seconds were too few
for the MPI operator, which makes five requests a second."""
_WHILE = f"sleep {WHILE_SECONDS}"
_FOREVER = "sleep 600"
_SECOND_FAILS = f"hostname | grep -v node-{{}} && {_FOREVER}; {_WHILE}; exit 1"
_FIRST_ENDS = f"hostname | grep -v worker-0 && {_FOREVER}; {_WHILE}"
_SECOND_WAITS = f"hostname | grep worker-1 && {_FOREVER}"


@dataclass(frozen=True)
class Change:
    """A merge patch of a job, sent once something holds."""

    when: Condition
    patch: Document


@dataclass(frozen=True)
class OperatorJob:
    """One case. `changes` are made to the last manifest, one after the other; then `is_over` counts."""

    name: str
    manifests: Sequence[Document]
    is_over: Condition
    changes: Sequence[Change] = ()


def _is(kind: Kind, name: str, condition: str) -> Condition:
    """Return whether a condition is true of an object."""

    def holds(statuses: Statuses) -> bool:
        told = statuses.get((full_name(kind.api_version, kind.kind), name), {}).get("conditions") or ()
        return any(one["type"] == condition and one["status"] == "True" for one in told)

    return holds


def _deployed(states: Mapping[str, str]) -> Condition:
    """Return whether RayJobs are in these states."""
    return lambda statuses: all(
        statuses.get((RAY_JOBS.kind, name), {}).get("jobDeploymentStatus") == state for name, state in states.items()
    )


def _all(*conditions: Condition) -> Condition:
    return lambda statuses: all(one(statuses) for one in conditions)


def _phases(statuses: Statuses) -> list[str]:
    return [status.get("phase", "") for (kind, _), status in statuses.items() if kind == "Pod"]


def _pods(count: int) -> Condition:
    """Return whether so many pods are there."""
    return lambda statuses: len(_phases(statuses)) == count


def _running(count: int) -> Condition:
    """Return whether so many pods are there and run."""
    return lambda statuses: _phases(statuses) == ["Running"] * count


def _refused(statuses: Statuses) -> bool:
    """Return whether the scheduler has refused all pods."""
    pods = [status for (kind, _), status in statuses.items() if kind == "Pod"]
    told = [{(one["type"], one["status"]) for one in status.get("conditions") or ()} for status in pods]
    return bool(told) and all(("PodScheduled", "False") in one for one in told)


def _resting(kind: Kind, name: str) -> Condition:
    """Return whether a job is suspended and all its pods are gone."""
    return _all(_is(kind, name, "Suspended"), _pods(0))


def _object(kind: Kind, name: str, spec: Document, **metadata: Any) -> Document:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}, "spec": spec}


def _template(container: str, script: str) -> Document:
    main = {"name": container, "image": _BUSYBOX, "command": ["sh", "-c", script]}
    return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [main]}}


def _pytorch(script: str, *, policy: str = "Never", **run_policy: Any) -> Document:
    worker = {"replicas": 2, "restartPolicy": policy, "template": _template("pytorch", script)}
    return _object(PYTORCH_JOBS, "pj", {"runPolicy": run_policy, "pytorchReplicaSpecs": {"Worker": worker}})


_LASTING = {"spec": {"pytorchReplicaSpecs": {"Worker": {"template": _template("pytorch", _FOREVER)}}}}
"""From the next restart on."""


def _mpi(script: str, **run_policy: Any) -> Document:
    roles = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _template("launcher", script)},
        "Worker": {"replicas": 2, "template": _template("worker", _FOREVER)},
    }
    about = {"slotsPerWorker": 1, "launcherCreationPolicy": "WaitForWorkersReady"}
    return _object(MPI_JOBS, "mj", {**about, "runPolicy": run_policy, "mpiReplicaSpecs": roles})


def _gang(**placement: Any) -> Sequence[Document]:
    """A PodGroup of one, as the preflight of the Ray blueprint has one of two, and the Job with its pod."""
    template = _template("sleep", _WHILE)
    template["metadata"] = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    template["spec"] |= {"schedulerName": "volcano", "restartPolicy": "Never", **placement}
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    group = _object(POD_GROUPS, "gang", {"minMember": 1, "minResources": {"cpu": "10m"}})
    return [group, _object(JOBS, "gang", {"template": template})]


def _ray_cluster(*, workers: int = 0, gpus: int = 0) -> Document:
    """A gang of a head, which may ask for GPUs, and workers."""

    def template(container: Document) -> Document:
        return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}

    ports = [{"name": "dashboard", "containerPort": 8265}, {"name": "redis", "containerPort": 6379}]
    head: Document = {"name": "ray-head", "image": _RAY, "ports": ports, "resources": {"requests": {"cpu": "10m"}}}
    if gpus:
        head["resources"]["limits"] = {"nvidia.com/gpu": str(gpus)}
    counts = dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), workers)
    worker = template({"name": "ray-worker", "image": _RAY})
    group = {"groupName": "workers", **counts, "rayStartParams": {}, "template": worker}
    spec = {
        "rayVersion": "2.22.0",
        "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": template(head)},
        "workerGroupSpecs": [group] if workers else [],
    }
    return _object(RAY_CLUSTERS, "rc", spec, labels={"ray.io/scheduler-name": "volcano"})


def _ray_job(name: str, entrypoint: str) -> Document:
    submitter = {"restartPolicy": "Never", "containers": [{"name": "ray-job-submitter", "image": _RAY}]}
    spec = {
        "submissionMode": "K8sJobMode",
        "entrypoint": entrypoint,
        "clusterSelector": {"ray.io/cluster": "rc"},
        "submitterPodTemplate": {"spec": submitter},
    }
    return _object(RAY_JOBS, name, spec)


_ATTEMPT = {
    "name": "ATTEMPT",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}},
}


def _replicated(script: str, labels: Mapping[str, str], *, replicas: int = 1) -> Document:
    """A group of Jobs with a pod each, which is not started again."""
    template = _template("node", script)
    template["spec"]["restartPolicy"] = "Never"
    template["spec"]["containers"][0]["env"] = [_ATTEMPT]
    job = {"metadata": {"labels": dict(labels)}, "spec": {"backoffLimit": 0, "template": template}}
    return {"name": "node", "replicas": replicas, "template": job}


def _job_set(script: str, *, replicas: int = 2, **spec: Any) -> Document:
    return _object(JOB_SETS, "js", {"replicatedJobs": [_replicated(script, {}, replicas=replicas)], **spec})


def _train_job(script: str, **spec: Any) -> Sequence[Document]:
    """A TrainJob of two nodes, and its runtime, as the blueprint's."""
    replicated = _replicated(script, {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"})
    template = {"spec": {"failurePolicy": {"maxRestarts": 1}, "replicatedJobs": [replicated]}}
    runtime = _object(RUNTIMES, "rt", {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": template})
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": RUNTIMES.kind, "name": "rt"}
    return [runtime, _object(TRAIN_JOBS, "tj", {"runtimeRef": reference, "trainer": {"numNodes": 2}, **spec})]


def _tf_job(script: str, *roles: str) -> Document:
    """A TFJob of two pods of each role."""
    replica = {"replicas": 2, "restartPolicy": "Never", "template": _template("tensorflow", script)}
    return _object(TF_JOBS, "tf", {"tfReplicaSpecs": dict.fromkeys(roles, replica)})


def _task(name: str, script: str, *, replicas: int = 1, **spec: Any) -> Document:
    template = _template("main", script)
    template["spec"]["restartPolicy"] = "Never"
    counts = {"replicas": replicas, "minAvailable": replicas, "maxRetry": 3}
    return {"name": name, "template": template, **counts, **spec}


def _volcano_job(*tasks: Document, **spec: Any) -> Document:
    """A Job of Volcano, with all that its webhook would write."""
    least = sum(task["minAvailable"] for task in tasks)
    about = {"schedulerName": "volcano", "queue": "default", "minAvailable": least, "maxRetry": 3}
    return _object(VOLCANO_JOBS, "vj", {**about, "tasks": tasks, **spec})


def _in_phase(phase: str) -> Condition:
    """Return whether Volcano's job is in a phase."""
    about = (full_name(VOLCANO_JOBS.api_version, VOLCANO_JOBS.kind), "vj")
    return lambda statuses: ((statuses.get(about) or {}).get("state") or {}).get("phase") == phase


def _leader_worker_set(script: str) -> Document:
    """Two groups of two, with all that the webhook would write."""
    update = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0}}
    template = {"size": 2, "workerTemplate": _template("main", script), "restartPolicy": "RecreateGroupOnPodRestart"}
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": template,
        "networkConfig": {"subdomainPolicy": "Shared"},
        "rolloutStrategy": update,
        "startupPolicy": "LeaderCreated",
    }
    return _object(LEADER_WORKER_SETS, "lw", spec)


def _pause(kind: Kind, name: str) -> Sequence[Change]:
    """Suspend a job of pods that run, and let it go on when they are gone."""
    return [
        Change(_running(2), {"spec": {"suspend": True}}),
        Change(_resting(kind, name), {"spec": {"suspend": False}}),
    ]


def _rest(kind: Kind, name: str) -> Sequence[Change]:
    """Suspend a job once it runs, and let it go on when its pods are gone."""
    wishes = [{"spec": {"runPolicy": {"suspend": suspend}}} for suspend in (True, False)]
    return [Change(_is(kind, name, "Running"), wishes[0]), Change(_resting(kind, name), wishes[1])]


OPERATOR_JOBS = (
    OperatorJob("pytorch-succeeds", [_pytorch(_WHILE)], _is(PYTORCH_JOBS, "pj", "Succeeded")),
    OperatorJob("pytorch-failed", [_pytorch(f"{_SECOND_WAITS}; {_WHILE}; exit 1")], _is(PYTORCH_JOBS, "pj", "Failed")),
    OperatorJob(
        "pytorch-restarts",
        [_pytorch(f"{_SECOND_WAITS}; {_WHILE}; exit 137", policy="ExitCode")],
        _all(_is(PYTORCH_JOBS, "pj", "Running"), _running(2)),
        [Change(_is(PYTORCH_JOBS, "pj", "Restarting"), _LASTING)],
    ),
    OperatorJob(
        "pytorch-rests",
        [_pytorch(_FOREVER)],
        _all(_is(PYTORCH_JOBS, "pj", "Running"), _running(2)),
        _rest(PYTORCH_JOBS, "pj"),
    ),
    OperatorJob(
        "mpi-succeeds", [_mpi(_WHILE, cleanPodPolicy="Running")], _all(_is(MPI_JOBS, "mj", "Succeeded"), _pods(1))
    ),
    OperatorJob("mpi-failed", [_mpi(f"{_WHILE}; exit 1", backoffLimit=1)], _is(MPI_JOBS, "mj", "Failed")),
    OperatorJob(
        "mpi-rests", [_mpi(_FOREVER)], _all(_is(MPI_JOBS, "mj", "Running"), _running(3)), _rest(MPI_JOBS, "mj")
    ),
    OperatorJob(
        "ray-long",
        [
            _ray_cluster(workers=1),
            _ray_job("well", "python3 /llama2_pretrain/get_dataset.py"),
            _ray_job("badly", "absent"),
        ],
        _deployed({"well": "Complete", "badly": "Failed"}),
    ),
    OperatorJob("jobset-completes", [_job_set(_WHILE)], _is(JOB_SETS, "js", "Completed")),
    OperatorJob(
        "jobset-failed",
        [_job_set(_SECOND_FAILS.format("1"))],
        _is(JOB_SETS, "js", "Failed"),
    ),
    OperatorJob(
        "jobset-restarts",
        [_job_set(f"{_WHILE}; exit 1", replicas=1, failurePolicy={"maxRestarts": 1})],
        _is(JOB_SETS, "js", "Failed"),
    ),
    OperatorJob(
        "jobset-recovers",
        [_job_set(f'{_WHILE}; test "$ATTEMPT" = 1', replicas=1, failurePolicy={"maxRestarts": 1})],
        _is(JOB_SETS, "js", "Completed"),
    ),
    OperatorJob("jobset-rests", [_job_set(_FOREVER)], _running(2), _pause(JOB_SETS, "js")),
    OperatorJob("trainjob-completes", _train_job(_WHILE), _is(TRAIN_JOBS, "tj", "Complete")),
    OperatorJob("trainjob-failed", _train_job(_SECOND_FAILS.format("0-1")), _is(TRAIN_JOBS, "tj", "Failed")),
    OperatorJob("trainjob-rests", _train_job(_FOREVER), _running(2), _pause(TRAIN_JOBS, "tj")),
    OperatorJob("today-tf-succeeds", [_tf_job(_FIRST_ENDS, "PS", "Worker")], _is(TF_JOBS, "tf", "Succeeded")),
    OperatorJob(
        "today-tf-failed", [_tf_job(f"{_SECOND_WAITS}; {_WHILE}; exit 1", "Worker")], _is(TF_JOBS, "tf", "Failed")
    ),
    OperatorJob("today-volcano-completes", [_volcano_job(_task("node", _WHILE, replicas=2))], _in_phase("Completed")),
    OperatorJob(
        "today-volcano-failed",
        [_volcano_job(_task("node", f"{_WHILE}; exit 1"), _task("other", _WHILE))],
        _in_phase("Failed"),
    ),
    OperatorJob(
        "today-volcano-master-completes",
        [
            _volcano_job(
                _task("master", _WHILE, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
                _task("worker", _FOREVER, replicas=2),
            )
        ],
        _in_phase("Completed"),
    ),
    OperatorJob("today-lws-runs", [_leader_worker_set(_FOREVER)], _is(LEADER_WORKER_SETS, "lw", "Available")),
    OperatorJob("ray-waits", [_ray_job("early", "absent")], _deployed({"early": "Initializing"})),
    OperatorJob(
        "gang-too-large", [_ray_cluster(gpus=64)], _all(_is(POD_GROUPS, "ray-rc-pg", "Unschedulable"), _refused)
    ),
    OperatorJob("gang-placed", _gang(), _is(JOBS, "gang", "Complete")),
    OperatorJob(
        "gang-without-nodes",
        _gang(nodeSelector={"instance-type": "absent"}),
        _all(_is(POD_GROUPS, "gang", "Unschedulable"), _refused),
    ),
)
"""The blueprints' uses of operators, with short programs. A real Ray is slow: CI leaves its job out, and has of RayJobs
only one whose cluster is not there."""
