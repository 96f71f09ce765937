"""The sandbox process: `python -m actions.sandbox --state DIR --name NAME`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConsoleError, InputError, MissingError
from actions.base.files import private_directory
from actions.fleet.instance_types import InstanceTable
from actions.sandbox.locate import find_sandbox, sandbox_folder, take_folder
from actions.sandbox.model.options import SandboxOptions

IDLE_SECONDS = 600.0
LOOK_SECONDS = 2.0
"""The pause between two checks of the state file."""
_USE = """\
Use it with kubectl --kubeconfig {path}, or eksml-tui --kubeconfig {path}.
The token is in that file, which only you can read. Control-C ends it."""


class Invocation(msgspec.Struct, frozen=True):
    """The arguments of the command line, checked."""

    name: str
    folder: Path
    options: SandboxOptions
    port: int
    is_foreground: bool
    scale: str
    idle_seconds: float
    faults: Sequence[str] | None = None
    """The words for the faults of the one that runs; `None` to serve."""


def read_arguments(argv: Sequence[str]) -> Invocation:
    """Read the command line; ends the program with 2 if it is wrong.

    Raises:
        InputError: It asks for nodes of unknown types.
    """
    parser = argparse.ArgumentParser(prog="python -m actions.sandbox", description="Serve the embedded cluster.")
    parser.add_argument("--state", type=Path, metavar="DIR", help="folder of its kubeconfig and state")
    parser.add_argument("--name", default="demo", help="name of the sandbox (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0, the default, takes any free one")
    parser.add_argument("--speed", type=float, default=SandboxOptions().speed, help="workloads print so much faster")
    parser.add_argument("--seed", type=int, default=SandboxOptions().seed, help="of what is random in workloads")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, metavar="SECONDS", help="end when idle for so long")
    parser.add_argument("--scale", default="", metavar="nodes=N,pods=N", help="add so many hollow nodes and pods")
    parser.add_argument("--nodes", default="", metavar="TYPE=N,…", help="nodes that are there from the beginning")
    parser.add_argument(
        "--foreground", action="store_true", help="print the path of the kubeconfig; serve until stopped"
    )
    parser.add_argument("verb", nargs="?", choices=["faults"], help="list, inject or clear faults in the one that runs")
    parser.add_argument("words", nargs="*", metavar="WORD")
    given = parser.parse_args(argv)
    if given.speed <= 0:
        parser.error("--speed must be above 0")
    if not 0 <= given.port < 65_536:
        parser.error("--port must be between 0 and 65535")
    nodes = InstanceTable.load().counts_in(given.nodes)
    options = SandboxOptions(speed=given.speed, seed=given.seed, nodes=nodes)
    folder = (given.state or sandbox_folder(given.name)).resolve()
    faults = given.words if given.verb else None
    return Invocation(given.name, folder, options, given.port, given.foreground, given.scale, given.idle, faults)


def print_faults(name: str, words: Sequence[str]) -> None:
    """Carry out the words for the faults of a sandbox that runs, and print the faults that they concern.

    Raises:
        ConsoleError: It does not run, or the words make no sense.
    """
    from actions.sandbox.faults.client import control_faults

    found = find_sandbox(name)
    if found is None:
        raise MissingError(f"Sandbox {name} is not running.", hint="Use --name demo for the sandbox of --demo.")
    for fault in control_faults(found.kubeconfig, words):
        print(fault.line())  # noqa: T201 - the answer


async def serve(invocation: Invocation) -> None:
    """Serve until a signal comes or the state file is gone; in the background, also until it has been idle for long.

    Raises:
        ConfigError: The folder or the port cannot be used, another process has the folder, or a package of the extra
            `demo` is not installed.
        InputError: The scale cannot be read.
    """
    if find_spec("cryptography") is None:
        raise ConfigError(
            "The embedded cluster needs the package cryptography.",
            hint='Install it: uv tool install "eksml-tui[demo]".',
        )
    folder = private_directory(invocation.folder)
    take_folder(folder, invocation.name)
    from actions.sandbox.apiserver.writes.admission import OperatorWebhooks
    from actions.sandbox.aws.application import create_aws_app
    from actions.sandbox.controllers.start import start_controllers
    from actions.sandbox.faults.panel import FaultPanel
    from actions.sandbox.hollow_nodes import parse_hollow_count, store_with_hollow_nodes
    from actions.sandbox.kubelet.agent import Kubelet
    from actions.sandbox.model.account import NodeGroups
    from actions.sandbox.server import SandboxParts, serving
    from actions.sandbox.statefiles import PROCESS

    clock, options = SystemClock(), invocation.options
    panel = FaultPanel(clock)
    kubelet = Kubelet(options, panel.clock)
    groups = NodeGroups.of(options, clock)
    parts = SandboxParts(
        kubelet,
        controllers=lambda session: start_controllers(session, kubelet, options, panel.clock, groups=groups),
        aws=lambda session, key, authority: create_aws_app(
            session, options, key=key, authority=authority, groups=groups
        ),
        webhooks=(OperatorWebhooks(),),
        panel=panel,
        store=store_with_hollow_nodes(parse_hollow_count(invocation.scale), clock=clock, region=options.region),
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    async with serving(folder, options, parts, port=invocation.port, clock=clock) as server:
        endings: list[asyncio.Task[bool] | asyncio.Task[None]] = [
            asyncio.create_task(stopped.wait()),
            asyncio.create_task(_until_gone(folder / PROCESS, clock)),
        ]
        if invocation.is_foreground:
            print(server.kubeconfig, flush=True)  # noqa: T201 - the promised first line
            print(_USE.format(path=server.kubeconfig), flush=True)  # noqa: T201 - for the operator
        else:
            endings.append(asyncio.create_task(server.activity.idle_for(invocation.idle_seconds)))
        _, unfinished = await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        for task in unfinished:
            task.cancel()


async def _until_gone(file: Path, clock: Clock) -> None:
    """Return when a file no longer exists: without its state folder a sandbox cannot be found or used."""
    while os.access(file, os.F_OK):
        await clock.sleep(LOOK_SECONDS)


def main() -> int:
    """Run the process and return its exit code."""
    os.umask(0o077)
    try:
        invocation = read_arguments(sys.argv[1:])
        if invocation.faults is not None:
            print_faults(invocation.name, invocation.faults)
        else:
            asyncio.run(serve(invocation))
    except ConsoleError as error:
        print(error.sentence(), file=sys.stderr)  # noqa: T201 - the reason why it ended
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
