"""Troubles of which no sample is kept: one case for every code of the vocabulary, and more wordings."""

from __future__ import annotations

import pytest

from actions.cluster.diagnose.vocabulary import Code, severity_of
from tests.unit.diagnose.samples import (
    Document,
    a_container,
    a_node,
    a_pod,
    an_event,
    codes,
    is_quoted,
    unschedulable,
    why,
)

_FLEET = "NodeClaim gpu-x event: creating instance, insufficient capacity, with fleet error(s), "
_CRASHED = {"exitCode": 1, "reason": "Error"}
_LOOP = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=main pod=train-0"}
_GANG = "3/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; Pending: 4 Unschedulable"


def _waiting(reason: str, message: str) -> Document:
    return a_pod(node="n1", containerStatuses=[a_container(waiting={"reason": reason, "message": message})])


def _ended(log: str, code: int = 1, reason: str = "Error") -> Document:
    status = a_container(terminated={"exitCode": code, "reason": reason})
    return {"pods": [a_pod(phase="Failed", node="n1", containerStatuses=[status])], "logs": log}


def _fleet(message: str) -> Document:
    event = an_event("InsufficientCapacityError", _FLEET + message, "gpu-x", kind="NodeClaim")
    return {"pods": [unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")], "events": [event]}


def _refused(message: str, **more: object) -> Document:
    return {"pods": [unschedulable(message)], "events": [an_event("FailedScheduling", message)], **more}


def _image(message: str) -> Document:
    return {"pods": [_waiting("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {message}')]}


def _workload(reason: str, message: str) -> Document:
    condition = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {"workload": {"metadata": {"name": "job-train-1"}, "spec": {}, "status": {"conditions": [condition]}}}


def _claim(**registered: str) -> Document:
    conditions = [
        {"type": "Launched", "status": "True", "reason": "Launched"},
        {"type": "Registered", "status": "Unknown", **registered},
    ]
    return {"nodeclaim": {"metadata": {"name": "gpu-x"}, "status": {"conditions": conditions}}}


def _launcher(log: str, worker: str) -> Document:
    launcher = a_pod(
        "nccl-launcher-x7",
        phase="Running",
        node="n0",
        containerStatuses=[a_container(2, waiting=_LOOP, last={"exitCode": 255, "reason": "Error"})],
    )
    return {"pods": [launcher, a_pod("nccl-worker-0", phase=worker)], "logs": log}


def _gpus(util: int, power: int, age: int) -> Document:
    gpu = {"index": 0, "util_pct": util, "power_w": power, "power_cap_w": 700}
    return {"pods": [a_pod(phase="Running", node="n1")], "gpus": [gpu, gpu], "last_log_age_s": age}


CASES: list[tuple[str, str, Document]] = [
    (
        "quota on demand",
        "AWS_QUOTA",
        _fleet("VcpuLimitExceeded: more than your current vCPU limit of 64"),
    ),
    ("quota of fleets", "AWS_QUOTA", _fleet("MaxFleetCountExceeded: too many fleets")),
    ("capacity", "CAPACITY", _fleet("InsufficientInstanceCapacity: We currently do not have sufficient p5 capacity")),
    ("full reservation", "RESERVATION_FULL", _fleet("ReservationCapacityExceeded: exceeds the available capacity")),
    ("full subnet", "SUBNET_FULL", _fleet("InsufficientFreeAddressesInSubnet: not enough free addresses")),
    (
        "wrong zone",
        "WRONG_ZONE",
        _fleet(
            "Unsupported: Your instance type (p5.48xlarge) is not supported in your requested Availability Zone"
            " (us-west-2b)."
        ),
    ),
    ("secret", "CONFIG_MISSING", {"pods": [_waiting("CreateContainerConfigError", 'secret "hf-token" not found')]}),
    (
        "key",
        "CONFIG_MISSING",
        {"pods": [_waiting("CreateContainerConfigError", "couldn't find key HF_TOKEN in Secret ml/hf")]},
    ),
    (
        "mounted map",
        "CONFIG_MISSING",
        {"events": [an_event("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "cfg" not found')]},
    ),
    (
        "start error",
        "CRASH_LOOP",
        {"pods": [_waiting("RunContainerError", 'exec: "trian.sh": executable file not found in $PATH')]},
    ),
    (
        "crash without log",
        "CRASH_LOOP",
        {"pods": [a_pod(node="n1", containerStatuses=[a_container(5, waiting=_LOOP, last=_CRASHED)])]},
    ),
    ("locked memory", "EFA_MEMORY", {"logs": "libfabric:efa:mr: Unable to register MR: Cannot allocate memory"}),
    (
        "no rdma",
        "EFA_MEMORY",
        {"logs": "FI_EFA_USE_DEVICE_RDMA=1 was set, but EFA device has no rdma-read capability."},
    ),
    ("hugepages", "EFA_MEMORY", _refused("0/2 nodes are available: 2 Insufficient hugepages-2Mi.")),
    ("sockets", "EFA_NOT_USED", {"logs": "train-0:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"}),
    (
        "no plugin",
        "EFA_NOT_USED",
        {"logs": "NCCL INFO NET/OFI No eligible providers were found\nNCCL INFO Using network Socket"},
    ),
    ("no adapter free", "EFA_SHORTAGE", _refused("0/2 nodes are available: 2 Insufficient vpc.amazonaws.com/efa.")),
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
    ("gang", "GANG_WAITING", _refused(_GANG)),
    ("siblings", "GANG_WAITING", _refused("cannot find enough sibling pods, current 3, minMember of group: 4")),
    ("xid 95", "GPU_ECC", {"logs": "NVRM: Xid (PCI:0000:53:00): 95, pid=1, name=python, Uncontained"}),
    ("xid 92", "GPU_ECC_CONTAINED", {"logs": "NVRM: Xid (PCI:0000:92:00): 92, high single-bit error rate"}),
    ("xid 120", "GPU_GSP", {"logs": "NVRM: Xid (PCI:0000:13:00): 120, GSP task exception"}),
    ("lost", "GPU_LOST", {"logs": "Unable to determine the device handle for GPU 0000:5E:00.0: GPU is lost."}),
    ("xid 151", "GPU_REBOOT", {"logs": "[1.0] NVRM: Xid (PCI:0000:79:00): 151, key rotation error"}),
    ("nvswitch", "NVLINK", {"logs": "nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"}),
    ("xid 13 event", "GPU_APP_FAULT", {"events": [an_event("NvidiaXID13Warning", "NvidiaXID13", "n1", kind="Node")]}),
    (
        "cuda oom",
        "GPU_OOM",
        _ended(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
            " 79.15 GiB of which 1.12 GiB is free.\n"
        ),
    ),
    (
        "nvml",
        "GPU_RUNTIME",
        {"events": [an_event("Failed", "Error: nvidia-container-cli: initialization error: nvml error: not loaded")]},
    ),
    ("no driver", "GPU_RUNTIME", _ended("RuntimeError: Found no NVIDIA driver on your system.\n")),
    ("no gpu free", "GPU_SHORTAGE", _refused("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")),
    ("no neuron free", "GPU_SHORTAGE", _refused("0/8 nodes are available: 8 Insufficient aws.amazon.com/neuron.")),
    (
        "gated 403",
        "HF_GATED",
        _ended("403 Client Error: Forbidden for url: https://huggingface.co/meta-llama/L/resolve/x"),
    ),
    ("no right", "IMAGE_AUTH", _image("failed to authorize: unexpected status: 401 Unauthorized")),
    ("ecr", "IMAGE_AUTH", _image("pull access denied, no basic auth credentials")),
    ("no tag", "IMAGE_NOT_FOUND", _image('failed to resolve reference "x:1": x:1: not found')),
    ("no repository", "IMAGE_NOT_FOUND", _image("name unknown: The repository with name 'x' does not exist")),
    ("bad name", "IMAGE_NOT_FOUND", {"pods": [_waiting("InvalidImageName", "couldn't parse image name: invalid")]}),
    (
        "pulling",
        "IMAGE_PULLING",
        {
            "pods": [_waiting("ContainerCreating", "")],
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
    ("hang", "LIKELY_HANG", _gpus(100, 118, 2400)),
    ("launcher", "MPI_LAUNCHER_WAITING", _launcher("", "Pending")),
    (
        "ssh",
        "MPI_LAUNCHER_WAITING",
        _launcher("ssh: connect to host nccl-worker-0.nccl port 22: Connection refused\n", "Running"),
    ),
    (
        "quota of the namespace",
        "NAMESPACE_QUOTA",
        {
            "events": [
                an_event(
                    "FailedCreate",
                    'Error creating: pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8,'
                    " used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
                    "train",
                    kind="Job",
                )
            ]
        },
    ),
    (
        "one gpu twice",
        "NCCL_DUPLICATE_GPU",
        _ended("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60"),
    ),
    ("peer", "NCCL_PEER_DIED", _ended("NCCL WARN socketProgress: Connection closed by remote peer w-1<1>\n", 134)),
    (
        "late timeout",
        "NCCL_TIMEOUT",
        _ended(
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9812, OpType=ALLREDUCE,"
            " Timeout(ms)=1800000) ran for 1800022 milliseconds before timing out.\n"
        ),
    ),
    ("neuron collective", "NEURON_COLLECTIVE_HANG", {"logs": "nrt_execute failed: NRT_EXEC_HW_ERR_COLLECTIVES (1200)"}),
    (
        "neuron timeout",
        "NEURON_COLLECTIVE_HANG",
        {"logs": "(FATAL-RT-UNDEFINED-STATE) inference timeout (600000 ms) on Neuron Device 4 NC 1, waiting"},
    ),
    ("fork", "EFA_MEMORY", _ended("    pid = os.fork()\nOSError: [Errno 12] Cannot allocate memory\n")),
    ("errors of a reading", "GPU_ECC", {"gpus": [{"util_pct": 3, "ecc_uncorrected": 2}, {"util_pct": 90}]}),
    (
        "evicted, told by an event",
        "EVICTED_DISK",
        {
            "pods": [a_pod(phase="Failed")],
            "events": [an_event("Evicted", "The node was low on resource: ephemeral-storage. ")],
        },
    ),
    (
        "unregistered resource",
        "DEVICE_PLUGIN_MISSING",
        {
            "nodeclaim": {
                "metadata": {"name": "gpu-x"},
                "status": {
                    "conditions": [
                        {"type": "Launched", "status": "True"},
                        {"type": "Registered", "status": "True"},
                        {
                            "type": "Initialized",
                            "status": "Unknown",
                            "reason": "ResourceNotRegistered",
                            "message": 'Resource "nvidia.com/gpu" was requested but not registered',
                        },
                    ]
                },
            }
        },
    ),
    (
        "taints that are not named",
        "TAINT",
        _refused("0/3 nodes are available: 3 node(s) had untolerated taint(s). preemption: 0/3 nodes are available."),
    ),
    ("queue of a pod", "QUEUE_WAITING", _refused("queue resource quota insufficient")),
    ("early launcher", "MPI_LAUNCHER_WAITING", _launcher("", "Running")),
    ("neuron hardware", "NEURON_HW", {"logs": "ERROR NRT: NRT_EXEC_HW_ERR_DMA_ABORT in nrt_execute()"}),
    ("neuron memory", "NEURON_HW", {"logs": "Uncorrectable memory error is detected on Neuron device: 5:1"}),
    ("neuron busy", "NEURON_CORES_BUSY", {"logs": "Logical Neuron Core(s) not available - Requested:8 Available:0"}),
    ("neuron driver", "NEURON_DRIVER", {"logs": "This runtime requires Neuron Driver version 2.0 or greater."}),
    ("neuron queue", "NEURON_NQ_OVERFLOW", {"logs": "status=NRT_EXEC_SW_NQ_OVERFLOW"}),
    ("not joined", "NODE_NOT_JOINING", _claim(reason="NodeNotFound", message="Node not registered with cluster")),
    (
        "lost node",
        "NODE_LOST",
        {
            "pods": [a_pod(phase="Running", node="n1")],
            "nodes": [a_node("n1", "p5.48xlarge", status="Unknown", message="Kubelet stopped posting node status.")],
        },
    ),
    (
        "full disk",
        "NODE_DISK_FULL",
        {"events": [an_event("NodeHasDiskPressure", "Node n1 status is now: NodeHasDiskPressure", "n1", kind="Node")]},
    ),
    (
        "limit, old wording",
        "NODEPOOL_LIMIT",
        _refused('Failed to schedule pod, all available instance types exceed limits for nodepool: "gpu"'),
    ),
    (
        "labels",
        "NODEPOOL_MISMATCH",
        _refused("0/6 nodes are available: 6 node(s) didn't match Pod's node selector."),
    ),
    (
        "pool taint",
        "TAINT",
        _refused("Failed to schedule pod, did not tolerate taint (taint=nvidia.com/gpu=true:NoSchedule)"),
    ),
    (
        "taint beside processors",
        "TAINT",
        _refused(
            "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint {nvidia.com/gpu}."
        ),
    ),
    (
        "another team's taint",
        "GPU_SHORTAGE",
        _refused("0/5 nodes are available: 1 node(s) had untolerated taint {team: b}, 4 Insufficient nvidia.com/gpu."),
    ),
    (
        "unreachable",
        "NODE_LOST",
        _refused("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }."),
    ),
    ("claim", "PVC_UNBOUND", _refused('0/2 nodes are available: persistentvolumeclaim "fsx" not found.')),
    (
        "queue of Kueue",
        "QUEUE_WAITING",
        _workload("Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu"),
    ),
    (
        "queue of Volcano",
        "QUEUE_WAITING",
        {
            "pods": [unschedulable(_GANG)],
            "events": [an_event("Unschedulable", "queue resource quota insufficient", "ray-x-pg", kind="PodGroup")],
        },
    ),
    (
        "clients",
        "RENDEZVOUS",
        _ended(
            "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 6/8 clients joined.\n"
        ),
    ),
    (
        "shared memory",
        "SHM_TOO_SMALL",
        _ended("RuntimeError: unable to open shared memory object </torch_1> in mode rw\n"),
    ),
    (
        "rebalance",
        "SPOT_INTERRUPTED",
        {"events": [an_event("SpotInterruption", "Spot ITN received.", "n1", kind="Node")]},
    ),
    (
        "scale-up",
        "WAITING_FOR_NODE",
        _refused("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
        | {"events": [an_event("TriggeredScaleUp", "pod triggered scale-up: [{g5 0->1 (max: 4)}]", type_="Normal")]},
    ),
    (
        "volume",
        "VOLUME_MOUNT",
        {"events": [an_event("FailedAttachVolume", 'Multi-Attach error for volume "pv-1" Volume is already used')]},
    ),
    (
        "driver of the volume",
        "VOLUME_MOUNT",
        {
            "events": [
                an_event(
                    "FailedMount",
                    'MountVolume.MountDevice failed for volume "pv" : driver name fsx.csi.aws.com not found in the'
                    " list of registered CSI drivers",
                )
            ]
        },
    ),
    (
        "no address",
        "NO_POD_IP",
        {"events": [an_event("FailedCreatePodSandBox", 'plugin type="aws-cni" failed (add): no free IP addresses')]},
    ),
    ("cgroup", "OOM_CHILD_KILLED", {"logs": "Memory cgroup out of memory: Killed process 81 (python3)"}),
    (
        "killed by a probe",
        "KILLED_SIGKILL",
        {
            "pods": [
                a_pod(
                    node="n1",
                    phase="Running",
                    containerStatuses=[a_container(4, waiting=_LOOP, last={"exitCode": 137, "reason": "Error"})],
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


@pytest.mark.parametrize(("code", "document"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_trouble_has_its_code_first(code: str, document: Document) -> None:
    found = why(document)
    assert [one.code.value for one in found][:1] == [code]
    assert found[0].severity is severity_of(Code(code))
    for one in found:
        assert one.evidence
        assert all(is_quoted(quote, document) for quote in one.evidence), one.evidence


def test_every_code_has_a_case_or_a_sample() -> None:
    kept = {"IMAGE_ARCH", "OOM_KILLED"}
    assert {case[1] for case in CASES} | kept == {code.value for code in Code}


@pytest.mark.parametrize(
    ("document", "forbidden"),
    [
        (_fleet("VcpuLimitExceeded: limit of 0"), {"CAPACITY", "GPU_SHORTAGE"}),
        (_gpus(100, 690, 2400), {"LIKELY_HANG"}),
        (_gpus(100, 118, 20), {"LIKELY_HANG"}),
        ({"logs": "NCCL INFO NET/OFI Selected Provider is efa\nNCCL INFO NET/Socket : Using eth0"}, {"EFA_NOT_USED"}),
        (_launcher("", "Pending"), {"CRASH_LOOP"}),
        ({"logs": "NVRM: Xid (PCI:0000:79:00): 31, pid=1"}, {"GPU_LOST"}),
    ],
)
def test_what_would_mislead_is_not_said(document: Document, forbidden: set[str]) -> None:
    assert not set(codes(document)) & forbidden


def test_a_case_that_is_fine_has_no_findings() -> None:
    pod = a_pod(phase="Running", node="n1", containerStatuses=[a_container(ready=True, running={})])
    old = an_event("FailedMount", 'MountVolume.SetUp failed for volume "x" : timed out')
    node = a_node("n1", "p5.48xlarge", {"nvidia.com/gpu": "8"})
    logs = "Epoch 0:  12%|█▏        | 12/100 [00:10<01:20, v_num=0, train_loss=2.31]\n"
    assert codes({"pods": [pod], "nodes": [node], "events": [old], "logs": logs}) == []
