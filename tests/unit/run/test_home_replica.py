"""The replication of a run to its home, with the home in every state in which it can be."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import Clock, SystemClock
from actions.base.errors import AccessError, ConflictError, RefusedError
from actions.cloud import s3
from actions.run.engine.companions import accompanied as engine_accompanied
from actions.run.home.lease import LeaseHeldError, RunStatus, claim_lease, read_lease, renew_lease, take_lease
from actions.run.home.mirror import become_original, fetch_run
from actions.run.home.replica import Replica
from actions.run.home.segments import append_to_home, read_rows
from actions.run.home.series import POINTS, FileReplica, parts_of
from actions.run.home.store import ObjectStore
from actions.run.journal import machine
from actions.run.journal.elsewhere import read_elsewhere, read_fence, refuse_elsewhere
from actions.run.journal.folder import journal_path, terraform_path
from actions.run.journal.reader import RunReader
from actions.run.journal.store import RecordRow, append_record
from actions.run.spool.files import AppendOnly
from actions.run.spool.format import points_file, sources_file
from actions.run.spool.reader import SpoolReader
from actions.run.state.records import Action, Intent, Outcome, Output, RequestKind, Result, RunRequest, TakenOver
from actions.run.state.view import NoticeKind, RunState
from actions.terraform.working_directory import LOCK_FILE, SIMULATED_STATE
from tests.support.homes import (
    ANNA,
    BEN,
    DENIED,
    EXPIRED,
    SLOW_DOWN,
    Proxy,
    Replicated,
    a_run_with_home,
    opened,
)
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.world import creation


def a_run(tmp_path: Path) -> Path:
    """A run with an id of its own: all tests share one home."""
    from msgspec.structs import replace

    return a_run_with_home(tmp_path, replace(creation(), run_id=f"fake-{abs(hash(tmp_path)):x}"), SystemClock())


def stored(folder: Path) -> list[RecordRow]:
    with closing(sqlite3.connect(journal_path(folder))) as connection:
        found = connection.execute("SELECT seq, at, writer, kind, stage, attempt, json FROM record ORDER BY seq")
        return [RecordRow(*row) for row in found]


@asynccontextmanager
async def accompanied(run: Replicated) -> Any:
    task = asyncio.ensure_future(engine_accompanied(run.replica, VirtualClock(), run.log.append))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def seconds_until(clock: Clock, holds: Callable[[], bool], most: float) -> float:
    """Let the loop's time pass until `holds()`; return how much of it has."""
    begin = clock.monotonic()
    while not holds():
        assert clock.monotonic() - begin < most, f"not within {most:.0f} s"
        await clock.sleep(0.5)
    return clock.monotonic() - begin


def test_records_are_in_the_home_seconds_after_they_are_written(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run):
            for body in (Intent(Action.PERFORM), Output({"a": "b"}), Outcome(Action.PERFORM, Result.DONE, "wörks")):
                await run.journal.write(body, stage="provision", attempt=1)
            append_record(folder, RunRequest(RequestKind.PAUSE), deed="pause")  # another process
            await seconds_until(clock, lambda: run.replica.sent == 5, 5)
        assert await read_rows(run.store, folder.name) == stored(folder)
        run.close()

    run_virtually(work(), has_sockets=True)


def test_nothing_is_asked_of_the_home_while_nothing_is_new_but_the_lease(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.sent == 1, 5)
            await clock.sleep(15)
            home.requests.clear()
            await clock.sleep(600)
        assert {line.rpartition("/")[2] for line in home.requests} == {"lease.json"}
        assert 55 <= len(home.requests) <= 61
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_small_file_that_did_not_change_is_written_once_whatever_becomes_of_the_others(
    home: Proxy, tmp_path: Path
) -> None:
    folder = a_run(tmp_path)
    place = terraform_path(folder, "provision")
    place.mkdir(parents=True)
    for name in (LOCK_FILE, SIMULATED_STATE):
        (place / name).write_text('{"resources":["aws_vpc.main"]}')

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        home.fault, home.applies = DENIED, lambda method, path: method == "PUT" and SIMULATED_STATE in path
        async with accompanied(run):
            await seconds_until(clock, lambda: len(home.puts(SIMULATED_STATE)) > 3, 200)
            home.mend()
            await seconds_until(clock, lambda: run.replica.sent == 1, 60)
            before = len(home.puts(SIMULATED_STATE))
            await clock.sleep(300)
        assert len(home.puts(SIMULATED_STATE)) == before
        assert len(home.puts(LOCK_FILE)) == len(home.puts("environment.json")) == 1
        run.close()

    run_virtually(work(), has_sockets=True)


