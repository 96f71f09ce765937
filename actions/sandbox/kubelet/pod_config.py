"""A pod's manifest as the kubelet reads it, with the variables that come from Secrets and ConfigMaps."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    CONFIG_MAPS,
    EFA,
    GPU,
    NEURON,
    NEURON_CORE,
    SECRETS,
    Document,
    Kind,
    uid_of,
)


class EnvVarSource(msgspec.Struct, frozen=True):
    """An entry of `env` with `valueFrom`, or of `envFrom`.

    `key` is empty for all keys of the object, each after `name` as a prefix.
    """

    name: str
    kind: Kind
    source: str
    key: str
    is_optional: bool


def references_of(container: Document) -> tuple[EnvVarSource, ...]:
    """Return the Secrets and ConfigMaps that a container's variables come from; later ones override earlier ones."""
    found = []
    for entry in container.get("envFrom") or ():
        for field, kind in (("secretRef", SECRETS), ("configMapRef", CONFIG_MAPS)):
            if field in entry:
                found.append(_reference(entry.get("prefix", ""), kind, entry[field], key=""))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for field, kind in (("secretKeyRef", SECRETS), ("configMapKeyRef", CONFIG_MAPS)):
            if field in source:
                found.append(_reference(variable["name"], kind, source[field], key=source[field]["key"]))
    return tuple(found)


def _reference(name: str, kind: Kind, source: Document, *, key: str) -> EnvVarSource:
    return EnvVarSource(name, kind, source.get("name", ""), key, bool(source.get("optional")))


async def resolve_variables(
    references: tuple[EnvVarSource, ...], namespace: str, client: ApiClient
) -> dict[str, str] | str:
    """Return the variables, or in a kubelet's words why the container cannot be made yet."""
    variables: dict[str, str] = {}
    for reference in references:
        values = await _values(reference, namespace, client)
        if values is None and not reference.is_optional:
            return f'{reference.kind.kind.lower()} "{reference.source}" not found'
        if not reference.key:
            variables |= {reference.name + key: value for key, value in (values or {}).items()}
        elif reference.key in (values or {}):
            variables[reference.name] = (values or {})[reference.key]
        elif not reference.is_optional:
            return f"couldn't find key {reference.key} in {reference.kind.kind} {namespace}/{reference.source}"
    return variables


async def _values(reference: EnvVarSource, namespace: str, client: ApiClient) -> dict[str, str] | None:
    found = await client.read(reference.kind, f"{namespace}/{reference.source}")
    if found is None:
        return None
    data = found.get("data") or {}
    return {key: _decoded(value) for key, value in data.items()} if reference.kind is SECRETS else dict(data)


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except binascii.Error:
        return ""


_CORES_OF_A_DEVICE = 2
_SSH = 22


class FailingProbe(msgspec.Struct, frozen=True):
    """A probe of a port on which nothing listens."""

    kind: str
    """readiness, liveness or startup."""
    port: int
    path: str
    """Of an HTTP request; empty for a connection alone."""
    delay_seconds: float
    period_seconds: float
    failures: int
    """So many make it fail."""

    @property
    def kills(self) -> bool:
        """True if its failure ends the container."""
        return self.kind != "readiness"

    def message(self, address: str) -> str:
        """Return what the kubelet reports of a failure, at the pod's address."""
        refused = f"dial tcp {address}:{self.port}: connect: connection refused"
        said = f'Get "http://{address}:{self.port}{self.path}": {refused}' if self.path else refused
        return f"{self.kind.title()} probe failed: {said}"


