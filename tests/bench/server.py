"""Starting and steering the synthetic API server."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster to measure on. `churn` sets how many pods and nodes change a second; `None` where we cannot."""

    kubeconfig: Path
    nodes: int
    churn: Callable[[int, int], None] | None


@contextmanager
def running(nodes: int, pods: int, folder: Path) -> Iterator[Target]:
    """A synthetic API server for as long as the context is open."""
    home = folder / f"server-{nodes}"
    home.mkdir()
    argv = [sys.executable, "-m", "tests.bench.apiserver", str(nodes), str(pods), str(home)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        kubeconfig = home / "kubeconfig"
        until = time.monotonic() + _START_SECONDS
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the synthetic API server did not start")
            time.sleep(0.05)
        address = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]

        def churn(pods_a_second: int, nodes_a_second: int) -> None:
            query = f"pods={pods_a_second}&nodes={nodes_a_second}"
            with urllib.request.urlopen(f"{address}/bench/churn?{query}") as answer:
                answer.read()

        try:
            yield Target(kubeconfig, nodes, churn)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(10)
