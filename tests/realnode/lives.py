"""The lives of the blueprints on nodes that are there, by script."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.base.files import shipped_blueprints
from tests.realnode.equipment import equip, set_labels
from tests.realnode.running import real_nodes
from tests.realnode.support import apply_file, get, kubectl
from tests.support.program import Program

SCRIPTS = Path(__file__).parent / "scripts"
TYPES = {
    "bionemo-esm1nv": "g5.12xlarge",
    "efa-nccl-tests": "g5.8xlarge",
    "llama2-trn1-mpi": "trn1.32xlarge",
    "llama2-trn1-ray": "trn1.32xlarge",
    "nemo-gpt3-5b": "p4de.24xlarge",
    "torchtitan-llama3-8b": "p5.48xlarge",
}
"""The instance type of the nodes with accelerators, by blueprint."""
_VOLUMES_OF = {"torchtitan-llama3-8b": "common"}
"""The folder with the volumes of a blueprint that has none of its own."""
_HEAD = {"instanceType": "mixed-x86", "provisionerType": "Karpenter"}
"""Labels of the node that Karpenter would start for the head of a Ray cluster."""
_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
_PATIENCE_SECONDS = 1800


@dataclass(frozen=True)
class ProgramOnNodes(Program):
    """The program of somebody who has the cluster, its account, and the operators' releases in a mirror."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "KUBECONFIG": real_nodes().kubeconfig,
            "AWS_ENDPOINT_URL": real_nodes().aws_endpoint_url,
            "AWS_REGION": "us-west-2",
            "AWS_ACCESS_KEY_ID": "realcluster",
            "AWS_SECRET_ACCESS_KEY": "realcluster",
        }


@dataclass(frozen=True)
class Life:
    """A script that has been played to its end."""

    exit_code: int
    output: str
    report: dict[str, Any]
    """Empty if the program ended before it could write one."""


def program_in(home: Path) -> ProgramOnNodes:
    """Return a program whose mirror is the cluster's."""
    config = home / "config" / "eksml-tui"
    config.mkdir(parents=True)
    (config / "mirror").symlink_to(real_nodes().mirror)
    return ProgramOnNodes(home)


def play(blueprint: str, script: Path, home: Path) -> Life:
    """Play a script on nodes that are what its blueprint needs, and end all that it has started.

    Args:
        blueprint: Its id.
        script: The file.
        home: An empty folder.
    """
    program, report = program_in(home), home / "report.json"
    with prepared(blueprint):
        try:
            done = program.run(
                "--kubeconfig", real_nodes().kubeconfig, "--script", str(script), "--report", str(report),
                "--artifacts", str(home), seconds=_PATIENCE_SECONDS,
            )  # fmt: skip
        finally:
            program.end_all()
    told = dict(json.loads(report.read_text(encoding="utf-8"))) if report.exists() else {}
    return Life(done.returncode, done.stdout + done.stderr, told)


@contextmanager
def prepared(blueprint: str) -> Iterator[None]:
    """Make the cluster one that has nodes, empty file system and pool of a blueprint; the last two go in the end."""
    make_nodes(blueprint)
    manifests = shipped_blueprints() / _VOLUMES_OF.get(blueprint, blueprint) / "manifests"
    there = [path for name in ("volumes", "pool") if (path := manifests / f"{name}.yaml").exists()]
    for path in there:
        apply_file(path)
    make_pools_ready()
    try:
        yield
    finally:
        for path in reversed(there):
            kubectl("delete", "--ignore-not-found", "-f", str(path))


def make_nodes(blueprint: str) -> None:
    """Make the nodes those of a blueprint, and their file system empty."""
    nodes = real_nodes()
    for path in Path(nodes.volumes).glob("*/*"):  # checkpoints of another training would be refused
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name in accelerated():
        equip(nodes.kubeconfig, name, Path(nodes.nodes[name]), TYPES[blueprint])
    first = sorted(nodes.nodes)[0]
    set_labels(nodes.kubeconfig, first, _HEAD if blueprint == "llama2-trn1-ray" else dict.fromkeys(_HEAD, ""))


def accelerated() -> list[str]:
    """Return the names of the nodes that have accelerators."""
    return sorted(real_nodes().nodes)[2:]


def make_pools_ready() -> None:
    """Give the pools the status that Karpenter would give them."""
    for pool in get("nodepools")["items"]:
        patch = json.dumps({"status": {"conditions": [_READY]}})
        kubectl("patch", "nodepool", pool["metadata"]["name"], "--subresource=status", "--type=merge", "-p", patch)
