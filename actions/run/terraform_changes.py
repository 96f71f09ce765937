"""Resources that Terraform holds or may have made outside of its state: reported, imported or waived.

A request to import or waive is written into the journal; the run's next step acts on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, FormatError, MissingError, RefusedError
from actions.base.untrusted import one_line
from actions.run.journal.folder import terraform_path
from actions.run.journal.reader import load_run
from actions.run.journal.store import append_record
from actions.run.state.records import Resolution, Resolved
from actions.run.state.view import PendingChange, RunView, StageView
from actions.terraform.detached import DetachedOperation
from actions.terraform.working_directory import (
    LOCK_FILE,
    UNSAVED_STATE,
    VANISHED_STATE,
    WAIVED_STATE,
    WorkingDirectory,
    locked_providers,
)

_OPERATIONS = ("plan", "apply", "destroy")
_UNKNOWN = "unknown"


class TerraformStageReport(msgspec.Struct, frozen=True):
    """One Terraform stage, by its files and the journal."""

    stage: str
    folder: str
    running: str
    """The running operation; empty if none is."""
    pid: int | None
    is_interrupted: bool
    """The running process was sent an interrupt."""
    resources: int | None
    """Number of resources in the state; `None` if that is remote or cannot be read."""
    unsaved: tuple[str, ...] | None
    """Addresses in `errored.tfstate`; `None` if there is none."""
    pending: tuple[PendingChange, ...]
    """Resources that may exist outside the state, with their fate; the open ones block the stage."""
    providers: dict[str, str]
    """Versions of the locked providers, by name."""

    @property
    def vanished(self) -> tuple[str, ...]:
        """Addresses that a destroy did not find, and that are not settled."""
        return tuple(item.address for item in self.pending if item.is_open and item.has_vanished)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Addresses that have to be imported or waived before the stage continues."""
        unsaved = () if self.unsaved is None else (UNSAVED_STATE,)
        vanished = (VANISHED_STATE,) if self.vanished else ()
        return (*unsaved, *vanished, *(item.address for item in self.pending if item.is_open))


def terraform_report(folder: Path, view: RunView) -> list[TerraformStageReport]:
    """Report on every Terraform stage that was begun.

    Args:
        folder: The run's.
        view: The run.
    """
    begun = [stage for stage in view.stages if stage.kind == "terraform"]
    return [_report_of(terraform_path(folder, stage.id), stage) for stage in begun if stage.attempt]


def terraform_table(report: Sequence[TerraformStageReport], run_id: str) -> str:
    """Return the report as text: each stage, its open resources, and the commands for them."""
    if not report:
        return "No Terraform stage of this run was begun.\n"
    return "\n".join(_text_of(stage, run_id) for stage in report)


def terraform_json(report: Sequence[TerraformStageReport]) -> str:
    """Return the report as JSON: a list of objects, one for each stage."""
    fields = [
        {
            **msgspec.to_builtins(stage),
            "blocks": list(stage.blocks),
            "pending": [{**msgspec.to_builtins(item), "open": item.is_open} for item in stage.pending],
        }
        for stage in report
    ]
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n"


def _report_of(folder: Path, stage: StageView) -> TerraformStageReport:
    directory = WorkingDirectory(folder, folder)
    running = {
        name: identity
        for name in _OPERATIONS
        if (identity := DetachedOperation(folder, name, clock=SystemClock()).identity()) is not None
    }
    name, identity = next(iter(running.items()), ("", None))
    return TerraformStageReport(
        stage=stage.id,
        folder=str(folder),
        running=name,
        pid=identity.pid if identity else None,
        is_interrupted=any(item.process == identity for item in stage.terraform.interrupts),
        resources=_count(directory),
        unsaved=_unsaved(directory),
        pending=stage.terraform.pending,
        providers=locked_providers(folder / LOCK_FILE),
    )


def _count(directory: WorkingDirectory) -> int | None:
    try:
        return None if directory.has_remote_state else len(directory.local_state().addresses)
    except (FormatError, OSError):
        return None


def _unsaved(directory: WorkingDirectory) -> tuple[str, ...] | None:
    try:
        unsaved = directory.unsaved_state()
    except (FormatError, OSError):
        return (_UNKNOWN,)
    return None if unsaved is None else unsaved.addresses


