"""`eksml-tui sandbox`: the embedded cluster alone, in the foreground."""

from __future__ import annotations

import os
from argparse import Namespace

from actions.base.files import private_directory
from actions.base.process import own_module
from actions.sandbox.locate import sandbox_folder


def run(options: Namespace) -> int:
    """Become the sandbox process. Its first line is the path of its kubeconfig."""
    folder = private_directory(sandbox_folder(options.name))
    argv = own_module(
        "actions.sandbox",
        "--state", str(folder),
        "--name", options.name,
        "--port", str(options.port),
        "--foreground",
    )  # fmt: skip
    if options.speed is not None:
        argv += ["--speed", f"{options.speed:g}"]
    os.execv(argv[0], argv)  # noqa: S606 - argv is ours, and there is no shell
