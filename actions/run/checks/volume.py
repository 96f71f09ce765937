"""Checks of a volume: how much is free, whether data is there."""

from __future__ import annotations

import shlex

from actions.base.errors import ConsoleError
from actions.run.checks.seen import Seen, failed, passed, unknown
from actions.run.onvolume import Script, below, run_on_volume
from actions.run.volumejob import Volume
from actions.run.work import StageWork

_KIB_PER_GIB = 1 << 20
_COUNTED = 100_000


async def see_disk(work: StageWork, volume: Volume, free_gib: float) -> Seen:
    """Whether so much is free."""
    text = await _asked(work, volume, lambda mount: f"df -Pk {shlex.quote(mount)}")
    if isinstance(text, Seen):
        return text
    free = free_gib_of(text)
    if free is None:
        return unknown(f"df says nothing of {volume.mount}.")
    said = f"{free:,.0f} GiB are free on {volume.claim}, {free_gib:,.0f} wanted."
    return passed(said) if free >= free_gib else failed(said)


async def see_files(work: StageWork, volume: Volume, *, folder: str, pattern: str, at_least: int) -> Seen:
    """Whether so many files are there.

    Args:
        work: The stage.
        volume: Where.
        folder: Absolute, as pods of the blueprint see it.
        pattern: Of the files' names, as a shell matches.
        at_least: How many.
    """

    def script(mount: str) -> str:
        place = shlex.quote(below(folder, volume.mount, mount))
        return f"find {place} -type f -name {shlex.quote(pattern)} 2>/dev/null | head -n {_COUNTED} | wc -l"

    text = await _asked(work, volume, script)
    if isinstance(text, Seen):
        return text
    count = next((int(line) for line in reversed(text.split()) if line.isdigit()), None)
    if count is None:
        return unknown(f"Nobody could count the files in {folder}.")
    said = f"{count} files {pattern} lie in {folder}, {at_least} wanted."
    return passed(said) if count >= at_least else failed(said)


def free_gib_of(text: str) -> float | None:
    """What `df -Pk` says is available, in GiB; `None` if it says nothing."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 6 and fields[3].isdigit():
            return int(fields[3]) / _KIB_PER_GIB
    return None


async def _asked(work: StageWork, volume: Volume, script: Script) -> str | Seen:
    connection = await work.connect()
    try:
        return await run_on_volume(
            connection, volume, script, run_id=work.view.id, clock=work.clock, ledger=work.journal
        )
    except ConsoleError as error:
        return unknown(error.message)
