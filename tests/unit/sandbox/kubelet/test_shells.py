"""Launchers that run processes in other pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.sandbox.kubelet.process import ProgramRuntime, SshServers, run_program
from actions.sandbox.kubelet.rendezvous import RendezvousTable
from actions.sandbox.programs.mpirun import sshd
from actions.sandbox.programs.program import ProcessContext, Program, ProgramStep, RemoteFailed, RemoteProcess
from tests.support.polling import until
from tests.unit.sandbox.programs.containers import a_container, context


class _Cluster:
    """A launcher and some workers that let it in."""

    def __init__(self, *workers: str) -> None:
        self.runtime = ProgramRuntime(1000.0, SystemClock(), RendezvousTable(), SshServers())
        self.insides = {name: context(a_container(name)) for name in workers}
        self.workers = {name: asyncio.create_task(self._serve(one)) for name, one in self.insides.items()}
        self.written: list[str] = []

    async def _serve(self, place: ProcessContext) -> int:
        program = sshd(place.container)
        return await self._run(program, place, lambda step: None)

    async def _run(self, program: Program, place: ProcessContext, write: Callable[[ProgramStep], None]) -> int:
        member = place.container.pod
        return await run_program(program, place, self.runtime, member=member, write=write, set_load=lambda load: None)

    async def launch(self, *processes: RemoteProcess) -> int:
        """Run processes from a launcher, once the workers let it in, and return its code."""
        async with asyncio.timeout(60):
            while len(self.runtime.ssh_servers._servers) < len(self.insides):
                await asyncio.sleep(0)
        place = context(a_container("launcher"))
        return await self._run(_launcher(processes), place, lambda step: self.written.append(step.text))

    async def end(self) -> None:
        for task in self.workers.values():
            task.cancel()
        await asyncio.gather(*self.workers.values(), return_exceptions=True)


def _launcher(processes: tuple[RemoteProcess, ...]) -> Program:
    try:
        yield ProgramStep(remote=processes)
    except RemoteFailed as failed:
        yield ProgramStep(text=f"failed: {failed.host} {failed.code} {failed.is_unreachable}\n")
        return 1
    yield ProgramStep(text="all ended\n")
    return 0


def _process(host: str, script: str, **environment: str) -> RemoteProcess:
    return RemoteProcess(host, ("sh", "-c", script), environment)


async def test_processes_run_where_they_were_sent_and_their_output_comes_back() -> None:
    cluster = _Cluster("w-0", "w-1")
    code = await cluster.launch(
        _process("w-0.svc.default.svc", "echo $RANK on $HOSTNAME > /fsx/zero; cat /fsx/zero", RANK="0"),
        _process("w-1", "echo $PET_NNODES-", RANK="1"),
    )
    await cluster.end()
    assert code == 0
    assert sorted(cluster.written) == ["-\n", "0 on w-0\n", "all ended\n"]
    assert cluster.insides["w-0"].container.files.file("/fsx/zero") is not None


async def test_the_first_bad_code_ends_the_rest() -> None:
    cluster = _Cluster("w-0", "w-1")
    code = await cluster.launch(_process("w-0", "sleep infinity"), _process("w-1", "exit 3"))
    await cluster.end()
    assert (code, cluster.written) == (1, ["failed: w-1 3 False\n"])


async def test_a_host_that_does_not_let_in_cannot_be_reached() -> None:
    cluster = _Cluster("w-0")
    assert await cluster.launch(_process("w-0", "sleep 1"), _process("w-7", "true")) == 1
    await cluster.end()
    assert cluster.written == ["failed: w-7 None True\n"]


async def test_a_worker_that_is_killed_is_lost_to_its_launcher() -> None:
    cluster = _Cluster("w-0", "w-1")
    launching = asyncio.create_task(
        cluster.launch(_process("w-0", "sleep infinity"), _process("w-1", "echo here; sleep infinity"))
    )
    await until(lambda: cluster.written, "what the process prints")
    async with asyncio.timeout(60):
        cluster.workers["w-1"].cancel()
        assert await launching == 1
    await cluster.end()
    assert cluster.written[-1] == "failed: w-1 None False\n"


async def test_the_end_of_a_launcher_ends_what_it_has_started() -> None:
    cluster = _Cluster("w-0")
    launching = asyncio.create_task(cluster.launch(_process("w-0", "echo here; sleep infinity")))
    await until(lambda: cluster.written, "what the process prints")
    async with asyncio.timeout(60):
        launching.cancel()
        await asyncio.gather(launching, return_exceptions=True)
        assert await cluster.launch(replace(_process("w-0", "true"))) == 0
    await cluster.end()
