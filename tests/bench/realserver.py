"""A real API server with a made-up fleet in its store: `python -m tests.bench.realserver NODES PODS FOLDER`.

Nothing runs on it: no controller, no kubelet. It writes FOLDER/target.json when it serves, and ends with its parent's
stdin.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.bench.churn import Churn
from tests.bench.etcd import Store
from tests.bench.fleet import Fleet, full_pod
from tests.bench.serving import in_background, serving, until_stdin_ends
from tests.bench.target import Target
from tests.realcluster.harness.controlplane import api_server
from tests.realcluster.harness.parts import VERSION, build_all


async def serve(fleet: Fleet, folder: Path) -> None:
    """Serve until stdin ends, in a folder that is made if it is missing, by programs that are built if they are."""
    build_all()
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(api_server(folder / "cluster"))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        store = Store(plane.etcd, http)
        await store.fill(fleet.node(index, 0) for index in range(fleet.nodes))
        await store.fill(full_pod(fleet.pod(index, 0)) for index in range(fleet.pods))
        await _until_served(plane.kubeconfig)
        churn = Churn(fleet, lambda changed: store.put([full_pod(one) for one in changed]), version=0)
        application = web.Application()
        application.router.add_get("/bench/churn", churn.command)
        address = await stack.enter_async_context(serving(application))
        target = Target(
            server=f"kube-apiserver {VERSION}",
            kubeconfig=str(plane.kubeconfig),
            nodes=fleet.nodes,
            pods=fleet.pods,
            control=address,
        )
        target.write(folder)
        await stack.enter_async_context(in_background(churn.run()))
        await until_stdin_ends()


async def _until_served(kubeconfig: Path) -> None:
    """Wait until all can be read: a server whose store has just been filled breaks off the first who watch it."""
    is_served = False
    while not is_served:
        argv = (sys.executable, "-m", "tests.bench.reference", str(kubeconfig))
        reader = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=DEVNULL)
        if reader.stdout is None:
            raise RuntimeError("the reference client has no output")
        is_served = bool(await reader.stdout.readline())
        with suppress(ProcessLookupError):
            reader.terminate()
        await reader.wait()


if __name__ == "__main__":
    asyncio.run(serve(Fleet(int(sys.argv[1]), int(sys.argv[2])), Path(sys.argv[3]).resolve()))
