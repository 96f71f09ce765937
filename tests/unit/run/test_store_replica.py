"""The replication of a run to its store, with the home in every state in which it can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import RefusedError
from actions.cloud import s3
from actions.run.client import send_request
from actions.run.journal.folder import terraform_path
from actions.run.journal.reader import RunReader
from actions.run.journal.store import append_record
from actions.run.output.reader import OutputReader
from actions.run.state.records import Action, Intent, Outcome, Output, RequestKind, Result, RunRequest
from actions.run.state.view import NoticeKind, RunState
from actions.run.store import publish
from actions.run.store.copy import fetch_run
from actions.run.store.rows import read_rows
from actions.terraform.working_directory import LOCK_FILE
from tests.support.stores import (
    DENIED,
    EXPIRED,
    SLOW_DOWN,
    TAKEN,
    Proxy,
    Published,
)
from tests.support.streams import bytes_of
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.replicating import a_run, accompanied, growing, seconds_until, stored


def test_records_are_in_the_home_seconds_after_they_are_written(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            for body in (Intent(Action.PERFORM), Output({"a": "b"}), Outcome(Action.PERFORM, Result.DONE, "wörks")):
                await run.journal.write(body, stage="provision", attempt=1)
            append_record(folder, RunRequest(RequestKind.PAUSE), deed="pause")  # another process
            await seconds_until(clock, lambda: run.publisher.sent == 5, 5)
        assert await read_rows(run.store, folder.name) == stored(folder)
        run.close()

    run_virtually(work(), has_sockets=True)


def test_nothing_is_asked_of_the_home_while_nothing_is_new_but_the_lease(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 5)
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
    (place / LOCK_FILE).write_text("# locked\n")

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        home.fault, home.applies = DENIED, lambda method, path: method == "PUT" and "environment.json" in path
        async with accompanied(run):
            await seconds_until(clock, lambda: len(home.puts("environment.json")) > 3, 200)
            home.mend()
            await seconds_until(clock, lambda: run.publisher.sent == 1, 60)
            before = len(home.puts("environment.json"))
            await clock.sleep(300)
        assert len(home.puts("environment.json")) == before
        assert len(home.puts(LOCK_FILE)) == 1
        run.close()

    run_virtually(work(), has_sockets=True)


REASONS = {
    "away": "AWS did not answer s3:",
    "busy": "AWS is busy with s3:",
    "expired": "The AWS credentials are not valid any more (ExpiredToken)",
    "denied": "AWS refused s3:",
    "answers lost": "AWS did not answer s3:",
    "lease refused": "refuses the lease of",
}


@pytest.mark.parametrize("how", REASONS)
def test_an_hour_without_the_home_loses_nothing_and_shows(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = a_run(tmp_path)
    monkeypatch.setattr(s3, "_ATTEMPTS", 1)  # botocore waits in real time between two
    minutes = 60 if how == "away" else 8

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        points = growing(folder, "train", "points")
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 5)
            home.is_away = how == "away"
            home.fault = {"busy": SLOW_DOWN, "expired": EXPIRED, "denied": DENIED, "lease refused": TAKEN}.get(how)
            if how == "lease refused":
                home.applies = lambda method, path: method == "PUT" and "lease.json" in path
            home.loses_answers = how == "answers lost"
            for minute in range(minutes):
                await run.journal.write(Output({"minute": str(minute)}), stage="train", attempt=1)
                points.append(b'{"type":"point","number":0,"metric":"train_loss","step":%d,"value":1.5}\n' % minute)
                await clock.sleep(60)
            kinds = {NoticeKind(name) for name in run.journal.heartbeat.state.waits}
            is_refused = how in ("expired", "denied", "lease refused")
            assert kinds == {NoticeKind.STORE_REFUSED if is_refused else NoticeKind.STORE_AWAY}
            assert ("refuses this machine" if is_refused else "does not answer") in shown(folder)
            assert REASONS[how] in shown(folder)
            home.mend()
            await seconds_until(clock, lambda: run.publisher.sent == 1 + minutes, 60)
            await clock.sleep(45)
            state = run.journal.heartbeat.state
            assert (dict(state.waits), dict(state.reasons)) == ({}, {})
            assert 1 <= len(run.log) <= 12, run.log
        assert await read_rows(run.store, folder.name) == stored(folder)
        await fetch_run(run.store, folder.name, tmp_path / "copy")
        assert bytes_of(tmp_path / "copy", "train", "points") == bytes_of(folder, "train", "points")
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_home_is_behind_until_it_has_all_records_and_no_longer_than_a_day(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path)
    monkeypatch.setattr(s3, "_ATTEMPTS", 1)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        assert run.publisher.is_behind()
        async with accompanied(run):
            await seconds_until(clock, lambda: not run.publisher.is_behind(), 5)
            home.is_away = True
            await run.journal.write(Output({"a": "b"}), stage="train", attempt=1)
            assert run.publisher.is_behind()
            await clock.sleep(3600)
            assert run.publisher.is_behind()
            home.mend()
            await seconds_until(clock, lambda: not run.publisher.is_behind(), 60)
            assert await read_rows(run.store, folder.name) == stored(folder)
            home.is_away = True
            await seconds_until(clock, run.publisher.is_behind, 60)  # nothing is new, and the lease cannot be renewed
            monkeypatch.setattr(publish, "BEHIND_SECONDS", 600.0)
            await seconds_until(clock, lambda: not run.publisher.is_behind(), 700)
        run.close()

    run_virtually(work(), has_sockets=True)


def shown(folder: Path) -> str:
    view = RunReader(folder).poll()
    assert view is not None
    return " ".join(notice.text for notice in view.notices)


def test_a_copy_is_equal_byte_for_byte_and_grows(home: Proxy, tmp_path: Path) -> None:
    folder, copy = a_run(tmp_path), tmp_path / "copy"

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        sources, points = growing(folder, "train", "sources"), growing(folder, "train", "points")
        sources.append(b'{"type":"source","number":0,"namespace":"ml","pod":"train-0","container":"main","uid":"u"}\n')
        for step in range(9000):
            points.append(b'{"type":"point","number":0,"metric":"train_loss","step":%d,"value":1.5}\n' % step)
        async with accompanied(run):
            await run.journal.write(Intent(Action.PERFORM), stage="provision", attempt=1)
            run.journal.note("provision", "halfway")
            await clock.sleep(25)
            mark = await fetch_run(run.store, folder.name, copy)
            assert mark.last_seq == 2
            assert list(stored(copy)) == stored(folder)
            assert bytes_of(copy, "train", "points") == bytes_of(folder, "train", "points")
            assert (copy / "blueprint" / "blueprint.yaml").read_bytes() == b"schema: eksml/v1\n"
            assert b'"A":"b"' in (copy / "environment.json").read_bytes()
            reader, output = RunReader(copy), OutputReader(copy, "train")
            view = reader.poll()
            assert view is not None
            assert view.state is RunState.RUNNING
            assert [notice.text for notice in view.notices] == [
                "It belongs to anna@bastion-1; here it can only be watched."
            ]
            assert view.stage("provision").message.startswith("halfway")
            found, offset = output.values(limit_bytes=10 << 20)
            assert len(found) == 9000
            assert found[0].pod == "train-0"
            home.requests.clear()
            await fetch_run(run.store, folder.name, copy)
            assert len(home.requests) - len(home.puts()) <= 4, home.requests
            points.append(b'{"type":"point","number":0,"metric":"train_loss","step":9000,"value":1.5}\n')
            await run.journal.write(Outcome(Action.PERFORM, Result.DONE, "done"), stage="provision", attempt=1)
            await clock.sleep(12)
            await fetch_run(run.store, folder.name, copy)
            assert len(output.values(offset)[0]) == 1
            view = reader.poll()
            assert view is not None
            assert view.stage("provision").message == "done"
        home.clock_offset_seconds = 120
        await fetch_run(run.store, folder.name, copy)
        view = reader.poll()
        assert view is not None
        assert [notice.kind for notice in view.notices] == [NoticeKind.ELSEWHERE]
        assert "anna@bastion-1 has not been heard of since" in view.notices[0].text
        with pytest.raises(RefusedError, match="has not been heard of since"):
            send_request(copy, RequestKind.CANCEL, start=False)
        run.close()

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
        run = Published(folder, clock)
        async with accompanied(run):
            await clock.sleep(12)
        bodies = [await run.store.get(item.key) for item in await run.store.objects(f"runs/{folder.name}/")]
        everything = b"".join(found.body for found in bodies if found)
        assert b"AWS_PROFILE" in everything
        assert b"canary" not in everything
        assert b"AKIA" not in everything
        run.close()

    run_virtually(work(), has_sockets=True)
