"""The cluster in which recordings were made, on the sandbox's API: the same nodes, a kubelet that only says Running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.apiserver.storage.store import EventType, Store, StoreEvent
from actions.sandbox.clientkit.cache import Caches, watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    CLAIMS,
    DEFINITIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    Document,
    Kind,
    is_deleting,
    key_of,
    labels_of,
    uid_of,
)
from actions.sandbox.controllers.core.scheduler import Scheduler
from tests.operators.normalise import Names, comparable, event_form, recorded_form
from tests.operators.operator import Operator
from tests.operators.story import Story
from tests.support.virtual import VirtualClock
from tests.unit.sandbox.controllers.server import bare_api

HOLD = "ops/hold"
"""The annotation of pods that stay Pending."""
_MOMENT_SECONDS = 1e-3
"""Of the loop's time, which passes only when nobody has anything left to do."""
_ACCELERATED = {"gpu": ("nvidia.com/gpu", "64", "32"), "trn": ("aws.amazon.com/neuron", "16", "8")}


class World:
    """The API, what is known of it, and the story that it makes.

    Args:
        operator: Whose objects are followed.
        client: The API, as the driver of the recordings had it.
        caches: Of all kinds that are watched; not those of the controllers, so that changes come as they are stored.
    """

    def __init__(self, operator: Operator, client: ApiClient, caches: Caches) -> None:
        self.operator = operator
        self.client = client
        self.story: Story = operator.story()
        self.names = Names(operator.beginnings)
        self.changed = asyncio.Event()
        self.acts: dict[str, Document] = {}
        """All that the performers of an operator keep, such as the state of a dashboard."""
        self._caches = caches
        self._seen: dict[str, str] = {}
        """uid → key of what is known to be there."""
        self._tasks: set[asyncio.Task[Any]] = set()
        for cache in caches.all():
            if cache.kind not in (NODES, CLAIMS, DEFINITIONS, NAMESPACES):
                cache.listen(self._on_change)

    def kind(self, name: str) -> Kind:
        """The watched kind of that name."""
        return next(cache.kind for cache in self._caches.all() if cache.kind.kind == name)

    def find(self, kind: str, name: str) -> Document:
        """An object in the namespace of the recordings, by its (hidden) name.

        Raises:
            KeyError: There is none.
        """
        found = self._caches[self.kind(kind)].get(f"default/{self.names.real(name)}")
        if found is None:
            raise KeyError(f"{kind} {name}")
        return found

    async def started(self, name: str) -> Document:
        """A pod by its (hidden) name, once the kubelet has said that it runs; a pod that is held back at once."""
        while True:
            pod = self.find("Pod", name)
            is_held = HOLD in (pod["metadata"].get("annotations") or {})
            if is_held or (pod.get("status") or {}).get("phase", "Pending") != "Pending":
                return pod
            await self.moved()

    async def moved(self) -> None:
        """Wait until something has changed and all that follows from it at once has happened."""
        self.changed.clear()
        await self.changed.wait()
        await asyncio.sleep(_MOMENT_SECONDS)

    def soon(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have something done beside."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def rest(self) -> None:
        """End what is done beside."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_change(self, document: Document) -> None:
        kind = document["kind"]
        if document["metadata"].get("namespace", "default") != "default" or labels_of(document).get("component"):
            return
        is_there = self._caches[self.kind(kind)].get(key_of(document)) is document
        hidden = self.names.hide(document)
        if kind == EVENTS.kind:
            self.story.see({"type": "ADDED", "event": event_form(hidden)})
        else:
            self._tell(document, hidden, is_there=is_there)
            if kind == PODS.kind and is_there:
                self._on_pod(document)
        self.changed.set()

    def _tell(self, document: Document, hidden: Document, *, is_there: bool) -> None:
        uid = uid_of(document)
        if not is_there and uid not in self._seen:
            return
        change: Document = {"kind": document["kind"], "name": key_of(hidden)}
        if not is_there:
            del self._seen[uid]
            self.story.see(change | {"type": "DELETED"})
            return
        change |= {"labels": {}, "annotations": {}, "finalizers": []} | recorded_form(document["kind"], hidden)
        self.story.see(comparable(change | {"type": "MODIFIED" if uid in self._seen else "ADDED"}))
        self._seen[uid] = change["name"]

    def _on_pod(self, pod: Document) -> None:
        status = pod.get("status") or {}
        if is_deleting(pod):
            if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
                self.soon(self.client.delete(PODS, key_of(pod), uid=uid_of(pod), grace_seconds=0))
        elif (
            pod["spec"].get("nodeName")
            and status.get("phase") == "Pending"
            and HOLD not in (pod["metadata"].get("annotations") or {})
        ):
            self.soon(self.client.patch_status(PODS, pod, running(pod)))


@asynccontextmanager
async def world(operator: Operator, folder: Path) -> AsyncIterator[World]:
    """The cluster of the recordings with one of our operators in it, for as long as the context lasts."""
    clock, store = VirtualClock(), Store()
    kinds = tuple(dict.fromkeys((PODS, NODES, CLAIMS, *operator.made, *operator.resources, *operator.watched)))
    seen = _stored(store, (*kinds, EVENTS))
    async with bare_api(folder, operator.webhooks, clock, store) as client:
        for name in ("default", "other"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        for definition in operator.definitions():
            await client.create(DEFINITIONS, definition)
        for node in nodes():
            await client.create(NODES, node)
        async with watching(client.session, kinds, clock) as caches:
            stage = World(operator, client, seen)
            controllers = [Scheduler(client, caches), *operator.controllers(client, caches)]
            tasks = [asyncio.create_task(one.run(), name=type(one).__name__) for one in controllers]
            try:
                yield stage
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await stage.rest()


def _stored(store: Store, kinds: Sequence[Kind]) -> Caches:
    """Caches that are told of each change as it is stored, without a watch for each kind beside the controllers'."""
    caches = Caches(kinds)
    of_key = {GroupResource(kind.api_version.rpartition("/")[0], kind.plural): caches[kind] for kind in kinds}

    def take(event: StoreEvent) -> None:
        cache = of_key.get(event.after.key)
        if cache is not None:
            change = cache.remove if event.change is EventType.DELETED else cache.upsert
            change(msgspec.json.decode(event.after.raw))

    store.listen(take)
    return caches


def nodes() -> list[Document]:
    """Two nodes for all, two with GPUs (tainted), two with Neuron devices (not tainted)."""
    found = []
    for name, cpu, memory in (("core", "400", "2000Gi"), ("gpu", "96", "1100Gi"), ("trn", "128", "512Gi")):
        found += [node(f"{name}-{index}", name, cpu, memory) for index in (0, 1)]
    return found


def node(name: str, group: str, cpu: str, memory: str) -> Document:
    """A node of the group core, gpu or trn."""
    offered = {"cpu": cpu, "memory": memory, "pods": "500"}
    if group in _ACCELERATED:
        device, count, interfaces = _ACCELERATED[group]
        offered |= {device: count, "vpc.amazonaws.com/efa": interfaces, "hugepages-2Mi": "100Gi"}
    labels = {"kubernetes.io/hostname": name} | ({"instance-type": "trn1-32xl"} if group == "trn" else {})
    taints = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}] if group == "gpu" else []
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": offered, "allocatable": offered, "conditions": [ready]},
    }


