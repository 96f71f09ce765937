"""Forgetting a run: its folder is removed, once nothing that it made is left and no runner can act on it."""

from __future__ import annotations

import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from actions.base.errors import ConfigError, RefusedError
from actions.base.process import ProcessIdentity
from actions.base.readonly import refuse_if_readonly
from actions.base.wording import counted, listed
from actions.run.client import end_runner
from actions.run.journal.embedded import account_has_ended
from actions.run.journal.folder import allocated_bytes, journal_path, put_aside_of, remove_folder
from actions.run.journal.reader import RunReader, load_run
from actions.run.state.view import OVER, NoticeKind, RunView
from actions.run.terraform_changes import TerraformStageReport, terraform_report

_SHOWN = 3


class Forgettable(msgspec.Struct, frozen=True):
    """The loss when a run is forgotten.

    Args:
        id: The run's.
        folder: The folder that would be removed.
        state: The run's state.
        files: The number of its files.
        size_bytes: Of all of them: journal, output, the copy of its blueprint.
        obstacles: The reasons why it may not be forgotten, without a full stop.
        output_bytes: Of its output alone: logs, curves, accelerators.
        records: The number of records in its journal.
        store: Where a copy of it stays; empty for nowhere.
        remedy: What to do about the obstacles.
        is_anothers: Another machine has it: what is in its store is not this one's.
        put_aside: Its folders that takeovers have put aside, which go with it.
        put_aside_bytes: Of these, on the disk.
        waiting: Its runner, which waits for an embedded account that has ended: it is ended before.
    """

    id: str
    folder: Path
    state: str
    files: int
    size_bytes: int
    obstacles: tuple[str, ...]
    output_bytes: int = 0
    records: int = 0
    store: str = ""
    remedy: str = ""
    is_anothers: bool = False
    put_aside: tuple[Path, ...] = ()
    put_aside_bytes: int = 0
    waiting: ProcessIdentity | None = None


def survey_run(folder: Path) -> Forgettable:
    """Look at what is lost with a run, and what stands against that.

    Raises:
        JournalError: The journal cannot be read: what it has made is not known.
    """
    view = load_run(folder)
    # What a copy names, or a run that another machine has from the store, is not this folder's to account for.
    is_taken = bool(view.store) and any(notice.kind is NoticeKind.ELSEWHERE for notice in view.notices)
    is_spare = _is_spare(folder, view)
    has_ended = account_has_ended(view, folder)
    runner = _runner_of(folder)
    sizes, aside = _sizes(folder), tuple(put_aside_of(folder))
    return Forgettable(
        id=view.id,
        folder=folder,
        state=view.state.value,
        files=len(sizes),
        size_bytes=sum(sizes.values()),
        obstacles=(
            ()
            if is_taken or is_spare
            else (
                *_life_of(folder, view, runner, has_ended=has_ended),
                *(() if has_ended else _left_of(folder, view)),
            )
        ),
        output_bytes=_sum_below(sizes, folder / "output"),
        records=view.last_seq,
        store=view.store,
        remedy=(
            f"Bring it there first: eksml-tui runs resume {view.id}"
            if _is_store_behind(view)
            else f"Tear it down first: eksml-tui runs teardown {view.id}"
        ),
        is_anothers=is_taken or is_spare,
        put_aside=aside,
        put_aside_bytes=sum(map(allocated_bytes, aside)),
        waiting=runner if has_ended and not is_spare else None,
    )


def _is_spare(folder: Path, view: RunView) -> bool:
    """Return whether the folder is a copy of one that is there: what the run has made is that one's to account for."""
    original = next((notice.place for notice in view.notices if notice.kind is NoticeKind.COPY), "")
    return bool(original) and not folder.is_symlink() and journal_path(folder.with_name(original)).is_file()


def _sizes(folder: Path) -> dict[Path, int]:
    """Return the sizes of all files of a run, which may grow meanwhile."""
    found: dict[Path, int] = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_size
    return found


def _sum_below(sizes: Mapping[Path, int], folder: Path) -> int:
    return sum(size for path, size in sizes.items() if path.is_relative_to(folder))


def forget_run(folder: Path, *, confirm: str, archive: Callable[[], object] | None = None) -> Forgettable:
    """Remove the folder of a run.

    Args:
        folder: The run's.
        confirm: Its id.
        archive: Writes an archive of it first; if that fails, nothing is removed.

    Raises:
        ConfigError: `confirm` is not its id.
        RefusedError: It lives, or something that it made may be left; the message names it. Or its runner, which waits
            for an embedded account that has ended, does not end.
    """
    refuse_if_readonly(f"forgetting {folder.name}")
    found = survey_run(folder)
    if found.obstacles:
        raise RefusedError(
            f"Run {found.id} cannot be forgotten: {'; '.join(found.obstacles)}.",
            hint=found.remedy,
        )
    if confirm != found.id:
        raise ConfigError(f"Forgetting run {found.id} removes {folder}.", hint=f"Add --confirm {found.id} to confirm.")
    if archive is not None:
        archive()
    if found.waiting is not None:
        end_runner(found.waiting, signal.SIGTERM, signal.SIGKILL)  # systemd takes the first for no failure
    for each in (folder, *found.put_aside):
        remove_folder(each)
    return found


def _runner_of(folder: Path) -> ProcessIdentity | None:
    reader = RunReader(folder)
    try:
        reader.poll()
        return reader.holder if reader.runner_alive else None
    finally:
        reader.close()


def _life_of(folder: Path, view: RunView, runner: ProcessIdentity | None, *, has_ended: bool) -> Iterator[str]:
    if folder.is_symlink():
        yield "its folder is a link to another one, which is to be removed by hand"
    if runner is not None and not has_ended:
        yield f"its runner, process {runner.pid}, is alive"
        return
    if view.state not in OVER and not has_ended:
        yield f"it is {view.state.value}, and a runner may go on with it"
    if _is_store_behind(view):
        yield f"its store {view.store} may not have its end, which others would see at work, and lost, for good"


def _is_store_behind(view: RunView) -> bool:
    return any(notice.kind is NoticeKind.STORE_BEHIND for notice in view.notices)


def _left_of(folder: Path, view: RunView) -> Iterator[str]:
    """Yield what it made and what is not known to be gone. What was there before it is not its own."""
    objects = [f"{item.kind} {item.name}" for item in view.owned if not item.is_deleted and not item.existed]
    if objects:
        yield f"it has made {counted(len(objects), 'object')} that are not deleted: {listed(objects, _SHOWN)}"
    for stage in terraform_report(folder, view):
        if text := _held_by(stage):
            yield text
    if view.audit is not None:
        left = (*view.audit.leftovers, *view.audit.retained)
        if left:
            yield f"its audit found {counted(len(left), 'thing')} left or kept: {listed(left, _SHOWN)}"
        if view.audit.unknown:
            yield f"its audit could not ask for {listed(view.audit.unknown, _SHOWN)}"


def _held_by(stage: TerraformStageReport) -> str:
    if stage.running:
        return f"terraform {stage.running} of {stage.stage} runs"
    if stage.resources is None:
        return f"the Terraform state of {stage.stage} cannot be read here: {stage.unasked.rstrip('.')}"
    if stage.is_lost:
        return f"the Terraform state of {stage.stage} is lost, and what it has made is not known to be gone"
    if stage.resources or stage.blocks:
        held = stage.resources + len(stage.blocks)
        return f"the Terraform state of {stage.stage} holds {counted(held, 'resource')}"
    return ""
