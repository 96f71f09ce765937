"""The objects that the MPI operator makes for an MPIJob of Open MPI: service, host files, SSH key, workers, launcher.

Source: the real mpi-operator 0.6.0 and 0.8.0 (names, labels, environment, volumes).
"""

from __future__ import annotations

import base64
import secrets

from actions.sandbox.clientkit.kinds import Document, owner_reference
from actions.sandbox.controllers.core.pods import pod_of

LAUNCHER, WORKER = "Launcher", "Worker"
INDEX_LABEL = "training.kubeflow.org/replica-index"
_PREFIX = "training.kubeflow.org/"
_ROOT_SSH = "/root/.ssh"
_OWNER_ONLY, _READABLE, _RUNNABLE = 0o600, 0o444, 0o555
_SSH_FILES = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
_SSH_VOLUME, _CONFIG_VOLUME = "ssh-auth", "mpi-job-config"
_CONFIG_PATH = "/etc/mpi"
_HOST_FILE = f"{_CONFIG_PATH}/hostfile"
_CONNECTING = "-o ConnectionAttempts=10"
_NO_GPUS = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
_KEY_BYTES = 96


def replica_spec(job: Document, role: str) -> Document | None:
    """The replica spec of a role, `None` if the job has none."""
    found: Document | None = job["spec"]["mpiReplicaSpecs"].get(role)
    return found


def workers_of(job: Document) -> int:
    """Return the number of workers that the job specifies."""
    return int((replica_spec(job, WORKER) or {}).get("replicas") or 0)


def run_policy(job: Document) -> Document:
    """The job's run policy, perhaps empty."""
    policy: Document = job["spec"].get("runPolicy") or {}
    return policy


def is_suspended(job: Document) -> bool:
    """Return whether the job is suspended by its specification."""
    return bool(run_policy(job).get("suspend"))


def object_name(job: Document, part: str = "") -> str:
    """The name of one of the job's objects; of its service without a part."""
    name = str(job["metadata"]["name"])
    return f"{name}-{part}" if part else name


def service(job: Document) -> Document:
    """The headless service that gives every pod of the job a name."""
    return {"metadata": _metadata(job, object_name(job)), "spec": {"clusterIP": "None", "selector": _labels(job)}}


def host_files(job: Document, running: list[Document]) -> Document:
    """Return the ConfigMap with all hosts, and a script that prints those whose pods run."""
    every, slots = [object_name(job, f"worker-{index}") for index in range(workers_of(job))], _slots(job)
    there = sorted(str(pod["metadata"]["name"]) for pod in running)
    return {
        "metadata": _metadata(job, object_name(job, "config")),
        "data": {
            "hostfile": "".join(f"{_host(job, name)} slots={slots}\n" for name in every),
            "discover_hosts.sh": "#!/bin/sh\n" + "".join(f"echo {_host(job, name)}\n" for name in there),
        },
    }


def ssh_secret(job: Document) -> Document:
    """Return the Secret with the pods' SSH key; no SSH server exists that would take it."""
    text = base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    keys = {
        "ssh-privatekey": f"-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n",
        "ssh-publickey": f"ecdsa-sha2-nistp521 {text}\n",
    }
    return {
        "metadata": _metadata(job, object_name(job, "ssh")),
        "type": "kubernetes.io/ssh-auth",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()},
    }


def worker_pod(job: Document, index: int) -> Document:
    """Return the pod of a worker."""
    spec = replica_spec(job, WORKER) or {}
    name = object_name(job, f"worker-{index}")
    pod = pod_of(spec["template"], name)
    pod["metadata"]["labels"] |= _labels(job) | {f"{_PREFIX}job-role": "worker", INDEX_LABEL: str(index)}
    _place(pod["spec"], job, name, restart_policy=_restart_policy(spec, "Never"))
    container = pod["spec"]["containers"][0]
    if not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    container["env"] = [*(container.get("env") or ()), {"name": "K_MPI_JOB_ROLE", "value": "worker"}]
    _mount_ssh(pod["spec"], job)
    return pod


def launcher_job(job: Document) -> Document:
    """The Job that runs the launcher."""
    policy = run_policy(job)
    name = object_name(job, "launcher")
    limits = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    spec: Document = {limit: policy[limit] for limit in limits if policy.get(limit) is not None}
    if is_suspended(job):
        spec["suspend"] = True
    return {"metadata": _metadata(job, name), "spec": spec | {"template": _launcher_template(job, name)}}


def _launcher_template(job: Document, name: str) -> Document:
    spec = replica_spec(job, LAUNCHER) or {}
    template = pod_of(spec["template"], name)
    del template["metadata"]["name"]
    template["metadata"]["labels"] |= _labels(job) | {f"{_PREFIX}job-role": "launcher"}
    template["metadata"]["ownerReferences"] = [owner_reference(job)]
    _place(template["spec"], job, name, restart_policy=_restart_policy(spec, "OnFailure"))
    container = template["spec"]["containers"][0]
    container["env"] = [*(container.get("env") or ()), *_launcher_environment(job)]
    _mount_ssh(template["spec"], job)
    files = [("hostfile", _READABLE), ("discover_hosts.sh", _RUNNABLE)]
    items = [{"key": key, "path": key, "mode": mode} for key, mode in files]
    config = {"name": object_name(job, "config"), "items": items}
    template["spec"]["volumes"].append({"name": _CONFIG_VOLUME, "configMap": config})
    container["volumeMounts"].append({"name": _CONFIG_VOLUME, "mountPath": _CONFIG_PATH})
    return template


def _launcher_environment(job: Document) -> list[Document]:
    variables = [
        ("K_MPI_JOB_ROLE", "launcher"),
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_orte_default_hostfile", _HOST_FILE),
        ("OMPI_MCA_plm_rsh_args", _CONNECTING),
        ("OMPI_MCA_orte_set_default_slots", str(_slots(job))),
    ]
    return [*({"name": name, "value": value} for name, value in variables), *({"name": name} for name in _NO_GPUS)]


def _place(spec: Document, job: Document, name: str, *, restart_policy: str) -> None:
    spec["hostname"], spec["subdomain"] = name, object_name(job)
    spec["restartPolicy"] = restart_policy
    if spec.get("hostNetwork"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"


def _restart_policy(spec: Document, default: str) -> str:
    policy = str(spec.get("restartPolicy") or default)
    return "Never" if policy == "ExitCode" else policy


def _mount_ssh(spec: Document, job: Document) -> None:
    path = job["spec"].get("sshAuthMountPath") or _ROOT_SSH
    items = [{"key": key, "path": file} for key, file in _SSH_FILES]
    secret: Document = {"secretName": object_name(job, "ssh"), "items": items}
    if path == _ROOT_SSH:
        secret["defaultMode"] = _OWNER_ONLY
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": _SSH_VOLUME, "secret": secret}]
    container = spec["containers"][0]
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or ()),
        {"name": _SSH_VOLUME, "mountPath": path},
    ]


def _metadata(job: Document, name: str) -> Document:
    return {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": {"app": object_name(job)},
        "ownerReferences": [owner_reference(job)],
    }


def _labels(job: Document) -> dict[str, str]:
    return {f"{_PREFIX}operator-name": "mpi-operator", f"{_PREFIX}job-name": object_name(job)}


def _host(job: Document, pod: str) -> str:
    return f"{pod}.{object_name(job)}.{job['metadata']['namespace']}.svc"


def _slots(job: Document) -> int:
    return int(job["spec"].get("slotsPerWorker") or 1)
