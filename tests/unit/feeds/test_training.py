"""Accelerators that a run at work holds and does not use are told, though no chart is on screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from actions.fleet.facts import PodFacts, Resources
from actions.run.journal.reader import RunSummary
from actions.run.output.streams import AcceleratorSample
from actions.run.output.writer import OutputWriter
from actions.run.state.view import RunState
from tests.support.builders import NOW, StillClock
from tui.feeds.runs import RunFeed
from tui.feeds.training import TrainingFeed, UnusedDevices
from tui.present.text import unused_text

RUN = "bionemo-esm1nv-1121-mjg7pfrowq5tk"


class Trainings:
    """A feed on runs that a test sets, with the number of its changes."""

    def __init__(self) -> None:
        clock = StillClock()
        self.runs = RunFeed(clock, lambda: None)
        self.changes = 0
        self.pods: list[PodFacts] = []
        self.feed = TrainingFeed(self.runs, clock, self._count, lambda: self.pods)

    def _count(self) -> None:
        self.changes += 1

    async def look_at(self, *runs: RunSummary) -> None:
        self.runs.summaries = runs
        await self.feed.look()


def a_run(folder: Path, state: RunState = RunState.RUNNING) -> RunSummary:
    return RunSummary(RUN, folder, "b", "B", "c", 1.0, state, "train", 0, False, "")


def sampled(folder: Path, loads: dict[str, list[int]], *, until: float = NOW.timestamp() - 2) -> None:
    """Store samples of one GPU a pod, twenty seconds apart, the last one at `until`."""
    writer = OutputWriter(folder, "train")
    for pod, row in loads.items():
        for place, load in enumerate(row):
            at = until - 20 * (len(row) - 1 - place)
            text = f"0, NVIDIA A10G, {load}, 20480, 23028, 61, 250.00, 300.00, P0"
            writer.write_sample(pod, AcceleratorSample(at, text))
    writer.close()


async def test_a_device_at_zero_for_minutes_is_told_while_its_stage_is_at_work(tmp_path: Path) -> None:
    sampled(tmp_path, {"w-0": [97] * 12, "w-1": [97, 98, *[0] * 10], "w-2": [*[0] * 10, 3, 0]})
    trainings, run = Trainings(), a_run(tmp_path)
    await trainings.look_at(run)
    assert trainings.feed.unused == {RUN: UnusedDevices(1, 3, NOW.timestamp() - 182, 3, 3)}
    assert trainings.changes == 1
    await trainings.look_at(run)
    assert trainings.changes == 1
    sampled(tmp_path, {"w-0": [97], "w-1": [50], "w-2": [0]}, until=NOW.timestamp() - 1)
    await trainings.look_at(run)
    assert trainings.feed.unused == {}
    await trainings.look_at(replace(run, state=RunState.SUCCEEDED))
    assert trainings.feed.unused == {}


async def test_workers_that_hold_accelerators_and_do_not_answer_are_counted_beside_those_that_do(
    tmp_path: Path,
) -> None:
    sampled(tmp_path, {"w-0": [0] * 12, "w-1": [0] * 12})
    trainings = Trainings()
    ours = PodFacts("", "training", "w-0", phase="Running", requests=Resources(gpu=1), run=RUN, stage="train")
    others: list[dict[str, Any]] = [
        {"run": "another"},
        {"stage": "warm-up"},
        {"phase": "Succeeded"},
        {"requests": Resources(cpu_milli=100)},
    ]
    trainings.pods = [replace(ours, name=f"w-{number}") for number in range(3)]
    trainings.pods += [replace(ours, name=f"other-{place}", **changes) for place, changes in enumerate(others)]
    await trainings.look_at(a_run(tmp_path))
    (unused,) = trainings.feed.unused.values()
    assert (unused.count, unused.of, unused.answered, unused.workers) == (2, 2, 2, 3)
    told = unused_text(2, 2, 312, answered=unused.answered, workers=unused.workers)
    assert told == "2 of 2 accelerators at 0% for 5m12s, 2 of 3 workers answered"
    trainings.pods = []  # a console that is on another cluster
    await trainings.look_at(a_run(tmp_path))
    (unused,) = trainings.feed.unused.values()
    assert (unused.answered, unused.workers) == (2, 2)


async def test_old_samples_say_nothing_of_a_device_now(tmp_path: Path) -> None:
    sampled(tmp_path, {"w-0": [0] * 40}, until=NOW.timestamp() - 300)
    trainings = Trainings()
    await trainings.look_at(a_run(tmp_path))
    assert trainings.feed.unused == {}
