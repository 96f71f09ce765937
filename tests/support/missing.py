"""Programs and optional modules that some tests need and a machine may lack: nothing else is a reason to skip."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import NoReturn

import pytest

_SOURCES = {
    "chromium": "apt-get install chromium",
    "checkov": "pip install checkov==3.3.30 into a folder of its own (290 MB), and its bin on PATH",
    "curl": "apt-get install curl",
    "fish": "apt-get install fish",
    "go": "https://go.dev/doc/install",
    "groff": "apt-get install groff",
    "kubectl": "https://kubernetes.io/docs/tasks/tools",
    "mount": "root may: run the tests as root, in a container with CAP_SYS_ADMIN",
    "setpriv": "apt-get install util-linux",
    "terraform": "https://developer.hashicorp.com/terraform/install",
    "textual_serve": "pip install textual-serve, as the extra `serve` does",
    "tmux": "apt-get install tmux",
    "zsh": "apt-get install zsh",
}
"""Program → how to get it."""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test where one of the programs is not on PATH."""
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason="; ".join(map(_reason, missing)))


def needs_module(name: str) -> pytest.MarkDecorator:
    """Skip a test where a module of an optional extra is not installed."""
    return pytest.mark.skipif(find_spec(name) is None, reason=_reason(name))


def needs_root(*programs: str) -> pytest.MarkDecorator:
    """Skip a test where this is not root, who may act as another user, or where a program is missing."""
    if os.geteuid() != 0:
        return pytest.mark.skip(reason="not root, who alone may act as another user: run the tests as root")
    return needs(*programs)


def skip_without(program: str) -> NoReturn:
    """Skip the running test because a program is missing or may not be used."""
    pytest.skip(_reason(program))


def _reason(program: str) -> str:
    return f"{program} is missing or may not be used here; to get it: {_SOURCES[program]}"
