"""`python -m tests.realcluster.harness build`, `… serve FOLDER` or `… run COMMAND…`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError
from tests.realcluster.harness.cluster import RunningCluster, cluster
from tests.realcluster.harness.parts import build_all, has_go

VARIABLE = "REALCLUSTER"
"""Names the folder of the running cluster to the command."""
INTERRUPTED = 130


def main() -> int:
    """Do what the command line says; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.realcluster.harness", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build", help="build what is out of date")
    serve = verbs.add_parser("serve", help="run a cluster in a folder until it is interrupted")
    serve.add_argument("folder", type=Path)
    run = verbs.add_parser("run", help="run a command beside a cluster; its exit code is the command's")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()
    if not has_go():
        say("skipped: go is not on PATH")
        return 0
    try:
        build()
        if options.verb == "serve":
            return asyncio.run(ended_by_signals(until_interrupted(options.folder.resolve())))
        if options.verb == "run":
            return asyncio.run(ended_by_signals(beside_a_cluster(options.command)))
    except ConsoleError as error:
        say(error.sentence())
    except subprocess.CalledProcessError as error:
        say(f"{error.cmd[-1]} could not be built")
    else:
        return 0
    return 1


def build() -> None:
    """Build what is out of date, and say how long it took."""
    clock = SystemClock()
    began = clock.monotonic()
    built = build_all()
    if built:
        say(f"built {', '.join(built)} in {clock.monotonic() - began:.0f} s")


async def until_interrupted(folder: Path) -> int:
    """Serve until a signal comes."""
    async with AsyncExitStack() as stack:
        await start(stack, folder)
        await asyncio.get_running_loop().create_future()
    return 0


async def beside_a_cluster(command: Sequence[str]) -> int:
    """Run a command while a cluster runs."""
    with tempfile.TemporaryDirectory(prefix="realcluster-", ignore_cleanup_errors=True) as folder:
        async with AsyncExitStack() as stack:
            await start(stack, Path(folder))
            child = await asyncio.create_subprocess_exec(*command, env=os.environ | {VARIABLE: folder})
            try:
                return await child.wait()
            finally:
                if child.returncode is None:
                    child.terminate()
                    await child.wait()


async def start(stack: AsyncExitStack, folder: Path) -> RunningCluster:
    """Start a cluster, and say how long it took."""
    clock = SystemClock()
    began = clock.monotonic()
    running = await stack.enter_async_context(cluster(folder))
    say(f"{running.server} answers after {clock.monotonic() - began:.1f} s, kubeconfig {running.kubeconfig}")
    return running


async def ended_by_signals(work: Coroutine[None, None, int]) -> int:
    """Do the work; a signal cancels it, so that all that was started is ended."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return INTERRUPTED


def say(text: str) -> None:
    """One line for whoever watches."""
    sys.stderr.write(f"realcluster: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