def _failing_probe(container: Document) -> FailingProbe | None:
    """Return the probe of a manifest's container that cannot succeed, that of its start first; `None` if all do.

    A program of the sandbox answers on the ports that its container declares, and as sshd. So a probe of another port
    fails, and an `exec` never does.
    """
    declared = {_SSH, *(int(port["containerPort"]) for port in container.get("ports") or ())}
    for kind in ("startup", "liveness", "readiness"):
        probe = container.get(f"{kind}Probe") or {}
        asked = probe.get("httpGet") or probe.get("tcpSocket") or {}
        port = asked.get("port")
        if isinstance(port, int) and port not in declared:
            return FailingProbe(
                kind,
                port,
                asked.get("path") or "/" if "httpGet" in probe else "",
                float(probe.get("initialDelaySeconds") or 0),
                float(probe.get("periodSeconds") or 10),
                int(probe.get("failureThreshold") or 3),
            )
    return None


class ContainerConfig(msgspec.Struct, frozen=True):
    """A container of a manifest."""

    name: str
    image: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    references: tuple[EnvVarSource, ...]
    """Variables that other objects hold."""
    gpus: int
    neurons: int
    """Neuron devices; cores can be requested in whole devices only."""
    efa_interfaces: int
    mounts: Mapping[str, str]
    """Mount point → name of the pod's volume."""
    ports: frozenset[int]
    """TCP ports that it declares; something answers there."""
    pulls_always: bool
    working_folder: str
    reports_log: bool
    """Its last lines become the message of a failure (`FallbackToLogsOnError`)."""
    failing_probe: FailingProbe | None


class PodConfig(msgspec.Struct, frozen=True):
    """A pod that is bound to a node."""

    key: str
    uid: str
    node: str
    restart_policy: str
    init_containers: tuple[ContainerConfig, ...]
    containers: tuple[ContainerConfig, ...]
    volumes: Mapping[str, Document]
    """Name → the volume of the manifest."""

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.key.partition("/")[2]


def pod_config(pod: Document) -> PodConfig:
    """Read a pod."""
    spec, metadata = pod["spec"], pod["metadata"]
    return PodConfig(
        key=f"{metadata['namespace']}/{metadata['name']}",
        uid=uid_of(pod),
        node=spec.get("nodeName", ""),
        restart_policy=spec.get("restartPolicy", "Always"),
        init_containers=tuple(_container(pod, one) for one in spec.get("initContainers") or ()),
        containers=tuple(_container(pod, one) for one in spec["containers"]),
        volumes={volume["name"]: volume for volume in spec.get("volumes") or ()},
    )


def _container(pod: Document, container: Document) -> ContainerConfig:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    image = container.get("image", "")
    return ContainerConfig(
        name=container["name"],
        image=image,
        argv=tuple(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))),
        environment=_environment(pod, container),
        references=references_of(container),
        gpus=_count(amounts, GPU),
        neurons=_count(amounts, NEURON) or -(-_count(amounts, NEURON_CORE) // _CORES_OF_A_DEVICE),
        efa_interfaces=_count(amounts, EFA),
        mounts={mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts") or ()},
        ports=frozenset(int(port["containerPort"]) for port in container.get("ports") or ()),
        pulls_always=container.get("imagePullPolicy", "") == "Always" or image.endswith(":latest"),
        working_folder=container.get("workingDir") or "/",
        reports_log=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        failing_probe=_failing_probe(container),
    )


def _count(amounts: Document, resource: str) -> int:
    return int(str(amounts.get(resource, 0)))


def _environment(pod: Document, container: Document) -> dict[str, str]:
    """Return the variables whose values the manifest itself holds."""
    found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    found["KUBERNETES_SERVICE_HOST"] = "172.20.0.1"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source is None:
            found[variable["name"]] = str(variable.get("value", ""))
        elif "fieldRef" in source:
            found[variable["name"]] = _field(pod, source["fieldRef"].get("fieldPath", ""))
    return found


def _field(pod: Document, path: str) -> str:
    known = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": uid_of(pod),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
    }
    for field in ("labels", "annotations"):
        if path.startswith(beginning := f"metadata.{field}['"):
            return str((pod["metadata"].get(field) or {}).get(path[len(beginning) : -2], ""))
    return str(known.get(path, ""))