def running(pod: Document, restarts: int = 0) -> Document:
    """The status of a pod that runs and is ready."""
    return _status(pod, "Running", {"running": {}}, restarts)


def ended(pod: Document, phase: str, code: int) -> Document:
    """The status of a pod whose containers have ended with an exit code."""
    reason = "Completed" if code == 0 else "Error"
    return _status(pod, phase, {"terminated": {"exitCode": code, "reason": reason}}, 0)


def _status(pod: Document, phase: str, state: Document, restarts: int) -> Document:
    is_ready = phase == "Running"
    names = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": phase,
        "podIP": "10.0.0.9",
        "conditions": [
            {"type": name, "status": str(is_ready or name in ("Initialized", "PodScheduled"))} for name in names
        ],
        "initContainerStatuses": [
            _container(one, {"terminated": {"exitCode": 0, "reason": "Completed"}}, 0, is_ready=True)
            for one in pod["spec"].get("initContainers") or ()
        ],
        "containerStatuses": [_container(one, state, restarts, is_ready=is_ready) for one in pod["spec"]["containers"]],
    }


def _container(container: Document, state: Document, restarts: int, *, is_ready: bool) -> Document:
    about = {"name": container["name"], "image": container["image"], "imageID": "", "ready": is_ready}
    return about | {"restartCount": restarts, "state": state}
