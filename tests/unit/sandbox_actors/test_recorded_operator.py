"""Our PyTorchJob controller against recordings of training-operator 1.8.1: same objects, conditions, events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.kinds import (
    AUTOSCALERS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    PODS,
    PYTORCH_JOBS,
    SERVICES,
    Document,
    Kind,
    key_of,
    labels_of,
)
from actions.sandbox.actors.pytorchjob import PyTorchJobController
from actions.sandbox.actors.watching import Caches, watching
from tests.unit.sandbox_actors.recording import (
    Conditions,
    Recording,
    Story,
    job_patch,
    load,
    made_parts,
    pod_change,
    running,
)
from tests.unit.sandbox_actors.server import bare_api, pytorch_definition

_KINDS: tuple[Kind, ...] = (PODS, SERVICES, DEPLOYMENTS, AUTOSCALERS, EVENTS, PYTORCH_JOBS)
_JOB = "default/pj"
_PATIENCE_SECONDS = 15.0


class _Observer:
    """Writes the story of our job, and lets every new pod run, as the recording's kubelet did."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        self.story = Story()
        self._client = client
        self._caches = caches
        self.changed = asyncio.Event()
        self.tasks: set[asyncio.Task[Document | None]] = set()
        self._seen: set[str] = set()
        for kind in (PODS, SERVICES, AUTOSCALERS):
            caches[kind].listen(self._on_object)
        caches[EVENTS].listen(self._on_event)
        caches[PYTORCH_JOBS].listen(self._on_job)

    def _on_object(self, document: Document) -> None:
        if labels_of(document).get("component"):  # the API's own Service
            return
        kind, key = document["kind"], key_of(document)
        is_there = any(cache.get(key) is document for cache in self._caches.all() if cache.kind.kind == kind)
        if is_there:
            self.story.see_object(kind, key, made_parts(document))
        else:
            self.story.see_end(kind, key)
        uid = document["metadata"]["uid"]
        if document["kind"] == "Pod" and uid not in self._seen:
            self._seen.add(uid)
            task = asyncio.create_task(self._client.patch_status(PODS, document, running()))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        self.changed.set()

    def _on_event(self, event: Document) -> None:
        if event["source"]["component"] == "pytorchjob-controller":
            self.story.events.add((event["type"], event["reason"], event["message"]))
        self.changed.set()

    def _on_job(self, job: Document) -> None:
        self.story.see_status(job.get("status") or {})
        self.changed.set()


async def _replay(recording: Recording, client: ApiClient, observer: _Observer) -> None:
    recording.manifest["metadata"]["namespace"] = "default"
    await client.create(PYTORCH_JOBS, recording.manifest)
    for moment in recording.moments:
        await _wait(observer, partial(_has_reached, observer.story, moment.conditions, moment.counts))
        change, patch = pod_change(moment.text), job_patch(moment.text)
        if change is not None:
            await client.patch(PODS, f"default/{change[0]}", {"status": change[1]}, subresource="status")
        elif patch is not None:
            await client.patch(PYTORCH_JOBS, _JOB, patch)
        else:
            raise AssertionError(f"the recording does '{moment.text}', which this replay cannot do")
    wanted = recording.story
    await _wait(observer, lambda: _has_reached(observer.story, wanted.conditions, wanted.counts))
    await _wait(observer, lambda: wanted.events <= observer.story.events)
    await _wait(observer, lambda: wanted.present == observer.story.present)


def _has_reached(story: Story, conditions: list[Conditions], counts: Document) -> bool:
    return story.conditions == conditions and story.counts == counts


async def _wait(observer: _Observer, holds: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not holds():
                observer.changed.clear()
                await observer.changed.wait()
    except TimeoutError:
        story = observer.story
        pytest.fail(f"stayed at {story.conditions[-1:]} {story.counts}, events {sorted(story.events)}")


@pytest.mark.parametrize(
    "scenario",
    [
        "workers8-elastic-hpa",
        "elastic-nproc",
        "master-worker",
        "fail-never",
        "fail-onfailure-podfailed",
        "fail-onfailure-in-place",
        "fail-exitcode-137",
        "evicted",
        "suspend-from-start",
        "scale",
        "clean-all",
        "clean-running-master",
    ],
)
async def test_our_operator_behaves_as_the_recorded_one(scenario: str, tmp_path: Path) -> None:
    recording = load(scenario)
    async with bare_api(tmp_path) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        await client.create(DEFINITIONS, pytorch_definition())
        async with watching(client.session, _KINDS, SystemClock()) as caches:
            observer = _Observer(client, caches)
            controller = PyTorchJobController(client, caches, needs_operator=False)
            task = asyncio.create_task(controller.run())
            try:
                await _replay(recording, client, observer)
            finally:
                task.cancel()
                await asyncio.gather(task, *observer.tasks, return_exceptions=True)
    assert observer.story.conditions == recording.story.conditions
    assert observer.story.objects == recording.story.objects
    assert observer.story.events == recording.story.events
    assert observer.story.counts == recording.story.counts
