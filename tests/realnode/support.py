"""kubectl with the cluster, and waiting for what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.realnode.harness.cluster import PLACES
from tests.realnode.harness.network import cut_off
from tests.realnode.running import real_nodes

Document = dict[str, Any]
_POLL_SECONDS = 0.3
_KINDS = (
    "pods,services,secrets,jobs,deployments.apps,pytorchjobs.kubeflow.org,mpijobs.kubeflow.org,rayclusters.ray.io,"
    "rayjobs.ray.io,trainjobs.trainer.kubeflow.org,trainingruntimes.trainer.kubeflow.org,jobsets.jobset.x-k8s.io,queues.scheduling.volcano.sh,podgroups.scheduling.volcano.sh"
)


def kubectl(*arguments: str, given: str = "", seconds: float = 90) -> str:
    """Run kubectl and return what it prints; `given` is its standard input."""
    argv = ["kubectl", "--kubeconfig", real_nodes().kubeconfig, *arguments]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
    return done.stdout


def get(*arguments: str) -> Document:
    """Return an object or a list, as `kubectl get` gives it."""
    return dict(json.loads(kubectl("get", *arguments, "-o", "json")))


def apply(*documents: Document) -> None:
    """Apply objects as an operator would."""
    kubectl("apply", "-f", "-", given=yaml.safe_dump_all(documents))


def apply_file(path: Path) -> None:
    """Apply the objects of a file."""
    kubectl("apply", "-f", str(path))


def make_namespace(name: str) -> None:
    """Make a namespace in which pods can be made: controllers are late by minutes after an API server's absence."""
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    until(lambda: get("serviceaccounts", "-n", name)["items"], f"the service account of {name}", seconds=180)


def until(condition: Callable[[], object], what: str, *, seconds: float = 90) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(_POLL_SECONDS)


def is_node_ready(node: str) -> bool:
    """Return whether the API server has the node as ready."""
    conditions = get("node", node)["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextmanager
def stopped(program: str, node: str) -> Iterator[None]:
    """Keep a program of a node from running: it is killed now, and started again when the context is left."""
    with _kept_down(program, Path(real_nodes().nodes[node])):
        yield


@contextmanager
def without_api_server() -> Iterator[None]:
    """Keep the API server from running; when the context is left, it answers again."""
    with _kept_down("api-server", Path(real_nodes().logs)):
        yield
    argv = ["kubectl", "--kubeconfig", real_nodes().kubeconfig, "get", "--raw", "/readyz", "--request-timeout=2s"]
    until(lambda: subprocess.run(argv, capture_output=True, check=False).returncode == 0, "the API server's answer")


@contextmanager
def hung_api_server() -> Iterator[None]:
    """Let the API server answer nothing, with its connections open, until the context is left."""
    process = _process_in(Path(real_nodes().logs), "api-server")
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextmanager
def without_network(node: str) -> Iterator[None]:
    """Take a node from the network until the context is left."""
    place = next(place for place in PLACES if place.name == node)
    cut_off(place, is_cut=True)
    try:
        yield
    finally:
        cut_off(place, is_cut=False)


@contextmanager
def _kept_down(program: str, folder: Path) -> Iterator[None]:
    down = folder / f"{program}.down"
    down.touch()
    try:
        os.kill(_process_in(folder, program), signal.SIGKILL)
        until(lambda: not (folder / f"{program}.pid").exists(), f"the end of {program}")
        yield
    finally:
        down.unlink()


def process_of(program: str, node: str) -> int:
    """Return the id of a node's program, once it runs."""
    return _process_in(Path(real_nodes().nodes[node]), program)


def _process_in(folder: Path, program: str) -> int:
    path = folder / f"{program}.pid"
    until(path.exists, f"{program} in {folder}")
    return int(path.read_text(encoding="ascii"))


def left_of(run: str) -> list[str]:
    """Return all that kubectl finds of a run; a kind goes with the operator that has brought it."""
    served = {f"{one['spec']['names']['plural']}.{one['spec']['group']}" for one in get("crds")["items"]}
    kinds = [kind for kind in _KINDS.split(",") if kind in served or "." not in kind or kind.endswith(".apps")]
    found = get(",".join(kinds), "--all-namespaces", "--selector", f"eksml.dev/run={run}")["items"]
    return [f"{one['kind']}/{one['metadata']['name']}" for one in found]
