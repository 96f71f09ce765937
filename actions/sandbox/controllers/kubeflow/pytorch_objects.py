"""The objects that the training operator makes for a PyTorchJob: pods, services.

Source: the real training-operator 1.8.1 (names, labels, environment, order).
"""

from __future__ import annotations

from actions.sandbox.clientkit.kinds import Document, owner_reference
from actions.sandbox.controllers.core.pods import pod_of

ROLES = ("Master", "Worker")
PORT = 23456
CONTAINER = "pytorch"
_PREFIX = "training.kubeflow.org/"
_PORT_NAME = "pytorchjob-port"
_WAIT_FOR_MASTER = (
    "err=1;for i in $(seq 100); do if nslookup {master}; then err=0 && break; fi;"
    "echo waiting for master; sleep 2; done; exit $err"
)


def roles_of(job: Document) -> list[str]:
    """The roles that the job has, the master's first."""
    return [role for role in ROLES if role in job["spec"]["pytorchReplicaSpecs"]]


def replica_spec(job: Document, role: str) -> Document:
    """The replica spec of a role."""
    found: Document = job["spec"]["pytorchReplicaSpecs"][role]
    return found


def replicas_of(job: Document, role: str) -> int:
    """Return the number of pods that a role specifies."""
    return int(replica_spec(job, role).get("replicas", 1))


def restart_policy(job: Document, role: str) -> str:
    """The role's restart policy: Always, OnFailure, Never or ExitCode."""
    return str(replica_spec(job, role).get("restartPolicy") or "OnFailure")


def is_elastic(job: Document) -> bool:
    """Return whether the job has an elastic policy."""
    return bool(job["spec"].get("elasticPolicy"))


def object_name(job: Document, role: str, index: int) -> str:
    """Return the name of a pod and of its service."""
    return f"{job['metadata']['name']}-{role.lower()}-{index}"


def job_labels(job: Document) -> dict[str, str]:
    """The labels by which everything of a job is found."""
    return {
        f"{_PREFIX}job-name": job["metadata"]["name"],
        f"{_PREFIX}operator-name": "pytorchjob-controller",
    }


def replica_labels(job: Document, role: str, index: int) -> dict[str, str]:
    """The labels of one replica's pod and service."""
    return job_labels(job) | {f"{_PREFIX}replica-type": role.lower(), f"{_PREFIX}replica-index": str(index)}


def role_selector(job: Document, role: str) -> str:
    """The selector that the job's status shows for a role."""
    labels = job_labels(job) | {f"{_PREFIX}replica-type": role.lower()}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def index_of(document: Document) -> int:
    """The replica's index that a pod or service is labelled with; -1 without one."""
    text = (document["metadata"].get("labels") or {}).get(f"{_PREFIX}replica-index", "")
    return int(text) if text.isdigit() else -1


def role_of(document: Document) -> str:
    """The replica's type that a pod or service is labelled with, in small letters."""
    return str((document["metadata"].get("labels") or {}).get(f"{_PREFIX}replica-type", ""))


def replica_pod(job: Document, role: str, index: int) -> Document:
    """The pod of one replica. Without a master, worker 0 carries the master's role label."""
    pod = pod_of(replica_spec(job, role)["template"], object_name(job, role, index))
    labels = pod["metadata"]["labels"] | replica_labels(job, role, index)
    has_master = "Master" in roles_of(job)
    if role == "Master" or (not has_master and index == 0):
        labels[f"{_PREFIX}job-role"] = "master"
    pod["metadata"]["labels"] = labels
    policy = restart_policy(job, role)
    pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    for container in pod["spec"]["containers"]:
        container["env"] = [*(container.get("env") or ()), *_environment(job, role, index)]
        if container["name"] == CONTAINER:
            ports = container.setdefault("ports", [])
            if not any(port.get("name") == _PORT_NAME for port in ports):
                ports.append({"name": _PORT_NAME, "containerPort": PORT, "protocol": "TCP"})
    if role == "Worker" and has_master:
        pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or ()), _init_container(job)]
    return pod


def replica_service(job: Document, role: str, index: int) -> Document:
    """The headless service of one replica's pod."""
    labels = replica_labels(job, role, index)
    return {
        "metadata": {
            "name": object_name(job, role, index),
            "namespace": job["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [{"name": _PORT_NAME, "protocol": "TCP", "port": PORT, "targetPort": PORT}],
        },
    }


def _environment(job: Document, role: str, index: int) -> list[Document]:
    variables = [("PYTHONUNBUFFERED", "1")]
    if "Master" in roles_of(job):
        variables += _with_master(job, role, index)
    else:
        variables += _without_master(job)
    return [{"name": name, "value": value} for name, value in variables]


def _with_master(job: Document, role: str, index: int) -> list[tuple[str, str]]:
    processes = str(job["spec"].get("nprocPerNode") or "auto")
    pods = sum(replicas_of(job, one) for one in roles_of(job))
    world = pods * (int(processes) if processes.isdigit() else 1)
    rank = str(0 if role == "Master" else index + 1)
    master = object_name(job, "Master", 0)
    return [
        ("MASTER_PORT", str(PORT)),
        ("PET_MASTER_PORT", str(PORT)),
        ("MASTER_ADDR", master),
        ("PET_MASTER_ADDR", master),
        ("WORLD_SIZE", str(world)),
        ("RANK", rank),
        ("PET_NODE_RANK", rank),
        ("PET_NPROC_PER_NODE", processes),
        ("PET_NNODES", str(pods)),
    ]


def _without_master(job: Document) -> list[tuple[str, str]]:
    policy = job["spec"].get("elasticPolicy") or {}
    from_policy = policy.get("nProcPerNode")
    variables = []
    if job["spec"].get("nprocPerNode") is not None or from_policy is None:
        variables.append(("PET_NPROC_PER_NODE", str(job["spec"].get("nprocPerNode") or "auto")))
    if not policy:
        return [*variables, ("PET_NNODES", str(replicas_of(job, "Worker")))]
    workers = replicas_of(job, "Worker")
    variables.append(("PET_RDZV_ENDPOINT", f"{object_name(job, 'Worker', 0)}:{policy.get('rdzvPort', PORT)}"))
    if policy.get("rdzvBackend"):
        variables.append(("PET_RDZV_BACKEND", policy["rdzvBackend"]))
    variables.append(("PET_NNODES", f"{policy.get('minReplicas', workers)}:{policy.get('maxReplicas', workers)}"))
    if from_policy is not None:
        variables.append(("PET_NPROC_PER_NODE", str(from_policy)))
    if policy.get("rdzvId"):
        variables.append(("PET_RDZV_ID", policy["rdzvId"]))
    if policy.get("rdzvConf"):
        variables.append(("PET_RDZV_CONF", ",".join(f"{one['key']}={one['value']}" for one in policy["rdzvConf"])))
    if policy.get("maxRestarts") is not None:
        variables.append(("PET_MAX_RESTARTS", str(policy["maxRestarts"])))
    return variables


def _init_container(job: Document) -> Document:
    return {
        "name": "init-pytorch",
        "image": "alpine:3.10",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _WAIT_FOR_MASTER.format(master=object_name(job, "Master", 0))],
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
    }
