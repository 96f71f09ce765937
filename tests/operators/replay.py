"""A recording played again: its manifests and acts on the sandbox with our operator, and what came out otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.operators import acting
from tests.operators.comparing import differences
from tests.operators.operator import FIXTURES, Operator
from tests.operators.recording import Recording, load
from tests.operators.story import Document, Story, copied
from tests.operators.world import World, world

_PATIENCE_SECONDS = 90.0
_TIMES = frozenset({"lastTransitionTime", "lastUpdateTime", "lastProbeTime"})
_QUIET_SECONDS = 0.4
"""The time in which nothing may follow a story's end; in a recording that keeps time, as long as it was watched."""


async def replayed(operator: Operator, scenario: str, work: Path, folder: Path = FIXTURES) -> list[str]:
    """Play a scenario; the differences, empty if ours behaves as recorded.

    Args:
        operator: Ours.
        scenario: A file's name without its ending.
        work: A folder for the API's files.
        folder: Where the recordings of all operators are.
    """
    recording = load(folder / operator.version, scenario, operator.story())
    async with world(operator, work) as stage:
        return await _play(stage, recording)


async def _play(stage: World, recording: Recording) -> list[str]:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await acting.create(stage, recording.manifests)
    for act in recording.acts:
        found = await _reached(stage, _comparison(stage, act.standing, stage.story.standing))
        if found:
            return [f"before '{act.text}':", *found]
        if recording.keeps_time:
            await asyncio.sleep(begun + act.at_seconds - loop.time())
        await acting.perform(stage, act.text)
    whole = _comparison(stage, recording.story.summary(), partial(_told, stage, recording.story))
    found = await _reached(stage, whole)
    if found:
        return ["in the end:", *found]
    rest = begun + recording.lasted_seconds - loop.time() if recording.keeps_time else 0.0
    await asyncio.sleep(max(_QUIET_SECONDS, rest))
    return whole()


def _told(stage: World, recorded: Story) -> Document:
    """Our whole story, without events that the recorded one may have missed."""
    ours = stage.story.summary()
    missed = {one for one in ours["events"] - recorded.events if not recorded.is_complete(one)}
    return ours | {"events": ours["events"] - missed}


async def _reached(stage: World, compare: Callable[[], list[str]]) -> list[str]:
    """Wait until nothing differs; what does if it does not come to that."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while compare():
                await stage.moved()
    except TimeoutError:
        return compare()
    return []


def _comparison(stage: World, recorded: Document, ours: Callable[[], Document]) -> Callable[[], list[str]]:
    settled = stage.operator.settled
    wanted = _untimed(settled(copied(recorded)))
    return lambda: differences(wanted, _untimed(settled(ours())))


def _untimed(value: Any) -> Any:
    """Without the times of transitions, which a condition may have or not."""
    if isinstance(value, dict):
        return {name: _untimed(inner) for name, inner in value.items() if name not in _TIMES}
    return [_untimed(inner) for inner in value] if isinstance(value, list) else value
