"""A run that moves to another machine: from its cluster, or taken from a runner that wakes up later."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError, UsageError
from actions.base.process import ProcessIdentity, is_alive
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from actions.run.client import load_run, resume_interrupted, send_request, start_runner
from actions.run.context.access import ClusterConnection
from actions.run.context.store_address import run_key
from actions.run.journal.folder import kubeconfig_path, load_environment, runner_log_path, runs_folder
from actions.run.journal.watched import read_watched
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageState
from actions.run.store.fence import GRACE_SECONDS
from actions.run.store.files import LAUNCHED
from actions.run.store.kubernetes import KubernetesStore
from actions.run.takeover import takeover
from actions.run.takeover.origin import opened_source
from actions.run.takeover.takeover import CLUSTER, Takeover, take_over_run
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import CREDENTIALS, a_rehearsal, a_sandbox, begin, kill, records_of, tear_down, wait_for_run
from tests.support.leftover import delete_folder
from tests.support.members import stop_between_records
from tests.support.polling import until, wait

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with a_sandbox("moves", speed=60.0) as running:
            yield running


def at_training(folder: Path) -> RunView:
    return wait_for_run(folder, lambda view: view.stage("train").state is StageState.RUNNING, "the training")


@asynccontextmanager
async def store_in(sandbox: RunningSandbox) -> AsyncIterator[KubernetesStore]:
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig), token_factory=token_factory)
    try:
        yield KubernetesStore(session)
    finally:
        await session.aclose()


async def kept(sandbox: RunningSandbox, folder: Path) -> None:
    """Wait until the run's runner has written all of it into the store of its cluster."""

    async def has_all() -> bool:
        async with store_in(sandbox) as store:
            lease = await store.lease(folder.name)
            found = await store.get(run_key(folder.name, f"files/{LAUNCHED}"), limit_bytes=store.most_bytes)
            return lease is not None and found is not None and lease.status.last_seq >= load_run(folder).last_seq

    await until(has_all, "the run in the store of its cluster")


class Impatient(SystemClock):
    """Does not wait for a machine that does not exist any more; notes when it should."""

    def __init__(self) -> None:
        self.waits = 0

    async def sleep(self, seconds: float) -> None:
        if seconds == GRACE_SECONDS:
            self.waits += 1
        else:
            await super().sleep(seconds)


async def taken(
    sandbox: RunningSandbox, run: str, environment: dict[str, str], clock: SystemClock, *, confirm: str = ""
) -> Takeover:
    target = ClusterTarget(sandbox.kubeconfig)
    async with opened_source(CLUSTER, run, target, clock, confirm=confirm) as store:
        own = {**environment, **CREDENTIALS}
        return await take_over_run(run, store, clock, confirm=confirm, environment=own, target=target)


def lose_machine(folder: Path, runner: ProcessIdentity, patch: pytest.MonkeyPatch, empty: Path) -> dict[str, str]:
    """Delete the whole state folder of the run's machine; go on as an empty one."""
    environment = load_environment(folder)
    kill(runner)  # first, as it writes into the folder
    delete_folder(folder.parent)
    patch.setenv("XDG_STATE_HOME", str(empty))
    return environment


async def cut_short(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


async def test_a_run_whose_disk_is_lost_goes_on_and_is_torn_down_from_an_empty_machine(
    sandbox: RunningSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_rehearsal(sandbox, is_endless=True)
    runner = begin(folder)
    assert runner is not None
    before = at_training(folder)
    await kept(sandbox, folder)
    environment = lose_machine(folder, runner, monkeypatch, tmp_path / "empty")
    run, clock = folder.name, Impatient()

    with pytest.raises(UsageError, match=r"carries out .* is \d\d? s old"):
        await taken(sandbox, run, environment, clock)
    with monkeypatch.context() as patch:
        patch.setattr(takeover, "reach_cluster", cut_short)  # ^C
        with pytest.raises(KeyboardInterrupt):
            await taken(sandbox, run, environment, clock, confirm=run)
    assert resume_interrupted(environment=environment) == []
    with pytest.raises(RefusedError, match="its takeover by this machine has not come to its end") as refused:
        start_runner(runs_folder() / run)
    assert refused.value.hint.endswith(f"eksml-tui runs takeover {run} --from cluster")

    done = await taken(sandbox, run, environment, clock, confirm=run)
    assert (done.folder.parent.parent.parent, done.epoch, clock.waits) == (tmp_path / "empty", 3, 1)
    view = wait_for_run(done.folder, lambda view: view.stage("train").state is StageState.RUNNING, "its runner")
    assert (view.id, view.epoch, dict(view.parameters)) == (before.id, 3, dict(before.parameters))
    assert view.outputs["capacity"] == before.outputs["capacity"]  # Terraform's roots need the zone
    assert {item.uid for item in view.owned if item.uid} >= {item.uid for item in before.owned_by("train") if item.uid}
    assert kubeconfig_path(done.folder).exists()

    tear_down(done.folder)
    after = wait_for_run(done.folder, lambda view: view.state in (RunState.TORN_DOWN, RunState.FAILED), "the teardown")
    assert after.audit is not None, [(step.id, step.state, step.message) for step in after.teardown]
    left = [line for line in after.audit.leftovers if "ConfigMap" not in line]
    assert (left, after.audit.unknown) == ([], ())


async def test_a_runner_that_wakes_up_after_its_run_was_taken_over_changes_nothing(
    sandbox: RunningSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_rehearsal(sandbox, is_endless=True)
    old = begin(folder)
    assert old is not None
    at_training(folder)
    await kept(sandbox, folder)
    run, environment = folder.name, load_environment(folder)
    stop_between_records(old, folder)
    try:
        send_request(folder, RequestKind.TEARDOWN, delete_data=True, start=False)  # it would act on that
        told = len(records_of(folder))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        done = await taken(sandbox, run, environment, CLOCK, confirm=run)
        before = await versions_of(sandbox, run)
    finally:
        os.kill(old.pid, signal.SIGCONT)
    wait(lambda: not is_alive(old), "the old runner's end")
    assert await versions_of(sandbox, run) == before
    assert len(records_of(folder)) == told
    watched = read_watched(folder)
    assert watched is not None, runner_log_path(folder).read_text()
    assert watched.epoch == 2
    at_training(done.folder)

    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent.parent.parent))  # and back to the first machine
    with pytest.raises(UsageError, match="carries out"):
        await taken(sandbox, run, environment, CLOCK)
    back = await taken(sandbox, run, environment, CLOCK, confirm=run)
    assert (back.folder, back.epoch) == (folder, 3)
    tear_down(back.folder)
    wait_for_run(back.folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown by the new runner")


async def versions_of(sandbox: RunningSandbox, run_id: str) -> dict[str, str]:
    """Return the uid and generation of everything that the run has applied."""
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig), token_factory=token_factory)
    connection = ClusterConnection(session, Discovery(session))
    try:
        found = {}
        for version, kind in (
            ("kubeflow.org/v1", "PyTorchJob"),
            ("karpenter.sh/v1", "NodePool"),
            ("v1", "PersistentVolume"),
            ("apps/v1", "Deployment"),
        ):
            for item in await connection.list_objects(version, kind, label_selector=f"eksml.dev/run={run_id}"):
                metadata = item["metadata"]
                going = metadata.get("deletionTimestamp", "")
                found[f"{kind} {metadata['name']}"] = f"{metadata['uid']} {metadata.get('generation')} {going}"
        return found
    finally:
        await session.aclose()
