"""The whole rehearsal with runners that are killed again and again: the same world, nothing made twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actions.cloud.eks import token_factory
from actions.cluster.auth.session import ClusterTarget, KubeSession
from actions.cluster.logs.follow import ContainerLog, read_log
from actions.run.client import load_run
from actions.run.output.reader import OutputLine, OutputReader
from actions.run.state.view import RunState, StageState
from actions.telemetry.points import Point
from tests.faults.rehearsal import (
    CREDENTIALS,
    SKIPPED,
    a_rehearsal,
    a_sandbox,
    run_with_kills,
    tear_down,
    uids_by_object,
)

pytestmark = pytest.mark.kill


def all_lines(folder: Path, stage: str) -> list[OutputLine]:
    reader, offset = OutputReader(folder, stage), 0
    found: list[OutputLine] = []
    while True:
        lines, end = reader.lines(offset)
        if end == offset:
            return found
        found += lines
        offset = end


def loss_steps(folder: Path) -> list[int]:
    reader, offset = OutputReader(folder, "train"), 0
    steps: list[int] = []
    while True:
        found, end = reader.values(offset)
        if end == offset:
            return steps
        offset = end
        for item in found:
            if isinstance(item.value, Point) and item.value.metric == "train_loss" and item.pod.endswith("-0"):
                steps.append(item.value.step or 0)


async def printed(folder: Path) -> set[tuple[str, str]]:
    """Return the workers' logs as the API has them: pod and line."""
    session = await KubeSession.connect(ClusterTarget(folder / "kubeconfig"), token_factory=token_factory)
    try:
        found = set()
        for number in range(8):
            pod = f"esm1nv-pretraining-worker-{number}"
            for line in await read_log(session, ContainerLog("default", pod, "pytorch")):
                found.add((pod, line.text))
        return found
    finally:
        await session.aclose()


def test_killed_runners_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with a_sandbox("kills") as sandbox:
        folder = a_rehearsal(sandbox)
        killed = run_with_kills(folder, lambda view: view.state is RunState.SUCCEEDED, every=8)
        view = load_run(folder)
        assert killed >= 8
        assert {stage.state for stage in view.stages if stage.id not in SKIPPED} == {StageState.SUCCEEDED}
        assert {name: uids for name, uids in uids_by_object(folder).items() if len(uids) > 1} == {}

        lines = [(line.pod, line.at_ns, line.text) for line in all_lines(folder, "train") if not line.is_marker]
        assert len(lines) > 100
        assert len(lines) == len(set(lines))
        assert asyncio.run(printed(folder)) == {(pod, text) for pod, _, text in lines}
        steps = loss_steps(folder)
        assert steps == sorted(steps)
        assert steps[-1] == 299

        tear_down(folder)
        run_with_kills(folder, lambda view: view.state is RunState.TORN_DOWN, every=10)
        audit = load_run(folder).audit
        assert audit is not None
        assert audit.leftovers == ()
