"""The programs of all pods on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from actions.base.clock import Clock
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.exec import Channel
from actions.sandbox.clientkit.cache import watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import PODS, VOLUMES, Document, is_deleting, key_of, uid_of
from actions.sandbox.kubelet.container import ContainerRun
from actions.sandbox.kubelet.node_resources import NodeResources
from actions.sandbox.kubelet.remote import RemoteCommand
from actions.sandbox.model.kubelet_api import ContainerNotRunning, ExecStreams, PodLogOptions
from actions.sandbox.model.options import SandboxOptions
from tests.realcluster.harness.background import in_background
from tests.realcluster.harness.pods import PodFeed, Site


class Containers:
    """Runs what is bound to nodes while `serving`.

    Args:
        options: Delays and speed.
        clock: Wall time.
        folder: Of the log files.
        homes: The folder of the homes of those who rehearse.
    """

    def __init__(self, options: SandboxOptions, clock: Clock, folder: Path, homes: Path) -> None:
        self._options = options
        self._clock = clock
        self._folder = folder
        self._homes = homes
        self._node_resources = NodeResources()
        self._feeds: dict[str, PodFeed] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def serving(self, session: KubeSession) -> AsyncIterator[None]:
        """Watch pods and run them until the context is left."""
        client = ApiClient(session, self._clock)
        site = Site(client, self._node_resources, self._options, self._clock, self._folder, self._homes)
        async with watching(session, (PODS, VOLUMES), self._clock) as caches:

            def look(pod: Document) -> None:
                self._look(pod, site, is_gone=caches[PODS].get(key_of(pod)) is not pod)

            def look_at_volume(volume: Document) -> None:
                if caches[VOLUMES].get(key_of(volume)) is not volume:
                    self._node_resources.storage.forget(key_of(volume))

            caches[PODS].listen(look)
            caches[VOLUMES].listen(look_at_volume)
            try:
                yield
            finally:
                tasks = list(self._tasks.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def exec(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, tty: bool, streams: ExecStreams
    ) -> int:
        """Run a command in a container and return its exit code.

        Raises:
            ContainerNotRunning: It does not run.
        """
        found = self._running(namespace, pod, container)
        assert found.context is not None
        return await RemoteCommand(found.context, streams, tty=tty, clock=self._clock).run(argv)

    async def attach(self, namespace: str, pod: str, container: str, streams: ExecStreams) -> None:
        """Pass on what a container prints from now on, until it ends.

        Raises:
            ContainerNotRunning: It does not run.
        """
        log = self._running(namespace, pod, container).log
        if log is not None:
            async for chunk in log.read(PodLogOptions(follow=True, tail_lines=0)):
                await streams.write(Channel.STDOUT, chunk)

    def _running(self, namespace: str, pod: str, container: str) -> ContainerRun:
        for feed in self._feeds.values():
            found = feed.container(container) if feed.spec.key == f"{namespace}/{pod}" else None
            if found is not None and found.context is not None:
                return found
        raise ContainerNotRunning(f"container {container} of pod {namespace}/{pod} does not run")

    def _look(self, pod: Document, site: Site, *, is_gone: bool) -> None:
        uid, phase = uid_of(pod), (pod.get("status") or {}).get("phase")
        if is_gone or is_deleting(pod):
            self._end(uid)
            return
        if pod["spec"].get("nodeName") and uid not in self._tasks and phase == "Pending":
            feed = PodFeed(pod, site)
            self._feeds[uid] = feed
            self._tasks[uid] = in_background(feed.run(), f"pod {feed.spec.key}")
        if phase == "Running" and uid in self._feeds:
            self._feeds[uid].started(pod)

    def _end(self, uid: str) -> None:
        self._feeds.pop(uid, None)
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()