@pytest.mark.parametrize("how", ["away", "busy", "expired", "denied", "answers lost"])
def test_an_hour_without_the_home_loses_nothing_and_shows(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = a_run(tmp_path)
    monkeypatch.setattr(s3, "_ATTEMPTS", 1)  # botocore waits in real time between two
    minutes = 60 if how == "away" else 8

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        points = growing(points_file(folder, "train"))
        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.sent == 1, 5)
            home.is_away = how == "away"
            home.fault = {"busy": SLOW_DOWN, "expired": EXPIRED, "denied": DENIED}.get(how)
            home.loses_answers = how == "answers lost"
            for minute in range(minutes):
                await run.journal.write(Output({"minute": str(minute)}), stage="train", attempt=1)
                points.append(b'{"type":"point","number":0,"metric":"train_loss","step":%d,"value":1.5}\n' % minute)
                await clock.sleep(60)
            kinds = {NoticeKind(name) for name in run.journal.heartbeat.state.waits}
            assert kinds == {NoticeKind.HOME_REFUSED if how in ("expired", "denied") else NoticeKind.HOME_AWAY}
            assert "does not answer" in shown(folder) or "refuses" in shown(folder)
            home.mend()
            await seconds_until(clock, lambda: run.replica.sent == 1 + minutes, 60)
            await clock.sleep(45)
            assert not run.journal.heartbeat.state.waits
            assert 1 <= len(run.log) <= 12, run.log
        assert await read_rows(run.store, folder.name) == stored(folder)
        await fetch_run(run.store, folder.name, tmp_path / "copy")
        assert points_file(tmp_path / "copy", "train").read_bytes() == points_file(folder, "train").read_bytes()
        run.close()

    run_virtually(work(), has_sockets=True)


def growing(path: Path) -> AppendOnly:
    path.parent.mkdir(parents=True, exist_ok=True)
    return AppendOnly(path)


def shown(folder: Path) -> str:
    view = RunReader(folder).poll()
    assert view is not None
    return " ".join(notice.text for notice in view.notices)


def test_a_second_runner_goes_on_where_the_first_was_killed(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def first() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.sent == 1, 5)
            home.loses_answers, home.applies = True, lambda method, path: "journal" in path
            for number in range(5):
                await run.journal.write(Output({"n": str(number)}), stage="train", attempt=1)
            await clock.sleep(3)  # its write took, and it is killed before it knows
        run.close()

    async def second() -> None:
        clock = VirtualClock()
        home.mend()
        with closing(sqlite3.connect(journal_path(folder))) as connection:
            connection.execute("DELETE FROM lease")
            connection.commit()
        run = Replicated(folder, clock)
        await run.journal.write(Output({"n": "after"}), stage="train", attempt=1)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.sent == 7, 10)
        assert await read_rows(run.store, folder.name) == stored(folder)
        assert run.replica.lease is not None
        assert run.replica.lease.epoch == 1
        run.close()

    run_virtually(first(), has_sockets=True)
    run_virtually(second(), has_sockets=True)


