"""The sandbox plays operators as they are: the same jobs there and on real nodes, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from actions.base.files import asset
from tests.realnode.history import Document, Seen, history_of
from tests.realnode.operator_jobs import OPERATOR_JOBS, OperatorJob
from tests.realnode.playing import applied, connected, operators_of, play, sandbox
from tests.realnode.running import real_nodes

Changes = Mapping[str, list[Seen]]
"""All that happened, by the name of the job."""
_JOBS = [job for job in OPERATOR_JOBS if "today" not in job.name or real_nodes().has_images_of_today]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Changes, Changes]]:
    """On real nodes, and on a sandbox; all jobs that have been selected, at the same time."""
    nodes = real_nodes()
    jobs = [job for job in OPERATOR_JOBS if any(one.name.endswith(f"[{job.name}]") for one in request.session.items)]
    async with sandbox(tmp_path_factory.mktemp("sandbox")) as kubeconfig:
        yield await asyncio.gather(
            _play(jobs, Path(nodes.kubeconfig), operators_of(jobs, Path(nodes.mirror), are_real=True)),
            _play(jobs, kubeconfig, operators_of(jobs, asset("mirror"), are_real=False)),
        )


async def _play(jobs: Sequence[OperatorJob], kubeconfig: Path, operators: Sequence[Document]) -> Changes:
    async with connected(kubeconfig) as client, applied(client, operators):
        changes = await asyncio.gather(*(play(client, job) for job in jobs))
    return dict(zip((job.name for job in jobs), changes, strict=True))


@pytest.mark.parametrize("job", _JOBS, ids=lambda job: job.name)
async def test_the_sandbox_does_as_the_operator_does(job: OperatorJob, played: tuple[Changes, Changes]) -> None:
    real, ours = (history_of(changes[job.name]) for changes in played)
    differing = {about for about in {*real, *ours} if real.get(about) != ours.get(about)}
    assert {about: ours.get(about) for about in differing} == {about: real.get(about) for about in differing}
