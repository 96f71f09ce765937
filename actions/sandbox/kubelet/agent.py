"""The kubelet of every node of the sandbox, in one: pods in, status, logs and exec out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConsoleError
from actions.cluster.auth.session import KubeSession
from actions.sandbox.clientkit.cache import watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import NODES, PODS, VOLUMES, Document, is_deleting, key_of, uid_of
from actions.sandbox.kubelet.container import ContainerRun
from actions.sandbox.kubelet.log_file import LogFile
from actions.sandbox.kubelet.node_resources import NodeResources
from actions.sandbox.kubelet.pod import PodRun
from actions.sandbox.kubelet.remote import RemoteCommand, answer
from actions.sandbox.model.kubelet_api import (
    ContainerLogRef,
    ContainerNotRunning,
    ExecStreams,
    PodLogOptions,
    PortStream,
)
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.programs.network import pod_host

_RETRY_SECONDS = 0.3
_LOOK_SECONDS = 0.2
_KILLED = 137


class Kubelet:
    """Runs the pods bound to nodes while `serving`; serves logs and exec at any time (a `KubeletApi`).

    Args:
        options: Delays and speed.
        clock: Wall time.
    """

    def __init__(self, options: SandboxOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._node_resources = NodeResources()
        self._runs: dict[str, PodRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, session: KubeSession) -> AsyncIterator[None]:
        """Watch pods and run them until the context is left."""
        client = ApiClient(session, self._clock)
        async with watching(session, (PODS, NODES, VOLUMES), self._clock) as caches:

            def look(pod: Document) -> None:
                self._on_pod(pod, client, is_gone=caches[PODS].get(key_of(pod)) is not pod)

            def look_at_volume(volume: Document) -> None:
                if caches[VOLUMES].get(key_of(volume)) is not volume:
                    self._node_resources.storage.forget(key_of(volume))

            def look_at_node(node: Document) -> None:
                if caches[NODES].get(key_of(node)) is not node:
                    self._node_resources.forget_node(key_of(node))

            caches[PODS].listen(look)
            caches[NODES].listen(look_at_node)
            caches[VOLUMES].listen(look_at_volume)
            try:
                yield
            finally:
                tasks = [*self._tasks.values(), *self._endings]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def log_chunks(self, source: ContainerLogRef, request: PodLogOptions) -> AsyncIterator[bytes]:
        """The log of one container; see `KubeletApi`."""
        run = self._runs.get(source.uid)
        is_it = run is not None and run.spec.key == f"{source.namespace}/{source.pod}"
        found = run.container(source.container) if run is not None and is_it else None
        log: LogFile | None = None
        if found is not None:
            log = found.previous_log if source.previous else found.log
        if log is None:
            raise KeyError(f"{source.namespace}/{source.pod}/{source.container}")
        return log.read(replace(request, follow=request.follow and not source.previous))

    async def exec(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, tty: bool, streams: ExecStreams
    ) -> int:
        """Run a program in a running container; see `KubeletApi`."""
        key = f"{namespace}/{pod}"
        candidates = [run for run in self._runs.values() if run.spec.key == key]
        for run in reversed(candidates):
            found = run.container(container)
            if found is not None and found.context is not None:
                command = RemoteCommand(found.context, streams, tty=tty, clock=self._clock)
                return await _while_it_runs(found, command.run(argv))
        raise ContainerNotRunning(f"container {container} of pod {key} does not run")

    async def forward(self, namespace: str, pod: str, port: int, stream: PortStream) -> None:
        """Connect a client with a port of a running container; see `KubeletApi`."""
        key = f"{namespace}/{pod}"
        for run in self._runs.values():
            if run.spec.key == key and any(one.is_running and port in one.spec.ports for one in run.containers):
                service = self._node_resources.network.find(pod_host(namespace, pod), port)
                await answer(stream, pod=pod, port=port, service=service)
                return
        raise ContainerNotRunning(f"dial tcp4 127.0.0.1:{port}: connect: connection refused")

    def _on_pod(self, pod: Document, client: ApiClient, *, is_gone: bool) -> None:
        """Start, stop or forget a pod, according to its newest version."""
        uid = uid_of(pod)
        if is_gone:
            self._forget(uid)
        elif is_deleting(pod):
            self._end(pod, client)
        elif pod["spec"].get("nodeName") and uid not in self._tasks and not _is_over(pod):
            run = PodRun(pod, client, self._node_resources, self._options, self._clock)
            self._runs[uid] = run
            self._tasks[uid] = asyncio.create_task(_guarded(run), name=f"pod {run.spec.key}")

    def _is_ending(self, uid: str) -> bool:
        return any(task.get_name() == f"end {uid}" for task in self._endings)

    def _end(self, pod: Document, client: ApiClient) -> None:
        if not pod["spec"].get("nodeName") or self._is_ending(uid_of(pod)):
            return
        task = asyncio.create_task(self._stop(pod, client), name=f"end {uid_of(pod)}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _stop(self, pod: Document, client: ApiClient) -> None:
        """End the containers, then remove the pod from the API, as a kubelet does when the grace period is over."""
        uid = uid_of(pod)
        task, run = self._tasks.get(uid), self._runs.get(uid)
        if task is not None and not task.done():
            await self._clock.sleep(self._options.stop_seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while True:
            try:
                if run is not None:
                    run.kill()
                    await run.report_end()
                await client.delete(PODS, key_of(pod), uid=uid, grace_seconds=0)
            except ConsoleError:
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                return

    def _forget(self, uid: str) -> None:
        task = self._tasks.pop(uid, None)
        run = self._runs.pop(uid, None)
        if task is not None:
            task.cancel()
        if run is not None:
            run.kill()


async def _guarded(run: PodRun) -> None:
    """Run a pod; where the API cannot be reached for good, the pod is left as it was last reported."""
    try:
        await run.run()
    except* ConsoleError:
        run.kill()


def _is_over(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


async def _while_it_runs(container: ContainerRun, command: Coroutine[None, None, int]) -> int:
    """Return the exit code of a command in a container; it is killed when the container's own process ends."""
    context, task = container.context, asyncio.create_task(command)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
            if container.context is not context and not task.done():
                return _KILLED
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
