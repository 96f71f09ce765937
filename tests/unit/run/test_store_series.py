"""The output of a run in its store: whole after each stage, in the same segments as here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from actions.base.objects import ListedObject
from actions.run.context.store_address import run_key
from actions.run.output import segments
from actions.run.output.reader import OutputReader
from actions.run.output.streams import stream_path
from actions.run.state.records import Action, Intent, Outcome, Result
from actions.run.store.copy import fetch_run
from actions.run.store.rows import read_rows
from actions.run.store.series import OutputCopy, streams_in
from actions.telemetry.points import Point
from tests.support.stores import (
    DENIED,
    Proxy,
    Published,
)
from tests.support.streams import bytes_of, segments_of
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.replicating import a_run, accompanied, growing, seconds_until, stored


def test_a_machine_killed_after_a_stage_has_left_the_curve_of_the_stage_in_the_home(
    home: Proxy, tmp_path: Path
) -> None:
    folder, copy = a_run(tmp_path), tmp_path / "copy"

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        points = growing(folder, "train", "points")
        async with accompanied(run):
            await run.journal.write(Intent(Action.PERFORM), stage="train", attempt=1)
            await seconds_until(clock, lambda: run.publisher.sent == 2, 5)
            points.append(b'{"type":"point","number":0,"metric":"train_loss","step":1,"value":1.5}\n')
            await run.journal.write(Outcome(Action.PERFORM, Result.DONE, "done"), stage="train", attempt=1)
            await seconds_until(clock, lambda: run.publisher.sent == 3, 5)
        await fetch_run(run.store, folder.name, copy)
        assert list(stored(copy)) == stored(folder)
        assert bytes_of(copy, "train", "points") == bytes_of(folder, "train", "points")
        run.close()

    run_virtually(work(), has_sockets=True)


def test_the_end_of_a_stage_waits_for_its_curve_and_what_came_before_does_not(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path)

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 5)
            home.fault, home.applies = DENIED, lambda method, path: method == "PUT" and "/output/" in path
            growing(folder, "train", "points").append(b'{"a":1}\n')
            await run.journal.write(Intent(Action.PERFORM), stage="train", attempt=1)
            await run.journal.write(Outcome(Action.PERFORM, Result.DONE, "done"), stage="train", attempt=1)
            await clock.sleep(60)
            assert await read_rows(run.store, folder.name) == stored(folder)[:2]
            home.mend()
            await seconds_until(clock, lambda: run.publisher.sent == 3, 60)
        assert await read_rows(run.store, folder.name) == stored(folder)
        run.close()

    run_virtually(work(), has_sockets=True)


def test_output_is_written_once_and_its_open_end_as_it_grows(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEAL_BYTES", 1000)
    folder, copy = a_run(tmp_path), tmp_path / "copy"
    lines = growing(folder, "train", "lines")

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)

        def line(number: int) -> bytes:
            return b"L000000\t2023-11-14T22:13:20.%09dZ line\n" % number

        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 5)
            for number in range(120):
                lines.append(line(number))
                if number % 10 == 0:
                    await clock.sleep(12)
                    await fetch_run(run.store, folder.name, copy)
                    assert bytes_of(copy, "train", "lines") == bytes_of(folder, "train", "lines")
            await clock.sleep(12)
        names = [path.rpartition("/")[2] for path in home.puts("/output/")]
        sealed = [name for name in names if name.endswith(".gz")]
        assert len(sealed) == len(set(sealed)) > 4
        there = {item.key.rpartition("/")[2] for item in await run.store.objects(f"runs/{folder.name}/output/")}
        here = {path.name for path in stream_path(folder, "train", "lines").iterdir()}
        assert there == here  # the same files under the same names
        await fetch_run(run.store, folder.name, copy)
        assert {path.name for path in stream_path(copy, "train", "lines").iterdir()} == here
        home.requests.clear()
        await fetch_run(run.store, folder.name, copy)
        assert not [line for line in home.requests if "/output/train" in line]  # nothing is fetched twice
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_runner_that_is_killed_between_segment_and_open_end_leaves_nothing_twice(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEAL_BYTES", 300)
    folder, copy = a_run(tmp_path), tmp_path / "copy"
    points = growing(folder, "train", "points")

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        points.append(b'{"type":"point","number":0,"metric":"m","step":1,"value":1.5}\n')
        home.fault, home.applies = DENIED, lambda method, path: method == "DELETE"
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 5)
            for step in range(2, 8):
                points.append(b'{"type":"point","number":0,"metric":"m","step":%d,"value":1.5}\n' % step)
            await clock.sleep(15)
        listed = {item.key.rpartition("/")[2] for item in await run.store.objects(f"runs/{folder.name}/output/")}
        assert "000000000000000.tail" in listed
        await fetch_run(run.store, folder.name, copy)
        assert bytes_of(copy, "train", "points") == bytes_of(folder, "train", "points")
        home.mend()
        put = partial(run.publisher.contents._put, run.store)
        await OutputCopy(run.store, put, folder.name, folder).push()
        listed = {item.key.rpartition("/")[2] for item in await run.store.objects(f"runs/{folder.name}/output/")}
        assert listed == {path.name for path in stream_path(folder, "train", "points").iterdir()}
        run.close()

    run_virtually(work(), has_sockets=True)


def test_a_damaged_segment_is_not_copied_and_one_that_the_home_damages_stays_out(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEAL_BYTES", 300)
    folder, copy = a_run(tmp_path), tmp_path / "copy"
    points = growing(folder, "train", "points")
    for step in range(20):
        points.append(b'{"type":"point","number":0,"metric":"m","step":%d,"value":1.5}\n' % step)
    first, second, *_ = segments_of(folder, "train", "points")
    whole = second.read_bytes()
    first.write_bytes(first.read_bytes()[:-1])

    async def work() -> None:
        clock = VirtualClock()
        run = Published(folder, clock)
        async with accompanied(run):
            await seconds_until(clock, lambda: run.publisher.sent == 1, 20)
        names = {item.key.rpartition("/")[2]: item for item in await run.store.objects(f"runs/{folder.name}/output/")}
        assert first.name not in names
        assert second.name in names
        key = names[second.name].key
        await run.store.delete(key)
        await run.store.put_if_absent(key, whole[:-2] + b"xx")
        await fetch_run(run.store, folder.name, copy)
        reader = OutputReader(copy, "train")
        steps = [one.value.step for one in reader.values(limit_bytes=-1)[0] if isinstance(one.value, Point)]
        assert steps
        assert steps == list(range(20))[-len(steps) :]
        assert reader.lost_values == 1
        run.close()

    run_virtually(work(), has_sockets=True)


def test_names_that_no_stream_has_are_skipped() -> None:
    good = "output/train/points/000000000000000-10-0000abcd.gz"
    odd = ("output/train/other/x.gz", "output/../points/x.gz", "output/train/points/a/b", "series/train/points/x")
    listed = [ListedObject(run_key("run", name), "e", 1, 0.0) for name in (good, *odd)]
    ((key, stream),) = streams_in(listed, "run").items()
    assert key == ("train", "points")
    assert [segment.length for segment in stream.listing.segments] == [10]
