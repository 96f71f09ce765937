"""All that the API server had, from beginning to end: every object's uid, and when it went."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from actions.base.clock import SystemClock
from actions.blueprint.render import RUN_LABEL
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.watch.health import SourceHealth
from actions.cluster.watch.reflector import Raw, Reflector
from actions.sandbox.apiserver.requests.request_info import CONTROLLER_AGENT
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Document,
    Kind,
    uid_of,
)

LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
KINDS = (NAMESPACES, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, PODS, JOBS, LEASES)
_SECONDS = 60.0


class Seen(msgspec.Struct):
    """One object of the server, by its uid."""

    kind: str
    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    has_owner: bool
    data: object
    """Of a ConfigMap or Secret."""
    first_at: float
    """Seconds since the epoch."""
    deletion_at: float = 0.0
    """The time at which its deletion was asked for; 0 if never."""
    gone_at: float = 0.0
    """0 while it is there."""
    phase: str = ""
    """Of a pod, the newest."""
    version: str = ""
    """The newest."""
    changes: int = 0
    """Number of newer versions that were seen before its deletion was asked for."""

    @property
    def run(self) -> str:
        """The run of its label; empty without one."""
        return self.labels.get(RUN_LABEL, "")

    @property
    def key(self) -> str:
        """Kind, namespace and name."""
        return f"{self.kind} {self.namespace}/{self.name}"


class History:
    """Watches a sandbox past all faults, and changes it as somebody else would; in a thread of its own.

    Args:
        kubeconfig: Of the sandbox.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.objects: dict[str, Seen] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._session = self._run(KubeSession.connect(ClusterTarget(kubeconfig), user_agent=CONTROLLER_AGENT))
        self._client = ApiClient(self._session, SystemClock())
        self._tasks = [self._run(self._begin(kind)) for kind in KINDS]

    def seen(self) -> list[Seen]:
        """All objects until now; a list of its own, as the thread goes on."""
        return list(self.objects.values())

    def put(self, kind: Kind, document: Document) -> str:
        """Make an object of somebody else; its uid."""
        made = self._run(self._client.create(kind, document))
        return uid_of(made) if made is not None else ""

    def remove(self, kind: Kind, key: str) -> None:
        """Delete an object of somebody else, and wait until it is gone."""
        self._run(self._removed(kind, key))

    def read(self, kind: Kind, key: str) -> Document | None:
        """The object as it is."""
        found: Document | None = self._run(self._client.read(kind, key))
        return found

    def first(self, kind: Kind) -> Document:
        """Some object of a kind that is always there."""
        items: list[Document] = self._run(self._session.get(kind.path()))["items"]
        return items[0]

    def fault(self, **settings: Any) -> None:
        """Turn a fault of the sandbox on."""
        body = msgspec.json.encode({name.replace("_", "-"): value for name, value in settings.items()})
        self._run(self._session.request("POST", "/sandbox/faults", body=body))

    def lift(self, name: str) -> None:
        """Turn a fault of the sandbox off."""
        with suppress(Exception):
            self._run(self._session.request("DELETE", f"/sandbox/faults/{name}"))

    def catch_up(self) -> None:
        """Wait until everything that is gone by now has been seen to go: the run may know sooner than these watches."""
        self._run(self._caught_up())

    def end(self) -> None:
        """End the thread."""
        self._run(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    async def _begin(self, kind: Kind) -> asyncio.Task[None]:
        sink = _Sink(kind, self.objects)
        stamp = {"apiVersion": kind.api_version, "kind": kind.kind}

        def decode(raw: Raw) -> Document:
            return stamp | msgspec.json.decode(raw, type=dict)

        reflector = Reflector(self._session, kind.path(), decode=decode, identify=uid_of, sink=sink)
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(_SECONDS):
            await sink.is_complete.wait()
        return task

    async def _removed(self, kind: Kind, key: str) -> None:
        await self._client.delete(kind, key, grace_seconds=0)
        async with asyncio.timeout(_SECONDS):
            while await self._client.read(kind, key) is not None:
                await asyncio.sleep(0.02)

    async def _caught_up(self) -> None:
        async with asyncio.timeout(_SECONDS):
            for kind in KINDS:
                known = [seen for seen in self.objects.values() if seen.kind == kind.kind and not seen.gone_at]
                there = {uid_of(item) for item in (await self._session.get(kind.path()))["items"]}
                while any(not seen.gone_at and seen.uid not in there for seen in known):
                    await asyncio.sleep(0.02)

    async def _ended(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.aclose()


class _Sink:
    def __init__(self, kind: Kind, objects: dict[str, Seen]) -> None:
        self._kind = kind
        self._objects = objects
        self._present: set[str] = set()
        self.is_complete = asyncio.Event()

    async def replace(self, items: Sequence[Document]) -> None:
        present = {uid_of(item) for item in items}
        for uid in self._present - present:
            self._objects[uid].gone_at = time.time()
        for item in items:
            self.upsert(item)
        self._present = present
        self.is_complete.set()

    def upsert(self, item: Document) -> None:
        metadata, uid = item["metadata"], uid_of(item)
        self._present.add(uid)
        known = self._objects.get(uid)
        if known is None:
            known = self._objects[uid] = Seen(
                self._kind.kind,
                str(metadata.get("namespace") or ""),
                str(metadata["name"]),
                uid,
                labels={},
                has_owner=bool(metadata.get("ownerReferences")),
                data=None,
                first_at=time.time(),
            )
        if known.version not in ("", metadata["resourceVersion"]) and not metadata.get("deletionTimestamp"):
            known.changes += 1
        known.version = str(metadata["resourceVersion"])
        known.labels = dict(metadata.get("labels") or {})
        known.data = item.get("data")
        known.phase = str((item.get("status") or {}).get("phase") or "")
        if metadata.get("deletionTimestamp") and not known.deletion_at:
            known.deletion_at = time.time()

    def remove(self, item: Document) -> None:
        uid = uid_of(item)
        self._present.discard(uid)
        if uid in self._objects and not self._objects[uid].gone_at:
            self._objects[uid].gone_at = time.time()

    def health(self, health: SourceHealth) -> None:
        return
