"""Documents of troubles, in the words of those who report them."""

from __future__ import annotations

from tests.unit.diagnose.samples import Document, a_container, a_pod, an_event, unschedulable

Case = tuple[str, str, Document]
"""The topic, its code, and what is known."""

FLEET = "NodeClaim gpu-x event: creating instance, insufficient capacity, with fleet error(s), "
CRASHED = {"exitCode": 1, "reason": "Error"}
LOOP = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=main pod=train-0"}
GANG = "3/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; Pending: 4 Unschedulable"


def waiting(reason: str, message: str) -> Document:
    """A pod whose container waits."""
    return a_pod(node="n1", containerStatuses=[a_container(waiting={"reason": reason, "message": message})])


def ended(log: str, code: int = 1, reason: str = "Error") -> Document:
    """A pod whose container has ended with this log."""
    status = a_container(terminated={"exitCode": code, "reason": reason})
    return {"pods": [a_pod(phase="Failed", node="n1", containerStatuses=[status])], "logs": log}


def fleet(message: str) -> Document:
    """EC2's answer when a node was asked for."""
    event = an_event("InsufficientCapacityError", FLEET + message, "gpu-x", kind="NodeClaim")
    return {"pods": [unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")], "events": [event]}


def refused(message: str, **more: object) -> Document:
    """A pod that the scheduler refuses."""
    return {"pods": [unschedulable(message)], "events": [an_event("FailedScheduling", message)], **more}


def pull(message: str) -> Document:
    """A pod whose image cannot be pulled."""
    return {"pods": [waiting("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {message}')]}


def workload(reason: str, message: str) -> Document:
    """Kueue's view of a job."""
    condition = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {"workload": {"metadata": {"name": "job-train-1"}, "spec": {}, "status": {"conditions": [condition]}}}


def claim(**registered: str) -> Document:
    """A NodeClaim that was launched."""
    conditions = [
        {"type": "Launched", "status": "True", "reason": "Launched"},
        {"type": "Registered", "status": "Unknown", **registered},
    ]
    return {"nodeclaim": {"metadata": {"name": "gpu-x"}, "status": {"conditions": conditions}}}


def launcher(log: str, worker: str) -> Document:
    """An MPI launcher that crashes, with one worker."""
    launcher = a_pod(
        "nccl-launcher-x7",
        phase="Running",
        node="n0",
        containerStatuses=[a_container(2, waiting=LOOP, last={"exitCode": 255, "reason": "Error"})],
    )
    return {"pods": [launcher, a_pod("nccl-worker-0", phase=worker)], "logs": log}


def gpus(util: int, power: int, age: int) -> Document:
    """A running pod with two GPUs and a log of this age in seconds."""
    gpu = {"index": 0, "util_pct": util, "power_w": power, "power_cap_w": 700}
    return {"pods": [a_pod(phase="Running", node="n1")], "gpus": [gpu, gpu], "last_log_age_s": age}
