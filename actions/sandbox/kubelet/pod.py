"""The life of one pod on its node: pull, start, restart, end."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Coroutine
from typing import Any

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, UnreachableError
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import PODS, Document
from actions.sandbox.kubelet.container import ContainerRun, note_transitions, pod_status
from actions.sandbox.kubelet.log_file import LogFile
from actions.sandbox.kubelet.node_resources import NodeResources
from actions.sandbox.kubelet.pod_config import FailingProbe, pod_config, resolve_variables
from actions.sandbox.kubelet.process import run_program
from actions.sandbox.kubelet.process_context import process_context, restarts_after
from actions.sandbox.kubelet.rehearsals import RecordedLog, played_program, recorded_log_of
from actions.sandbox.model.account import pull_error_of
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.programs.files import MemoryVolume
from actions.sandbox.programs.program import ProgramStep

_SOURCE = "kubelet"
_LONGEST_BACKOFF_SECONDS = 60.0
_RETRY_SECONDS = 0.5
_KILLED = 143
_KILLED_BY_PROBE = 137
_MOST_EVENTS = 25
"""A kubelet writes no more of a pod at once."""


class PodRun:
    """A pod from its binding to its end. `run` is called once, as a task; cancelling it kills the containers.

    Args:
        pod: The pod as it was when bound.
        client: Writes its status.
        node_resources: Those of its node and the others.
        options: Delays and speed.
        clock: Wall time.
    """

    def __init__(
        self, pod: Document, client: ApiClient, node_resources: NodeResources, options: SandboxOptions, clock: Clock
    ) -> None:
        self._document = pod
        self.spec = pod_config(pod)
        self.init_containers = [ContainerRun(one, is_init=True) for one in self.spec.init_containers]
        self.containers = [ContainerRun(one) for one in self.spec.containers]
        self._client = client
        self._node_resources = node_resources
        self._options = options
        self._clock = clock
        self._phase = "Pending"
        self._address = ""
        self._started_at = client.timestamp()
        self._transitions: dict[str, tuple[str, str]] = {}
        self._volumes: dict[str, MemoryVolume] = {}
        self._recorded: RecordedLog | None = None
        self._reporting = asyncio.Lock()

    def container(self, name: str) -> ContainerRun | None:
        """The container, or init container, of that name."""
        return next((one for one in (*self.containers, *self.init_containers) if one.spec.name == name), None)

    async def run(self) -> None:
        """Run all containers until they have ended for good."""
        if not self.init_containers:
            self._set_creating()
        await self._report()
        try:
            await self._mount()
            self._recorded = await recorded_log_of(self._document, self.spec, self._client)
            self._address = self._node_resources.address()
            if await self._initialise():
                await self._run_all()
        finally:
            self._node_resources.give_back(self.spec.node, self.spec.uid)

    def kill(self) -> None:
        """Mark what still runs as killed; called after the task has been cancelled."""
        for container in (*self.init_containers, *self.containers):
            if container.is_running:
                container.end(_KILLED, self._client.timestamp())

    async def report_end(self) -> None:
        """Report the pod as it ended by force."""
        if self._phase == "Running":
            codes = [container.exit_code for container in self.containers]
            self._phase = "Succeeded" if all(code == 0 for code in codes) else "Failed"
        await self._report()

    async def _mount(self) -> None:
        is_told = False
        while True:
            volumes = await self._node_resources.storage.volumes_of(self.spec, self._client)
            if not isinstance(volumes, str):
                self._volumes = dict(volumes)
                await self._node_resources.observe_node(self.spec.node, self._client)
                return
            if not is_told:
                is_told = True
                await self._event("FailedMount", f"MountVolume.SetUp failed: {volumes}", is_warning=True)
            await self._clock.sleep(_RETRY_SECONDS)

    async def _initialise(self) -> bool:
        """Run the init containers one after the other. Returns whether the pod may start."""
        for container in self.init_containers:
            await self._run_container(container)
            if container.exit_code:
                self._phase = "Failed"
                await self._report()
                return False
        self._set_creating()
        return True

    async def _run_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for container in self.containers:
                group.create_task(self._run_container(container))
        failed = any(container.exit_code for container in self.containers)
        self._phase = "Failed" if failed else "Succeeded"
        await self._report()

    async def _run_container(self, container: ContainerRun) -> None:
        """Pull, run, and run again by the restart policy, until the container has ended for good."""
        await self._pull(container)
        while True:
            await self._configure(container)
            await self._clock.sleep(self._options.container_start_seconds)
            code = await self._run_once(container)
            if not restarts_after(self.spec, container, code):
                await self._report()
                return
            seconds = self._options.restart_backoff_seconds * 2.0**container.restarts
            await self._await_restart(container, min(seconds, _LONGEST_BACKOFF_SECONDS))

    async def _pull(self, container: ContainerRun) -> None:
        image, node = container.spec.image, self.spec.node
        is_there = self._node_resources.has_image(node, image)
        if is_there and not container.spec.pulls_always:
            await self._event("Pulled", f'Container image "{image}" already present on machine')
            return
        await self._event("Pulling", f'Pulling image "{image}"')
        if not is_there:
            await self._clock.sleep(self._options.image_pull_seconds)
            await self._retry_pull(container)
            self._node_resources.keep_image(node, image)
        await self._event("Pulled", f'Successfully pulled image "{image}"')

    async def _retry_pull(self, container: ContainerRun) -> None:
        """Pull a missing image again and again, at growing intervals."""
        image, seconds = container.spec.image, self._options.restart_backoff_seconds
        while problem := pull_error_of(image):
            container.state = {"waiting": {"reason": "ErrImagePull", "message": problem}}
            await self._report()
            await self._event("Failed", f'Failed to pull image "{image}": {problem}', is_warning=True)
            await self._event("Failed", "Error: ErrImagePull", is_warning=True)
            message = f'Back-off pulling image "{image}": ErrImagePull: {problem}'
            container.state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
            await self._report()
            await self._event("BackOff", f'Back-off pulling image "{image}"')
            await self._event("Failed", "Error: ImagePullBackOff", is_warning=True)
            await self._clock.sleep(seconds)
            seconds = min(2 * seconds, _LONGEST_BACKOFF_SECONDS)

    async def _configure(self, container: ContainerRun) -> None:
        """Read the variables that other objects hold; wait for those that are not there."""
        if not container.spec.references:
            return
        while True:
            found = await resolve_variables(container.spec.references, self.spec.namespace, self._client)
            if not isinstance(found, str):
                container.variables = found
                return
            waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": found}}
            if container.state != waiting:
                container.state = waiting
                await self._report()
                await self._event("Failed", f"Error: {found}", is_warning=True)
            await self._clock.sleep(_RETRY_SECONDS)

    async def _run_once(self, container: ContainerRun) -> int:
        context = process_context(
            container,
            self.spec,
            volumes=self._volumes,
            node_resources=self._node_resources,
            clock=self._clock,
            seed=self._options.seed,
        )
        container.begin(LogFile(self._now_ns), self._client.timestamp(), instance=self._instance(container))
        container.context = context
        if not container.is_init:
            self._phase = "Running"
        await self._event("Started", f"Started container {container.spec.name}")
        await self._report()

        def write(step: ProgramStep) -> None:
            if container.log is not None:
                container.log.write(step.text.encode())

        running = run_program(
            played_program(self._recorded, container, context),
            context,
            self._node_resources.runtime(self._options.speed, self._clock),
            member=f"{self.spec.uid}/{container.spec.name}/{container.restarts}",
            write=write,
            set_load=container.set_load,
        )
        probe = container.spec.failing_probe
        code = await (running if probe is None else self._probed(container.spec.name, running, probe))
        container.end(code, self._client.timestamp())
        return code

    async def _probed(self, name: str, program: Coroutine[Any, Any, int], probe: FailingProbe) -> int:
        """Run a program beside its probe; return the exit code: its own, or that of the probe's kill."""
        running, failing = asyncio.create_task(program), asyncio.create_task(self._fail(name, probe))
        try:
            await asyncio.wait((running, failing), return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else _KILLED_BY_PROBE
        finally:
            running.cancel()
            failing.cancel()
            await asyncio.gather(running, failing, return_exceptions=True)

    async def _fail(self, name: str, probe: FailingProbe) -> None:
        """Report the failures of a probe; return when the container is to be killed."""
        await self._clock.sleep(probe.delay_seconds / self._options.speed)
        for times in itertools.count(1):
            await self._clock.sleep(probe.period_seconds / self._options.speed)
            if times <= _MOST_EVENTS:
                await self._event("Unhealthy", probe.message(self._address), is_warning=True)
            if probe.kills and times == probe.failures:
                await self._event("Killing", f"Container {name} failed {probe.kind} probe, will be restarted")
                return

    async def _await_restart(self, container: ContainerRun, seconds: float) -> None:
        if container.restarts == 0:
            container.await_restart(reason="ContainerCreating", message="")
            return
        message = (
            f"back-off {seconds:.0f}s restarting failed container={container.spec.name} pod={self.spec.name}"
            f"_{self.spec.namespace}({self.spec.uid})"
        )
        container.await_restart(reason="CrashLoopBackOff", message=message)
        await self._report()
        await self._event(
            "BackOff",
            f"Back-off restarting failed container {container.spec.name} in pod {self.spec.name}",
            is_warning=True,
        )
        await self._clock.sleep(seconds)

    def _set_creating(self) -> None:
        for container in self.containers:
            container.state = {"waiting": {"reason": "ContainerCreating"}}

    async def _report(self) -> None:
        async with self._reporting:
            status = pod_status(
                self._phase,
                self.init_containers,
                self.containers,
                address=self._address,
                host=_host_address(self.spec.node),
                started_at=self._started_at,
            )
            note_transitions(status, self._client.timestamp(), self._transitions)
            while True:
                try:
                    await self._client.patch_status(PODS, self._document, status)
                    return
                except UnreachableError:
                    await self._clock.sleep(_RETRY_SECONDS)

    async def _event(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        try:
            await self._client.record_event(
                self._document, PODS, reason, message, source=_SOURCE, is_warning=is_warning
            )
        except ConsoleError:
            return  # a real kubelet does not send a lost event again either

    def _instance(self, container: ContainerRun) -> str:
        name = f"{self.spec.uid}/{container.spec.name}/{container.restarts}"
        return f"containerd://{hashlib.sha256(name.encode()).hexdigest()}"

    def _now_ns(self) -> int:
        moment = self._clock.now()
        return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _host_address(node: str) -> str:
    """The address in a node's name (`ip-10-0-1-5.…`), or one that stands for it."""
    parts = node.partition(".")[0].split("-")
    return ".".join(parts[1:]) if parts[0] == "ip" and len(parts) == 5 else "10.0.0.10"
