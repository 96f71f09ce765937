"""The disk space of runs, how much of it could be freed, and the upkeep that holds it below a bound.

The bound warns and compacts. It refuses nothing, and no run is ever removed because of it: that is the operator's
`eksml-tui runs rm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.untrusted import one_line
from actions.base.wording import counted
from actions.fleet.quantity import size_text
from actions.run.journal.mirrored import copies_folder
from actions.run.journal.reader import RunSummary
from actions.run.state.view import OVER, RunState
from actions.run.storage.compaction import allocated_bytes, compact_runs, compactable_files
from actions.run.storage.spare_copies import put_aside_bytes
from actions.run.summaries import list_runs

EXPECTED_SAVING = 0.85
"""The part of logs and curves that compaction frees as a rule."""
_PARTS = ("logs", "series", "terraform")


class RunDisk(msgspec.Struct, frozen=True):
    """The disk space of one run, in bytes."""

    id: str
    folder: Path
    state: str
    logs: int
    curves: int
    terraform: int
    other: int
    """Journal, blueprint, reserved space."""
    compactable: int
    """About so much is freed by a compaction."""
    removable: int
    """So much is freed by `runs rm`: all of it, if the run is torn down and its audit found nothing; else 0."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.logs + self.curves + self.terraform + self.other


class DiskUse(msgspec.Struct, frozen=True):
    """The disk space of all runs."""

    runs: tuple[RunDisk, ...]
    """The largest first."""
    bound: int = 0
    """Bytes; 0 for none."""
    copies: int = 0
    """Of runs of other machines, which may be deleted at any time: what is looked at is fetched again."""
    put_aside: int = 0
    """Of runs that have come back to this machine by a takeover, as they were here before."""

    @property
    def total(self) -> int:
        """Of all runs and copies."""
        return sum(run.total for run in self.runs) + self.copies + self.put_aside

    @property
    def is_over(self) -> bool:
        """True if the runs take more than the bound."""
        return 0 < self.bound < self.total

    def warning(self) -> str:
        """Return a sentence if the runs take more than the bound; empty otherwise."""
        if not self.is_over:
            return ""
        removable = [run for run in self.runs if run.removable]
        freed = size_text(sum(run.removable for run in removable))
        remedies = [f"{counted(len(removable), 'run')} can be forgotten, which frees {freed}"] if removable else []
        if self.copies or self.put_aside:
            size = size_text(self.copies + self.put_aside)
            remedies.append(f"copies of runs take {size}: eksml-tui runs gc removes those that are no longer needed")
        remedy = "; ".join(remedies) or "raise runs_max_size"
        taken = f"Runs take {size_text(self.total)} of the {size_text(self.bound)}"
        return f"{taken} that runs_max_size allows. {remedy[0].upper()}{remedy[1:]}: see eksml-tui runs disk."


def disk_use(runs: Sequence[RunSummary], *, bound: int = 0, copies: int = 0, put_aside: int = 0) -> DiskUse:
    """Return what runs take on disk. Reads names and sizes alone.

    Args:
        runs: All of them.
        bound: Bytes; 0 for none.
        copies: Bytes that copies of runs of other machines take.
        put_aside: Bytes that folders take which takeovers have put aside.
    """
    return DiskUse(tuple(sorted(map(_use_of, runs), key=lambda run: (-run.total, run.id))), bound, copies, put_aside)


def _use_of(run: RunSummary) -> RunDisk:
    parts = {name: allocated_bytes(run.folder / name) for name in _PARTS}
    total = allocated_bytes(run.folder)
    is_over = not run.error and run.state in OVER
    plain = sum(path.stat().st_size for path in compactable_files(run.folder)) if is_over else 0
    is_gone = not run.error and run.state is RunState.TORN_DOWN and not run.leftovers and not run.unknown
    return RunDisk(
        id=run.id,
        folder=run.folder,
        state=run.state.value if not run.error else "unreadable",
        logs=parts["logs"],
        curves=parts["series"],
        terraform=parts["terraform"],
        other=total - sum(parts.values()),
        compactable=int(plain * EXPECTED_SAVING),
        removable=total if is_gone else 0,
    )


class Upkeep(msgspec.Struct, frozen=True):
    """The result of an upkeep."""

    use: DiskUse
    """Afterwards."""
    compacted: int
    """The number of runs of which something was compacted."""
    freed_bytes: int
    failures: tuple[str, ...]
    """A sentence for each run that could not be compacted."""


def keep_up(
    clock: Clock, *, after_days: float, bound: int = 0, base: Path | None = None, compacts: bool = True
) -> Upkeep:
    """Compact the runs that have been over for long enough; above the bound, also others that are over, oldest first.

    Args:
        clock: Time.
        after_days: Days since a run's newest record.
        bound: Bytes that all runs may take; 0 for no bound.
        base: The folder of all runs, if not the usual one.
        compacts: Otherwise nothing but sizes is looked at.

    Raises:
        ConfigError: The folder of all runs cannot be read.
    """
    runs = list_runs(base)
    copies, aside = allocated_bytes(copies_folder()), put_aside_bytes(base)
    use_now = partial(disk_use, runs, bound=bound, copies=copies, put_aside=aside)
    if not compacts:
        return Upkeep(use_now(), 0, 0, ())
    done, failures = compact_runs(runs, clock, older_than_days=after_days)
    if use_now().is_over:
        more, failed = compact_runs(reversed(runs), clock, is_enough=lambda: not use_now().is_over)
        done, failures = [*done, *more], [*failures, *failed]
    freed = sum(run.freed_bytes for run in done)
    return Upkeep(use_now(), len(done), freed, tuple(dict.fromkeys(failures)))


_COLUMNS = ("RUN", "STATE", "LOGS", "CURVES", "TERRAFORM", "OTHER", "TOTAL", "COMPACT FREES", "RM FREES")


def disk_table(use: DiskUse) -> str:
    """Return a table with a line for each run, and sums below it."""
    rows = [_COLUMNS, *(_row(run) for run in use.runs)]
    sums = [sum(getattr(run, name) for run in use.runs) for name in _NUMBERS]
    rows.append(("all", "", *map(_cell, sums)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    if use.copies:
        lines.append(
            f"Copies of other machines' runs: {size_text(use.copies)} in {copies_folder()}; see eksml-tui runs gc."
        )
    if use.put_aside:
        lines.append(f"Put aside by takeovers: {size_text(use.put_aside)}; see eksml-tui runs gc.")
    bound = f"{size_text(use.total)} of {size_text(use.bound)} (runs_max_size).\n" if use.bound else ""
    return "".join(f"{line.rstrip()}\n" for line in lines) + bound


_NUMBERS = ("logs", "curves", "terraform", "other", "total", "compactable", "removable")


def _row(run: RunDisk) -> tuple[str, ...]:
    return (one_line(run.id), run.state, *(_cell(getattr(run, name)) for name in _NUMBERS))


def _cell(size: int) -> str:
    return size_text(size) if size else "-"


def disk_json(use: DiskUse) -> str:
    """Return the same as JSON; sizes are bytes."""
    runs = [
        {"id": run.id, "folder": str(run.folder), "state": run.state}
        | {f"{name}_bytes": getattr(run, name) for name in _NUMBERS}
        for run in use.runs
    ]
    document = {
        "schema": "eksml-disk/1",
        "total_bytes": use.total,
        "copies_bytes": use.copies,
        "put_aside_bytes": use.put_aside,
        "bound_bytes": use.bound or None,
        "is_over": use.is_over,
        "runs": runs,
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