def _text_of(stage: TerraformStageReport, run_id: str) -> str:
    held = f"{_UNKNOWN if stage.resources is None else stage.resources} resources in its state"
    lines = [f"{stage.stage}: {held}"]
    if stage.running:
        interrupted = ", interrupted" if stage.is_interrupted else ""
        lines.append(f"  terraform {stage.running} is running as process {stage.pid}{interrupted}")
    if stage.providers:
        lines.append("  providers: " + ", ".join(f"{name} {version}" for name, version in stage.providers.items()))
    if stage.unsaved is not None:
        lines.append(f"  errored.tfstate could not be saved: {', '.join(stage.unsaved) or 'no resources'}")
        lines.append(f"    eksml-tui runs waive {run_id} {UNSAVED_STATE} --confirm {UNSAVED_STATE}")
    if stage.vanished:
        lines.append(
            f"  {len(stage.vanished)} resources were gone when they were to be destroyed; the state from before"
        )
        lines.append(f"  is in {stage.folder}/{VANISHED_STATE}. If all were deleted by hand:")
        lines.append(f"    eksml-tui runs waive {run_id} {VANISHED_STATE} --confirm {VANISHED_STATE}")
    for item in stage.pending:
        lines.append(f"  {item.address}: {item.how.value if item.how else _fate(item)}")
        if item.is_open:
            lines.append(f"    eksml-tui runs import {run_id} '{item.address}' {item.resource_id or 'ID'}")
            lines.append(f"    eksml-tui runs waive {run_id} '{item.address}' --confirm '{item.address}'")
    return "".join(f"{line}\n" for line in lines)


def _fate(item: PendingChange) -> str:
    return "was gone when it was to be destroyed" if item.has_vanished else "may exist outside the state"


def request_import(
    folder: Path, address: str, resource_id: str, *, stage: str = "", clock: Clock | None = None
) -> TerraformStageReport:
    """Record the id by which a pending resource is to be imported; the next step of its stage imports it.

    Args:
        folder: The run's folder.
        address: The resource, as Terraform writes it.
        resource_id: As the provider's `terraform import` takes it.
        stage: Its stage; needed only if that address is pending in several.
        clock: Stamps the record.

    Returns:
        The stage.

    Raises:
        MissingError: No such resource is pending.
        RefusedError: The id is not valid.
        JournalError: The journal cannot be written.
    """
    if not resource_id or resource_id.startswith("-") or one_line(resource_id) != resource_id:
        raise RefusedError(f"{one_line(resource_id)!r} is not a resource id.")
    found = _blocked(folder, address, stage)
    if address in (UNSAVED_STATE, VANISHED_STATE):
        verb = "pushed" if address == UNSAVED_STATE else "copied back"
        raise RefusedError(f"{address} is {verb} or waived, not imported.")
    _append(folder, found.stage, Resolved(address, Resolution.IMPORT, resource_id), clock)
    return found


def waive(
    folder: Path, address: str, *, confirm: str, stage: str = "", clock: Clock | None = None
) -> TerraformStageReport:
    """Record that a pending resource does not exist or is not the run's; or that `errored.tfstate` is not needed.

    Args:
        folder: The run's folder.
        address: The resource, `errored.tfstate`, or `vanished.tfstate` for everything that a destroy did not find.
        confirm: The same, letter by letter.
        stage: Its stage; needed only if it is pending in several.
        clock: Stamps the record.

    Returns:
        The stage.

    Raises:
        ConfigError: It was not confirmed.
        MissingError: It is not pending.
        RefusedError: Terraform is running there.
        JournalError: The journal cannot be written.
    """
    found = _blocked(folder, address, stage)
    if confirm != address:
        raise ConfigError(
            f"Once waived, {one_line(address)} is not looked for again.",
            hint=f"Add --confirm '{address}' to waive it.",
        )
    if address == UNSAVED_STATE and found.running:
        raise RefusedError(f"terraform {found.running} is running there.", hint="Wait for its end.")
    directory = WorkingDirectory(Path(found.folder), Path(found.folder))
    for name in found.vanished if address == VANISHED_STATE else (address,):
        _append(folder, found.stage, Resolved(name, Resolution.WAIVED), clock)
    if address == UNSAVED_STATE:
        directory.put_unsaved_state_aside(WAIVED_STATE)
    if address == VANISHED_STATE:
        directory.put_vanished_state_aside()
    return found


def _blocked(folder: Path, address: str, stage: str) -> TerraformStageReport:
    report = terraform_report(folder, load_run(folder))
    found = [item for item in report if address in item.blocks and stage in ("", item.stage)]
    if len(found) == 1:
        return found[0]
    if found:
        raise MissingError(
            f"{one_line(address)} is pending in {len(found)} stages.",
            hint=f"Name the stage: {', '.join(item.stage for item in found)}.",
        )
    known = [name for item in report for name in item.blocks]
    raise MissingError(
        f"{one_line(address)} is not open in this run.",
        hint=f"Open: {', '.join(known)}." if known else "See: eksml-tui runs terraform RUN.",
    )


def _append(folder: Path, stage: str, body: Resolved, clock: Clock | None) -> None:
    attempt = load_run(folder).stage(stage).attempt
    append_record(folder, body, deed=f"{body.how.value} of {body.address}", clock=clock, stage=stage, attempt=attempt)
