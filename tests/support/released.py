"""Runs that released versions of the program have left: `tests/fixtures/journals/VERSION/CASE.tar.xz`."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

JOURNALS = Path(__file__).parent.parent / "fixtures" / "journals"
CASES = [
    f"{archive.parent.name}/{archive.name.removesuffix('.tar.xz')}" for archive in sorted(JOURNALS.glob("*/*.tar.xz"))
]
"""`VERSION/CASE` of all of them."""


def unpack(case: str, home: Path) -> Path:
    """Unpack a run into a folder of all runs, and return its own folder, which has the run's id as its name."""
    scratch = home / "unpacked"
    with tarfile.open(JOURNALS / f"{case}.tar.xz") as archive:
        archive.extractall(scratch, filter="data")
    for folder in (scratch, *(path for path in scratch.rglob("*") if path.is_dir())):
        folder.chmod(0o700)
    _store_as_streams(scratch)
    return scratch.rename(home / _run_id(scratch))


def _store_as_streams(folder: Path) -> None:
    """Put the output of a run, which was in single files, into the open ends of streams."""
    names = {
        "lines.log": "lines",
        "sources.jsonl": "sources",
        "points.jsonl": "points",
        "accelerators.jsonl": "devices",
    }
    for path in [path for top in ("logs", "series") for path in (folder / top).glob("*/*")]:
        if path.name in names:
            place = folder / "output" / path.parent.name / names[path.name]
            place.mkdir(mode=0o700, parents=True)
            path.rename(place / f"{0:015}.tail")
    for top in ("logs", "series"):
        shutil.rmtree(folder / top, ignore_errors=True)


def _run_id(folder: Path) -> str:
    from actions.run.journal.reader import RunReader
    from actions.run.state.records import Created

    created = RunReader(folder).records()[0].body
    assert isinstance(created, Created)
    return created.run_id
