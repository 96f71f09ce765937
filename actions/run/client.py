"""What consoles, scripts and the command line may do with runs: find, start, wish. Quick, synchronous calls."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.base.files import is_read_only
from actions.base.process import (
    ProcessIdentity,
    allowed_environment,
    kill,
    own_module,
    spawn_detached,
    wait_for_end,
)
from actions.base.readonly import refuse_if_readonly
from actions.run.context.secrets import referenced_environment
from actions.run.engine.systemd import start_service
from actions.run.journal.folder import (
    ENDPOINT_VARIABLE,
    has_room,
    journal_path,
    load_environment,
    runner_log_path,
    runs_home,
)
from actions.run.journal.lease import grant_lease, may_start_now
from actions.run.journal.reader import RunReader, RunSummary, list_runs, load_run
from actions.run.journal.store import append_record, with_reserve
from actions.run.state.records import RequestKind, RunRequest
from actions.run.state.view import Goal, NoticeKind, RunState, RunView, StageState

__all__ = [
    "RunReader",
    "RunSummary",
    "find_run",
    "list_runs",
    "load_run",
    "resume_interrupted",
    "send_request",
    "stalled_runner",
    "start_runner",
    "take_over",
]

RUNNER_MODULE = "actions.run"
_END_SECONDS = 10.0


def find_run(run_id: str, *, home: Path | None = None) -> Path:
    """The folder of a run.

    Args:
        run_id: Its id, or the beginning of it if no other run begins so; `latest` for the one created last.
        home: The folder of all runs, if not the usual one.

    Raises:
        MissingError: There is none, or more than one.
        RefusedError: The latest one cannot be read: no other is taken for it.
    """
    runs = list_runs(home)
    if run_id == "latest" and runs:
        if runs[0].error:
            raise RefusedError(f"The newest run, {runs[0].id}, cannot be read: {runs[0].error}", hint="Name a run.")
        return runs[0].folder
    exact = [run for run in runs if run_id in (run.id, run.folder.name)]
    found = exact or [run for run in runs if run_id and run.id.startswith(run_id)]
    if len(found) == 1:
        return found[0].folder
    if found:
        raise MissingError(f"{run_id!r} is the beginning of {len(found)} runs.", hint="Write more of its id.")
    where = home or runs_home()
    raise MissingError(f"There is no run {run_id!r} in {where}.", hint="List them with `eksml-tui runs list`.")


def start_runner(
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    module: str = RUNNER_MODULE,
    is_asked_for: bool = True,
) -> ProcessIdentity | None:
    """Start the run's runner, unless one is at work.

    Args:
        folder: The run's folder.
        environment: Given to the process and not stored, e.g. credentials. Our own `AWS_` variables are passed on,
            too. Neither is if it is for another AWS endpoint than the run's.
        module: What to run; with the folder as its only argument.
        is_asked_for: By a person; else because the one before has died, which is counted.

    Returns:
        The new process, or `None` if there was nothing to start.

    Raises:
        ToolError: It could not be started.
        JournalUnwritableError: The disk is full, or the journal is locked.
    """
    refuse_if_readonly(f"the start of a runner for {folder.name}")
    secrets = referenced_environment(load_run(folder).parameters.values())
    stored = load_environment(folder)
    endpoint = stored.get(ENDPOINT_VARIABLE, "")
    given = dict(environment or {})
    if given.get(ENDPOINT_VARIABLE, endpoint) != endpoint:
        given = {}
    extra, without_aws = stored | given | secrets, os.environ.get(ENDPOINT_VARIABLE, "") != endpoint

    def start() -> ProcessIdentity:
        started = start_service(folder, module, allowed_environment(extra, without_aws=without_aws))
        return started or spawn_detached(
            own_module(module, str(folder)),
            output=runner_log_path(folder),
            directory=folder,
            extra_environment=extra,
            without_aws=without_aws,
        )

    return with_reserve(
        folder, lambda: grant_lease(journal_path(folder), SystemClock(), start, is_asked_for=is_asked_for)
    )


def take_over(folder: Path, pid: int, *, environment: Mapping[str, str] | None = None) -> ProcessIdentity | None:
    """End a runner that is stalled, and start another one.

    It is killed before the lease is given to anybody else: a stopped process that were woken would find itself in the
    middle of what another one does.

    Args:
        folder: The run's folder.
        pid: The process that the operator has named.
        environment: See `start_runner`.

    Returns:
        The new process.

    Raises:
        RefusedError: The runner is another process, gives signs of life, belongs to somebody else, or does not end.
    """
    refuse_if_readonly(f"the end of the runner of {folder.name}")
    holder = stalled_runner(folder)
    if holder is None or holder.pid != pid:
        said = f"is process {holder.pid}, not {pid}" if holder else "is not stalled"
        raise RefusedError(f"The runner of {folder.name} {said}: nothing was ended.")
    kill(holder)
    if not wait_for_end(holder, seconds=_END_SECONDS):
        raise RefusedError(
            f"Process {pid} was killed and has not ended within {_END_SECONDS:.0f} s: it hangs in the kernel.",
            hint="Look at the disk that it waits for, then resume the run.",
        )
    return start_runner(folder, environment=environment)


def stalled_runner(folder: Path) -> ProcessIdentity | None:
    """The process that holds the run and gives no sign of life; `None` if all is well, or there is none.

    Raises:
        JournalError: The journal cannot be read.
    """
    reader = RunReader(folder)
    view = reader.poll()
    is_stalled = view is not None and any(notice.kind is NoticeKind.STALLED for notice in view.notices)
    return reader.holder if is_stalled else None


def resume_interrupted(
    *,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    endpoints: Collection[str] = (),
    needs_room: bool = False,
    module: str = RUNNER_MODULE,
) -> list[str]:
    """Start a runner for every run that a crash or a reboot has interrupted, of the AWS endpoint that we work with.

    Args:
        environment: See `start_runner`.
        home: The folder of all runs, if not the usual one.
        endpoints: Of AWS, whose runs are started as well.
        needs_room: Leave a run as it is whose folder takes no writes, or whose disk is full.
        module: See `start_runner`.

    Returns:
        A sentence for each, for telling the operator; also of a run whose runner could not be started. A runner that
        dies again and again is given growing pauses, and left after the fifth time in ten minutes.
    """
    endpoint = dict(environment or {}).get(ENDPOINT_VARIABLE, os.environ.get(ENDPOINT_VARIABLE, ""))
    told = []
    clock = SystemClock()
    for run in list_runs(home):
        if not run.is_interrupted or not may_start_now(run.folder, clock):
            continue
        if needs_room and not _takes_writes(run.folder):
            continue
        try:
            if load_environment(run.folder).get(ENDPOINT_VARIABLE, "") not in (endpoint, *endpoints):
                continue
            if start_runner(run.folder, environment=environment, module=module, is_asked_for=False) is not None:
                told.append(f"Run {run.id} was interrupted and goes on.")
        except (ConsoleError, OSError) as error:
            reason = error.sentence() if isinstance(error, ConsoleError) else str(error)
            told.append(f"Run {run.id} was interrupted and cannot go on: {reason}")
    return told


def _takes_writes(folder: Path) -> bool:
    return os.access(journal_path(folder), os.W_OK) and not is_read_only(folder) and has_room(folder)


def send_request(
    folder: Path,
    kind: RequestKind,
    *,
    plan_hash: str = "",
    delete_data: bool = False,
    clock: Clock | None = None,
    start: bool = True,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Write a wish into the run's journal and see to it that a runner acts on it.

    Args:
        folder: The run's folder.
        kind: What is wished.
        plan_hash: With `APPROVE`: the plan that was looked at.
        delete_data: With `TEARDOWN`: whether stages that hold data may be undone too.
        clock: Stamps the record.
        start: Start a runner if none is at work.
        environment: For a runner that has to be started; see `start_runner`.

    Returns:
        A sentence about what is in the way of its being followed; empty if nothing is.

    Raises:
        RefusedError: The run is in no state for it; nothing was written.
        JournalUnwritableError: The disk is full, or the journal is locked; nothing was written.
        JournalError: The journal cannot be read.
    """
    deed = f"{kind.value} of {folder.name}"
    refuse_if_readonly(deed)
    refuse_unfit(load_run(folder), kind, plan_hash=plan_hash)
    append_record(folder, RunRequest(kind, plan_hash=plan_hash, delete_data=delete_data), deed=deed, clock=clock)
    if start:
        start_runner(folder, environment=environment)
    stalled = stalled_runner(folder)
    if stalled is None:
        return ""
    return (
        f"Its runner, process {stalled.pid}, gives no sign of life, and will not follow before it moves again. "
        f"End it and start another: eksml-tui runs resume {folder.name} --takeover {stalled.pid}"
    )


