"""The publisher of a run whose store is in its cluster, and of one that has a lease there beside a store in S3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import AccessError
from actions.base.guard import FencedError, guarded_by
from actions.run.context.stage_context import CLUSTER_UID
from actions.run.context.store_address import run_key
from actions.run.journal.folder import terraform_path
from actions.run.journal.watched import read_watched
from actions.run.state.records import Action, Intent, Operator, Output, RequestKind, RunRequest
from actions.run.store.access import note_removed
from actions.run.store.lease import take_lease
from actions.run.store.objects import LeaseDocument, StoreLease
from actions.run.store.publish import BEAT_SECONDS, LOSSES_SECONDS
from actions.run.store.rows import read_rows
from actions.terraform.working_directory import STATE_FILE
from tests.support.local_store import LocalStore
from tests.support.stores import BEN, Proxy, Published
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.replicating import a_run, accompanied, seconds_until, stored
from tests.unit.run.world import make_run

REACHED = Output({CLUSTER_UID: "uid-1"})


class Cluster(LocalStore):
    """The store in a cluster: it takes no output, and may refuse leases."""

    takes_output = False
    refuses = False

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        if self.refuses:
            raise AccessError("Not allowed: create leases.")
        return await super().put_lease(run_id, document, after=after)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster")


async def published(run: Published, clock: VirtualClock) -> None:
    await run.journal.write(REACHED, stage="provision", attempt=1)
    await seconds_until(clock, lambda: run.publisher.sent == run.journal.last_seq(), 10)


def test_a_run_is_published_as_soon_as_it_has_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    folder = make_run(tmp_path, SystemClock())

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        async with accompanied(run):
            await clock.sleep(5)
            assert await cluster.run_ids() == []
            await published(run, clock)
            assert await read_rows(cluster, folder.name) == stored(folder)
            assert not run.publisher.is_behind()
        await run.publisher.finish(await run.journal.view())
        lease = await cluster.lease(folder.name)
        assert lease is not None
        assert (lease.epoch, lease.seconds, lease.status.last_seq) == (1, 0.0, 2)
        run.close()

    run_virtually(work())


def test_the_states_of_terraform_are_kept_while_it_works(tmp_path: Path, cluster: Cluster) -> None:
    folder = make_run(tmp_path, SystemClock())
    state = terraform_path(folder, "provision") / STATE_FILE
    state.parent.mkdir(parents=True)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        name = run_key(folder.name, "terraform/provision.tfstate")

        async def kept() -> bytes:
            found = await cluster.get(name)
            return found.body if found else b""

        async with accompanied(run):
            await published(run, clock)
            texts = [json.dumps({"serial": number, "lineage": "l", "resources": ["x"] * number}) for number in (1, 2)]
            for text in texts:
                state.write_text(text)
                await clock.sleep(3)
                assert (await kept()).decode() == text
            state.write_text(texts[1][:20] + " " * 9)  # Terraform is writing it
            await clock.sleep(3)
            assert (await kept()).decode() == texts[1]
        run.close()

    run_virtually(work())


def test_what_is_deleted_in_the_cluster_is_written_again(tmp_path: Path, cluster: Cluster) -> None:
    folder = make_run(tmp_path, SystemClock())

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        async with accompanied(run):
            await published(run, clock)
            await clock.sleep(LOSSES_SECONDS)
            before = [item.key for item in await cluster.objects(run_key(folder.name))]
            assert len(before) > 2
            for name in before:  # its lease stays
                await cluster.delete(name)
            await clock.sleep(2 * LOSSES_SECONDS)
            assert [item.key for item in await cluster.objects(run_key(folder.name))] == before
            await cluster.remove_run(folder.name)
            await clock.sleep(30)
            assert await read_rows(cluster, folder.name) == stored(folder)
            assert await cluster.lease(folder.name) is not None
        run.close()

    run_virtually(work())


@pytest.mark.parametrize("how", ["the audit has begun", "an earlier audit has removed it"])
def test_what_the_teardown_removes_is_not_written_again(tmp_path: Path, cluster: Cluster, how: str) -> None:
    folder = make_run(tmp_path, SystemClock())

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        async with accompanied(run):
            await published(run, clock)
            if how == "the audit has begun":
                await run.journal.write(RunRequest(RequestKind.TEARDOWN))
                await run.journal.write(Intent(Action.AUDIT))
            else:
                note_removed(folder)
            await clock.sleep(5)
            await cluster.remove_run(folder.name)
            await clock.sleep(2 * LOSSES_SECONDS)
            assert await cluster.run_ids() == []
        await run.publisher.finish(await run.journal.view())
        assert await cluster.run_ids() == []
        run.close()

    run_virtually(work())


def test_beside_a_store_in_s3_the_cluster_has_a_lease_that_names_it(
    home: Proxy, tmp_path: Path, cluster: Cluster
) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        cluster.refuses = True
        async with accompanied(run):
            await published(run, clock)
            await clock.sleep(2 * BEAT_SECONDS)
            assert not run.journal.heartbeat.state.waits  # it is a line in the log, and no more
            assert not run.publisher.is_behind()
            assert [line.strip() for line in run.log] == ["store: Not allowed: create leases."]
            cluster.refuses = False
            await clock.sleep(2 * BEAT_SECONDS)
            lease = await cluster.lease(folder.name)
            assert lease is not None
            assert (lease.about.store, lease.epoch, lease.is_live) == ("s3://team-runs/ml", 1, True)
            assert await cluster.objects(run_key(folder.name)) == []
            eve = Operator("eve", "bastion-3")
            await take_lease(cluster, folder.name, eve, after=lease)
            await clock.sleep(2 * BEAT_SECONDS)
            later = await cluster.lease(folder.name)
            assert later is not None
            assert (later.epoch, later.owner) == (2, eve)
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_later_epoch_in_the_cluster_ends_the_runner_of_a_run_that_is_kept_there(
    tmp_path: Path, cluster: Cluster
) -> None:
    folder = make_run(tmp_path, SystemClock())

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        async with accompanied(run) as works:
            await published(run, clock)
            await take_lease(cluster, folder.name, BEN, after=await cluster.lease(folder.name))
            await seconds_until(clock, works.done, 30)
            assert "ben@laptop-2 has taken over" in str(works.exception())
        found = read_watched(folder)
        assert found is not None
        assert (found.who, found.epoch) == (str(BEN), 2)
        run.close()

    run_virtually(work())


def test_a_bucket_that_was_emptied_is_written_again(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await published(run, clock)
            before = [item.key for item in await run.store.objects(run_key(folder.name))]
            await run.store.remove_run(folder.name)
            await clock.sleep(30)
            assert [item.key for item in await run.store.objects(run_key(folder.name))] == before
            assert await read_rows(run.store, folder.name) == stored(folder)
            assert await run.store.lease(folder.name) is not None
        run.close()

    run_virtually(work(), has_sockets=True)


class Fence:
    """The fence of a runner whose run another machine has taken over."""

    async def require(self, deed: str, **_: bool) -> None:
        raise FencedError(f"It was taken over. Not done: {deed}.")


def test_a_fenced_runner_writes_no_lease_beside_the_store_either(home: Proxy, tmp_path: Path, cluster: Cluster) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock, cluster=cluster)
        async with accompanied(run):
            await published(run, clock)
            await clock.sleep(BEAT_SECONDS)
        await cluster.remove_run(folder.name)  # by the machine that has it, in its teardown
        await clock.sleep(2 * BEAT_SECONDS)
        with guarded_by(Fence()), pytest.raises(FencedError):
            await run.publisher._point()
        assert await cluster.run_ids() == []
        run.close()

    run_virtually(work(), has_sockets=True)
