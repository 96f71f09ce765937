"""Wishes about resources that Terraform may have made outside of its state: import them, or waive them.

It is written into the journal; the run's next step acts on it.
"""

from __future__ import annotations

from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import ConfigError, MissingError, RefusedError
from actions.base.untrusted import one_line
from actions.run.appending import append_record
from actions.run.reader import load_run
from actions.run.records import Resolution, Resolved
from actions.run.terraform_report import TerraformStage, terraform_report
from actions.terraform.workspace import UNSAVED_STATE, WAIVED_STATE, Workspace


def wish_import(
    folder: Path, address: str, resource_id: str, *, stage: str = "", clock: Clock | None = None
) -> TerraformStage:
    """Say by which id a pending resource is to be imported; the next step of its stage does it.

    Args:
        folder: The run's folder.
        address: The resource, as Terraform writes it.
        resource_id: As the provider's `terraform import` takes it.
        stage: Whose; needed only if several stages have a resource of that address pending.
        clock: Stamps the record.

    Returns:
        The stage.

    Raises:
        MissingError: No such resource is pending.
        RefusedError: The id is none.
        JournalError: The journal cannot be written.
    """
    if not resource_id or resource_id.startswith("-") or one_line(resource_id) != resource_id:
        raise RefusedError(f"{one_line(resource_id)!r} is no id of a resource.")
    found = _blocked(folder, address, stage)
    if address == UNSAVED_STATE:
        raise RefusedError(f"{UNSAVED_STATE} is pushed or waived, not imported.")
    _append(folder, found.stage, Resolved(address, Resolution.IMPORT, resource_id), clock)
    return found


def waive(folder: Path, address: str, *, confirm: str, stage: str = "", clock: Clock | None = None) -> TerraformStage:
    """Say that a pending resource is not there, or not the run's; or that `errored.tfstate` is not needed.

    Args:
        folder: The run's folder.
        address: The resource, or `errored.tfstate`.
        confirm: The same, letter by letter.
        stage: Whose; needed only if several stages have it.
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
            f"Waiving {one_line(address)} means that nobody will look for it any more.",
            hint=f"Say --confirm '{address}' if you mean it.",
        )
    if address == UNSAVED_STATE and found.running:
        raise RefusedError(f"terraform {found.running} is running there.", hint="Wait for its end.")
    _append(folder, found.stage, Resolved(address, Resolution.WAIVED), clock)
    if address == UNSAVED_STATE:
        Workspace(Path(found.folder), Path(found.folder)).put_unsaved_state_aside(WAIVED_STATE)
    return found


def _blocked(folder: Path, address: str, stage: str) -> TerraformStage:
    report = terraform_report(folder, load_run(folder))
    found = [item for item in report if address in item.blocks and stage in ("", item.stage)]
    if len(found) == 1:
        return found[0]
    if found:
        raise MissingError(
            f"{one_line(address)} is pending in {len(found)} stages.",
            hint=f"Say which: {', '.join(item.stage for item in found)}.",
        )
    known = [name for item in report for name in item.blocks]
    raise MissingError(
        f"Terraform left no {one_line(address)} open in this run.",
        hint=f"Open: {', '.join(known)}." if known else "See: eksml-tui runs terraform RUN.",
    )


def _append(folder: Path, stage: str, body: Resolved, clock: Clock | None) -> None:
    attempt = load_run(folder).stage(stage).attempt
    append_record(folder, body, deed=f"{body.how.value} of {body.address}", clock=clock, stage=stage, attempt=attempt)