def refuse_unfit(view: RunView, kind: RequestKind, *, plan_hash: str = "") -> None:
    """Refuse a wish that the run cannot follow.

    Raises:
        RefusedError: With the reason.
    """
    reason = _unfit_approval(view, plan_hash) if kind is RequestKind.APPROVE else _unfit_request(view, kind)
    if reason:
        raise RefusedError(f"Run {view.id} cannot be asked to {kind.value}: {reason}.")


def _unfit_approval(view: RunView, plan_hash: str) -> str:
    waiting = [stage for stage in view.stages if stage.state is StageState.AWAITING_APPROVAL]
    offered = {stage.plan.plan_hash for stage in waiting if stage.plan}
    if not offered:
        return "no plan waits for approval"
    return "" if plan_hash in offered else "the plan has changed since it was shown; look at it again"


def _unfit_request(view: RunView, kind: RequestKind) -> str:
    is_over = f"it is {view.state.value}"
    match kind:
        case RequestKind.CANCEL | RequestKind.PAUSE | RequestKind.UNPAUSE:
            return is_over if view.goal is not Goal.FORWARD or view.state is RunState.SUCCEEDED else ""
        case RequestKind.PARK:
            return is_over if view.goal is Goal.TEARDOWN else ""
        case RequestKind.RETRY:
            return "" if view.goal is not Goal.FORWARD or view.state is RunState.FAILED else "nothing has failed"
    return ""
