"""The programs of one pod on a real cluster: kwok starts it and shows its log, this runs what is in it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.base.clock import Clock
from actions.base.errors import UnreachableError
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import PODS, Document, Kind
from actions.sandbox.kubelet.container import ContainerRun, note_transitions, pod_status
from actions.sandbox.kubelet.log_file import LogFile
from actions.sandbox.kubelet.node_resources import NodeResources
from actions.sandbox.kubelet.pod_config import pod_config, resolve_variables
from actions.sandbox.kubelet.process import run_program
from actions.sandbox.kubelet.process_context import process_context, restarts_after
from actions.sandbox.kubelet.rehearsals import RecordedLog, played_program, recorded_log_of
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.programs.files import MemoryVolume
from actions.sandbox.programs.program import ProgramStep
from tests.realcluster.harness.crilog import CriLog, RunMarker
from tests.realcluster.harness.ports import PORT_FORWARDS, open_ports

LOGS = Kind("kwok.x-k8s.io/v1alpha1", "Logs", "logs")
PREPARED = "realcluster.test/prepared"
_LONGEST_BACKOFF_SECONDS = 60.0
_SOURCE = "kubelet"
_MOUNT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Site:
    """The parts that all pods of a cluster share."""

    client: ApiClient
    node_resources: NodeResources
    options: SandboxOptions
    clock: Clock
    folder: Path
    """Of the log files."""
    homes: Path
    """The folder of the homes of those who rehearse."""


class PodFeed:
    """One pod from its binding to its end. `run` is called once, as a task; cancelling it kills the containers."""

    def __init__(self, pod: Document, site: Site) -> None:
        self._pod = pod
        self.spec = pod_config(pod)
        self.containers = [ContainerRun(one) for one in self.spec.containers]
        self._site = site
        self._client = site.client
        self._folder = site.folder / self.spec.namespace / self.spec.name
        self._is_started = asyncio.Event()
        self._volumes: dict[str, MemoryVolume] = {}
        self._transitions: dict[str, tuple[str, str]] = {}
        self._recorded: RecordedLog | None = None

    def container(self, name: str) -> ContainerRun | None:
        """The container of that name."""
        return next((one for one in self.containers if one.spec.name == name), None)

    def started(self, pod: Document) -> None:
        """kwok has called it Running."""
        self._pod = pod
        self._is_started.set()

    async def run(self) -> None:
        """Live until all containers have ended for good."""
        async with AsyncExitStack() as stack:
            await self._prepare(stack)
            await self._is_started.wait()
            await self._mount()
            states = sorted(self._site.homes.glob("*/state/eksml-tui"))
            self._recorded = await recorded_log_of(self._pod, self.spec, self._client, states)
            try:
                async with asyncio.TaskGroup() as group:
                    for container in self.containers:
                        group.create_task(self._live(container))
            finally:
                self._site.node_resources.give_back(self.spec.node, self.spec.uid)
                for container in self.containers:
                    container.context = None
                    self._marker(container).ended(container.restarts)
        failed = any(container.exit_code for container in self.containers)
        await self._report("Failed" if failed else "Succeeded")

    async def _prepare(self, stack: AsyncExitStack) -> None:
        """Lay out the log files, listen on the ports, tell kwok of both, and let it start the pod."""
        for container in (*self.containers, *(ContainerRun(one) for one in self.spec.init_containers)):
            CriLog(self._path(container)).close()
            self._marker(container).running(0)
        metadata = {"name": self.spec.name, "namespace": self.spec.namespace, "ownerReferences": [self._owner()]}
        await self._client.delete(LOGS, self.spec.key)
        await self._client.create(LOGS, {"metadata": metadata, "spec": self._log_files()})
        forwards = await open_ports(stack, self.spec, self._site.node_resources.network)
        if forwards:
            await self._client.delete(PORT_FORWARDS, self.spec.key)
            await self._client.create(PORT_FORWARDS, {"metadata": metadata, "spec": {"forwards": forwards}})
        await self._client.patch(PODS, self.spec.key, {"metadata": {"annotations": {PREPARED: "true"}}})

    async def _mount(self) -> None:
        while isinstance(found := await self._site.node_resources.storage.volumes_of(self.spec, self._client), str):
            await self._site.clock.sleep(_MOUNT_SECONDS)
        self._volumes = dict(found)
        await self._site.node_resources.observe_node(self.spec.node, self._client)
        await self._site.node_resources.observe_node(self.spec.node, self._client)

    async def _live(self, container: ContainerRun) -> None:
        while True:
            await self._configure(container)
            code = await self._run_once(container)
            if not restarts_after(self.spec, container, code):
                await self._report("Running")
                return
            seconds = min(
                self._site.options.restart_backoff_seconds * 2.0**container.restarts, _LONGEST_BACKOFF_SECONDS
            )
            message = f"back-off {seconds:.0f}s restarting failed container={container.spec.name} pod={self.spec.key}"
            container.await_restart(reason="CrashLoopBackOff", message=message)
            await self._report("Running")
            await self._site.clock.sleep(seconds)
            CriLog(self._path(container)).close()
            await self._client.patch(LOGS, self.spec.key, {"spec": self._log_files()})

    async def _configure(self, container: ContainerRun) -> None:
        """Wait until the objects are there that hold the container's variables."""
        references = container.spec.references
        while isinstance(found := await resolve_variables(references, self.spec.namespace, self._client), str):
            await self._site.clock.sleep(_MOUNT_SECONDS)
        container.variables = found

    async def _run_once(self, container: ContainerRun) -> int:
        context = process_context(
            container,
            self.spec,
            volumes=self._volumes,
            node_resources=self._site.node_resources,
            clock=self._site.clock,
            seed=self._site.options.seed,
        )
        written = CriLog(self._path(container))
        instance = f"kwok://{self.spec.uid}/{container.spec.name}/{container.restarts}"
        container.begin(LogFile(self._now_ns, written.append), self._client.timestamp(), instance=instance)
        container.context = context
        marker = self._marker(container)
        marker.running(container.restarts)
        await self._client.record_event(
            self._pod, PODS, "Started", f"Started container {container.spec.name}", source=_SOURCE
        )
        if container.restarts:
            await self._report("Running")

        def write(step: ProgramStep) -> None:
            if container.log is not None:
                container.log.write(step.text.encode())

        try:
            code = await run_program(
                played_program(self._recorded, container, context),
                context,
                self._site.node_resources.runtime(self._site.options.speed, self._site.clock),
                member=f"{self.spec.uid}/{container.spec.name}/{container.restarts}",
                write=write,
                set_load=container.set_load,
            )
            container.end(code, self._client.timestamp())
        finally:
            written.close()
            marker.ended(container.restarts)
        return code

    async def _report(self, phase: str) -> None:
        known = self._pod.get("status") or {}
        status = pod_status(
            phase,
            [],
            self.containers,
            address=known.get("podIP", ""),
            host=known.get("hostIP", ""),
            started_at=known.get("startTime", self._client.timestamp()),
        )
        note_transitions(status, self._client.timestamp(), self._transitions)
        while True:
            try:
                await self._client.patch_status(PODS, self._pod, status)
                return
            except UnreachableError:
                await self._site.clock.sleep(_MOUNT_SECONDS)

    def _path(self, container: ContainerRun, *, before: int = 0) -> Path:
        return self._folder / self.spec.uid / f"{container.spec.name}-{container.restarts - before}.log"

    def _marker(self, container: ContainerRun) -> RunMarker:
        return RunMarker(self._folder / f"{container.spec.name}.run")

    def _log_files(self) -> dict[str, Any]:
        init = [ContainerRun(one) for one in self.spec.init_containers]
        logs = []
        for container in (*self.containers, *init):
            files: dict[str, Any] = {"containers": [container.spec.name], "logsFile": str(self._path(container))}
            if container.restarts:
                files["previousLogsFile"] = str(self._path(container, before=1))
            logs.append(files | {"follow": True})
        return {"logs": logs}

    def _owner(self) -> Document:
        return {"apiVersion": "v1", "kind": "Pod", "name": self.spec.name, "uid": self.spec.uid}

    def _now_ns(self) -> int:
        moment = self._site.clock.now()
        return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
