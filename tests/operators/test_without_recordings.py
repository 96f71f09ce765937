"""Cases that the tables of the recordings name, but no recording at hand shows: played on the same cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.operators import acting
from tests.operators.mpi import MPI
from tests.operators.operator import FIXTURES, Operator
from tests.operators.story import Document
from tests.operators.training import TRAINING
from tests.operators.world import World, world
from tests.support.virtual import virtually

_PATIENCE_SECONDS = 90.0


def _manifest(operator: Operator, scenario: str, **policy: Any) -> Document:
    text = (FIXTURES / operator.version / f"{scenario}.yaml").read_text(encoding="utf-8")
    manifest: Document = yaml.load(text, yaml.CSafeLoader)
    manifest["spec"].setdefault("runPolicy", {}).update(policy)
    return manifest


async def _until(stage: World, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not holds():
            await stage.moved()


def _last(stage: World) -> list[tuple[str, str, str, str]]:
    """The conditions of the custom resource, as last seen."""
    wanted = stage.operator.resources[0].kind
    steps = next((steps for thing, steps in stage.story.steps.items() if thing[0] == wanted), [])
    conditions = steps[-1] if steps else []
    assert isinstance(conditions, list)
    return conditions


def _states(stage: World) -> list[tuple[str, str]]:
    return [(one[0], one[1]) for one in _last(stage)]


def _pods(stage: World) -> set[str]:
    return {name for kind, name in stage.story.present() if kind == "Pod"}


async def _suspend(stage: World, *, kind: str, name: str, rests: bool) -> None:
    wish = json.dumps({"spec": {"runPolicy": {"suspend": rests}}})
    await acting.perform(stage, f"PATCH {kind} {name} (merge) {wish}")


@virtually
async def test_a_pytorch_job_that_rests_and_goes_on_runs_with_new_pods(tmp_path: Path) -> None:
    async with world(TRAINING, tmp_path) as stage:
        await acting.create(stage, [_manifest(TRAINING, "fail-never")])
        await _until(stage, lambda: _states(stage) == [("Created", "True"), ("Running", "True")])
        await _suspend(stage, kind="PyTorchJob", name="pj", rests=True)
        resting = [("Created", "True"), ("Running", "False"), ("Suspended", "True")]
        await _until(stage, lambda: _states(stage) == resting and not _pods(stage))
        assert _last(stage)[1][2:] == ("PyTorchJobSuspended", "PyTorchJob pj is suspended.")
        await _suspend(stage, kind="PyTorchJob", name="pj", rests=False)
        running = [("Created", "True"), ("Suspended", "False"), ("Running", "True")]
        await _until(stage, lambda: _states(stage) == running)
        assert _pods(stage) == {"default/pj-worker-0", "default/pj-worker-1"}


@virtually
async def test_exit_code_1_under_the_policy_exit_code_fails_the_job(tmp_path: Path) -> None:
    async with world(TRAINING, tmp_path) as stage:
        await acting.create(stage, [_manifest(TRAINING, "fail-exitcode-137")])
        await _until(stage, lambda: ("Running", "True") in _states(stage))
        ended = "phase Failed, containers terminated with exit code 1"
        await acting.perform(stage, f"pod pj-worker-1: status subresource patched to {ended}")
        await _until(stage, lambda: ("Failed", "True") in _states(stage))
        said = 'job "pj" is failing because "Worker" replica(s) failed.'
        assert _last(stage)[-1] == ("Failed", "True", "PyTorchJobFailed", said)


@virtually
async def test_an_mpi_job_that_rests_lets_its_pods_go_and_keeps_its_objects(tmp_path: Path) -> None:
    async with world(MPI, tmp_path) as stage:
        await acting.create(stage, [_manifest(MPI, "succeed-clean-none")])
        await _until(stage, lambda: _states(stage) == [("Created", "True"), ("Running", "True")])
        await _suspend(stage, kind="MPIJob", name="mj", rests=True)
        resting = [("Created", "True"), ("Suspended", "True"), ("Running", "False")]
        await _until(stage, lambda: _states(stage) == resting and not _pods(stage))
        kept = {kind for kind, _ in stage.story.present()}
        assert kept == {"MPIJob", "Service", "ConfigMap", "Secret", "Job"}
        await _suspend(stage, kind="MPIJob", name="mj", rests=False)
        running = [("Created", "True"), ("Suspended", "False"), ("Running", "True")]
        await _until(stage, lambda: _states(stage) == running)
        assert _pods(stage) == {"default/mj-worker-0", "default/mj-worker-1", "default/mj-launcher-<r2>"}
        assert stage.story.statuses["MPIJob", "default/mj"]["replicaStatuses"]["Launcher"] == {"active": 1}


@virtually
async def test_a_launcher_past_its_deadline_is_deleted_and_the_job_has_failed(tmp_path: Path) -> None:
    async with world(MPI, tmp_path) as stage:
        await acting.create(stage, [_manifest(MPI, "succeed-clean-running", activeDeadlineSeconds=2)])
        await _until(stage, lambda: ("Failed", "True") in _states(stage) and not _pods(stage))
        said = "Job was active longer than specified deadline"
        assert _last(stage)[-1] == ("Failed", "True", "DeadlineExceeded", said)
