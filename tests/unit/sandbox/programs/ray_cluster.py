"""A Ray cluster of programs for tests: a head, workers and submitters that take turns by their own time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.network import HttpNetwork, HttpService, pod_host
from actions.sandbox.programs.program import ContainerView, NeuronLoad, Program
from actions.sandbox.programs.ray import node as ray_node
from actions.sandbox.programs.ray import submit as ray_submit
from actions.sandbox.programs.ray.dataset import FOLDER

HOST = "kuberay-trn1-head-svc.default.svc.cluster.local"
DEVICES = tuple(range(16))
_LONGEST_SECONDS = 3000.0


@dataclass(slots=True)
class Member:
    """One program on its way."""

    program: Program
    due: float
    text: str = ""
    exit_code: int | None = None
    load: NeuronLoad = field(default_factory=NeuronLoad)


class RayCluster:
    """Programs of one cluster on a shared volume."""

    def __init__(self, workers: int = 2) -> None:
        self.network = HttpNetwork()
        self.volume = MemoryVolume()
        self.now = 0.0
        self.members: dict[str, Member] = {}
        self.start("head", ray_node.lead(self._container("head", "ray start --head", RAY_CLUSTER_NAME="kuberay-trn1")))
        for index in range(workers):
            self.add_worker(f"worker-{index}")

    def add_worker(self, name: str) -> None:
        container = self._container(name, "ray start ", neurons=DEVICES, FQ_RAY_IP=HOST)
        self.start(name, ray_node.work(container), after_seconds=0.5)

    def start(self, name: str, program: Program, *, after_seconds: float = 0.0) -> None:
        self.members[name] = Member(program, self.now + after_seconds)

    def lose(self, name: str) -> None:
        """A pod is gone."""
        self.members.pop(name).program.close()

    def submit(self, name: str, entrypoint: str, environment: dict[str, Any] | None = None, *, job: str = "") -> Member:
        """Start a submitter and run everything until it has ended."""
        self.start(name, ray_submit.submit(self.submitter(name, entrypoint, environment, job=job)))
        return self.until_end(name)

    def submitter(
        self, name: str, entrypoint: str, environment: dict[str, Any] | None = None, *, job: str = ""
    ) -> ContainerView:
        words = ("ray", "job", "submit", "--address", f"http://{HOST}:8265")
        options = ("--runtime-env-json", json.dumps(environment or {}), "--submission-id", job or name)
        return self._container(name, *words, *options, "--", *entrypoint.split())

    def until_end(self, name: str) -> Member:
        member = self.members[name]
        while member.exit_code is None and self.now < _LONGEST_SECONDS:
            self.step()
        return member

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.step()

    def step(self) -> None:
        """The next step of whoever is first."""
        member = min((one for one in self.members.values() if one.exit_code is None), key=lambda one: one.due)
        self.now = member.due
        try:
            step = next(member.program)
        except StopIteration as end:
            member.exit_code = int(end.value or 0)
            return
        member.text += step.text
        member.load = step.load if isinstance(step.load, NeuronLoad) else member.load
        member.due += step.after_seconds

    def dashboard(self) -> HttpService:
        found = self.network.find(pod_host("default", "head"), 8265)
        assert found is not None
        return found

    def with_blocks(self) -> RayCluster:
        """The data job has done its work."""
        self.volume.put(FOLDER.removeprefix("/shared") + "/dataset_info.json", b"{}")
        return self

    def _container(self, pod: str, *argv: str, neurons: tuple[int, ...] = (), **environment: str) -> ContainerView:
        return ContainerView(
            "default",
            pod,
            "ray",
            "example/ray:2.22.0",
            argv,
            environment,
            FileView({"/shared": self.volume}),
            neurons=neurons,
            network=self.network,
            started_at=1.8e9,
        )
