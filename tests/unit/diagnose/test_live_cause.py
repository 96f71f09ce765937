"""Nothing that was said while pods waited for a node is a cause once every pod has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actions.cluster.diagnose.evidence import Evidence
from actions.cluster.diagnose.parse_input import parse_evidence
from tests.support import fixed_runs
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import Scene, a_fixed_console
from tests.unit.diagnose.samples import Document, a_container, a_node, a_pod, an_event, codes, unschedulable
from tests.unit.diagnose.troubles import CRASHED, LOOP
from tui.screens.viewer import Viewer
from tui.textual_private import screen_text

JOB = "esm1nv-pretraining"
WORKER = f"{JOB}-worker-7"
OOM = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 22 GiB"
)
UNREACHABLE = "0/4 nodes are available: 4 node(s) had untolerated taint {node.kubernetes.io/unreachable: }."
UNFIT = f'Failed to schedule: nodepool "{JOB}": no instance type met all requirements'
PAST: list[Document] = [
    an_event("Unschedulable", UNREACHABLE, JOB, kind="PodGroup"),
    an_event("FailedScheduling", UNFIT, JOB, kind="PodGroup"),
    an_event("FailedScheduling", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", WORKER),
    an_event("InsufficientCapacityError", "no Spot capacity available", "g5-gpu-x2v4n", kind="NodeClaim"),
    an_event("NodeNotReady", "Node is not ready", WORKER),
]  # fmt: skip


def crash_loop() -> Document:
    """A worker that runs out of the memory of its GPU, on a node that is Ready."""
    statuses = [a_container(7, waiting=LOOP, last=CRASHED)]
    conditions = [{"type": "PodScheduled", "status": "True"}]
    pod = a_pod(WORKER, phase="Running", node="n1", containerStatuses=statuses, conditions=conditions)
    return {"pods": [pod], "nodes": [a_node("n1", "g5.12xlarge", {"nvidia.com/gpu": "4"})], "events": PAST, "logs": OOM}


def test_the_live_cause_is_the_only_one_once_every_pod_has_a_node() -> None:
    assert codes(crash_loop()) == ["GPU_OOM"]


@pytest.mark.parametrize(
    ("event", "code"), list(zip(PAST[1:4], ["NODEPOOL_MISMATCH", "GPU_SHORTAGE", "CAPACITY"], strict=True))
)
def test_the_same_words_are_the_cause_while_a_pod_waits(event: Document, code: str) -> None:
    name = event["involvedObject"]["name"]
    waiting = unschedulable(event["message"] if name == WORKER else "", WORKER)
    assert code in codes(
        {"pods": [waiting], "nodes": [a_node("n1", "g5.12xlarge", {"nvidia.com/gpu": "4"})], "events": [event]}
    )


async def test_w_on_the_stage_names_the_live_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    evidence, _ = parse_evidence(json.dumps(crash_loop()).encode())

    async def in_cluster(*_: Any, **__: Any) -> Evidence:
        return evidence

    monkeypatch.setattr("actions.run.diagnosis._in_cluster", in_cluster)
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=(80, 24)) as console:
        await console.line("open run")
        await console.calm("Pre-training")
        await console.press("w")
        await console.calm(Viewer)
        first = next(line for line in screen_text(console.app).splitlines() if "ERROR" in line)
        assert "GPU_OOM" in first
        assert "NODE_LOST" not in screen_text(console.app)
