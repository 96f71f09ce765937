"""Containers that do not start, or do not stay."""

from __future__ import annotations

from tests.unit.diagnose.samples import a_container, a_pod, an_event
from tests.unit.diagnose.troubles import CRASHED, LOOP, Case, ended, launcher, pull, waiting

CASES: list[Case] = [
    ("secret", "CONFIG_MISSING", {"pods": [waiting("CreateContainerConfigError", 'secret "hf-token" not found')]}),
    (
        "key",
        "CONFIG_MISSING",
        {"pods": [waiting("CreateContainerConfigError", "couldn't find key HF_TOKEN in Secret ml/hf")]},
    ),
    (
        "mounted map",
        "CONFIG_MISSING",
        {"events": [an_event("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "cfg" not found')]},
    ),
    (
        "cut checkpoint",
        "CHECKPOINT_DAMAGED",
        ended(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n",
        ),
    ),
    (
        "start error",
        "CRASH_LOOP",
        {"pods": [waiting("RunContainerError", 'exec: "trian.sh": executable file not found in $PATH')]},
    ),
    (
        "crash without log",
        "CRASH_LOOP",
        {"pods": [a_pod(node="n1", containerStatuses=[a_container(5, waiting=LOOP, last=CRASHED)])]},
    ),
    (
        "evicted for disk",
        "EVICTED_DISK",
        {
            "pods": [
                a_pod(
                    phase="Failed",
                    reason="Evicted",
                    message="The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 3Mi.",
                )
            ]
        },
    ),
    (
        "evicted for memory",
        "EVICTED_MEMORY",
        {"pods": [a_pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")]},
    ),
    (
        "never ready",
        "NOT_READY",
        {
            "pods": [a_pod(phase="Running", node="n1", containerStatuses=[a_container(running={})])],
            "events": [an_event("Odd", "a warning that no rule knows")],
        },
    ),
    ("no right", "IMAGE_AUTH", pull("failed to authorize: unexpected status: 401 Unauthorized")),
    ("ecr", "IMAGE_AUTH", pull("pull access denied, no basic auth credentials")),
    ("no tag", "IMAGE_NOT_FOUND", pull('failed to resolve reference "x:1": x:1: not found')),
    ("no repository", "IMAGE_NOT_FOUND", pull("name unknown: The repository with name 'x' does not exist")),
    ("no registry", "REGISTRY_UNAVAILABLE", pull("dial tcp: lookup reg.example on 10.0.0.2:53: no such host")),
    ("too often", "REGISTRY_RATE_LIMIT", pull("unexpected status from HEAD request: 429 Too Many Requests")),
    ("bad name", "IMAGE_NAME_INVALID", {"pods": [waiting("InvalidImageName", "couldn't parse image name: invalid")]}),
    (
        "pulling",
        "IMAGE_PULLING",
        {
            "pods": [waiting("ContainerCreating", "")],
            "events": [an_event("Pulling", 'Pulling image "nvcr.io/x:1"', type_="Normal")],
        },
    ),
    (
        "given up",
        "JOB_FAILED",
        {
            "job": {
                "kind": "Job",
                "metadata": {"name": "prep"},
                "status": {
                    "conditions": [
                        {
                            "type": "Failed",
                            "status": "True",
                            "reason": "BackoffLimitExceeded",
                            "message": "Job has reached the specified backoff limit",
                        }
                    ]
                },
            }
        },
    ),
    ("launcher", "MPI_LAUNCHER_WAITING", launcher("", "Pending")),
    (
        "ssh",
        "MPI_LAUNCHER_WAITING",
        launcher("ssh: connect to host nccl-worker-0.nccl port 22: Connection refused\n", "Running"),
    ),
    (
        "evicted, told by an event",
        "EVICTED_DISK",
        {
            "pods": [a_pod(phase="Failed")],
            "events": [an_event("Evicted", "The node was low on resource: ephemeral-storage. ")],
        },
    ),
    ("early launcher", "MPI_LAUNCHER_WAITING", launcher("", "Running")),
    (
        "shared memory",
        "SHM_TOO_SMALL",
        ended("RuntimeError: unable to open shared memory object </torch_1> in mode rw\n"),
    ),
    ("cgroup", "OOM_CHILD_KILLED", {"logs": "Memory cgroup out of memory: Killed process 81 (python3)"}),
    (
        "killed",
        "KILLED_SIGKILL",
        {
            "pods": [
                a_pod(
                    node="n1",
                    phase="Failed",
                    containerStatuses=[a_container(terminated={"exitCode": 137, "reason": "Error"})],
                )
            ]
        },
    ),
    (
        "killed by a probe",
        "PROBE_FAILED",
        {
            "pods": [
                a_pod(
                    node="n1",
                    phase="Running",
                    containerStatuses=[a_container(4, waiting=LOOP, last={"exitCode": 137, "reason": "Error"})],
                )
            ],
            "events": [an_event("Unhealthy", "Liveness probe failed: connection refused")],
        },
    ),
    (
        "deadline of a RayJob",
        "JOB_DEADLINE",
        {
            "job": {
                "kind": "RayJob",
                "metadata": {"name": "llama"},
                "status": {
                    "jobDeploymentStatus": "Failed",
                    "reason": "DeadlineExceeded",
                    "message": "The RayJob has passed the activeDeadlineSeconds. ActiveDeadlineSeconds: 600",
                },
            }
        },
    ),
]
