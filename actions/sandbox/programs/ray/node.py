"""The containers of a Ray cluster: `ray start` as head and as worker, and a worker's wait for the head.

The head also runs the drivers of the jobs that it is given, side by side, as Ray's job agent does.

Source: KubeRay 1.1.1 (commands, host names, waiting loop); Ray 2.22 `scripts.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from actions.sandbox.programs.network import HttpNetwork, pod_host
from actions.sandbox.programs.program import ContainerView, NeuronLoad, Program, ProgramStep
from actions.sandbox.programs.ray import dataset as ray_dataset
from actions.sandbox.programs.ray import launch as ray_launch
from actions.sandbox.programs.ray import llama2 as ray_llama2
from actions.sandbox.programs.ray.head import PORT, RayDashboard, RayHead, RayJob, RayNode

GCS_PORT = 6379
_CORES_OF_A_DEVICE = 2
_POLL_SECONDS = 0.5
_WAIT_SECONDS = 5.0
_ADDRESS = re.compile(r"--address (?P<host>[\w.-]+):(?P<port>\d+)")
_MISSING = 127
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

_DRIVERS: tuple[tuple[str, Callable[[ContainerView, RayHead, RayJob], Program]], ...] = (
    (ray_dataset.ENTRY, ray_dataset.prepare),
    (ray_llama2.ENTRY, ray_llama2.train),
)
"""The script that an entry point names, and its program; the output goes to the job's log."""


def is_head(container: ContainerView) -> bool:
    """Return whether this container starts the head of a Ray cluster."""
    return "ray start --head" in container.command_line


def is_worker(container: ContainerView) -> bool:
    """Return whether this container starts a worker."""
    return "ray start " in container.command_line and not is_head(container)


def is_waiting(container: ContainerView) -> bool:
    """Return whether this container waits until the head answers."""
    return "ray health-check" in container.command_line


def head_of(network: HttpNetwork, host: str, port: int = PORT) -> RayHead | None:
    """Return the head that listens there, `None` if none does."""
    service = network.find(host, port)
    return service.head if isinstance(service, RayDashboard) else None


def wait(container: ContainerView) -> Program:
    """Wait for the head, with a line every five seconds while it is not there."""
    found = _ADDRESS.search(container.command_line)
    elapsed = 0
    while found and head_of(container.network, found["host"], GCS_PORT) is None:
        yield ProgramStep(_WAIT_SECONDS, f"{elapsed} seconds elapsed: Waiting for GCS to be ready.\n")
        elapsed += int(_WAIT_SECONDS)
    yield ProgramStep(0.2, "GCS is ready.\n")
    return 0


def work(container: ContainerView) -> Program:
    """Run a worker: join the head and take on the load of its jobs, until the head is gone."""
    host = container.environment.get("FQ_RAY_IP", "")
    head = head_of(container.network, host, GCS_PORT)
    if head is None:
        yield ProgramStep(
            5.0, f"Failed to connect to GCS at address {host}:{GCS_PORT} within 5 seconds.\n", is_error=True
        )
        return 1
    address = _address(container)
    node = RayNode(container.pod, address, len(container.neurons) * _CORES_OF_A_DEVICE)
    head.join(node)
    try:
        yield ProgramStep(2.0, f"[2024-06-06 22:20:01,000 I 1 1] Local node IP: {address}\n")
        yield ProgramStep(1.0, _RUNTIME_STARTED + _BLOCKED)
        load = NeuronLoad()
        while head_of(container.network, host, GCS_PORT) is head:
            wanted = node.load
            yield ProgramStep(_POLL_SECONDS, load=None if wanted == load else wanted)
            load = wanted
    finally:
        head.leave(container.pod)
    yield ProgramStep(1.0, "The node lost its connection to the head (GCS); the raylet exits.\n", is_error=True)
    return 1


