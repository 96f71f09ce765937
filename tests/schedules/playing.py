"""Playing one seed."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from actions.terraform.program import find_program
from tests.schedules.invariants import Broken, violations_of
from tests.schedules.life import LIMIT_SECONDS, Life
from tests.schedules.machine import a_machine, can_mount
from tests.schedules.schedule import ONLY_WITH_TERRAFORM, FaultKind, Schedule, schedule_of


class Played(msgspec.Struct):
    """The course of one life."""

    seed: int
    seconds: float
    schedule: list[str]
    injected: list[str]
    """The faults whose moment came."""
    missed: list[str]
    violations: list[str]
    broken: list[Broken]
    steps: list[str]
    retries: int

    def report(self) -> str:
        """For people."""
        return "\n".join([*self.schedule, *(f"! {line}" for line in self.violations), *self.steps])


def impossible_here() -> dict[FaultKind, str]:
    """Kinds that cannot be injected on this machine, and why."""
    found = {} if can_mount() else {FaultKind.FULL_DISK: "this user may not mount a small disk"}
    if find_program() is None:
        found |= dict.fromkeys(ONLY_WITH_TERRAFORM, "terraform is not on PATH")
    return found


def play(
    schedule: Schedule, *, home: Path | None = None, limit_seconds: float = LIMIT_SECONDS, keeps_disks: bool = False
) -> Played:
    """Play a schedule once.

    Args:
        schedule: What is injected.
        home: An empty folder, which stays; a temporary one by default.
        limit_seconds: For the life.
        keeps_disks: See `a_machine`.
    """
    folder = home or Path(tempfile.mkdtemp(prefix="eksml-schedule-"))
    began = time.monotonic()
    try:
        with a_machine(folder, has_store=schedule.has_store, keeps_disks=keeps_disks) as machine:
            story = Life(schedule, machine, limit_seconds=limit_seconds).play()
            violations = violations_of(story, machine)
    finally:
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)
    return Played(
        seed=schedule.seed,
        seconds=round(time.monotonic() - began, 1),
        schedule=schedule.lines(),
        injected=[item.fault.kind.value for item in story.injected if item.begun_at],
        missed=[str(item.fault) for item in story.injected if not item.begun_at],
        violations=[str(violation) for violation in violations],
        broken=sorted({violation.broken for violation in violations}),
        steps=story.steps,
        retries=sum("operator: retry" in step for step in story.steps),
    )


def _kept(schedule: Schedule, home: Path) -> Played:
    """Play a schedule in a folder that stays if something breaks."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    result = play(schedule, home=home, keeps_disks=True)
    if result.broken:
        (home / "report.txt").write_text(f"{result.report()}\n", encoding="utf-8")
    else:
        shutil.rmtree(home, ignore_errors=True)
    return result


def play_seed(seed: int, *, without: frozenset[FaultKind], keep: Path | None = None) -> Played:
    """Play a seed.

    Args:
        seed: See `schedule_of`.
        without: As well.
        keep: A folder in which all files of a life that breaks something stay, below the number of its seed.
    """
    schedule = schedule_of(seed, without=without)
    return play(schedule) if keep is None else _kept(schedule, keep / str(seed))
