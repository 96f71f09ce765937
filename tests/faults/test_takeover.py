"""A run that moves to another machine: rebuilt from its cluster, or taken from a runner that wakes up later."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from actions.base.clock import Clock, SystemClock
from actions.base.errors import RefusedError, UsageError
from actions.base.files import shipped_blueprints
from actions.base.process import ProcessIdentity, is_alive
from actions.blueprint.catalogue import Catalogue
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import resume_interrupted, send_request, start_runner
from actions.run.context.access import ClusterAccess, ClusterConnection
from actions.run.engine.fence import GRACE_SECONDS
from actions.run.journal.elsewhere import read_fence
from actions.run.journal.folder import load_environment, runner_log_path
from actions.run.presence.lease import read_cluster_lease
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageState
from actions.run.takeover import adopt as adopting
from actions.run.takeover.adopt import Adoption, adopt_run
from actions.run.takeover.arrival import objects_of
from actions.run.takeover.take_over import YOUNG_SECONDS
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import CREDENTIALS, a_rehearsal, a_sandbox, begin, kill, records_of, tear_down, wait_for_run
from tests.support.leftover import delete_folder
from tests.support.members import stop_between_records
from tests.support.polling import until, wait

CLOCK = SystemClock()
T = TypeVar("T")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with a_sandbox("moves", speed=60.0) as running:
            yield running


def at_training(folder: Path) -> RunView:
    return wait_for_run(folder, lambda view: view.stage("train").state is StageState.RUNNING, "the training")


async def connection_to(sandbox: RunningSandbox) -> ClusterConnection:
    return await ClusterAccess(sandbox.kubeconfig, "", CLOCK, token_factory).open("")


async def published(sandbox: RunningSandbox, run_id: str) -> None:
    """Wait for the record that the run's runner publishes in its cluster."""
    connection = await connection_to(sandbox)

    async def is_at_training() -> bool:
        lease = await read_cluster_lease(connection, run_id)
        at_work = lease.presence.at_work if lease else None
        return at_work is not None and (at_work.id, at_work.state) == ("train", StageState.RUNNING)

    try:
        await until(is_at_training, "the run's record")
    finally:
        await connection.session.aclose()


async def adopt(
    sandbox: RunningSandbox,
    run: str,
    environment: dict[str, str],
    *,
    confirm: str = "",
    clock: Clock = CLOCK,
    say: Callable[[str], None] = lambda _: None,
) -> Adoption:
    connection = await connection_to(sandbox)
    try:
        return await adopt_run(
            run,
            connection,
            ClusterTarget(sandbox.kubeconfig),
            clock,
            catalogue=Catalogue([shipped_blueprints()]),
            confirm=confirm,
            environment={**environment, **CREDENTIALS},
            say=say,
        )
    finally:
        await connection.session.aclose()


