"""The curves of a run in its home: whole after each stage, whoever has written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import AccessError
from actions.base.objects import ListedObject
from actions.run.context.store_address import run_key
from actions.run.spool.format import points_file
from actions.run.state.records import Action, Intent, Outcome, Result
from actions.run.store.copy import fetch_run
from actions.run.store.rows import read_rows
from actions.run.store.series import POINTS, FileReplica, parts_of
from tests.support.stores import (
    DENIED,
    Proxy,
    Replicated,
)
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.replicating import a_run, accompanied, growing, seconds_until, stored


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


def test_parts_of_files_with_names_that_none_has_are_skipped() -> None:
    good = "series/train/points.jsonl/000001-000000/000000000000"
    odd = ("series/train/points.jsonl/000001-abc/000000000000", "series/train/points.jsonl/000001-000000/\u0663")
    listed = [ListedObject(run_key("run", name), "e", 1, 0.0) for name in (good, *odd)]
    ((parts,),) = [tuple(parts_of(listed, "run").values())]
    assert [part.name for part in parts] == [run_key("run", good)]
