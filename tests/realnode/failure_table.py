"""The table of failures: what is made on a real cluster, when it has failed, what `why` names."""

from __future__ import annotations

from tests.realnode.failing import (
    NODE,
    REGISTRY,
    TRAINER,
    Failure,
    asking,
    claim,
    container,
    delete,
    deployment,
    ended,
    failed,
    job,
    job_failed,
    kill,
    make,
    mounting,
    once,
    pod,
    probed,
    pulling,
    restarted,
    running,
    told,
    unschedulable,
    waits,
)

_MEMORY = {"limits": {"memory": "32Mi"}}
_PRINTED = "echo {!r}; exit 1"
_CUDA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
_PEER = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was"
    " a network error, NCCL version 2.21.5"
)
_GLOO = (
    "from datetime import timedelta; from torch.distributed import init_process_group as meet; "
    "meet('gloo', 'tcp://train-master-0:23456', timedelta(seconds=20), 2, 1)"
)
_MEETS_NOBODY = once(container(image=TRAINER, command=["python3", "-c", _GLOO]), name="impatient")
"""It gives up after 20 s, while `torchrun` beside it asks on."""
_ASKS_ON = once(
    container(
        image=TRAINER,
        command=[
            "torchrun",
            "--nnodes=2",
            "--node-rank=1",
            "--master-addr=train-master-0",
            "--master-port=23456",
            "t.py",
        ],
    )
)
_CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
PROGRAMS = (
    Failure(
        "oom",
        [once(container("busybox tail /dev/zero", resources=_MEMORY))],
        ended("OOMKilled"),
        "OOM_KILLED",
        ["OOMKilled"],
    ),
    Failure(
        "gpu-runtime",
        [once(container(_PRINTED.format("RuntimeError: No CUDA GPUs are available")))],
        ended("Error"),
        "GPU_RUNTIME",
        ["No CUDA GPUs are available"],
    ),
    Failure(
        "cuda-fault", [once(container(_PRINTED.format(_CUDA)))], ended("Error"), "GPU_APP_FAULT", ["illegal memory"]
    ),
    Failure(
        "peer-died", [once(container(_PRINTED.format(_PEER)))], ended("Error"), "NCCL_PEER_DIED", ["remote process"]
    ),
    Failure(
        "crash-loop",
        [pod(container("echo 'ValueError: no such preset'; exit 3"))],
        restarted(2),
        "CRASH_LOOP",
        ["exit code 3", "ValueError: no such preset"],
    ),
    Failure("exit-137", [once(container("exit 137"))], ended("Error"), "KILLED_SIGKILL", ["137"]),
    Failure(
        "segfault",
        [once(container("sh -c 'kill -SEGV $$$$'; exit $?"))],
        ended("Error"),
        "JOB_FAILED",
        ["139", "Segmentation fault"],
    ),
    Failure(
        "job-failed", [job(container("echo 'KeyError: 7'; exit 1"))], job_failed, "JOB_FAILED", ["KeyError: 7"], "job/j"
    ),
    Failure(
        "init",
        [pod(initContainers=[container("echo 'ConnectionError: no data'; exit 4", name="fetch")])],
        lambda seen: any(one.get("exitCode") == 4 for _, one in seen.states()),
        "CRASH_LOOP",
        ["fetch", "ConnectionError: no data"],
    ),
    Failure("no-program", [once(container(command=["nosuch"]))], ended("StartError"), "JOB_FAILED", ["nosuch"]),
    Failure(
        "wrong-format",
        [
            once(
                container(command=["/work/tool"], volumeMounts=[{"name": "work", "mountPath": "/work"}]),
                initContainers=[
                    container(
                        r"printf '\177ELF\2\1\1' > /work/tool; busybox chmod 755 /work/tool",
                        name="build",
                        volumeMounts=[{"name": "work", "mountPath": "/work"}],
                    )
                ],
                volumes=[{"name": "work", "emptyDir": {}}],
            )
        ],
        ended("Error"),
        "IMAGE_ARCH",
        ["exec format error"],
    ),
    Failure(
        "as-root",
        [pod(container(securityContext={"runAsNonRoot": True}))],
        waits("CreateContainerConfigError"),
        "CRASH_LOOP",
        ["runAsNonRoot"],
    ),
    Failure(
        "hook",
        [pod(container("sleep 600", lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo sad; exit 9"]}}}))],
        told("FailedPostStartHook"),
        "CRASH_LOOP",
        ["postStart hook fails", "FailedPostStartHook"],
    ),
    Failure(
        "deadline", [job(container("sleep 600"), activeDeadlineSeconds=3)], job_failed, "JOB_DEADLINE", ["3 s"], "job/j"
    ),
    Failure(
        "pod-deadline",
        [once(activeDeadlineSeconds=3)],
        failed("DeadlineExceeded"),
        "JOB_DEADLINE",
        ["DeadlineExceeded"],
    ),
)
PROBES = (
    Failure(
        "readiness",
        [probed("readiness", httpGet={"path": "/ready", "port": 8080})],
        told("Unhealthy", "Readiness probe failed", 3),
        "PROBE_FAILED",
        ["readiness probe (GET :8080/ready, every 1 s)", "connection refused"],
    ),
    Failure(
        "readiness-status",
        [probed("readiness", "busybox httpd -f -p 8080", httpGet={"path": "/nowhere", "port": 8080})],
        told("Unhealthy", "statuscode", 3),
        "PROBE_FAILED",
        ["statuscode: 404"],
    ),
    Failure(
        "readiness-exec",
        [probed("readiness", exec={"command": ["nosuch", "--now"]})],
        told("Unhealthy", "", 3),
        "PROBE_FAILED",
        ["nosuch --now", "executable file not found"],
    ),
    Failure(
        "readiness-slow",
        [probed("readiness", exec={"command": ["sh", "-c", "sleep 9"]})],
        told("Unhealthy", "", 3),
        "PROBE_FAILED",
        ["timed out"],
    ),
    Failure(
        "liveness",
        [probed("liveness", exec={"command": ["busybox", "cat", "/tmp/alive"]})],
        restarted(2),
        "PROBE_FAILED",
        ["liveness probe (busybox cat /tmp/alive, every 1 s)", "will be restarted"],
    ),
    Failure(
        "startup",
        [probed("startup", tcpSocket={"port": 8080})],
        restarted(1),
        "PROBE_FAILED",
        ["startup probe (TCP :8080, every 1 s)", "connection refused"],
    ),
)
IMAGES = (
    Failure(
        "image-absent", [pulling(f"{REGISTRY}/absent:1")], waits("ImagePullBackOff"), "IMAGE_NOT_FOUND", ["absent:1"]
    ),
    Failure("image-private", [pulling(f"{REGISTRY}/private:1")], waits("ImagePullBackOff"), "IMAGE_AUTH", ["401"]),
    Failure("image-forbidden", [pulling(f"{REGISTRY}/forbidden:1")], waits("ImagePullBackOff"), "IMAGE_AUTH", ["403"]),
    Failure(
        "image-limited", [pulling(f"{REGISTRY}/limited:1")], waits("ImagePullBackOff"), "REGISTRY_RATE_LIMIT", ["429"]
    ),
    Failure(
        "image-broken", [pulling(f"{REGISTRY}/broken:1")], waits("ImagePullBackOff"), "REGISTRY_UNAVAILABLE", ["503"]
    ),
    Failure(
        "image-arm", [pulling(f"{REGISTRY}/arm:1")], waits("ImagePullBackOff"), "IMAGE_ARCH", ["no match for platform"]
    ),
    Failure(
        "registry-away",
        [pulling("10.200.0.254:5999/x:1")],
        waits("ImagePullBackOff"),
        "REGISTRY_UNAVAILABLE",
        ["connection refused", "cannot be reached"],
    ),
    Failure(
        "registry-plain",
        [pulling("10.200.0.254:5001/x:1")],
        waits("ImagePullBackOff"),
        "REGISTRY_UNAVAILABLE",
        ["HTTP response to HTTPS client"],
    ),
    Failure(
        "registry-early",
        [pulling("10.200.0.254:5002/x:1")],
        waits("ImagePullBackOff"),
        "REGISTRY_UNAVAILABLE",
        ["not yet valid", "clock"],
    ),
    Failure(
        "registry-unknown",
        [pulling("registry.nowhere.invalid/x:1")],
        waits("ImagePullBackOff"),
        "REGISTRY_UNAVAILABLE",
        ["cannot resolve", "lookup registry.nowhere.invalid"],
    ),
    Failure("image-name", [pulling("UPPER/Case:1")], waits("InvalidImageName"), "IMAGE_NAME_INVALID", ["UPPER/Case:1"]),
    Failure(
        "image-never",
        [pulling("docker.io/library/nothing:1", imagePullPolicy="Never")],
        waits("ErrImageNeverPull"),
        "IMAGE_NOT_FOUND",
        ["docker.io/library/nothing:1"],
    ),
)
PLACES = (
    Failure("gpu-shortage", [asking(nvidia_com__gpu=64)], unschedulable, "GPU_SHORTAGE", ["nvidia.com/gpu"]),
    Failure(
        "efa-shortage", [asking(vpc_amazonaws_com__efa=64)], unschedulable, "EFA_SHORTAGE", ["vpc.amazonaws.com/efa"]
    ),
    Failure(
        "hugepages",
        [pod(container(resources={"limits": {"hugepages-2Mi": "5Gi", "memory": "1Gi", "cpu": "1"}}))],
        unschedulable,
        "EFA_MEMORY",
        ["hugepages-2Mi"],
    ),
    Failure(
        "selector", [pod(nodeSelector={"pool": "gone"})], unschedulable, "NODEPOOL_MISMATCH", ["node affinity/selector"]
    ),
    Failure(
        "out-of-cpu",
        [{**asking(cpu=500), "metadata": {"name": "p"}}],
        unschedulable,
        "NODEPOOL_MISMATCH",
        ["Insufficient cpu"],
    ),
    Failure(
        "claim-class", [claim("nowhere"), mounting(_CLAIM)], told("ProvisioningFailed"), "PVC_UNBOUND", ["nowhere"]
    ),
    Failure("claim-missing", [mounting(_CLAIM)], unschedulable, "PVC_UNBOUND", ['persistentvolumeclaim "c" not found']),
    Failure(
        "secret",
        [pod(container(envFrom=[{"secretRef": {"name": "token"}}]))],
        waits("CreateContainerConfigError"),
        "CONFIG_MISSING",
        ['secret "token" not found'],
    ),
    Failure(
        "config-key",
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}},
            pod(container(env=[{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "b"}}}])),
        ],
        waits("CreateContainerConfigError"),
        "CONFIG_MISSING",
        ["couldn't find key b"],
    ),
    Failure(
        "config-volume",
        [mounting({"configMap": {"name": "gone"}})],
        told("FailedMount"),
        "CONFIG_MISSING",
        ['configmap "gone" not found'],
    ),
    Failure(
        "mount",
        [mounting({"hostPath": {"path": "/nowhere/fsx", "type": "Directory"}})],
        told("FailedMount"),
        "VOLUME_MOUNT",
        ["hostPath type check failed"],
    ),
    Failure(
        "service-account",
        [job(template={"serviceAccountName": "gone"})],
        told("FailedCreate"),
        "CONFIG_MISSING",
        ['serviceaccount "gone" not found'],
        "job/j",
    ),
    Failure(
        "quota",
        [{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}],
        told("FailedCreate", "exceeded quota"),
        "NAMESPACE_QUOTA",
        ["exceeded quota: q"],
        "job/j",
        begins=(lambda seen: any(quota.get("status") for quota in seen.quotas), make(job())),
    ),
    Failure(
        "pod-security",
        [job()],
        told("FailedCreate", "PodSecurity"),
        "JOB_FAILED",
        ["Pod Security restricted"],
        "job/j",
        {"pod-security.kubernetes.io/enforce": "restricted"},
    ),
    Failure(
        "webhook",
        [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "failures"},
                "webhooks": [
                    {
                        "name": "pods.failures.test",
                        "clientConfig": {"service": {"name": "gone", "namespace": "f-webhook"}},
                        "rules": [
                            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                        ],
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "f-webhook"}},
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                    }
                ],
            },
            job(),
        ],
        told("FailedCreate", "webhook"),
        "JOB_FAILED",
        ["pods.failures.test"],
        "job/j",
    ),
    Failure(
        "evicted-disk",
        [
            once(
                container(
                    "busybox dd if=/dev/zero of=/fill bs=1M count=64; sleep 600",
                    resources={"limits": {"ephemeral-storage": "16Mi"}},
                )
            )
        ],
        failed("Evicted"),
        "EVICTED_DISK",
        ["ephemeral"],
    ),
)
_NAMELESS = "The name of the rendezvous, train-master-0, has no address"
_SLOT = {"limits": {"nvidia.com/gpu": "4"}}
OTHERS = (
    Failure(
        "rank-killed",
        [once(container("busybox sleep 86399; exit $?"))],
        ended("Error"),
        "KILLED_SIGKILL",
        ["137"],
        begins=(running(), kill("86399")),
    ),
    Failure(
        "container-killed",
        [once(container(command=["busybox", "sleep", "86398"]))],
        ended("Error"),
        "KILLED_SIGKILL",
        ["137", "SIGKILL"],
        begins=(running(), kill("86398")),
    ),
    Failure(
        "no-dns",
        [
            once(
                container("busybox wget -q -O - http://data.example:8000/shard-0"),
                dnsPolicy="None",
                dnsConfig={"nameservers": ["10.200.0.99"], "options": [{"name": "timeout", "value": "1"}]},
            )
        ],
        ended("Error"),
        "JOB_FAILED",
        ["bad address 'data.example", "CoreDNS"],
    ),
    Failure(
        "rendezvous-name",
        [_MEETS_NOBODY, _ASKS_ON],
        ended("Error"),
        "RENDEZVOUS",
        [_NAMELESS, "gai error: -3"],
    ),
    Failure(
        "rendezvous-timeout",
        [_MEETS_NOBODY],
        ended("Error"),
        "RENDEZVOUS",
        [_NAMELESS, "timed out after 20s"],
        "pod/impatient",
    ),
    Failure(
        "held",
        [{**pod(), "metadata": {"name": "p", "finalizers": ["failures.test/hold"]}}],
        lambda seen: any(pod["metadata"].get("deletionTimestamp") for pod in seen.pods),
        "NOT_READY",
        ["is being deleted", "failures.test/hold"],
        begins=(running(), delete("/pods/p")),
    ),
    Failure(
        "preempted",
        [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "failures-high"},
                "value": 1000,
            },
            job(container("sleep 600", resources=_SLOT)),
        ],
        job_failed,
        "KILLED_SIGKILL",
        ["the scheduler preempted its pod j-", "Preempted by"],
        "job/j",
        begins=(
            running("j"),
            make(*(pod(container(resources=_SLOT), name=f"h{n}", priorityClassName="failures-high") for n in range(2))),
        ),
    ),
)
_NO_DRIVER = {
    "metadata": {"name": "nowhere.failures.test"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "csi": {"driver": "nowhere.failures.test", "volumeHandle": "fs-1"},
        "claimRef": {"namespace": "f-no-driver", "name": "c"},
    },
}
_DRIVER = {"metadata": {"name": "nowhere.failures.test"}, "spec": {"attachRequired": False}}
_WORK = [{"name": "work", "mountPath": "/work"}]
FURTHER = (
    Failure(
        "out-of-gpu",
        [pod(container(resources={"limits": {"nvidia.com/gpu": "64"}}), nodeName=NODE)],
        failed("UnexpectedAdmissionError"),
        "GPU_SHORTAGE",
        ["nvidia.com/gpu"],
    ),
    Failure(
        "no-driver",
        [
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", **_DRIVER},
            {"apiVersion": "v1", "kind": "PersistentVolume", **_NO_DRIVER},
            claim(""),
            mounting(_CLAIM),
        ],
        told("FailedMount", "nowhere.failures.test"),
        "VOLUME_MOUNT",
        ["its CSI driver does not run", "not found in the list of registered CSI drivers"],
    ),
    Failure(
        "priority-class",
        [job(template={"priorityClassName": "gone"})],
        told("FailedCreate"),
        "CONFIG_MISSING",
        ['PriorityClass "gone" does not exist'],
        "job/j",
    ),
    Failure(
        "limit-range",
        [
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "r"},
                "spec": {"limits": [{"type": "Container", "max": {"memory": "16Mi"}}]},
            },
            job(container(resources=_MEMORY)),
        ],
        told("FailedCreate"),
        "NAMESPACE_QUOTA",
        ["maximum memory usage per Container is 16Mi"],
        "job/j",
    ),
    Failure(
        "deployment",
        [deployment(container("echo 'OSError: port is taken'; exit 5"))],
        restarted(1),
        "CRASH_LOOP",
        ["OSError: port is taken"],
        "deployment/d",
    ),
    Failure(
        "sidecar",
        [pod(initContainers=[container("echo 'no such proxy'; exit 6", name="proxy", restartPolicy="Always")])],
        lambda seen: any(one.get("exitCode") == 6 for _, one in seen.states()),
        "CRASH_LOOP",
        ["proxy", "no such proxy"],
    ),
    Failure(
        "shared-memory",
        [once(container("busybox dd if=/dev/zero of=/dev/shm/batch bs=1M count=100"))],
        ended("Error"),
        "SHM_TOO_SMALL",
        ["/dev/shm/batch"],
    ),
    Failure(
        "empty-dir",
        [
            once(
                container("busybox dd if=/dev/zero of=/work/fill bs=1M count=64; sleep 600", volumeMounts=_WORK),
                volumes=[{"name": "work", "emptyDir": {"sizeLimit": "16Mi"}}],
            )
        ],
        failed("Evicted"),
        "EVICTED_DISK",
        ['EmptyDir volume "work" exceeds the limit "16Mi"', "Raise its limit"],
    ),
)
FAILURES = (*PROGRAMS, *PROBES, *IMAGES, *PLACES, *OTHERS, *FURTHER)