class Ahead(SystemClock):
    """A clock by which each heartbeat of a moment ago is old."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=YOUNG_SECONDS + 30.0)


class Impatient(SystemClock):
    """Does not wait for a machine that does not exist any more; notes when it should, and when a search is made."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def sleep(self, seconds: float) -> None:
        if seconds == GRACE_SECONDS:
            self.events.append("waited")
        else:
            await super().sleep(seconds)

    def noted(self, search: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """Return a search that is noted."""

        async def searched(*arguments: Any, **named: Any) -> T:
            self.events.append("searched")
            return await search(*arguments, **named)

        return searched


async def cut_short(*_: object) -> None:
    raise asyncio.CancelledError


def lose_machine(folder: Path, runner: object, patch: pytest.MonkeyPatch, empty: Path) -> dict[str, str]:
    """Delete the whole state folder of the run's machine; go on as an empty one."""
    environment = load_environment(folder)
    assert isinstance(runner, ProcessIdentity)
    kill(runner)  # first, as it writes into the folder
    delete_folder(folder.parent)
    patch.setenv("XDG_STATE_HOME", str(empty))
    return environment


async def test_a_run_whose_disk_is_lost_goes_on_and_is_torn_down_from_an_empty_machine(
    sandbox: RunningSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_rehearsal(sandbox, is_endless=True)
    runner = begin(folder)
    before = at_training(folder)
    await published(sandbox, folder.name)
    environment = lose_machine(folder, runner, monkeypatch, tmp_path / "empty")

    said: list[str] = []
    for wrong in (Ahead(), CLOCK):
        with pytest.raises(UsageError, match=r"carries out .* is \d\d? s old"):
            await adopt(sandbox, "", environment, clock=wrong, say=said.append)
    (sentence,) = said
    assert re.match(r"The clock of this machine is 1[12]\d s ahead of that of the cluster, ", sentence)
    clock = Impatient()
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "_write_states", cut_short)  # ^C while Terraform imports
        patch.setattr(adopting, "objects_of", clock.noted(objects_of))
        with pytest.raises(asyncio.CancelledError):
            await adopt(sandbox, "", environment, confirm=folder.name, clock=clock)
    assert clock.events == ["searched", "waited", "searched"]  # until then it may make something
    assert resume_interrupted(environment=environment) == []
    with pytest.raises(RefusedError, match="about to be taken over by this machine"):
        start_runner(tmp_path / "empty" / "eksml-tui" / "runs" / folder.name)

    done = await adopt(sandbox, "", environment, confirm=folder.name, clock=clock)
    assert done.folder.parent.parent.parent == tmp_path / "empty"
    view = wait_for_run(done.folder, lambda view: view.stage("train").state is StageState.RUNNING, "its runner")
    assert view.is_rebuilt
    assert (view.id, view.epoch, dict(view.parameters)) == (before.id, 3, dict(before.parameters))
    assert view.outputs["capacity"] == before.outputs["capacity"]  # Terraform's roots need the zone
    assert {item.uid for item in view.owned if item.uid} >= {item.uid for item in before.owned_by("train") if item.uid}

    tear_down(done.folder)
    after = wait_for_run(done.folder, lambda view: view.state in (RunState.TORN_DOWN, RunState.FAILED), "the teardown")
    assert after.audit is not None, [(step.id, step.state, step.message) for step in after.teardown]
    left = [line for line in after.audit.leftovers if "ConfigMap" not in line]
    assert (left, after.audit.unknown) == ([], ())


async def test_a_runner_that_wakes_up_after_its_run_was_adopted_changes_nothing(
    sandbox: RunningSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_rehearsal(sandbox, is_endless=True)
    old = begin(folder)
    assert old is not None
    at_training(folder)
    await published(sandbox, folder.name)
    wait(lambda: read_fence(folder).store, "the fence to know the store")
    environment = load_environment(folder)
    stop_between_records(old, folder)
    try:
        send_request(folder, RequestKind.TEARDOWN, delete_data=True, start=False)  # it would act on that
        told = len(records_of(folder))

        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        with pytest.raises(UsageError, match="carries out"):
            await adopt(sandbox, folder.name, environment)
        done = await adopt(sandbox, folder.name, environment, confirm=folder.name)
        before = await versions_of(sandbox, folder.name)
    finally:
        os.kill(old.pid, signal.SIGCONT)
    wait(lambda: not is_alive(old), "the old runner's end")
    assert await versions_of(sandbox, folder.name) == before
    assert len(records_of(folder)) == told
    assert "was taken over" in runner_log_path(folder).read_text()
    assert read_fence(folder).epoch == 2, runner_log_path(folder).read_text()
    at_training(done.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent.parent.parent))  # and back to the first machine
    with pytest.raises(UsageError, match="carries out"):
        await adopt(sandbox, folder.name, environment)
    back = await adopt(sandbox, folder.name, environment, confirm=folder.name)
    assert (back.folder, back.view.epoch) == (folder, 3)
    tear_down(back.folder)
    wait_for_run(back.folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown by the new runner")


async def versions_of(sandbox: RunningSandbox, run_id: str) -> dict[str, str]:
    """Return the uid and generation of everything that the run has applied."""
    connection = await connection_to(sandbox)
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
        await connection.session.aclose()
