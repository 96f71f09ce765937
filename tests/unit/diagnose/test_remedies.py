"""Causes that were missed or taken for others: their code, their words, their remedy."""

from __future__ import annotations

import json

import pytest

from actions.cluster.diagnose.codes import Severity
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.parse_input import parse_evidence
from actions.cluster.diagnose.select import ObjectSelector, select_evidence
from tests.unit.diagnose.samples import Document, a_container, a_node, a_pod, an_event, why
from tests.unit.diagnose.troubles import workload

GPUS = {"nvidia.com/gpu": "8"}
SHORT = (
    "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are available: 2 No victims found."
)


def waiting(message: str, *further: Document) -> Document:
    """Return a pod that the scheduler refuses, and other objects."""
    container = {"name": "pytorch", "resources": {"requests": GPUS, "limits": GPUS}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "ml"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    return {"items": [pod, *further]}


def ended(exit_code: int, *conditions: Document, log: str = "") -> Document:
    """Return a pod whose container has ended."""
    state = {"terminated": {"exitCode": exit_code, "reason": "Error"}}
    status = {
        "phase": "Failed",
        "conditions": list(conditions),
        "containerStatuses": [{"name": "pytorch", "ready": False, "restartCount": 0, "state": state}],
    }
    pod = {"kind": "Pod", "metadata": {"name": "train-0", "namespace": "ml"}, "spec": {}, "status": status}
    return {"pods": [pod], "logs": {"train-0": log}} if log else {"pods": [pod]}


def claim(reason: str, message: str) -> Document:
    condition = {"type": "Launched", "status": "Unknown", "reason": reason, "message": message}
    return {"kind": "NodeClaim", "metadata": {"name": "gpu-x"}, "spec": {}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("reasons", "step"),
    [
        ("2 node(s) exceed max volume count", "Add nodes, or use fewer EBS volumes"),
        ('waiting for resource claim to be created: resourceclaim "gpus" not found', "Make the ResourceClaim"),
        ("2 node(s) were unschedulable", "Uncordon them"),
        ("2 node(s) didn't match pod anti-affinity rules", "Add nodes where the pod may be"),
        ("2 node(s) have something that nobody has heard of", "Compare the pod's node selector"),
    ],
)
def test_no_reason_of_the_scheduler_is_nothing_and_each_has_its_remedy(reasons: str, step: str) -> None:
    (found,) = why(waiting(f"0/2 nodes are available: {reasons}. preemption: 0/2 nodes are available."))
    assert found.code.value == "NODEPOOL_MISMATCH"
    assert reasons in found.headline
    assert found.next_step.startswith(step)


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        ("Unauthorized", "User is not authorized to perform this operation", "NODE_NOT_JOINING"),
        ("InstanceProfileNameInvalid", "Instance profile name does not exist", "NODE_NOT_JOINING"),
        ("VCPULimitExceeded", "An instance was requested that would exceed your VCPU quota", "AWS_QUOTA"),
        (
            "SpotQuotaExceeded",
            "A spot launch was requested but this would exceed your spot instance quota",
            "AWS_QUOTA",
        ),
    ],
)
def test_what_karpenter_could_not_launch_is_the_cause_of_a_shortage(reason: str, message: str, code: str) -> None:
    (found,) = why(waiting(SHORT, claim(reason, message)))
    assert found.code.value == code
    assert message in found.evidence


def test_a_node_group_at_its_greatest_size_is_said_to_be() -> None:
    event = {
        "kind": "Event",
        "reason": "NotTriggerScaleUp",
        "message": "pod didn't trigger scale-up: 1 max node group size reached",
        "involvedObject": {"kind": "Pod", "name": "train-0", "namespace": "ml"},
    }
    (short,) = why(waiting(SHORT, event))
    assert short.headline.endswith("their node group has reached its greatest size")
    processors = why(waiting("0/2 nodes are available: 2 Insufficient cpu.", event))
    assert [one.code.value for one in processors][:1] == ["NODEPOOL_LIMIT"]
    assert processors[0].next_step == short.next_step