def test_of_two_writers_the_later_epoch_wins_and_the_first_is_fenced(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    copy = tmp_path / "other" / folder.name

    async def work() -> None:
        clock = VirtualClock()
        old = Replicated(folder, clock)
        async with accompanied(old):
            await seconds_until(clock, lambda: old.replica.sent == 1, 5)
        # the old machine sleeps; another one takes over
        store = opened()
        lease = await take_lease(store, folder.name, BEN, after=await read_lease(store, folder.name))
        assert lease.epoch == 2
        await append_to_home(store, folder.name, TakenOver(BEN, 2, ANNA), clock=clock, epoch=2)
        await fetch_run(store, folder.name, copy)
        become_original(copy)
        new = Replicated(copy, clock)
        new.replica._owner = BEN
        await new.journal.write(Output({"by": "ben"}), stage="train", attempt=1)
        async with accompanied(new) as works:
            await seconds_until(clock, lambda: new.replica.sent == 3, 20)
            # the old one wakes up and has something to write: it writes nothing any more
            await old.journal.write(Output({"by": "anna"}), stage="train", attempt=1)
            with pytest.raises(ConflictError, match=r"ben@laptop-2 has taken over|Another machine has written"):
                await asyncio.wait_for(old.replica.accompany(), 60)
            found = read_fence(folder)
            assert (found.epoch, found.taken_by) == (2, BEN)
            await clock.sleep(30)
            assert not works.done()
        assert [row.json for row in await read_rows(store, folder.name)] == [row.json for row in stored(copy)]
        for run in (old, new):
            run.close()
        store.close()

    run_virtually(work(), has_sockets=True)


def test_the_journal_alone_fences_a_machine_that_passed_the_check_of_its_lease(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        old = Replicated(folder, clock)
        async with accompanied(old):
            await seconds_until(clock, lambda: old.replica.sent == 1, 5)
        await take_lease(old.store, folder.name, BEN, after=old.replica.lease)
        await old.journal.write(Output({"by": "anna"}), stage="train", attempt=1)
        await old.replica._replicate()  # between the other's lease and its first record: it counts, and comes first
        taken = await append_to_home(old.store, folder.name, TakenOver(BEN, 2), clock=clock, epoch=2)
        assert taken.seq == 3
        await old.journal.write(Output({"by": "anna"}), stage="train", attempt=1)
        old.replica.renewed_at = clock.monotonic()  # the lease was renewed just before: the journal alone refuses
        with pytest.raises(ConflictError, match=r"record 3 .*epoch 2"):
            await old.replica.accompany()
        found = read_fence(folder)
        assert (found.epoch, found.taken_by) == (2, BEN)
        assert [row.writer for row in await read_rows(old.store, folder.name)][2] == "operator"
        old.close()

    run_virtually(work(), has_sockets=True)


def test_of_two_copies_of_a_folder_one_has_the_lease_though_all_names_are_equal(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        first = Replicated(folder, clock)
        async with accompanied(first):
            await seconds_until(clock, lambda: first.replica.sent == 1, 5)
            copy = tmp_path / "other" / folder.name
            shutil.copytree(folder, copy)  # with the word of the copy: a virtual machine that was copied
            with closing(sqlite3.connect(journal_path(copy))) as connection:
                connection.execute("DELETE FROM lease")
                connection.commit()
            monkeypatch.setattr(machine, "boot", lambda: "another-boot")
            second = Replicated(copy, clock)
            await second.journal.write(Output({"by": "the copy"}), stage="train", attempt=1)
            async with accompanied(second) as works:
                await clock.sleep(40)
                assert (second.replica.lease, second.replica.sent, works.done()) == (None, -1, False)
                assert len(await read_rows(first.store, folder.name)) == 1
        home.clock_offset_seconds = 31  # the first one is silent
        async with accompanied(second):
            await seconds_until(clock, lambda: second.replica.sent == 2, 10)
        with pytest.raises(ConflictError, match="another machine, anna@bastion-1, that has a copy of its folder"):
            await asyncio.wait_for(first.replica.accompany(), 60)
        found = read_elsewhere(folder, 1)
        assert found is not None
        assert (found.owner, found.is_copy) == (ANNA, True)
        with pytest.raises(RefusedError, match="is carried out by another machine, anna@bastion-1, that has a copy"):
            refuse_elsewhere(folder, first.journal.view_if_readable())
        for run in (first, second):
            run.close()

    run_virtually(work(), has_sockets=True)


def test_the_lease_ages_by_the_stores_clock_and_ends(home: Proxy, tmp_path: Path) -> None:
    async def work() -> None:
        store: ObjectStore = opened()
        run_id = f"lease-{abs(hash(tmp_path)):x}"
        assert await read_lease(store, run_id) is None
        lease = await take_lease(store, run_id, ANNA, after=None, machine="a")
        found = await read_lease(store, run_id)
        assert found is not None
        assert found.is_live
        assert (found.epoch, found.owner) == (1, ANNA)
        home.clock_offset_seconds = 31
        aged = await read_lease(store, run_id)
        assert aged is not None
        assert not aged.is_live
        assert aged.age_seconds >= 30
        lease = await renew_lease(store, run_id, lease)  # late, and nobody has taken it
        taken = await take_lease(store, run_id, BEN, after=await read_lease(store, run_id), machine="b")
        assert taken.epoch == 2
        with pytest.raises(ConflictError, match="ben@laptop-2 has taken over"):
            await renew_lease(store, run_id, lease)
        with pytest.raises(ConflictError):
            await take_lease(store, run_id, ANNA, after=found)
        with pytest.raises(ConflictError):
            await claim_lease(store, run_id, ANNA, epoch=1, machine="a", status=RunStatus())
        with pytest.raises(ConflictError):  # a copy of the folder on another machine
            await claim_lease(store, run_id, BEN, epoch=2, machine="c", status=RunStatus())
        assert (await claim_lease(store, run_id, BEN, epoch=2, machine="b", status=RunStatus())).epoch == 2
        home.clock_offset_seconds = 0
        with pytest.raises(LeaseHeldError, match="ben@laptop-2 has renewed"):  # the same folder under another boot
            await claim_lease(store, run_id, BEN, epoch=2, machine="b/restarted", status=RunStatus())
        home.clock_offset_seconds = 31
        assert (await claim_lease(store, run_id, BEN, epoch=2, machine="b/restarted", status=RunStatus())).epoch == 2
        store.close()

    asyncio.run(work())


def test_a_renewal_whose_answer_was_lost_is_no_conflict(home: Proxy, tmp_path: Path) -> None:
    async def work() -> None:
        store = opened()
        run_id = f"lost-{abs(hash(tmp_path)):x}"
        lease = await take_lease(store, run_id, ANNA, after=None, machine="a")
        home.loses_answers, home.applies = True, lambda method, path: method == "PUT"
        with pytest.raises(Exception, match="did not answer"):
            await renew_lease(store, run_id, lease)
        home.mend()
        assert (await renew_lease(store, run_id, lease)).tag != lease.tag
        store.close()

    asyncio.run(work())


def test_a_copy_is_equal_byte_for_byte_and_grows(home: Proxy, tmp_path: Path) -> None:
    folder, copy = a_run(tmp_path), tmp_path / "copy"

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        sources, points = growing(sources_file(folder, "train")), growing(points_file(folder, "train"))
        sources.append(b'{"type":"source","number":0,"namespace":"ml","pod":"train-0","container":"main","uid":"u"}\n')
        for step in range(9000):
            points.append(b'{"type":"point","number":0,"metric":"train_loss","step":%d,"value":1.5}\n' % step)
        async with accompanied(run):
            await run.journal.write(Intent(Action.PERFORM), stage="provision", attempt=1)
            run.journal.note("provision", "halfway")
            await clock.sleep(25)
            mark = await fetch_run(run.store, folder.name, copy)
            assert mark.is_live
            assert mark.owner == ANNA
            assert list(stored(copy)) == stored(folder)
            assert points_file(copy, "train").read_bytes() == points_file(folder, "train").read_bytes()
            assert (copy / "blueprint" / "blueprint.yaml").read_bytes() == b"schema: eksml/v1\n"
            assert b'"A":"b"' in (copy / "environment.json").read_bytes()
            reader, spool = RunReader(copy), SpoolReader(copy, "train")
            view = reader.poll()
            assert view is not None
            assert view.state is RunState.RUNNING
            assert [notice.text for notice in view.notices] == [
                "It belongs to anna@bastion-1; here it can only be watched."
            ]
            assert view.stage("provision").message.startswith("halfway")
            found, offset = spool.findings(limit_bytes=10 << 20)
            assert len(found) == 9000
            assert found[0].pod == "train-0"
            home.requests.clear()
            await fetch_run(run.store, folder.name, copy)
            assert len(home.requests) - len(home.puts()) <= 4, home.requests
            points.append(b'{"type":"point","number":0,"metric":"train_loss","step":9000,"value":1.5}\n')
            await run.journal.write(Outcome(Action.PERFORM, Result.DONE, "done"), stage="provision", attempt=1)
            await clock.sleep(12)
            await fetch_run(run.store, folder.name, copy)
            assert len(spool.findings(offset)[0]) == 1
            view = reader.poll()
            assert view is not None
            assert view.stage("provision").message == "done"
        home.clock_offset_seconds = 120
        await fetch_run(run.store, folder.name, copy)
        view = reader.poll()
        assert view is not None
        assert [notice.kind for notice in view.notices] == [NoticeKind.ELSEWHERE]
        assert "anna@bastion-1 has not been heard of since" in view.notices[0].text
        with pytest.raises(Exception, match="belongs to anna@bastion-1"):
            append_record(copy, RunRequest(RequestKind.CANCEL), deed="cancel")
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_machine_killed_after_a_stage_has_left_the_curve_of_the_stage_in_the_home(
    home: Proxy, tmp_path: Path
) -> None:
    folder, copy = a_run(tmp_path), tmp_path / "copy"

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        points = growing(points_file(folder, "train"))
        async with accompanied(run):
            await run.journal.write(Intent(Action.PERFORM), stage="train", attempt=1)
            await seconds_until(clock, lambda: run.replica.sent == 2, 5)
            points.append(b'{"type":"point","number":0,"metric":"train_loss","step":1,"value":1.5}\n')
            await run.journal.write(Outcome(Action.PERFORM, Result.DONE, "done"), stage="train", attempt=1)
            await seconds_until(clock, lambda: run.replica.sent == 3, 5)
        await fetch_run(run.store, folder.name, copy)
        assert list(stored(copy)) == stored(folder)
        assert points_file(copy, "train").read_bytes() == points_file(folder, "train").read_bytes()
        run.close()

    run_virtually(work(), has_sockets=True)


def test_the_end_of_a_stage_waits_for_its_curve_and_what_came_before_does_not(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.sent == 1, 5)
            home.fault, home.applies = DENIED, lambda method, path: method == "PUT" and "/series/" in path
            growing(points_file(folder, "train")).append(b'{"a":1}\n')
            await run.journal.write(Intent(Action.PERFORM), stage="train", attempt=1)
            await run.journal.write(Outcome(Action.PERFORM, Result.DONE, "done"), stage="train", attempt=1)
            await clock.sleep(60)
            assert await read_rows(run.store, folder.name) == stored(folder)[:2]
            home.mend()
            await seconds_until(clock, lambda: run.replica.sent == 3, 60)
        assert await read_rows(run.store, folder.name) == stored(folder)
        run.close()

    run_virtually(work(), has_sockets=True)


@pytest.mark.parametrize(("written", "is_killed"), [(1, False), (2, True)])
def test_a_curve_that_a_new_machine_has_written_in_part_does_not_hide_the_whole_one(
    home: Proxy, tmp_path: Path, written: int, is_killed: bool
) -> None:
    folder = a_run(tmp_path)
    path = points_file(folder, "train")
    points = growing(path)
    points.append(
        b"".join(b'{"type":"point","number":0,"metric":"m","step":%d,"value":1.5}\n' % n for n in range(9000))
    )

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)

        async def copied(name: str) -> bytes:
            await fetch_run(run.store, folder.name, tmp_path / name)
            return points_file(tmp_path / name, "train").read_bytes()

        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.sent == 1, 20)
        new = FileReplica(run.store, folder.name, folder, "train", POINTS, epoch=2)
        home.fault = DENIED
        home.applies = lambda method, path: (
            "/000002-" in path and method == "PUT" and len(home.puts("/000002-")) > written
        )
        with pytest.raises(AccessError):
            await new.push()
        assert await copied("early") == path.read_bytes()
        home.mend()
        points.append(b'{"type":"point","number":0,"metric":"m","step":9000,"value":1.5}\n')
        if is_killed:
            new = FileReplica(run.store, folder.name, folder, "train", POINTS, epoch=2)
        await new.push()
        assert await copied("late") == path.read_bytes()
        parts = parts_of(await run.store.objects(f"runs/{folder.name}/"), folder.name)["train", POINTS]
        assert len(parts) == 3
        assert parts[0].generation.startswith("000002-")
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_file_that_was_mended_is_written_anew(home: Proxy, tmp_path: Path) -> None:
    folder, copy = a_run(tmp_path), tmp_path / "copy"
    path = points_file(folder, "train")

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        growing(path).append(b'{"a":1}\n{"a":2}\n')
        async with accompanied(run):
            await clock.sleep(12)
            await fetch_run(run.store, folder.name, copy)
            scratch = path.with_name("mended")
            scratch.write_bytes(b'{"a":2}\n{"a":3}\n{"a":4}\n')
            scratch.replace(path)
            await clock.sleep(12)
            await fetch_run(run.store, folder.name, copy)
            assert points_file(copy, "train").read_bytes() == path.read_bytes()
        run.close()

    run_virtually(work(), has_sockets=True)


def test_the_end_of_a_run_gives_the_lease_back(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run):
            await clock.sleep(3)
        await run.journal.write(RunRequest(RequestKind.CANCEL))
        await run.replica.finish(await run.journal.view())
        store = opened()
        lease = await read_lease(store, folder.name)
        assert lease is not None
        assert not lease.is_live
        assert lease.status.last_seq == 2
        mark = await fetch_run(store, folder.name, tmp_path / "copy")
        assert not mark.is_live
        assert mark.last_seq == 2
        store.close()

    run_virtually(work(), has_sockets=True)


def test_no_secret_leaves(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    (folder / "kubeconfig").write_text('{"users": [{"name": "a", "user": {"token": "canary-token"}}]}')
    (folder / "environment.json").write_text('{"X": "AKIAABCDEFGHIJKLMNOP", "AWS_PROFILE": "team"}')
    variables = folder / "terraform" / "provision" / "run.tfvars.json"
    variables.parent.mkdir(parents=True)
    variables.write_text('{"token": "canary-variable"}')

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run):
            await clock.sleep(12)
        bodies = [await run.store.get(item.key) for item in await run.store.objects(f"runs/{folder.name}/")]
        everything = b"".join(found.body for found in bodies if found)
        assert b"AWS_PROFILE" in everything
        assert b"canary" not in everything
        assert b"AKIA" not in everything
        run.close()

    run_virtually(work(), has_sockets=True)


class _SlowFiles:
    """A home that takes 45 s for each small file.

    Args:
        store: The home behind it.
        clock: For waiting.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_if_absent(self, name: str, data: bytes) -> Any:
        if "/files/" in name:
            await self._clock.sleep(45)
        return await self._store.put_if_absent(name, data)


def test_a_slow_write_does_not_cost_the_lease(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        slow: Any = _SlowFiles(run.store, clock)
        run.replica = Replica(slow, folder, run.journal, ANNA, clock)
        oldest = 0.0
        async with accompanied(run):
            await seconds_until(clock, lambda: run.replica.renewed_at is not None, 5)
            for _ in range(60):
                await clock.sleep(1)
                oldest = max(oldest, clock.monotonic() - (run.replica.renewed_at or 0.0))
        assert oldest < 12
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_lease_that_was_removed_takes_nothing_over(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Replicated(folder, clock)
        async with accompanied(run) as task:
            await clock.sleep(3)
            await run.store.delete(f"runs/{folder.name}/lease.json")
            await clock.sleep(15)
            assert not task.done()
            lease = await read_lease(run.store, folder.name)
            assert lease is not None
            assert (lease.epoch, lease.owner) == (1, ANNA)
        run.close()

    run_virtually(work(), has_sockets=True)
