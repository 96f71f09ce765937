"""A run's record in its cluster: written by its runner, read by others, gone after the teardown.

On the sandbox, and on the real API server where there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.base.guard import FencedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import create
from actions.cluster.objects.client import Discovery, delete, fetch, merge_patch
from actions.run.client import load_run, send_request
from actions.run.engine.live_backend import LiveBackend
from actions.run.engine.runner_journal import RunnerJournal
from actions.run.engine.runner_process import main
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.store import Journal
from actions.run.presence import publish
from actions.run.presence.listing import find_cluster_run, list_cluster_runs
from actions.run.presence.publish import PresenceCompanion
from actions.run.presence.record import LABELS, NAMESPACE, RUN_KEY, RemoteRun, name_of, ref_of
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState
from tests.support.polling import until
from tests.support.smallrun import a_small_run, carry_out, own_name

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: known, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: known, region: us-west-2}
  - {id: objects, kind: manifests, title: Objects, needs: [access], expect: 1s..5s, manifests: [objects.yaml]}
"""
OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: default}
"""
CLOCK = SystemClock()


def a_run(tmp_path: Path, kubeconfig: Path) -> Path:
    files = {"blueprint.yaml": BLUEPRINT, "objects.yaml": OBJECTS.replace("NAME", own_name(tmp_path))}
    return a_small_run(tmp_path, files, kubeconfig=kubeconfig, existing_cluster=True)


async def worked(folder: Path) -> None:
    """Let a runner with all its companions work to its end, in a thread as it is in a process."""
    assert await asyncio.to_thread(main, folder, LiveBackend) == 0


async def known(session: KubeSession, run_id: str) -> RemoteRun | None:
    return next((run for run in (await list_cluster_runs(session)).runs if run.id == run_id), None)


@contextmanager
def a_companion(folder: Path) -> Iterator[PresenceCompanion]:
    """The companion of a runner that has nothing else to do."""
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    try:
        yield PresenceCompanion(folder, RunnerJournal(journal, lease, CLOCK), CLOCK)
    finally:
        journal.close()


@asynccontextmanager
async def at_work(companion: PresenceCompanion) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(companion.accompany())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def removed(session: KubeSession, run_id: str) -> None:
    await delete(session, Discovery(session), ref_of(run_id))


async def test_a_run_is_known_to_its_cluster_until_it_is_torn_down(
    tmp_path: Path, kubeconfig: Path, session: KubeSession
) -> None:
    folder = a_run(tmp_path, kubeconfig)
    await worked(folder)
    run = await known(session, folder.name)
    assert run is not None
    assert run.presence is not None
    assert run.created is not None
    assert (run.presence.state, run.presence.epoch) == (RunState.SUCCEEDED, 1)
    assert [(stage.id, stage.state.value) for stage in run.presence.stages] == [
        ("access", "succeeded"),
        ("objects", "succeeded"),
    ]
    assert run.created.title == "A small run"
    assert run.is_over
    assert not run.is_silent(CLOCK.now().timestamp() + 1_000_000)
    send_request(folder, RequestKind.TEARDOWN, start=False)
    await worked(folder)
    view = load_run(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert view.audit.is_clean, view.audit
    assert await known(session, folder.name) is None


async def test_its_heart_beats_and_a_record_that_was_deleted_comes_back(
    tmp_path: Path, kubeconfig: Path, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path, kubeconfig)
    await carry_out(folder)
    monkeypatch.setattr(publish, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(publish, "LOOK_SECONDS", 0.02)
    with a_companion(folder) as companion:
        async with at_work(companion):
            await until(lambda: known(session, folder.name), "the record")
            first = await known(session, folder.name)
            assert first is not None
            await until(lambda: is_later(session, first), "another heartbeat")
            await removed(session, folder.name)
            await until(lambda: known(session, folder.name), "the record again")
    await removed(session, folder.name)


async def is_later(session: KubeSession, first: RemoteRun) -> bool:
    run = await known(session, first.id)
    return run is not None and run.seen_at > first.seen_at


async def test_a_record_of_a_later_epoch_ends_the_runner_and_refuses_requests(
    tmp_path: Path, kubeconfig: Path, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path, kubeconfig)
    await worked(folder)
    discovery, ref = Discovery(session), ref_of(folder.name)
    text: str = (await fetch(session, discovery, ref))["data"][RUN_KEY]
    taken = text.replace('"epoch":1', '"epoch":2').replace('"user":', '"user":"grace","was":', 1)
    await merge_patch(session, discovery, ref, {"data": {RUN_KEY: taken.replace(',"was":', ',"arn":', 1)}})
    monkeypatch.setattr(publish, "LOOK_SECONDS", 0.02)
    with a_companion(folder) as companion:
        async with at_work(companion) as task:
            with pytest.raises(FencedError, match="grace@"):
                await task
    with pytest.raises(RefusedError, match=r"grace@.* only be watched here.*") as refused:
        send_request(folder, RequestKind.TEARDOWN, start=False)
    assert f"runs takeover {folder.name}" in refused.value.hint
    assert (await fetch(session, discovery, ref))["data"][RUN_KEY].count('"epoch":2') == 1
    await removed(session, folder.name)


class LaterClock(SystemClock):
    """A clock of an hour later: by it, what was a moment ago is old."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


HOSTILE: tuple[dict[str, Any], ...] = (
    {},
    {RUN_KEY: "x" * 900_000},
    {RUN_KEY: "[" * 100_000},
    {RUN_KEY: "{}"},
    {RUN_KEY: '{"id":"ID","epoch":99999999999999999999999}'},
)


async def test_hostile_records_are_listed_with_the_reason_and_hide_no_other(
    tmp_path: Path, kubeconfig: Path, session: KubeSession
) -> None:
    folder, discovery = a_run(tmp_path, kubeconfig), Discovery(session)
    await worked(folder)
    bad = [f"{own_name(tmp_path)[:30]}-{number}" for number in range(len(HOSTILE))]
    for name, data in zip(bad, HOSTILE, strict=True):
        metadata = {"name": name_of(name), "namespace": NAMESPACE, "labels": LABELS}
        await create(session, discovery, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    listed = await list_cluster_runs(session)
    assert listed.at == session.answered_at is not None  # silence is measured by that clock
    found = {run.id: run for run in listed.runs}
    assert all(found[name].error and found[name].presence is None for name in bad)
    assert not found[folder.name].error
    assert (await find_cluster_run(session, folder.name[:-3])).id == folder.name
    for name in (*bad, folder.name):
        await removed(session, name)