@pytest.mark.parametrize(
    ("limits", "used", "code", "said"),
    [
        ({"cpu": "2"}, {"cpu": "0"}, "NODEPOOL_LIMIT", 'NodePool "limited" has reached its resource limit (cpu 2,'),
        ({"cpu": "8"}, {"cpu": "6500m"}, "NODEPOOL_LIMIT", "(cpu 8, of which 6500m is in use): no node"),
        ({"cpu": "8"}, {"cpu": "5"}, "NODEPOOL_MISMATCH", 'No instance type in NodePool "limited" fits train-0'),
        ({"cpu": "many"}, {}, "NODEPOOL_MISMATCH", "No instance type in NodePool"),
        ({}, {}, "NODEPOOL_MISMATCH", "No instance type in NodePool"),
    ],
)  # fmt: skip
def test_a_limit_of_a_pool_of_which_karpenter_says_nothing(
    limits: Document, used: Document, code: str, said: str
) -> None:
    told = (
        "Failed to schedule pod, no instance type has enough resources, requirements=karpenter.sh/capacity-type In"
        " [on-demand], karpenter.sh/nodepool In [limited], made In [limited], "
        'resources={"cpu":"3","pods":"2"}'
    )
    event = {
        "kind": "Event",
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": told,
        "involvedObject": {"kind": "Pod", "name": "train-0", "namespace": "ml"},
    }
    pool = {
        "kind": "NodePool",
        "metadata": {"name": "limited"},
        "spec": {"limits": limits},
        "status": {"resources": used, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    (found,) = why(
        waiting("0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.", event, pool)
    )
    assert found.code.value == code
    assert said in found.headline
    assert told in found.evidence


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [
        ("PreemptionByScheduler", "KILLED_SIGKILL", "preempted it for a pod of a higher priority"),
        ("EvictionByEvictionAPI", "KILLED_SIGKILL", "it was evicted"),
        ("DeletionByPodGC", "NODE_LOST", "its node is gone"),
    ],
)
@pytest.mark.parametrize("exit_code", [137, 143])
def test_a_pod_that_was_ended_from_outside_says_by_what(reason: str, code: str, words: str, exit_code: int) -> None:
    (found,) = why(ended(exit_code, {"type": "DisruptionTarget", "status": "True", "reason": reason}))
    assert found.code.value == code
    assert words in found.headline


@pytest.mark.parametrize("reason", ["ImageInspectError", "SomethingNew"])
def test_a_container_that_cannot_start_for_whatever_reason_is_not_fine(reason: str) -> None:
    state = {"waiting": {"reason": reason, "message": "because of this"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "ml"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "pytorch", "state": state}]},
    }
    assert [one.headline for one in why({"pods": [pod]})] == ["pytorch of train-0 cannot be started: because of this"]


NOT_STARTED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed:"
    ' unable to start container process: error mounting "/var/lib/kubelet/pods/d890c0d8/etc-hosts" to rootfs at'
    ' "/etc/hosts":'
    " stat /var/lib/kubelet/pods/d890c0d8/etc-hosts: no such file or directory: unknown"
)
"""As containerd 1.6.20 said it of a node whose kubelet had lost its folder."""


def not_started(state: Document, restarts: int = 2) -> Document:
    """Return a pod whose container could not be started, with what another start has printed since."""
    last = {"terminated": {"exitCode": 128, "reason": "StartError", "message": NOT_STARTED}}
    status = {"name": "pytorch", "ready": False, "restartCount": restarts, "lastState": last, "state": state}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "ml"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }
    return {"pods": [pod], "logs": {"train-0": "INFO  healthz check failed"}}


def test_a_container_that_was_never_started_is_explained_by_its_runtime_and_by_no_log() -> None:
    (found,) = why(not_started({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}))
    assert found.code.value == "CRASH_LOOP"
    assert "etc-hosts: no such file or directory" in found.headline
    assert "no log" in found.next_step


def test_one_start_that_failed_is_no_crash_loop() -> None:
    (found,) = why(not_started({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, restarts=1))
    assert (found.code.value, found.severity) == ("NOT_READY", Severity.WARNING)
    assert found.headline.startswith("pytorch of train-0 fails at once with exit code 128, 1 restart: failed to create")


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
def test_a_job_of_volcano_that_was_asked_to_stop_has_not_failed(phase: str) -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "sim", "namespace": "ml", "creationTimestamp": "2026-11-21T20:00:00Z"},
        "status": {"state": {"phase": phase, "reason": "", "message": ""}},
    }
    assert why({"items": [job]}) == []
    job["status"] = {"state": {"phase": "Failed", "message": "a task failed"}}
    assert [one.code.value for one in why({"items": [job]})] == ["JOB_FAILED"]


