"""Runs that are over, in a folder of all runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run.client import send_request
from actions.run.state.records import RequestKind
from tests.unit.run.test_runner import carry_out
from tests.unit.run.world import creation, make_run, outline


def finished_run(base: Path, name: str, *, is_torn_down: bool = False) -> Path:
    """Carry a pretend run out to its end, and return its folder; `base` is called `runs`."""
    stages = (outline("operators", "manifests"), outline("train", "job", ("operators",)))
    folder = make_run(base.parent, SystemClock(), created=replace(creation(), run_id=name, stages=stages))
    asyncio.run(_carried_out(folder))
    if is_torn_down:
        send_request(folder, RequestKind.TEARDOWN, start=False)
        asyncio.run(_carried_out(folder))
    return folder


async def _carried_out(folder: Path) -> None:
    await carry_out(folder)
