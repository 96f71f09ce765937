"""The parts of the table of failures: rows, rules by which they have come about, objects, and what is done to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from tests.realnode.harness.cluster import PLACES
from tests.support.applying import apply_all

Document = dict[str, Any]
IMAGE = "docker.io/library/busybox:latest"
TRAINER = "nvcr.io/nvidia/nemo:24.01.framework"
"""As the tests have it: torch with gloo."""
REGISTRY = "10.200.0.254:5000"
"""The registry of the tests: see `tests/realnode/refusals.py`."""
NODE = PLACES[-1].name
"""One with accelerators."""
CLUSTER_WIDE = frozenset({"ValidatingWebhookConfiguration", "PriorityClass", "CSIDriver", "PersistentVolume"})
"""Kinds without a namespace."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects of a namespace, as the API server has them."""

    pods: Sequence[Document]
    events: Sequence[Document]
    jobs: Sequence[Document]
    claims: Sequence[Document] = ()
    quotas: Sequence[Document] = ()

    def states(self) -> list[tuple[str, Document]]:
        """Return what the state of each container is, with its details; its last one after it."""
        return [
            (kind, details)
            for pod in self.pods
            for key in ("initContainerStatuses", "containerStatuses")
            for status in pod.get("status", {}).get(key, ())
            for part in ("state", "lastState")
            for kind, details in status.get(part, {}).items()
        ]


Rule = Callable[[Seen], bool]
Deed = Callable[[KubeSession, str], Awaitable[None]]
"""Done by a session in a namespace."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A row of the table.

    Args:
        name: Of the row and of its namespace.
        objects: What is made, without a namespace.
        has_failed: When it has come about, by the API server's objects.
        code: The first code that `why` shall give.
        words: What its headline or evidence shall have.
        about: What `why` is asked about.
        labels: Of its namespace.
        begins: When something is done to what was made, and what.
    """

    name: str
    objects: Sequence[Document]
    has_failed: Rule
    code: str
    words: Sequence[str] = ()
    about: str = "pod/p"
    labels: Mapping[str, str] = field(default_factory=dict)
    begins: tuple[Rule, Deed] | None = None


def waits(reason: str) -> Rule:
    """A container waits for that reason."""
    return lambda seen: any(kind == "waiting" and one.get("reason") == reason for kind, one in seen.states())


def ended(reason: str) -> Rule:
    """A container has ended for that reason."""
    return lambda seen: any(kind == "terminated" and one.get("reason") == reason for kind, one in seen.states())


def failed(reason: str) -> Rule:
    """A pod has failed for that reason."""
    return lambda seen: any(pod["status"].get("reason") == reason for pod in seen.pods)


def told(reason: str, words: str = "", times: int = 1) -> Rule:
    """Events of that reason, with these words, have been written so often."""
    return lambda seen: (
        sum(one.get("count") or 1 for one in seen.events if one["reason"] == reason and words in one.get("message", ""))
        >= times
    )


def restarted(times: int) -> Rule:
    """A container has been started again so often."""
    return lambda seen: any(
        one["restartCount"] >= times for pod in seen.pods for one in pod.get("status", {}).get("containerStatuses", ())
    )


def unschedulable(seen: Seen) -> bool:
    """A pod has no node."""
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False"
        for pod in seen.pods
        for one in pod.get("status", {}).get("conditions", ())
    )


def job_failed(seen: Seen) -> bool:
    """A Job has failed."""
    return any(
        one["type"] == "Failed" and one["status"] == "True"
        for job in seen.jobs
        for one in job.get("status", {}).get("conditions", ())
    )


def running(name: str = "p") -> Rule:
    """A pod of that name, or one whose name begins so, is ready."""
    return lambda seen: any(
        one["type"] == "Ready" and one["status"] == "True"
        for pod in seen.pods
        for one in pod.get("status", {}).get("conditions", ())
        if pod["metadata"]["name"].startswith(name)
    )


def kill(words: str) -> Deed:
    """Kill the process of this machine whose command line has these words, as the kernel would."""

    async def deed(session: KubeSession, namespace: str) -> None:
        kill_process(words)

    return deed


def kill_process(words: str) -> None:
    """Kill the process of this machine one of whose arguments these words are."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words.encode() in arguments:
            os.kill(int(path.parent.name), signal.SIGKILL)


def delete(path: str) -> Deed:
    """Delete an object, by its path below its namespace's; empty for the namespace."""

    async def deed(session: KubeSession, namespace: str) -> None:
        await session.request("DELETE", f"/api/v1/namespaces/{namespace}{path}")

    return deed


def make(*things: Document) -> Deed:
    """Make more objects."""

    async def deed(session: KubeSession, namespace: str) -> None:
        placed = [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in things]
        await apply_all(session, Discovery(session), placed)

    return deed


def container(script: str = "", name: str = "main", **fields: Any) -> Document:
    """A container of busybox that runs a script of its shell; without one it sleeps."""
    command = {"command": ["sh", "-c", script]} if script else {}
    return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", **command, **fields}


def pod(*containers: Document, name: str = "p", **spec: Any) -> Document:
    """A pod that ends at once when it is deleted."""
    spec = {"terminationGracePeriodSeconds": 0, "containers": list(containers or [container()]), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def once(*containers: Document, **spec: Any) -> Document:
    """A pod that is not started again."""
    return pod(*containers, restartPolicy="Never", **spec)


def job(*containers: Document, name: str = "j", template: Mapping[str, Any] | None = None, **spec: Any) -> Document:
    """A Job of one such pod."""
    inner = {**once(*containers)["spec"], **(template or {})}
    spec = {"backoffLimit": 0, "template": {"spec": inner}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def deployment(*containers: Document) -> Document:
    """A Deployment of one pod."""
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": pod(*containers)["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def asking(**amounts: Any) -> Document:
    """A pod that asks for resources: `nvidia.com/gpu` is `nvidia_com__gpu`."""
    names = {name.replace("__", "/").replace("_", "."): str(amount) for name, amount in amounts.items()}
    return pod(container(resources={"limits": names, "requests": names}))


def pulling(image: str, **fields: Any) -> Document:
    """A pod of another image."""
    return pod(container(image=image, imagePullPolicy="Always") | fields)


def mounting(volume: Document) -> Document:
    """A pod that mounts a volume: the kubelet prepares only what a container mounts."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    return pod(container(volumeMounts=mounts), volumes=[{"name": "data", **volume}])


def probed(kind: str, script: str = "", **probe: Any) -> Document:
    """A pod with a probe that fails at once."""
    main = container(script)
    main[f"{kind}Probe"] = {"periodSeconds": 1, "failureThreshold": 2, **probe}
    return pod(main)


def claim(storage_class: str) -> Document:
    """A claim of a class."""
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
