"""Starting an API server with a fleet: a real one where it can be built, else the synthetic one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.target import DESCRIPTION, Target
from tests.realcluster.harness.parts import build_all, has_go

_START_SECONDS = 300.0


def best_kind() -> str:
    """The kind of server that can be had here: `real` or `synthetic`."""
    if not has_go():
        return "synthetic"
    build_all()
    return "real"


@contextmanager
def fleet_server(kind: str, nodes: int, pods: int, folder: Path, *, events: int = 0) -> Iterator[Target]:
    """A server with so many nodes and pods for as long as the context is open.

    Args:
        kind: `real` or `synthetic`.
        nodes: How many.
        pods: How many.
        folder: For its files.
        events: How many events it keeps; of the synthetic one only.

    Raises:
        RuntimeError: It did not start.
    """
    module = "realserver" if kind == "real" else "apiserver"
    sizes = [str(size) for size in (nodes, pods, events) if size]
    with _running(module, sizes, Path(tempfile.mkdtemp(prefix=f"fleet-{nodes}-", dir=folder))) as target:
        yield target


@contextmanager
def log_server(kind: str, folder: Path) -> Iterator[Target]:
    """A server with forty finished logs, likewise.

    Raises:
        RuntimeError: It did not start.
    """
    module, sizes = ("reallogs", []) if kind == "real" else ("apiserver", ["1", "1"])
    with _running(module, sizes, Path(tempfile.mkdtemp(prefix="logs-", dir=folder))) as target:
        yield target


@contextmanager
def _running(module: str, sizes: list[str], home: Path) -> Iterator[Target]:
    argv = [sys.executable, "-m", f"tests.bench.{module}", *sizes, str(home)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        until = time.monotonic() + _START_SECONDS
        while not (home / DESCRIPTION).exists():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"tests.bench.{module} did not start")
            time.sleep(0.05)
        try:
            yield Target.read(home)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(30)
