"""A home and the fence that asks it: an outage delays nothing, and a runner that was stopped writes nothing there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.guard import FencedError, guarded_by
from actions.cloud import s3
from actions.run.engine.companions import accompanied
from actions.run.journal.folder import terraform_path
from actions.run.state.records import Output
from actions.run.state.view import RunView
from actions.run.store.access import StoreAccess
from actions.run.store.copy import fetch_run
from actions.run.store.fence import Fence
from actions.run.store.lease import take_lease
from actions.run.store.objects import RunStore, StoreLease
from actions.run.store.rows import read_rows
from actions.terraform.working_directory import LOCK_FILE, has_history, is_prepared
from tests.support.stores import BEN, Proxy, Published, a_run_with_store, opened
from tests.support.streams import bytes_of
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.replicating import growing, seconds_until, stored
from tests.unit.run.world import creation

MINUTES = 60
POINT = b'{"type":"point","number":0,"metric":"train_loss","step":1,"value":1.5}\n'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_ATTEMPTS", 1)  # botocore waits in real time between two


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    created = msgspec.structs.replace(creation(), run_id=f"fenced-{abs(hash(tmp_path)):x}")
    return a_run_with_store(tmp_path, created, SystemClock())


class Fenced:
    """A run with its runner's journal, publisher and fence.

    Args:
        folder: The run's.
        clock: Time, that of the machine's start too.
    """

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        self.run = Published(folder, clock)
        self.clock = clock
        self.hangs = False
        """The home accepts questions of the fence and answers none."""
        self.stopped_seconds = 0.0
        """Time that has passed for the machine, and not for this process."""
        view = self.run.journal.view_if_readable()
        access = Hanging(self, self.run.journal.view_if_readable, self.run.store, no_cluster)
        self.fence = Fence(
            folder,
            view,
            access,
            require_lease=self.run.journal.require_lease,
            clock=clock,
            log=self.run.log.append,
            boot=lambda: clock.monotonic() + self.stopped_seconds,
        )

    def begin(self) -> list[asyncio.Task[None]]:
        """Start the companions under the guard; to be cancelled."""
        with guarded_by(self.fence):
            return [
                asyncio.ensure_future(accompanied(one, self.clock, self.run.log.append))
                for one in (self.fence, self.run.publisher)
            ]

    async def end(self, tasks: list[asyncio.Task[None]]) -> None:
        await cancelled(tasks)
        self.run.close()


class Hanging(StoreAccess):
    """The way to a store that accepts questions of the fence and answers none, while `hangs` says so."""

    def __init__(self, fenced: Fenced, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._fenced = fenced

    async def read(self) -> StoreLease | None:
        if self._fenced.hangs:
            await self._fenced.clock.sleep(3600)
        return await super().read()


async def no_cluster(_: RunView) -> RunStore | None:
    return None


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("how", ["away", "hangs"])
def test_an_hour_without_the_home_delays_no_stage_and_loses_nothing(
    home: Proxy, folder: Path, tmp_path: Path, how: str
) -> None:
    points = growing(folder, "train", "points")

    async def work() -> None:
        clock = VirtualClock()
        one = Fenced(folder, clock)
        tasks = one.begin()
        await seconds_until(clock, lambda: one.run.publisher.sent == 1, 30)
        home.is_away, one.hangs = True, how == "hangs"
        waited = []
        for minute in range(MINUTES):
            began = clock.monotonic()
            with guarded_by(one.fence):
                await one.fence.require("POST /api/v1/namespaces")
                await one.run.journal.write(Output({"minute": str(minute)}), stage="train", attempt=1)
            waited.append(clock.monotonic() - began)
            points.append(POINT)
            await clock.sleep(60)
        assert max(waited[1:]) == 0.0, waited
        assert waited[0] <= 5.0, waited
        home.mend()
        one.hangs = False
        await seconds_until(clock, lambda: one.run.publisher.sent == 1 + MINUTES, 90)
        await clock.sleep(45)
        assert await read_rows(one.run.store, folder.name) == stored(folder)
        await fetch_run(one.run.store, folder.name, tmp_path / "copy")
        assert bytes_of(tmp_path / "copy", "train", "points") == POINT * MINUTES
        await one.end(tasks)

    run_virtually(work(), has_sockets=True)


def test_a_runner_that_wakes_up_writes_no_file_and_no_curve_into_the_home(home: Proxy, folder: Path) -> None:
    points = growing(folder, "train", "points")
    state = terraform_path(folder, "provision") / LOCK_FILE
    state.parent.mkdir(parents=True)
    state.write_text("{}")

    async def work() -> None:
        clock = VirtualClock()
        one = Fenced(folder, clock)
        points.append(POINT)
        tasks = one.begin()
        await seconds_until(clock, lambda: bool(home.puts("/points/")), 60)
        await cancelled(tasks)  # it is stopped between two looks

        lease = await one.run.store.lease(folder.name)
        assert lease is not None
        await take_lease(one.run.store, folder.name, BEN, after=lease)
        one.stopped_seconds = 600.0
        points.append(POINT)
        state.write_text('{"resources":["aws_vpc.main"]}')
        home.requests.clear()
        with guarded_by(one.fence), pytest.raises(FencedError):
            await one.run.publisher.contents._push_all_files(one.run.store)
        assert home.puts() == []
        one.run.close()

    run_virtually(work(), has_sockets=True)


def test_the_locked_providers_come_along_and_no_stream_does(home: Proxy, folder: Path, tmp_path: Path) -> None:
    work_folder = terraform_path(folder, "provision")
    work_folder.mkdir(parents=True)
    texts = {
        LOCK_FILE: 'provider "registry.terraform.io/hashicorp/aws" {\n  version = "6.0.0"\n}\n# AKIAABCDEFGHIJKLMNOP\n',
        "apply.jsonl": '{"type":"outputs","outputs":{"password":{"value":"canary"}}}\n',
        "apply.pid": "boot\n17 (terraform) S 1",
    }
    for name, text in texts.items():
        (work_folder / name).write_text(text)

    async def work() -> None:
        clock = VirtualClock()
        one = Fenced(folder, clock)
        tasks = one.begin()
        await seconds_until(clock, lambda: one.run.publisher.sent == 1, 30)
        await one.end(tasks)
        copy = tmp_path / "copy"
        store = opened()
        await fetch_run(store, folder.name, copy)
        store.close()
        place = terraform_path(copy, "provision")
        assert {path.name for path in place.iterdir()} == {LOCK_FILE}
        assert 'version = "6.0.0"' in (place / LOCK_FILE).read_text()
        assert "AKIA" not in (place / LOCK_FILE).read_text()
        assert not is_prepared(place)
        assert not has_history(place)

    run_virtually(work(), has_sockets=True)
