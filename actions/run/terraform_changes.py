"""Resources that Terraform holds or may have made outside of its state: reported or waived.

What is waived is written into the journal; the run's next step acts on it. What exists is imported by hand.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.decoding import json_document
from actions.base.errors import BlueprintError, ConfigError, ConsoleError, FormatError, MissingError, RefusedError
from actions.base.untrusted import one_line
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.source_files import located
from actions.blueprint.stages import TerraformStage
from actions.run.context.state_backend import state_backend_of
from actions.run.journal.folder import blueprint_path, environment_path, load_environment, runs_folder, terraform_path
from actions.run.journal.reader import load_run
from actions.run.journal.store import append_record
from actions.run.journal.watched import refuse_watched
from actions.run.stages.terraform_takeover import has_lost_state, may_hold
from actions.run.state.records import Resolution, Resolved, Unlocked
from actions.run.state.view import PendingChange, RunView, StageView
from actions.terraform.asking import ask_state
from actions.terraform.backend import own_backend
from actions.terraform.detached import DetachedOperation
from actions.terraform.events import UNOBSERVED
from actions.terraform.program import find_program, missing_sentence
from actions.terraform.working_directory import (
    LOCK_FILE,
    STATE_FILE,
    UNSAVED_STATE,
    VANISHED_STATE,
    VARIABLES_FILE,
    WAIVED_STATE,
    WorkingDirectory,
    has_history,
    has_unsaved,
    is_prepared,
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
    """Number of resources in the state, from Terraform; `None` if it could not be asked."""
    unsaved: tuple[str, ...] | None
    """Addresses in `errored.tfstate`; `None` if there is none."""
    pending: tuple[PendingChange, ...]
    """Resources that may exist outside the state, with their fate; the open ones block the stage."""
    providers: dict[str, str]
    """Versions of the locked providers, by name."""
    kept_in: str = ""
    """The place of the state: `s3://…`, or the kind of backend that the root configures; empty for the folder."""
    unasked: str = ""
    """The reason that Terraform's state could not be read, as a sentence."""
    is_lost: bool = False
    """It has made something, and there is no state any more."""
    unlocked: tuple[Unlocked, ...] = ()
    """Locks of dead holders that were removed."""
    program: str = "terraform"
    """The name of the run's program."""

    @property
    def vanished(self) -> tuple[str, ...]:
        """Addresses that a destroy did not find, and that are not settled."""
        return tuple(item.address for item in self.pending if item.is_open and item.has_vanished)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Addresses that have to be in the state or waived before the stage continues."""
        unsaved = () if self.unsaved is None else (UNSAVED_STATE,)
        vanished = (VANISHED_STATE,) if self.vanished else ()
        unobserved = (UNOBSERVED,) if self.unobserved else ()
        lost = (STATE_FILE,) if self.is_lost else ()
        named = (item.address for item in self.pending if item.is_open)
        return (*unsaved, *vanished, *unobserved, *lost, *named)

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Addresses that an apply of another machine may have made, and that are not settled."""
        return tuple(item.address for item in self.pending if item.is_open and item.is_unobserved)


def terraform_report(folder: Path, view: RunView) -> list[TerraformStageReport]:
    """Report on every Terraform stage that was begun. Asks Terraform for each state, which may take some seconds.

    Args:
        folder: The run's.
        view: The run.
    """
    begun = [stage for stage in view.stages if stage.kind == "terraform" and stage.attempt]
    return [_report_of(folder, view, stage) for stage in begun]


def working_directories() -> list[Path]:
    """Return the working directories of all runs' Terraform stages."""
    return sorted(runs_folder().glob("*/terraform/*/"))


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
    return json_document(fields)


def _report_of(run_folder: Path, view: RunView, stage: StageView) -> TerraformStageReport:
    folder = terraform_path(run_folder, stage.id)
    directory = WorkingDirectory(folder, folder)
    running = {
        name: identity
        for name in _OPERATIONS
        if (identity := DetachedOperation(folder, name, clock=SystemClock()).identity()) is not None
    }
    name, identity = next(iter(running.items()), ("", None))
    answer = _asked(run_folder, view, stage)
    return TerraformStageReport(
        stage=stage.id,
        folder=str(folder),
        running=name,
        pid=identity.pid if identity else None,
        is_interrupted=any(item.process == identity for item in stage.terraform.interrupts),
        resources=answer.resources,
        unsaved=_unsaved(directory),
        pending=stage.terraform.pending,
        providers=locked_providers(folder / LOCK_FILE),
        kept_in=answer.kept_in,
        unasked=answer.problem,
        is_lost=answer.is_lost,
        unlocked=stage.terraform.unlocked,
        program=answer.program,
    )


class _Answer(msgspec.Struct, frozen=True):
    resources: int | None = None
    kept_in: str = ""
    problem: str = ""
    is_lost: bool = False
    program: str = "terraform"


def _asked(folder: Path, view: RunView, stage: StageView) -> _Answer:
    """Ask Terraform for the state of a stage."""
    work = terraform_path(folder, stage.id)
    kept_in = ""
    try:
        root = work if is_prepared(work) else _root_of(folder, view, stage)
        environment = load_environment(folder) if environment_path(folder).exists() else {}
        program = find_program(environment)
        name = program.name if program else "terraform"
        kept_in = own_backend(root)
        if not may_hold(view, stage, is_prepared=is_prepared(work), backend=kept_in):
            return _Answer(0)
        store = state_backend_of(view, stage.id, work=work, root=root, environment=environment)
        kept_in = str(store) if store is not None else kept_in
        if program is None:
            return _Answer(None, kept_in, missing_sentence(environment))
        state = ask_state(program, work, environment, root=root, store=store)
    except (ConsoleError, OSError) as error:
        sentence = error.sentence() if isinstance(error, ConsoleError) else f"{error}."
        return _Answer(None, kept_in, sentence)
    is_kept_here = kept_in in ("", "local")
    is_lost = has_lost_state(view, stage, state, is_kept_here=is_kept_here, has_history=has_history(work))
    is_lost = is_lost and not has_unsaved(work)
    return _Answer(len(state.everything), kept_in, "", is_lost, name)


