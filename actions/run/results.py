"""What a run has made, listed where it lies."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import MissingError
from actions.base.executors import in_thread
from actions.base.untrusted import one_line
from actions.run.onvolume import below, run_on_volume
from actions.run.patience import ONCE
from actions.run.reader import load_run
from actions.run.site import Site
from actions.run.volumejob import FolderLedger, Volume
from actions.run.work import StageWork

MAX_FILES = 5000


class ResultFile(msgspec.Struct, frozen=True):
    """One file."""

    path: str
    """Below the folder of the results."""
    size_bytes: int
    modified_at: datetime


class Listing(msgspec.Struct, frozen=True):
    """What lies in a run's folder of results."""

    folder: str
    claim: str
    files: tuple[ResultFile, ...]
    """By path."""
    is_complete: bool
    """Whether these are all; otherwise there are more than `MAX_FILES`."""

    @property
    def size_bytes(self) -> int:
        """Of all files that are listed."""
        return sum(file.size_bytes for file in self.files)


class OpenResults:
    """A run with its results and a way into its cluster, closed at the end. Make it in a thread: it reads files.

    Args:
        folder: The run's.
        clock: For waiting.

    Raises:
        MissingError: The blueprint names no results.
        ConsoleError: The run cannot be read.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._site = Site(folder, clock)
        view = load_run(folder)
        self.work: StageWork = self._site.looking(view)
        results = self.work.blueprint.results
        if results is None:
            raise MissingError(f"{view.blueprint_id} does not say where its results lie.")
        self.place = self.work.text(results.folder)
        self.volume = Volume(self.work.namespace, results.claim, results.mount)

    async def __aenter__(self) -> OpenResults:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._site.aclose()


async def list_results(folder: Path, clock: Clock) -> Listing:
    """Look where the run's results lie: in a pod of the run, or in a short Job.

    Args:
        folder: The run's.
        clock: For waiting.

    Raises:
        MissingError: The blueprint names no results, or the run has no cluster yet.
        ConsoleError: The cluster cannot be asked.
    """
    async with await in_thread("results", OpenResults, folder, clock) as opened:
        place, volume = opened.place, opened.volume
        mounts: list[str] = []

        def script(mount: str) -> str:
            mounts.append(mount)
            return _listing_script(below(place, volume.mount, mount))

        connection = await opened.work.connect(ONCE)
        ledger = FolderLedger(folder, clock)
        text = await run_on_volume(connection, volume, script, run_id=opened.work.view.id, clock=clock, ledger=ledger)
    seen_from = below(place, volume.mount, mounts[-1])
    files = [file for line in text.splitlines() if (file := _file_of(line, seen_from)) is not None]
    files.sort(key=lambda file: file.path)
    return Listing(place, volume.claim, tuple(files[:MAX_FILES]), is_complete=len(files) <= MAX_FILES)


def _listing_script(place: str) -> str:
    return f"find {shlex.quote(place)} -type f -exec stat -c '%s %Y %n' {{}} + 2>/dev/null | head -n {MAX_FILES + 1}"


def _file_of(line: str, folder: str) -> ResultFile | None:
    fields = line.split(" ", 2)
    if len(fields) != 3 or not fields[0].isdigit() or not fields[1].isdigit():
        return None
    path = fields[2].removeprefix(folder).lstrip("/")
    return ResultFile(one_line(path), int(fields[0]), datetime.fromtimestamp(int(fields[1]), UTC))
