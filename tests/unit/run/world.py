"""A pretend world for runners: files instead of clouds, so that it survives a killed process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actions.base.clock import Clock
from actions.run.context.protocols import AuditReport, Performed, StageFailedError, StageHandler, StageJournal
from actions.run.engine.runner_process import main
from actions.run.launch import create_folder
from actions.run.state.records import ClusterName, Created, PlanOffer, StageOutline
from actions.run.state.view import OwnedObject, RunView, StageView
from tests.support.crashing import crash_around_records, is_named_point

STAGES = (("provision", "terraform"), ("operators", "manifests"), ("train", "job"))


def outline(stage_id: str, kind: str, needs: tuple[str, ...] = (), *, keeps_data: bool = False) -> StageOutline:
    return StageOutline(
        id=stage_id,
        kind=kind,
        title=stage_id.title(),
        needs=needs,
        expect_low_seconds=1,
        expect_high_seconds=2,
        keeps_data=keeps_data,
    )


def creation(*, auto_approve: bool = True, keeps_data: bool = False) -> Created:
    return Created(
        run_id="fake-1121-0001",
        blueprint_id="fake",
        title="A pretend run",
        preset="",
        parameters={"workers": 2},
        cluster=ClusterName(name="pretend", region="us-west-2"),
        stages=(
            outline("provision", "terraform", keeps_data=keeps_data),
            outline("operators", "manifests", ("provision",)),
            outline("train", "job", ("operators",)),
        ),
        auto_approve=auto_approve,
    )


def make_run(
    home: Path, clock: Clock, *, auto_approve: bool = True, keeps_data: bool = False, created: Created | None = None
) -> Path:
    source = home / "source"
    source.mkdir(parents=True, exist_ok=True)
    (source / "blueprint.yaml").write_text("schema: eksml/v1\n")
    created = created or creation(auto_approve=auto_approve, keeps_data=keeps_data)
    return create_folder(created, source=source, environment={}, clock=clock, base=home / "runs")


class World:
    """Objects as files below the run's folder, and a line in a ledger for every creation and deletion."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = folder / "world"
        self.ledger = folder / "ledger"
        self.objects.mkdir(exist_ok=True)

    def make(self, name: str) -> None:
        try:
            os.close(os.open(self.objects / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        self._write(f"make {name}")

    def remove(self, name: str) -> None:
        try:
            (self.objects / name).unlink()
        except FileNotFoundError:
            return
        self._write(f"remove {name}")

    def names(self) -> list[str]:
        return sorted(path.name for path in self.objects.iterdir())

    def history(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def _write(self, line: str) -> None:
        with self.ledger.open("a") as file:
            file.write(line + "\n")


class FakeStage:
    """Makes one object named after the stage. A folder `hold-STAGE` keeps it waiting; `fail-STAGE` lets it fail."""

    def __init__(self, world: World, stage: StageView, journal: StageJournal) -> None:
        self._world = world
        self._stage = stage
        self._journal = journal

    def describe(self) -> list[str]:
        return [f"make {self._stage.id}"]

    async def probe(self) -> Performed | None:
        if self._stage.id in self._world.names() and not self._is("hold"):
            return Performed("found done", outputs={"name": self._stage.id})
        return None

    async def perform(self) -> Performed:
        if self._stage.kind == "terraform" and not self._stage.is_approved:
            return Performed("one to add", plan=PlanOffer("hash-1", 1, 0, 0, ("+ cluster",)))
        if self._is("fail"):
            raise StageFailedError(f"{self._stage.id} was told to fail.")
        await self._journal.own(self._item(""))
        self._world.make(self._stage.id)
        await self._journal.own(self._item("uid-1"))
        self._journal.note("waiting to be let go")
        while self._is("hold"):
            await asyncio.sleep(0.02)
        return Performed("made", outputs={"name": self._stage.id})

    async def undo(self) -> str:
        for item in self._journal.owned():
            self._world.remove(item.name)
            await self._journal.deleted(item)
        return "removed"

    def _is(self, what: str) -> bool:
        return (self._world.folder / f"{what}-{self._stage.id}").exists()

    def _item(self, uid: str) -> OwnedObject:
        return OwnedObject(self._stage.id, "v1", "Thing", "", self._stage.id, uid, existed=False, is_deleted=False)


class FakeWorkshop:
    """Implements `RunBackend` over a `World`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.world = World(folder)
        self._clock = clock

    def handler(self, view: RunView, stage: StageView, journal: StageJournal) -> StageHandler:
        return FakeStage(self.world, stage, journal)

    @asynccontextmanager
    async def watching(self, view: RunView, stage: StageView, journal: StageJournal) -> AsyncIterator[None]:
        yield

    async def with_warnings(self, stage: StageView, done: Performed) -> Performed:
        return done

    async def others_using(self, view: RunView, journal: StageJournal) -> tuple[str, ...]:
        return ()

    async def drain(self, view: RunView, journal: StageJournal) -> str:
        return "no nodes"

    async def audit(self, view: RunView, journal: StageJournal) -> AuditReport:
        return AuditReport(leftovers=tuple(self.world.names()))

    async def cluster_of(self, view: RunView) -> None:
        return None

    def removes_cluster(self, view: RunView) -> bool:
        return False

    def reservation(self, view: RunView) -> str:
        return ""

    async def aclose(self) -> None:
        return


if __name__ == "__main__":
    crash_around_records(is_named_point)
    sys.exit(main(Path(sys.argv[1]), FakeWorkshop))
