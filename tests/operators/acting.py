"""The ACTION lines of recordings, done on the API: what the driver did as kubelet and as user."""

from __future__ import annotations

import copy
import json
import re

from actions.sandbox.clientkit.kinds import PODS, Document
from tests.operators.operator import Performer
from tests.operators.world import HOLD, World, ended, running


async def perform(world: World, text: str) -> None:
    """Do what a line says.

    Raises:
        AssertionError: Nobody knows how.
    """
    for pattern, performer in {**world.operator.performers, **_PERFORMERS}.items():
        found = re.fullmatch(pattern, text)
        if found:
            await performer(world, found)
            return
    raise AssertionError(f"the recording does '{text}', which this replay cannot do")


async def create(world: World, manifests: list[Document]) -> None:
    """Create the objects of a scenario."""
    for manifest in manifests:
        kind = world.kind(manifest["kind"])
        document = copy.deepcopy(manifest)
        if kind.is_namespaced:
            document["metadata"].setdefault("namespace", "default")
        await world.client.create(kind, document)


async def _end_pod(world: World, found: re.Match[str]) -> None:
    pod = await world.started(found[1])
    await world.client.patch_status(PODS, pod, ended(pod, found[2], int(found[3])))


async def _evict(world: World, found: re.Match[str]) -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    await world.client.patch_status(PODS, world.find("Pod", found[1]), status | {"containerStatuses": []})


async def _restart_pod(world: World, found: re.Match[str]) -> None:
    pod = world.find("Pod", found[1])
    status = running(pod, int(found[2]))
    code = int(found[3])
    for one in status["containerStatuses"]:
        one["lastState"] = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    await world.client.patch_status(PODS, pod, status)


async def _release(world: World, found: re.Match[str]) -> None:
    """Let a worker run that was held back."""
    owner = next(name for kind, name in world.story.lives if kind == world.operator.resources[0].kind)
    pod = f"{owner}-worker-{found[1]}"
    await world.client.patch(PODS, world.names.real(pod), {"metadata": {"annotations": {HOLD: None}}})


async def _delete(world: World, found: re.Match[str]) -> None:
    kind, name, policy = world.kind(found[1]), world.names.real(found[2]), found[3] or "Background"
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    path = kind.path(f"default/{name}" if kind.is_namespaced else name)
    await world.client.session.request("DELETE", path, body=json.dumps(body).encode())


async def _patch(world: World, found: re.Match[str]) -> None:
    kind, name = world.kind(found[1]), world.names.real(found[2])
    await world.client.patch(kind, f"default/{name}" if kind.is_namespaced else name, json.loads(found[3]))


async def _elsewhere(world: World, found: re.Match[str]) -> None:
    """Create a job of the same name and another size in a namespace that is not followed."""
    kind = world.kind(found[1])
    job = await world.client.read(kind, f"default/{found[2]}")
    assert job is not None
    spec = copy.deepcopy(job["spec"])
    spec["mpiReplicaSpecs"]["Worker"]["replicas"] = int(found[3])
    await world.client.create(kind, {"metadata": {"name": found[2], "namespace": found[4]}, "spec": spec})


async def _nothing(_world: World, _found: re.Match[str]) -> None:
    """Do nothing for a line that only describes the state of things."""


_PERFORMERS: dict[str, Performer] = {
    r"pod (\S+): status subresource patched to phase (\w+), containers terminated with exit code (\d+)": _end_pod,
    r"pod (\S+): status subresource patched to phase Failed, reason Evicted": _evict,
    r"pod (\S+): kubelet-like in-place restart, restartCount (\d+), lastState exit code (\d+), running again": (
        _restart_pod
    ),
    r"worker (\d+) is allowed to become Running(?: and Ready)?": _release,
    r"DELETE (\w+) (\S+)(?: propagationPolicy=(\w+))?": _delete,
    r"PATCH (\w+) (\S+) \(merge\) (.*)": _patch,
    r'create (\w+) (\S+) with (\d+) workers in the namespace "(\w+)" \(not recorded\)': _elsewhere,
    r"pod is gone|\(.*\)": _nothing,
}
