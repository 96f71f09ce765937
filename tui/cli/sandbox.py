"""`eksml-tui sandbox`: the embedded cluster alone, in the foreground, or what goes wrong in one that runs."""

from __future__ import annotations

import os
from argparse import Namespace

from actions.base.errors import MissingError
from actions.base.files import private_directory
from actions.base.process import own_module
from actions.sandbox.locate import find_sandbox, sandbox_folder


def run(options: Namespace) -> int:
    """Become the sandbox process, whose first line is the path of its kubeconfig; or list or change its faults."""
    return _faults(options) if options.verb == "faults" else _serve(options)


def _faults(options: Namespace) -> int:
    from actions.sandbox.faults.remote import ask

    found = find_sandbox(options.name)
    if found is None:
        raise MissingError(f"The sandbox {options.name} does not run.", hint="Name it: --name demo for that of --demo.")
    for fault in ask(found.kubeconfig, options.words):
        print(fault.line())  # noqa: T201 - the answer
    return 0


def _serve(options: Namespace) -> int:
    folder = private_directory(sandbox_folder(options.name))
    argv = own_module(
        "actions.sandbox",
        "--state", str(folder),
        "--name", options.name,
        "--port", str(options.port),
        "--foreground",
    )  # fmt: skip
    if options.scale:
        argv += ["--scale", options.scale]
    if options.speed is not None:
        argv += ["--speed", f"{options.speed:g}"]
    os.execv(argv[0], argv)  # noqa: S606 - argv is ours, and there is no shell
