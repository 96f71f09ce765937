"""`eksml-tui runs archive|rm|clean`: what runs take on disk, and what becomes of them."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from actions.base.clock import SystemClock
from actions.base.errors import JournalError
from actions.base.untrusted import plain_text
from actions.base.wording import counted
from actions.fleet.quantity import size_text
from actions.run.client import find_run, list_runs, load_run
from actions.run.forget import Forgettable, forget_run, survey_run
from actions.run.journal.folder import allocated_bytes
from actions.run.state.view import RunState
from actions.run.store.archive import Archived, archive_run
from actions.run.store.clean import remove_copies, survey_copies
from actions.run.support.filters import learn_secrets
from actions.run.terraform_changes import working_directories
from actions.terraform.plugin_cache import remove_unused_providers, survey_providers


def _archive(options: Namespace) -> int:
    folder = find_run(options.run)
    file = options.file or Path(f"{folder.name}.tar")
    done = _archived(folder, file)
    for sentence in done.sentences():
        _say(sentence)
    _say(f"It has {counted(done.files, 'file')}, {size_text(file.stat().st_size)}.")
    return 0


def _archived(folder: Path, file: Path) -> Archived:
    """Write the archive of a run. Secrets that its own processes have read are read here, too: texts may hold them.

    Raises:
        ConfigError: It has another ending, or cannot be written.
    """
    from tui.settings.settings import form_of

    form_of(file, {".tar": "tar"})
    with suppress(JournalError):  # the archive is refused for it
        learn_secrets(folder, load_run(folder).parameters, os.environ)
    return archive_run(folder, file, SystemClock())


def _forget(options: Namespace) -> int:
    """Print what would be forgotten; remove it if that is confirmed."""
    folder = find_run(options.run)
    if not options.confirm:
        _say_loss(survey_run(folder), is_archived=options.archive is not None)

    def archive() -> None:
        for sentence in _archived(folder, options.archive).sentences():
            _say(sentence)

    forgotten = forget_run(folder, confirm=options.confirm, archive=archive if options.archive else None)
    _say(f"Forgot run {forgotten.id}: {counted(forgotten.files, 'file')}, {size_text(forgotten.size_bytes)}.")
    if forgotten.store and forgotten.is_anothers:
        _say(f"The run stays in its store {forgotten.store}: another machine may carry it out.")
    elif forgotten.store:
        place = f"{forgotten.store}/runs/{forgotten.id}/"
        _say(f"Its copy in the store stays. To delete it: aws s3 rm --recursive {place}")
    return 0


def _say_loss(found: Forgettable, *, is_archived: bool) -> None:
    _say(f"Run {found.id} is {found.state}. {found.folder} has")
    _say(f"  its journal       {counted(found.records, 'record')}")
    _say(f"  its output        {size_text(found.output_bytes)}: logs, curves, accelerators")
    in_all = f"{counted(found.files, 'file')}, {size_text(found.size_bytes)}"
    _say(f"  in all            {in_all}, with the copy of its blueprint")
    if found.put_aside:
        folders = counted(len(found.put_aside), "folder")
        _say(f"  put aside         {folders} by takeovers, {size_text(found.put_aside_bytes)}, which no archive has")
    if is_archived:
        _say("They are written to the archive first.")
        return
    if found.store:
        _say(f"A copy stays in {found.store}.")
    else:
        _say("They cannot be recovered. To keep them in one file, add --archive FILE.")


def _clean(options: Namespace) -> int:
    """Print the copies of runs, Terraform's providers in the shared cache and runs that can be forgotten; remove the
    copies and providers that are of no more use, unless only to look."""
    _clean_copies(options)
    _clean_providers(options)
    for run in list_runs():
        is_gone = not run.error and run.state is RunState.TORN_DOWN and not run.leftovers and not run.unknown
        if is_gone:
            size = size_text(allocated_bytes(run.folder))
            _say(f"{run.id} is torn down, {size}: can be forgotten, by eksml-tui runs rm {run.id}.")
    return 0


def _clean_copies(options: Namespace) -> None:
    now = SystemClock().now().timestamp()
    found = survey_copies(now, older_than_days=options.older_than)
    if not found:
        _say("There are no copies of runs.")
    for copy in found:
        verb = "can be removed" if copy.is_removable else "stays"
        _say(f"{copy.run_id}, {copy.kind.value}, {size_text(copy.size_bytes)}: {verb}, as {copy.why}.")
    if not options.dry_run and any(copy.is_removable for copy in found):
        _say(f"Removed copies of runs, {size_text(remove_copies(found, now))}.")


def _clean_providers(options: Namespace) -> None:
    works = working_directories()
    found = survey_providers(works)
    for item in found:
        needs = f"needed by {counted(len(item.used_by), 'stage')}" if item.used_by else "not needed"
        _say(f"{item.name} {item.version} ({item.platform}), {size_text(item.size_bytes)}: {needs}")
    if options.dry_run:
        if not found:
            _say("The cache holds no provider.")
        return
    removed = remove_unused_providers(works)
    size = size_text(sum(item.size_bytes for item in removed))
    kept = "All of them are needed." if found else "The cache holds no provider."
    _say(f"Removed {counted(len(removed), 'provider')}, {size}." if removed else kept)


def _say(text: str) -> None:
    sys.stdout.write(plain_text(text) + "\n")


VERBS: Mapping[str, Callable[[Namespace], int]] = {
    "archive": _archive,
    "rm": _forget,
    "clean": _clean,
}