def _root_of(folder: Path, view: RunView, stage: StageView) -> Path:
    """Return the root of a stage whose working directory is not on this machine."""
    blueprint = load_blueprint(blueprint_path(folder)).under(view.preset)
    declared = blueprint.stage(stage.id)
    if not isinstance(declared, TerraformStage):
        raise BlueprintError(f"{stage.id} is of another kind in the run's copy of its blueprint.")
    return located(blueprint.folder, declared.root)


def _unsaved(directory: WorkingDirectory) -> tuple[str, ...] | None:
    try:
        unsaved = directory.unsaved_state()
    except (FormatError, OSError):
        return (_UNKNOWN,)
    return None if unsaved is None else unsaved.addresses


def _text_of(stage: TerraformStageReport, run_id: str) -> str:
    held = f"{_UNKNOWN if stage.resources is None else stage.resources} resources in its state"
    lines = [f"{stage.stage}: {held}{f', {stage.kept_in}' if stage.kept_in else ''}"]
    if stage.unasked:
        lines.append(f"  {stage.unasked}")
    if stage.is_lost:
        lines.append("  It has made something, and there is no state any more. If that was deleted by hand:")
        lines.append(f"    eksml-tui runs waive {run_id} {STATE_FILE} --stage {stage.stage} --confirm {STATE_FILE}")
    for lock in stage.unlocked:
        lines.append(f"  the lock {lock.lock_id} of {lock.who}, of {lock.created}, was removed: {lock.reason}")
    if stage.running:
        interrupted = ", interrupted" if stage.is_interrupted else ""
        lines.append(f"  {stage.program} {stage.running} is running as process {stage.pid}{interrupted}")
    if stage.providers:
        lines.append("  providers: " + ", ".join(f"{name} {version}" for name, version in stage.providers.items()))
    if stage.unsaved is not None:
        lines.append(f"  errored.tfstate could not be saved: {', '.join(stage.unsaved) or 'no resources'}")
        lines.append("    The next attempt saves it, as does a teardown. Only if none of these is needed:")
        lines.append(f"    eksml-tui runs waive {run_id} {UNSAVED_STATE} --confirm {UNSAVED_STATE}")
    if stage.vanished:
        lines.append(
            f"  {len(stage.vanished)} resources were gone when they were to be destroyed; the state from before"
        )
        lines.append(f"  is in {stage.folder}/{VANISHED_STATE}. If all were deleted by hand:")
        lines.append(f"    eksml-tui runs waive {run_id} {VANISHED_STATE} --confirm {VANISHED_STATE}")
    lines += _open_lines(stage, run_id)
    return "".join(f"{line}\n" for line in lines)


def _open_lines(stage: TerraformStageReport, run_id: str) -> list[str]:
    """Return what may exist outside of the state, with the commands for it."""
    lines = []
    if stage.unobserved:
        lines.append(f"  {len(stage.unobserved)} resources were planned in an apply of another machine, whose end is")
        lines.append("  not known. Import those that exist; if no other exists:")
        lines.append(f"    eksml-tui runs waive {run_id} {UNOBSERVED} --confirm {UNOBSERVED}")
    for item in stage.pending:
        if item.is_unobserved and item.how is Resolution.TRACKED:
            continue
        lines.append(f"  {item.address}: {item.how.value if item.how else _fate(item)}")
        if item.is_open:
            lines.append(f"    {_import_command(stage, item)}")
            lines.append(f"    eksml-tui runs waive {run_id} '{item.address}' --confirm '{item.address}'")
    return lines


def _import_command(stage: TerraformStageReport, item: PendingChange) -> str:
    """Return the command that takes a resource into the state of a stage."""
    place = shlex.quote(stage.folder)
    options = f"-var-file={VARIABLES_FILE}"
    return f"{stage.program} -chdir={place} import {options} '{item.address}' {item.resource_id or 'ID'}"


def _fate(item: PendingChange) -> str:
    return "was gone when it was to be destroyed" if item.has_vanished else "may exist outside the state"


def waive(
    folder: Path, address: str, *, confirm: str, stage: str = "", clock: Clock | None = None
) -> TerraformStageReport:
    """Record that a pending resource does not exist or is not the run's; or that `errored.tfstate` is not needed.

    Args:
        folder: The run's folder.
        address: The resource, `errored.tfstate`, `vanished.tfstate` for everything that a destroy did not find,
            `unobserved` for everything that an apply of another machine may have made, or `terraform.tfstate` for a
            state that is lost.
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
        raise RefusedError(f"{found.program} {found.running} is running there.", hint="Wait for its end.")
    directory = WorkingDirectory(Path(found.folder), Path(found.folder))
    groups = {VANISHED_STATE: found.vanished, UNOBSERVED: found.unobserved}
    for name in groups.get(address, (address,)):
        _append(folder, found.stage, Resolved(name, Resolution.WAIVED), clock)
    if address == UNSAVED_STATE:
        directory.put_unsaved_state_aside(WAIVED_STATE)
    if address == VANISHED_STATE:
        directory.put_vanished_state_aside()
    return found


def _blocked(folder: Path, address: str, stage: str) -> TerraformStageReport:
    view = load_run(folder)
    refuse_watched(view)
    report = terraform_report(folder, view)
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
