"""`python -m tests.realnode.harness build`, `… serve` or `… run COMMAND…`."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError
from tests.realcluster.harness.__main__ import INTERRUPTED, ended_by_signals
from tests.realcluster.harness.parts import Part, has_go
from tests.realnode.harness.cluster import RunningNodes, cluster
from tests.realnode.harness.namespaces import PARENT, inside, missing
from tests.realnode.harness.parts import PARTS, PARTS_OF_TODAY, build_all
from tests.realnode.harness.trainer import build_trainer, lacking

VARIABLE = "REALNODE"
"""Names the folder of the running cluster to the command."""


def main() -> int:
    """Do what the command line says; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.realnode.harness", description=__doc__)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build", help="build what is out of date")
    verbs.add_parser("serve", help="run a cluster until it is interrupted, and say how one gets into it")
    run = verbs.add_parser("run", help="run a command beside a cluster; its exit code is the command's")
    for verb in verbs.choices.values():
        verb.add_argument("--today", action="store_true", help="with the operators that no blueprint installs")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()
    if options.inside is not None:
        command = options.command if options.verb == "run" else None
        return asyncio.run(ended_by_signals(beside_a_cluster(options.inside, command, today=options.today)))
    if reason := (missing() or lacking()) if has_go() else "go is not on PATH":
        say(f"skipped: {reason}")
        return 0
    build((*PARTS, *PARTS_OF_TODAY) if options.today else PARTS)
    return 0 if options.verb == "build" else inside(sys.argv[1:])


def build(parts: Sequence[Part]) -> None:
    """Build what is out of date, and say how long it took."""
    clock = SystemClock()
    began = clock.monotonic()
    build_trainer()
    if built := build_all(parts):
        say(f"built {', '.join(built)} in {clock.monotonic() - began:.0f} s")


async def beside_a_cluster(folder: Path, command: Sequence[str] | None, *, today: bool) -> int:
    """Run a command while a cluster runs; without one, wait for a signal."""
    clock = SystemClock()
    began = clock.monotonic()
    async with AsyncExitStack() as stack:
        running: RunningNodes = await stack.enter_async_context(cluster(folder, today=today))
        say(f"{len(running.nodes)} nodes are ready after {clock.monotonic() - began:.1f} s")
        if command is None:
            process = f"$(pgrep --parent {(folder / PARENT).read_text(encoding='ascii')})"
            say(f"nsenter --target {process} --all env KUBECONFIG={running.kubeconfig} bash")
            await asyncio.get_running_loop().create_future()
            return 0
        child = await asyncio.create_subprocess_exec(*command, env=os.environ | {VARIABLE: str(folder)})
        try:
            return await child.wait()
        finally:
            if child.returncode is None:
                child.terminate()
                await child.wait()


def say(text: str) -> None:
    """One line for whoever watches."""
    sys.stderr.write(f"realnode: {text}\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConsoleError as error:
        say(error.sentence())
    except subprocess.CalledProcessError as error:
        say(f"{error.cmd} ended with {error.returncode}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(1)
