"""The pods that KubeRay makes of a RayCluster's templates.

Source: the real KubeRay 1.1.1 (start command, environment, probes, volumes, init container).
"""

from __future__ import annotations

import copy

from actions.sandbox.clientkit.kinds import Document, owner_reference
from actions.sandbox.controllers.ray.objects import (
    FROM_KIND,
    HEAD,
    HEAD_GROUP,
    METRICS_PORT,
    PRIORITY_CLASS,
    QUEUE,
    WORKER,
    head_host,
    head_service_name,
    is_gang,
    pod_group_name,
    pod_labels,
    shortened,
)
from actions.sandbox.model.quantities import value_of

_AGENT_PORT = "52365"
_GCS_PORT = "6379"
_OWN_COMMAND = "ray.io/overwrite-container-cmd"
_SHELL = ["/bin/bash", "-lc", "--"]
_INIT_RESOURCES = {"cpu": "200m", "memory": "256Mi"}
_SPECIAL_FLAGS = ("log-color", "include-dashboard")
_RAYLET_CHECK = f"wget -T 2 -q -O- http://localhost:{_AGENT_PORT}/api/local_raylet_healthz | grep success"
_GCS_CHECK = "wget -T 2 -q -O- http://localhost:8265/api/gcs_healthz | grep success"
_WAIT_FOR_HEAD = """
					SECONDS=0
					while true; do
						if (( SECONDS <= 120 )); then
							if ray health-check --address {address} > /dev/null 2>&1; then
								echo "GCS is ready."
								break
							fi
							echo "$SECONDS seconds elapsed: Waiting for GCS to be ready."
						else
							if ray health-check --address {address}; then
								echo "GCS is ready. Any error messages above can be safely ignored."
								break
							fi
							echo "$SECONDS seconds elapsed: Still waiting for GCS to be ready. For troubleshooting, \
refer to the FAQ at https://github.com/ray-project/kuberay/blob/master/docs/guidance/FAQ.md."
						fi
						sleep 5\t\t
					done
				"""


def head_pod(cluster: Document) -> Document:
    """The head's pod, without a name of its own."""
    spec = cluster["spec"]["headGroupSpec"]
    pod = _pod(cluster, spec["template"], HEAD, HEAD_GROUP, name=f"{cluster['metadata']['name']}-{HEAD}-")
    parameters = {"dashboard-host": "0.0.0.0"} | dict(spec.get("rayStartParams") or {})  # noqa: S104
    _finish(cluster, pod, HEAD, parameters, gcs_port=str(parameters.get("port", _GCS_PORT)))
    return pod


def worker_pod(cluster: Document, group: Document) -> Document:
    """A pod of a worker group, without a name of its own."""
    name = f"{cluster['metadata']['name']}-{WORKER}-{group['groupName']}-"
    pod = _pod(cluster, group["template"], WORKER, group["groupName"], name=name)
    head_parameters = cluster["spec"]["headGroupSpec"].get("rayStartParams") or {}
    gcs_port = str(head_parameters.get("port", _GCS_PORT))
    address = f"{head_host(cluster)}:{gcs_port}"
    pod["spec"].setdefault("initContainers", []).append(_wait_for_head(pod["spec"]["containers"][0], address))
    parameters = {"address": address} | dict(group.get("rayStartParams") or {})
    _finish(cluster, pod, WORKER, parameters, gcs_port=gcs_port)
    return pod


def _pod(cluster: Document, template: Document, node_type: str, group: str, *, name: str) -> Document:
    given = copy.deepcopy(template.get("metadata") or {})
    labels = pod_labels(cluster, node_type, group, given.get("labels") or {})
    annotations = {"ray.io/ft-enabled": "false"} | (given.get("annotations") or {})
    spec = copy.deepcopy(template["spec"])
    if is_gang(cluster):
        own = cluster["metadata"].get("labels") or {}
        annotations |= {"scheduling.k8s.io/group-name": pod_group_name(cluster), "volcano.sh/task-spec": group}
        labels |= {QUEUE: own[QUEUE]} if QUEUE in own else {}
        spec |= {"priorityClassName": own[PRIORITY_CLASS]} if PRIORITY_CLASS in own else {}
        spec["schedulerName"] = "volcano"
    metadata: Document = {
        "generateName": shortened(name.lower()),
        "namespace": cluster["metadata"]["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner_reference(cluster)],
    }
    return {"metadata": metadata, "spec": spec}


def _finish(cluster: Document, pod: Document, node_type: str, parameters: dict[str, str], *, gcs_port: str) -> None:
    """Give the Ray container its command, environment, probes, shared memory and metrics port."""
    container = pod["spec"]["containers"][0]
    ports = container.setdefault("ports", [])
    if not any(port.get("name") == "metrics" for port in ports):
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})
    medium: Document = {"medium": "Memory"}
    resources = container.get("resources") or {}
    memory = (resources.get("requests") or {}).get("memory") or (resources.get("limits") or {}).get("memory")
    medium |= {"sizeLimit": memory} if memory else {}
    _add_volume(pod, container, "shared-mem", "/dev/shm", {"emptyDir": medium})  # noqa: S108
    start = start_command(node_type, parameters, resources.get("limits") or {})
    if pod["metadata"]["annotations"].get(_OWN_COMMAND, "").lower() != "true":
        _set_command(container, start)
    for one in pod["spec"].get("initContainers") or ():
        one["env"] = [*(one.get("env") or ()), *_head_addresses(cluster)]
    container["env"] = _environment(cluster, container, node_type, parameters, start, gcs_port=gcs_port)
    check = f"{_RAYLET_CHECK} && {_GCS_CHECK}" if node_type == HEAD else _RAYLET_CHECK
    container.setdefault("livenessProbe", _probe(check, delay_seconds=30, failures=120))
    container.setdefault("readinessProbe", _probe(check, delay_seconds=10, failures=10))


