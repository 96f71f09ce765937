"""The loop that controllers share."""

from __future__ import annotations

import asyncio

import pytest

from actions.base.errors import UnreachableError
from actions.sandbox.clientkit.cache import Cache, _established
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import DEFINITIONS, Kind


class _Stumbling(Controller):
    """Fails in a given way at first, then works."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error
        self.seen: list[str] = []
        self.done = asyncio.Event()

    async def reconcile(self, key: str) -> float | None:
        self.seen.append(key)
        if len(self.seen) == 1:
            raise self._error
        self.done.set()
        return None


@pytest.mark.parametrize("error", [UnreachableError("nobody answers"), KeyError("spec")])
async def test_a_key_that_failed_is_tried_again(error: Exception) -> None:
    controller = _Stumbling(error)
    task = asyncio.create_task(controller.run())
    controller.wake("default/one")
    async with asyncio.timeout(60):
        await controller.done.wait()
    assert controller.seen == ["default/one", "default/one"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_kind_of_another_version_is_another_controllers() -> None:
    """MPIJobs of v1 are the training operator's, those of v2beta1 the MPI operator's."""
    of_v1 = Cache(Kind("kubeflow.org/v1", "MPIJob", "mpijobs", is_custom=True))
    definitions = Cache(DEFINITIONS)
    definitions.is_synced.set()
    waiting = asyncio.create_task(_established(of_v1, definitions))

    def serve(version: int, *served: str) -> None:
        metadata = {"name": "mpijobs.kubeflow.org", "uid": "u", "resourceVersion": str(version)}
        spec = {"versions": [{"name": name, "served": name in served} for name in ("v1", "v2beta1")]}
        conditions = [{"type": "Established", "status": "True"}]
        definitions.upsert({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}})

    serve(1, "v2beta1")
    await of_v1.is_synced.wait()
    assert not waiting.done()
    serve(2, "v1", "v2beta1")
    await asyncio.wait_for(waiting, 10)