def lead(container: ContainerView) -> Program:
    """Run the head: serve the dashboard and run the drivers of jobs, for as long as the container lives."""
    elapsed = 0.0
    head = RayHead(container.environment.get("RAY_CLUSTER_NAME", container.pod), lambda: container.started_at + elapsed)
    dashboard = RayDashboard(head)
    name, namespace = f"{head.cluster}-head-svc"[-50:], container.namespace
    hosts = [pod_host(namespace, container.pod), f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}", name]
    for port in (PORT, GCS_PORT):
        container.network.listen(hosts, port, dashboard)
    running: list[_Running] = []
    try:
        yield ProgramStep(1.0, f"Local node IP: {_address(container)}\n")
        yield ProgramStep(0.5, _RUNTIME_STARTED + _NEXT_STEPS + _BLOCKED)
        while True:
            known = {one.job.submission_id for one in running}
            for job in head.jobs.values():
                if job.status == "PENDING" and job.submission_id not in known:
                    running.append(_Running(job, _driver(container, head, job), elapsed))
            due = min((one.due for one in running), default=elapsed + _POLL_SECONDS)
            pause = max(0.0, min(_POLL_SECONDS, due - elapsed))
            elapsed += pause
            yield ProgramStep(pause)
            running = [one for one in running if one.advance(head, elapsed)]
            if not running:
                head.set_load(NeuronLoad())
    finally:
        container.network.close(dashboard)


class _Running(msgspec.Struct):
    """The driver of one job."""

    job: RayJob
    program: Program
    due: float
    """The time of its next step, in seconds of the head's time."""
    pending: ProgramStep | None = None

    def advance(self, head: RayHead, elapsed: float) -> bool:
        """Do what is due. Return whether the driver continues."""
        if self.job.must_stop:
            self.program.close()
            self.job.end("STOPPED", head.now())
            return False
        while self.due <= elapsed:
            if self.pending is not None and self.pending.text:
                self.job.log.append(self.pending.text)
            try:
                self.pending = next(self.program)
            except StopIteration as end:
                code = int(end.value or 0)
                self.job.end("FAILED" if code else "SUCCEEDED", head.now(), code=code)
                return False
            self.due += self.pending.after_seconds
        return True


def _driver(container: ContainerView, head: RayHead, job: RayJob) -> Program:
    """Set up the runtime environment, then run the entry point in a shell."""
    yield ProgramStep(2.0)
    job.begin()
    environment = {**container.environment, **job.environment}
    line = _VARIABLE.sub(lambda found: environment.get(found[1] or found[2], ""), job.entrypoint)
    words = shlex.split(line)
    while words and re.fullmatch(r"\w+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if len(words) > 2 and words[1].endswith(f"/{ray_launch.LAUNCHER}"):
        launched = ray_launch.launch(words[2:], environment, container.files)
        yield ProgramStep(0.2, launched.text)
        if not launched.argv:
            return launched.code
        words = list(launched.argv)
    context = replace(container, argv=tuple(words), environment=environment)
    for word, driver in _DRIVERS:
        if any(word in one for one in words):
            return (yield from driver(context, head, job))
    yield ProgramStep(0.5, f"/bin/sh: 1: {words[0] if words else ''}: not found\n")
    return _MISSING


def _address(container: ContainerView) -> str:
    """An address of this pod as Ray prints it."""
    number = sum(container.pod.encode()) % 65_000
    return f"100.64.{number // 250 % 250}.{number % 250 + 1}"


_RUNTIME_STARTED = "\n--------------------\nRay runtime started.\n--------------------\n\n"
_NEXT_STEPS = (
    "Next steps\n  To add another node to this Ray cluster, run\n    ray start --address='<this node>:6379'\n"
    "  To see the status of the cluster, use\n    ray status\n  To monitor and debug Ray, view the dashboard at\n"
    f"    0.0.0.0:{PORT}\n\n"
)
_BLOCKED = (
    "--block\n  This command will now block forever until terminated by a signal.\n"
    "  Running subprocesses are monitored and a message will be printed if any of them terminate unexpectedly. "
    "Subprocesses exit with SIGTERM will be treated as graceful, thus NOT reported.\n"
)