def start_command(node_type: str, parameters: dict[str, str], limits: dict[str, str]) -> str:
    """Return the line that starts Ray in a container. The real one has its flags in random order."""
    flags = {
        "metrics-export-port": str(METRICS_PORT),
        "dashboard-agent-listen-port": _AGENT_PORT,
        **_limits(limits),
        **parameters,
        "block": "true",
    }
    written = "".join(_flag(name, str(value)) for name, value in sorted(flags.items()))
    return f"ray start --head {written}" if node_type == HEAD else f"ray start {written}"


def _limits(limits: dict[str, str]) -> dict[str, str]:
    names = {"cpu": "num-cpus", "memory": "memory"}
    flags = {flag: str(int(value_of(limits[name]))) for name, flag in names.items() if name in limits}
    gpus = next((amount for name, amount in limits.items() if name.endswith("gpu")), None)
    return flags | ({"num-gpus": str(gpus)} if gpus is not None else {})


def _flag(name: str, value: str) -> str:
    if value.lower() not in ("true", "false"):
        return f" --{name}={value} "
    if name in _SPECIAL_FLAGS:
        return f" --{name}={value} "
    return f" --{name} " if value.lower() == "true" else ""


def _set_command(container: Document, start: str) -> None:
    given = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    if "ray start" in given:
        return
    line = f"ulimit -n 65536; {start}"
    container["command"] = list(_SHELL)
    container["args"] = [f"{given} && {line}" if given else line]


def _add_volume(pod: Document, container: Document, name: str, path: str, source: Document) -> None:
    """Mount an empty volume, unless something is mounted there."""
    mounts = container.setdefault("volumeMounts", [])
    if any(mount["mountPath"] == path for mount in mounts):
        return
    volumes = pod["spec"].setdefault("volumes", [])
    if not any(volume["name"] == name for volume in volumes):
        volumes.append({"name": name, **source})
    mounts.append({"name": name, "mountPath": path})


def _wait_for_head(container: Document, address: str) -> Document:
    taken: Document = {
        name: copy.deepcopy(container[name])
        for name in ("env", "volumeMounts", "imagePullPolicy", "securityContext")
        if name in container
    }
    return {
        "name": "wait-gcs-ready",
        "image": container["image"],
        "command": list(_SHELL),
        "args": [_WAIT_FOR_HEAD.replace("{address}", address)],
        "resources": {"limits": dict(_INIT_RESOURCES), "requests": dict(_INIT_RESOURCES)},
        **taken,
    }


def _head_addresses(cluster: Document) -> list[Document]:
    return [
        {"name": "FQ_RAY_IP", "value": head_host(cluster)},
        {"name": "RAY_IP", "value": head_service_name(cluster["metadata"]["name"])},
    ]


def _environment(
    cluster: Document, container: Document, node_type: str, parameters: dict[str, str], start: str, *, gcs_port: str
) -> list[Document]:
    is_head = node_type == HEAD
    variables: list[Document] = list(container.get("env") or ())
    given = {variable["name"] for variable in variables}
    maker = (cluster["metadata"].get("labels") or {}).get(FROM_KIND, "RayCluster")
    host = "127.0.0.1" if is_head else head_host(cluster)
    variables += [] if is_head else _head_addresses(cluster)
    variables += [
        _from_field("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
        _from_field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _from_field("RAY_NODE_TYPE_NAME", "metadata.labels['ray.io/group']"),
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": start},
    ]
    defaults = {
        "RAY_PORT": gcs_port,
        "RAY_ADDRESS": f"{host}:{gcs_port}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        **({"RAY_USAGE_STATS_EXTRA_TAGS": f"kuberay_version=v1.1.1;kuberay_crd={maker}"} if is_head else {}),
        "REDIS_PASSWORD": str(parameters.get("redis-password", "")),
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    }
    return variables + [{"name": name, "value": value} for name, value in defaults.items() if name not in given]


def _from_field(name: str, path: str) -> Document:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _probe(check: str, *, delay_seconds: int, failures: int) -> Document:
    return {
        "exec": {"command": ["bash", "-c", check]},
        "initialDelaySeconds": delay_seconds,
        "timeoutSeconds": 1,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }
