"""Playing one seed, and making what fails smaller."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from actions.terraform.program import find_program
from tests.schedules.invariants import Broken, violations_of
from tests.schedules.life import LIMIT_SECONDS, Life
from tests.schedules.machine import a_machine, can_mount
from tests.schedules.schedule import ONLY_WITH_TERRAFORM, FaultKind, Schedule, schedule_of, schedules_without_each


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
    shrunk: list[str] = msgspec.field(default_factory=list)
    """The smallest schedule that was found to break the same."""

    def report(self) -> str:
        """For people."""
        parts = [*self.schedule, *(f"! {line}" for line in self.violations), *self.steps]
        return "\n".join([*parts, "smallest:", *self.shrunk] if self.shrunk else parts)


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


def shrink(schedule: Schedule, broken: list[Broken]) -> tuple[Schedule, Played | None]:
    """Leave out one fault after the other as long as the same invariant breaks.

    Args:
        schedule: It breaks.
        broken: What.

    Returns:
        The smallest schedule that was found, and how it went; `None` if no smaller one breaks.
    """
    smallest, went = schedule, None
    while True:
        for smaller in schedules_without_each(smallest):
            played = play(smaller)
            if set(played.broken) & set(broken):
                smallest, went = smaller, played
                break
        else:
            return smallest, went


def play_seed(seed: int, *, without: frozenset[FaultKind], shrinks: bool, keep: Path | None = None) -> Played:
    """Play a seed; with a smaller schedule if it breaks something.

    Args:
        seed: See `schedule_of`.
        without: As well.
        shrinks: Look for a smaller schedule that breaks the same.
        keep: A folder in which all files of a life that breaks something stay, below the number of its seed.
    """
    schedule = schedule_of(seed, without=without)
    result = play(schedule) if keep is None else _kept(schedule, keep / str(seed))
    if result.broken and shrinks and len(schedule.faults) > 1:
        sys.stdout.write(f"{seed:4} is made smaller; as it is:\n{result.report()}\n")  # which takes many lives
        sys.stdout.flush()
        smaller, went = shrink(schedule, result.broken)
        if went is not None:
            result.shrunk = [*smaller.lines(), *(f"! {line}" for line in went.violations)]
    return result
