"""The embedded cluster, by the one function that imports it; and `eksml-tui sandbox`, which becomes its process."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import msgspec

from actions.base.errors import UsageError
from actions.base.process import own_module

DEMO_NAME = "demo"


class Demo(msgspec.Struct, frozen=True):
    """An embedded cluster that answers."""

    kubeconfig: Path
    environment: dict[str, str]
    """Variables that lead AWS's clients into its account, and to its `terraform` where there is no other."""
    speed: float
    """Of its workloads, as a multiple of real time."""


def demos(region: str = "", *, starts: bool = False, speed: float | None = None, nodes: str = "") -> list[Demo]:
    """Return the embedded clusters that run; or that of `--demo` alone, started if it does not run.

    Args:
        region: Of the account; the usual one by default.
        starts: Return that of `--demo`; with `nodes` the one that has them.
        nodes: The nodes that it has from the beginning, as `TYPE=N,…`.
        speed: With which it is started; one that runs keeps its own.

    Raises:
        ConsoleError: It cannot be started, or a type of nodes is not known.
    """
    from actions.fleet.instance_types import InstanceTable
    from actions.sandbox.locate import find_or_start, running_sandboxes

    counts = InstanceTable.load().counts_in(nodes) if nodes else {}
    name = "-".join([DEMO_NAME, *(f"{count}x{kind}" for kind, count in sorted(counts.items()))])
    found = [find_or_start(name, speed=speed, nodes=nodes)] if starts else running_sandboxes()
    return [Demo(each.kubeconfig, each.environment(region), each.process.speed) for each in found]


def require_s3(options: Namespace) -> None:
    """Refuse a store beside `--demo` if there is no S3 but the embedded account's, which has none."""
    if getattr(options, "store", "") and not os.environ.get("AWS_ENDPOINT_URL_S3"):
        raise UsageError(
            "The embedded account has no S3, so there is no place for --store.",
            hint="Set AWS_ENDPOINT_URL_S3 to a service like S3, such as a moto server, or omit --store.",
        )


def run(options: Namespace) -> int:
    """Become the sandbox process, whose first line of output is its kubeconfig's path; or list or change its faults."""
    argv = own_module("actions.sandbox", "--name", options.name)
    if options.verb == "faults":
        argv += ["faults", *options.words]
    else:
        argv += ["--port", str(options.port), "--foreground"]
        argv += ["--scale", options.scale] if options.scale else []
        argv += ["--nodes", options.nodes] if options.nodes else []
        argv += ["--speed", f"{options.speed:g}"] if options.speed is not None else []
    os.execv(argv[0], argv)  # noqa: S606 - argv is ours, and there is no shell