ECHO = "[rank0]: RuntimeError: gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:33000\n"
KILLED_RANK = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 0)
  exitcode  : -9 (pid: 35)
  traceback : Signal 9 (SIGKILL) received by PID 35
"""


@pytest.mark.parametrize("is_running", [False, True])
def test_a_rank_that_was_killed_in_another_pod_is_the_cause_and_not_a_peer(is_running: bool) -> None:
    last = {"exitCode": 1, "reason": "Error"}
    echo = a_pod("w-0", phase="Failed", containerStatuses=[a_container(terminated=last)])
    again = a_container(1, ready=True, last=last, running={})
    killed = a_pod("w-1", phase="Running" if is_running else "Failed", containerStatuses=[a_container(terminated=last)])
    if is_running:
        killed["status"]["containerStatuses"] = [again]
    found = why({"pods": [echo, killed], "logs": {"w-0": ECHO, "w-1": KILLED_RANK}})
    assert [one.code.value for one in found] == ["KILLED_SIGKILL"]
    assert "rank 1 was killed (SIGKILL)" in found[0].headline
    assert "w-1" in found[0].headline
    assert [one.code.value for one in why({"pods": [echo], "logs": {"w-0": ECHO}})][:1] == ["NCCL_PEER_DIED"]


@pytest.mark.parametrize(
    ("labels", "code", "words"),
    [
        ({"node-health-status": "Schedulable", "deep-health-check-status": "Passed"}, "", ""),
        (
            {"node-health-status": "Unschedulable", "deep-health-check-status": "InProgress"},
            "WAITING_FOR_NODE",
            "two hours",
        ),
        ({"node-health-status": "UnschedulablePendingReplacement"}, "NODE_LOST", "replaces or reboots"),
        ({"deep-health-check-status": "Failed", "fault-types": "NvidiaXid"}, "NODE_LOST", "list-cluster-nodes"),
    ],
)
def test_what_the_health_checks_of_hyperpod_have_against_a_node(labels: dict[str, str], code: str, words: str) -> None:
    node = a_node("n1", "ml.p5.48xlarge")
    node["metadata"]["labels"] |= {f"sagemaker.amazonaws.com/{name}": value for name, value in labels.items()}
    evidence, _ = parse_evidence(json.dumps({"items": [node]}).encode())
    found = diagnose(select_evidence(evidence, ObjectSelector("Node", "n1")))
    assert [one.code.value for one in found] == ([code] if code else [])
    if found:
        assert words in found[0].next_step
        assert all(any(value in quote for quote in found[0].evidence) for value in labels.values())


def test_a_start_that_failed_is_over_once_the_container_runs() -> None:
    assert "CRASH_LOOP" not in {one.code.value for one in why(not_started({"running": {}}))}


@pytest.mark.parametrize(
    ("log", "code", "words"),
    [
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
            "GPU_RUNTIME",
            "too old for the CUDA",
        ),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "GPU_RUNTIME", "too old"),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "GPU_RUNTIME",
            "not built for this type of GPU",
        ),
        ('RuntimeError: nrt_tensor_allocate status=4 message="Allocation Failure"', "GPU_OOM", "A Neuron device"),
    ],
)
def test_a_driver_or_a_device_is_not_blamed_for_something_else(log: str, code: str, words: str) -> None:
    found = why(ended(1, log=log))
    assert found[0].code.value == code
    assert words in found[0].headline


VIOLATIONS = (
    'host namespaces (hostNetwork=true), privileged (container "a" must not set securityContext.privileged=true),'
    ' unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]),'
    ' runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true),'
    ' seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault")'
)


@pytest.mark.parametrize(
    ("refusal", "words", "step"),
    [
        (
            'Internal error occurred: failed calling webhook "gone.example.com": failed to call webhook: Post'
            ' "https://gone.default.svc:443/x?timeout=10s": service "gone" not found',
            "the admission webhook gone.example.com does not answer",
            "Bring its service up",
        ),
        (
            f'pods "train-6cbkd" is forbidden: violates PodSecurity "restricted:latest": {VIOLATIONS}',
            "Pod Security restricted of the namespace forbids host namespaces, privileged, unrestricted capabilities"
            " and 2 more",
            "Take these out of the pod template",
        ),
        (
            'admission webhook "policy.example.com" denied the request: no team label',
            'admission webhook "policy.example.com" denied the request: no team label',
            "Correct the pod template",
        ),
        (
            'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 64Gi',
            "A LimitRange of the namespace forbids the pod: maximum memory usage per Container is 1Gi, but limit is",
            "Keep within the limits",
        ),
        (
            'pods "x" is forbidden: failed quota: compute: must specify limits.cpu for: main; limits.memory for: main',
            "The ResourceQuota compute takes only pods that state limits.cpu for: main",
            "State these in the pod template",
        ),
        (
            'pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used:'
            " requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=2",
            "asks for requests.nvidia.com/gpu=8, 0 of 2 are in use",
            "Raise the quota of the namespace, or ask for less: one pod is more than all of it.",
        ),
        (
            'pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used:'
            " requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "8 of 8 are in use",
            "Raise the quota of the namespace, end other work in it, or ask for less.",
        ),
    ],
)
@pytest.mark.parametrize("owner", [("Job", "train"), ("ReplicaSet", "train-7d7f96fdbb")])
def test_a_refused_pod_has_the_remedy_of_what_refuses_it(
    refusal: str, words: str, step: str, owner: tuple[str, str]
) -> None:
    kind, name = owner
    event = an_event("FailedCreate", f"Error creating: {refusal}", name, kind=kind)
    above = an_event("ScalingReplicaSet", "Scaled up replica set train-7d7f96fdbb to 1", "train", kind="Deployment")
    evidence, _ = parse_evidence(json.dumps({"events": [event, above]}).encode())
    subject = ObjectSelector("Deployment" if kind == "ReplicaSet" else kind, "train", "ml")
    (found,) = diagnose(select_evidence(evidence, subject))
    assert words in found.headline
    assert found.next_step.startswith(step)
    assert len(found.headline) < 200


@pytest.mark.parametrize(
    ("error", "step"),
    [
        ("An error occurred (403) when calling the HeadObject operation: Forbidden", "Give the role of the pod"),
        (
            "An error occurred (AccessDenied) when calling the AssumeRoleWithWebIdentity operation: Not authorized",
            "Check eks.amazonaws.com/role-arn",
        ),
        (
            "An error occurred (ExpiredToken) when calling GetObject: The provided token has expired.",
            "Let the pod take",
        ),
        (
            "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
            "Give the pod's service account a role",
        ),
        (
            "HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://example.test/x",
            "Wait and start it again",
        ),
        ("OSError: [Errno -3] Temporary failure in name resolution", "Check that the pod reaches that host"),
        ("ModuleNotFoundError: No module named 'flash_attn'", "Install the module in the image"),
        (
            "ImportError: libstdc++.so.6: version `GLIBCXX_3.4.32' not found",
            "Use packages that were built for this image",
        ),
        ("OSError: [Errno 116] Stale file handle: '/fsx/data/x'", "See whether the file system was away"),
        ("PermissionError: [Errno 13] Permission denied: '/fsx/checkpoints'", "Let the pod's user write there"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/fsx/x'", "Correct the path"),
        (
            "RuntimeError: Error(s) in loading state_dict for GPT: size mismatch for emb.weight",
            "Load it with the parameters",
        ),
        (
            "AssertionError: world size (16) is not divisible by total_model_size",
            "Make parallel and batch sizes divide",
        ),
        ("The server socket has failed to listen. port: 29500, name: EADDRINUSE", "Start one torchrun in each pod"),
        (
            "RuntimeError: unable to open shared memory object: Too many open files (24)",
            "Raise the limit of open files",
        ),
        ("RuntimeError: neuronx-cc failed with 70", "Read the compiler's messages"),
        ("MemoryError: Unable to allocate 64.0 GiB for an array", "Raise limits.memory of the pod"),
        ("KeyError: 'hidden_size'", "Read the end of its log"),
        ("RuntimeError: can't start new thread", "Start fewer processes and threads"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "Start fewer processes and threads"),
        ("AssertionError: Torch not compiled with CUDA enabled", "Use an image whose PyTorch is built with CUDA"),
        (
            "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "Give the pod WANDB_API_KEY",
        ),
        ("ClientError: An error occurred (RequestTimeTooSkewed) when calling PutObject", "Correct the clock"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "Check that the pod reaches"),
    ],
)
def test_an_error_of_a_known_family_has_its_remedy(error: str, step: str) -> None:
    (found,) = why(ended(1, log=f"Traceback (most recent call last):\n{error}\n"))
    assert found.code.value == "JOB_FAILED"
    assert found.next_step.startswith(step)


def test_a_loss_that_is_none_is_quoted_with_its_own_line_where_its_step_is_on_the_bar_below() -> None:
    losses = ("2.31", "nan", "nan", "nan")
    lines = [
        f"{{'loss': '{loss}', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.{step}'}}\n"
        f" {step}0%|#   | {step}/10 [00:0{step}<00:09,  1.00it/s]\n"
        for step, loss in enumerate(losses, 1)
    ]
    (found,) = why({"logs": {"train-0": "  0%|    | 0/10 [00:00<?, ?it/s]\n" + "".join(lines)}})
    assert found.code.value == "LOSS_DIVERGED"
    assert [quote.partition(",")[0] for quote in found.evidence] == ["{'loss': '2.31'", "{'loss': 'nan'"]


def test_a_loss_that_is_none_is_quoted_with_its_row_of_a_table() -> None:
    rows = [f"{step}\t{loss}" for step, loss in ((290, "1.7100"), *((each, "nan") for each in range(300, 600, 10)))]
    log = "\n".join(["across all possible ranks", "Step\tTraining Loss", *rows])
    (found,) = why({"logs": {"train-0": log}})
    assert (found.code.value, found.evidence) == ("LOSS_DIVERGED", (rows[0], rows[-1]))


def test_a_loss_that_is_none_is_quoted_with_its_line_where_others_stand_before_its_step() -> None:
    lines = [
        f"{{'loss': '{loss}', 'epoch': '0.{step}'}}\nIt is possible across\n"
        f" {step}0%|#   | {step}/10 [00:0{step}<00:09,  1.00it/s]\n"
        for step, loss in enumerate(("2.31", "nan", "nan", "nan"), 1)
    ]
    (found,) = why({"logs": {"train-0": "  0%|    | 0/10 [00:00<?, ?it/s]\n" + "".join(lines)}})
    assert [quote.partition(",")[0] for quote in found.evidence] == ["{'loss': '2.31'", "{'loss': 'nan'"]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("insufficient unused quota for cpu in flavor small, 1 more needed", "until quota is free"),
        (
            "insufficient quota for cpu in flavor small, previously considered podsets requests (0) + current podset"
            " request (4) > maximum capacity (1)",
            "which can never hold it",
        ),
        ("resource nvidia.com/gpu unavailable in ClusterQueue", "which has no quota of a resource"),
    ],
)
def test_a_job_that_a_queue_can_never_hold_is_not_told_to_wait(message: str, words: str) -> None:
    (found,) = why(workload("Pending", f"couldn't assign flavors to pod set main: {message}"))
    assert words in found.headline


def test_a_namespace_that_a_queue_does_not_take_is_not_told_to_wait() -> None:
    (found,) = why(workload("Pending", "Workload namespace doesn't match ClusterQueue selector"))
    assert "whose ClusterQueue does not take this namespace" in found.headline


def test_a_node_whose_kubelet_never_reported_has_not_been_lost() -> None:
    silent = {"status": "Unknown", "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
    (found,) = why({"nodes": [a_node("n1", "m5.large", None, **silent)]})
    assert "has never answered" in found.headline


def test_a_gang_that_is_placed_explains_no_pod_that_waits() -> None:
    message = "0/3 tasks in gang unschedulable: pod group is ready, 3 Running, 3 minAvailable"
    event = an_event("Unschedulable", message, "ray-pg", kind="PodGroup")
    found = why(waiting(SHORT, event))
    assert not any("pod group is ready" in quote for one in found for quote in one.evidence)
