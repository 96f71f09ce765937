"""The real `kubectl` against a sandbox that this test process serves."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from actions.sandbox.aws.application import create_aws_app
from actions.sandbox.controllers.start import start_controllers
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.server import SandboxParts, serving
from tests.realcluster.running import real_cluster

PROGRAM = shutil.which("kubectl")
_SPEED = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call of `kubectl`."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Calls `kubectl` with a cluster's kubeconfig and a home of its own."""

    kubeconfig: Path
    home: Path
    speed: float = _SPEED
    """By how much `sleep` in a container is shorter than life."""
    is_real: bool = False

    def environment(self) -> dict[str, str]:
        """Return what `kubectl` gets: it ends before it is worth its while to collect garbage, a fifth of its work."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "GOGC": "off"}

    async def __call__(self, *argv: str, stdin: str = "", deadline_seconds: float = 300) -> Outcome:
        assert PROGRAM is not None
        child = await asyncio.create_subprocess_exec(
            PROGRAM,
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(),
        )
        try:
            async with asyncio.timeout(deadline_seconds):
                out, err = await child.communicate(stdin.encode())
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return Outcome(child.returncode or 0, out.decode(), err.decode())

    @asynccontextmanager
    async def started(self, *argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start one whose output is read line by line; it is ended with the context."""
        assert PROGRAM is not None
        child = await asyncio.create_subprocess_exec(
            PROGRAM, *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env=self.environment()
        )
        try:
            yield child
        finally:
            if child.returncode is None:
                child.kill()
            await child.communicate()

    async def ok(self, *argv: str, stdin: str = "") -> str:
        """Call it, and expect that it succeeds."""
        done = await self(*argv, stdin=stdin)
        assert done.code == 0, done.err
        return done.out


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncIterator[Kubectl]:
    """A sandbox with all its controllers, in a hurry."""
    options = SandboxOptions(
        speed=_SPEED,
        node_boot_seconds=0.1,
        node_ready_seconds=0.1,
        image_pull_seconds=0.05,
        container_start_seconds=0.05,
        stop_seconds=0.05,
    )
    kubelet = Kubelet(options)
    parts = SandboxParts(
        kubelet,
        controllers=lambda session: start_controllers(session, kubelet, options),
        aws=lambda session, key, authority: create_aws_app(session, options, key=key, authority=authority),
    )
    async with serving(folder, options, parts) as server:
        yield Kubectl(server.kubeconfig, folder)


@asynccontextmanager
async def a_real_cluster(folder: Path) -> AsyncIterator[Kubectl]:
    """The real cluster that this test run stands beside."""
    running = real_cluster()
    yield Kubectl(Path(running.kubeconfig), folder, running.speed, is_real=True)
