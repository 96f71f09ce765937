"""The client of runs, for consoles, scripts and the command line: find, start, send requests. Quick, synchronous."""

from __future__ import annotations

import os
import signal
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
from actions.run.context.operator import present_operator
from actions.run.context.secrets import referenced_environment
from actions.run.engine.systemd import start_service
from actions.run.journal.embedded import account_has_ended
from actions.run.journal.folder import (
    ENDPOINT_VARIABLE,
    has_room,
    journal_path,
    load_environment,
    runner_log_path,
    runs_folder,
)
from actions.run.journal.lease import grant_lease, may_start_now
from actions.run.journal.reader import RunReader, RunSummary, load_run
from actions.run.journal.store import append_record, with_reserve
from actions.run.journal.watched import refuse_watched
from actions.run.limits.rules import reached_limit, reached_text
from actions.run.resume import resume_of, way_on
from actions.run.state.planner import Finish, next_step
from actions.run.state.records import AlarmsAcknowledged, Limits, LimitsSet, Operator, RequestKind, RunRequest
from actions.run.state.view import TO_RETRY, Goal, NoticeKind, RunState, RunView, StageState
from actions.run.summaries import list_runs

__all__ = [
    "RunReader",
    "RunSummary",
    "acknowledge_alarms",
    "end_runner",
    "find_run",
    "list_runs",
    "load_run",
    "replace_runner",
    "resume_interrupted",
    "resume_run",
    "send_request",
    "set_limits",
    "stalled_runner",
    "start_runner",
]

RUNNER_MODULE = "actions.run"
_END_SECONDS = 10.0


class RunMissingError(MissingError):
    """This machine has no such run; another one may have."""


def find_run(run_id: str, *, base: Path | None = None) -> Path:
    """Return the folder of a run.

    Args:
        run_id: Its id or an unambiguous prefix of it; `latest` for the run created last.
        base: The folder of all runs, if not the usual one.

    Raises:
        RunMissingError: There is none.
        MissingError: There is more than one.
        RefusedError: The latest run cannot be read; no other is returned in its place.
    """
    where = base or runs_folder()
    if _is_folder_name(run_id) and os.path.lexists(where / run_id):
        return where / run_id  # whatever else begins with it
    runs = list_runs(base)
    if run_id == "latest":
        runs = [run for run in runs if not run.is_copy]
        if runs and runs[0].error:
            raise RefusedError(f"The newest run, {runs[0].id}, cannot be read: {runs[0].error}", hint="Name a run.")
        found = runs[:1]
    else:
        begun = [run for run in runs if run_id and run.id.startswith(run_id)]
        found = [run for run in begun if not run.is_copy] or begun
    if len(found) == 1:
        return found[0].folder
    if found:
        raise MissingError(f"{run_id!r} is a prefix of {len(found)} run ids.", hint="Write more of the id.")
    raise RunMissingError(f"There is no run {run_id!r} in {where}.", hint="List them with `eksml-tui runs list`.")


def _is_folder_name(run_id: str) -> bool:
    return run_id not in ("", "latest") and "/" not in run_id and not run_id.startswith(".")


def start_runner(
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    module: str = RUNNER_MODULE,
    is_asked_for: bool = True,
) -> ProcessIdentity | None:
    """Start the run's runner, unless it has a living one.

    Args:
        folder: The run's folder.
        environment: Variables for the process that are not stored, e.g. credentials. Our own `AWS_` variables are
            passed on, too. Neither are if they belong to another AWS endpoint than the run's.
        module: The module to run, with the folder as its first argument.
        is_asked_for: An operator requested it; else it replaces a runner that died, which is counted.

    Returns:
        The new process, or `None` if none was started.

    Raises:
        ToolError: It could not be started.
        RefusedError: Another machine carries the run out.
        JournalUnwritableError: The disk is full, or the journal is locked.
    """
    refuse_if_readonly(f"the start of a runner for {folder.name}")
    view = load_run(folder)
    refuse_watched(view)
    secrets = referenced_environment(view.parameters.values())
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


def replace_runner(folder: Path, pid: int, *, environment: Mapping[str, str] | None = None) -> ProcessIdentity | None:
    """Kill a stalled runner, and start another one.

    It is killed before the lease is granted to another: a stopped process that resumes would act beside its successor.

    Args:
        folder: The run's folder.
        pid: The process id that the operator has named.
        environment: See `start_runner`.

    Returns:
        The new process.

    Raises:
        RefusedError: The runner is another process, is not stalled, belongs to another user, or does not end; or
            another machine carries the run out.
    """
    refuse_if_readonly(f"the end of the runner of {folder.name}")
    view = load_run(folder)
    refuse_watched(view)
    holder = stalled_runner(folder)
    if holder is None or holder.pid != pid:
        reason = f"is process {holder.pid}, not {pid}" if holder else "is not stalled"
        raise RefusedError(f"The runner of {folder.name} {reason}: nothing was ended.")
    end_runner(holder, signal.SIGKILL)
    return start_runner(folder, environment=environment)


def end_runner(holder: ProcessIdentity, *numbers: signal.Signals) -> None:
    """End a runner by these signals, one after another.

    Raises:
        RefusedError: It belongs to another user, or does not end.
    """
    for number in numbers:
        kill(holder, number)
        if wait_for_end(holder, seconds=_END_SECONDS):
            return
    raise RefusedError(
        f"Process {holder.pid} was killed and has not ended within {_END_SECONDS:.0f} s: it hangs in the kernel.",
        hint="Check the disk that it waits for, then try again.",
    )


def stalled_runner(folder: Path) -> ProcessIdentity | None:
    """Return the stalled process that holds the run; `None` if its runner responds, or there is none.

    Raises:
        JournalError: The journal cannot be read.
    """
    reader = RunReader(folder)
    view = reader.poll()
    is_stalled = view is not None and any(notice.kind is NoticeKind.STALLED for notice in view.notices)
    return reader.holder if is_stalled else None


def resume_run(
    folder: Path,
    *,
    stage: str = "",
    takeover: int = 0,
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> str:
    """Have a run go on: after a failure, a cancel, a park or a pause, or without a runner.

    Args:
        folder: The run's folder.
        stage: A stage that has to be among those that follow; empty for any.
        takeover: Process id of a stalled runner, which is ended first; 0 for none.
        environment: See `start_runner`.
        clock: Stamps the record.

    Returns:
        A sentence for the operator, with a limit that undoes it.

    Raises:
        MissingError: It has no such stage.
        RefusedError: Nothing follows, its runner is stalled and was not named; or see `send_request`.
    """
    view = _own_run(folder, f"the resume of {folder.name}")
    resume = resume_of(view, stage)
    stalled = stalled_runner(folder)
    if stalled is not None and not takeover:
        raise RefusedError(
            f"The runner of {folder.name}, process {stalled.pid}, is not responding, but may continue at any moment.",
            hint=f"End it and start another: eksml-tui runs resume {folder.name} --takeover {stalled.pid}",
        )
    started = replace_runner(folder, takeover, environment=environment) if takeover else None
    warning = ""
    if resume.request is not None:
        warning = send_request(folder, resume.request, clock=clock, environment=environment)
    elif started is None:
        started = start_runner(folder, environment=environment)
        if started is None:
            return f"Run {folder.name} is already running. {way_on(view)}".rstrip()
    by = f" as process {started.pid}" if started is not None else ""
    return " ".join(filter(None, (f"Run {folder.name} continues{by}.", warning)))


def resume_interrupted(
    *,
    environment: Mapping[str, str] | None = None,
    base: Path | None = None,
    endpoints: Collection[str] = (),
    needs_room: bool = False,
    module: str = RUNNER_MODULE,
) -> list[str]:
    """Start a runner for every interrupted run of the present AWS endpoint, also if only its store lacks its end.

    Args:
        environment: See `start_runner`.
        base: The folder of all runs, if not the usual one.
        endpoints: Further AWS endpoints whose runs are resumed.
        needs_room: Skip runs whose folder cannot be written, or whose disk is full.
        module: See `start_runner`.

    Returns:
        A sentence for the operator on each, also where the runner could not be started. A runner that dies again and
        again is restarted after growing pauses, and no more after the fifth time in ten minutes.
    """
    endpoint = dict(environment or {}).get(ENDPOINT_VARIABLE, os.environ.get(ENDPOINT_VARIABLE, ""))
    sentences = []
    clock = SystemClock()
    for run in list_runs(base):
        is_needed = run.is_interrupted or run.is_store_behind or run.has_alarms_left
        if not is_needed or not may_start_now(run.folder, clock):
            continue
        if needs_room and not _takes_writes(run.folder):
            continue
        try:
            if load_environment(run.folder).get(ENDPOINT_VARIABLE, "") not in (endpoint, *endpoints):
                continue
            if start_runner(run.folder, environment=environment, module=module, is_asked_for=False) is not None:
                sentences.append(_resumed_words(run))
        except (ConsoleError, OSError) as error:
            reason = error.sentence() if isinstance(error, ConsoleError) else str(error)
            what = "was interrupted" if run.is_interrupted else "is over, its end was not passed on,"
            sentences.append(f"Run {run.id} {what} and cannot be resumed: {reason}")
    return sentences


def _resumed_words(run: RunSummary) -> str:
    if run.is_interrupted:
        return f"Run {run.id} was interrupted and has been resumed."
    if run.is_store_behind:
        return f"Run {run.id} is over ({run.state.value}), and its store may not have that: a runner brings it there."
    return f"Run {run.id} is over ({run.state.value}), and its alarms were not sent: a runner sends them."


def _takes_writes(folder: Path) -> bool:
    return os.access(journal_path(folder), os.W_OK) and not is_read_only(folder) and has_room(folder)


def _own_run(folder: Path, deed: str) -> RunView:
    """Return a run that this process may act on.

    Raises:
        RefusedError: This process is read-only, or another machine has it.
        JournalError: The journal cannot be read.
    """
    refuse_if_readonly(deed)
    view = load_run(folder)
    refuse_watched(view)
    return view


def send_request(
    folder: Path,
    kind: RequestKind,
    *,
    plan_hash: str = "",
    delete_data: bool = False,
    even_if_shared: bool = False,
    clock: Clock | None = None,
    start: bool = True,
    environment: Mapping[str, str] | None = None,
    by: Operator | None = None,
) -> str:
    """Write a request into the run's journal, and start a runner for it if none is alive.

    Args:
        folder: The run's folder.
        kind: The kind of request.
        plan_hash: With `APPROVE`: the plan that was shown.
        delete_data: With `TEARDOWN`: stages that hold data are undone, too.
        even_if_shared: With `TEARDOWN`: remove what other runs use, too.
        clock: Stamps the record.
        start: Start a runner if none is alive.
        environment: For a runner that has to be started; see `start_runner`.
        by: Who makes it; by default the user of this process.

    Returns:
        A sentence on why the request has to wait, or on a limit that undoes it; empty without either.

    Raises:
        RefusedError: The state of the run, or another run that uses it, does not allow it; or another machine carries
            it out. Nothing was written.
        JournalUnwritableError: The disk is full, or the journal is locked; nothing was written.
        JournalError: The journal cannot be read.
    """
    deed = f"{kind.value} of {folder.name}"
    view = _own_run(folder, deed)
    refuse_unfit(view, kind, plan_hash=plan_hash)
    if kind is RequestKind.TEARDOWN and account_has_ended(view, folder):
        raise RefusedError(
            f"The embedded account of run {view.id} has ended, and all that the run made in it: nothing is left.",
            hint=f"Forget the run: eksml-tui runs rm {view.id} --confirm {view.id}",
        )
    if kind is RequestKind.TEARDOWN and not (even_if_shared or view.even_if_shared):
        from actions.run.teardown.sharing import refuse_shared

        refuse_shared(folder, view, deletes_data=delete_data or view.deletes_data)
    request = RunRequest(
        kind,
        plan_hash=plan_hash,
        delete_data=delete_data,
        even_if_shared=even_if_shared,
        by=by or present_operator(),
    )
    append_record(folder, request, deed=deed, clock=clock)
    if start:
        start_runner(folder, environment=environment)
    return _stall_warning(folder) or _limit_warning(view, kind)


def _stall_warning(folder: Path) -> str:
    """Return a sentence if the runner does not respond, and a request waits for it."""
    stalled = stalled_runner(folder)
    if stalled is None:
        return ""
    return (
        f"Its runner, process {stalled.pid}, does not respond, and the request waits for it. "
        f"End it and start another: eksml-tui runs resume {folder.name} --takeover {stalled.pid}"
    )


def _limit_warning(view: RunView, kind: RequestKind) -> str:
    """Return a sentence if a run goes on although one of its limits was reached: it will be again."""
    is_again = kind is RequestKind.RETRY and view.goal is not Goal.TEARDOWN and view.limits.is_set
    if not is_again or not view.limits_reached:
        return ""
    return (
        f"{view.limits_reached[-1].text} The run reaches that limit again unless it gets another one: "
        f"eksml-tui runs limit {view.id} --help"
    )


def acknowledge_alarms(folder: Path, seqs: Collection[int], *, clock: Clock | None = None) -> None:
    """Record that an operator has seen alarms of a run: no console calls for them again.

    Args:
        folder: The run's.
        seqs: Numbers of their records.
        clock: Stamps the record.

    Raises:
        RefusedError: This process is read-only, or another machine carries the run out.
        JournalUnwritableError: The disk is full, or the journal is locked.
        JournalError: The journal cannot be read.
    """
    deed = f"the acknowledgement of alarms of {folder.name}"
    _own_run(folder, deed)
    append_record(folder, AlarmsAcknowledged(tuple(seqs), present_operator()), deed=deed, clock=clock)


def set_limits(
    folder: Path,
    limits: Limits,
    *,
    by: Operator | None = None,
    clock: Clock | None = None,
    start: bool = True,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Write new limits of a run into its journal, and start a runner that watches them if none is alive.

    Args:
        folder: The run's folder.
        limits: In place of all earlier ones.
        by: Who sets them; by default the user of this process.
        clock: Stamps the record.
        start: Start a runner if none is alive and there is something to watch.
        environment: For a runner that has to be started; see `start_runner`.

    Returns:
        A sentence if one of the limits is reached already; empty otherwise.

    Raises:
        RefusedError: The run is torn down, or being torn down; or another machine carries it out. Nothing was written.
        JournalUnwritableError: The disk is full, or the journal is locked; nothing was written.
        JournalError: The journal cannot be read.
    """
    deed = f"the limits of {folder.name}"
    view = _own_run(folder, deed)
    if view.goal is Goal.TEARDOWN:
        raise RefusedError(f"Run {view.id} takes no limits: it is {view.state.value}.")
    append_record(folder, LimitsSet(limits, by or present_operator()), deed=deed, clock=clock)
    now = (clock or SystemClock()).now().timestamp()
    view = load_run(folder)
    if start and view.last_seq > 2 and not isinstance(next_step(view), Finish):
        start_runner(folder, environment=environment)
    reached = reached_limit(view, now)
    return "" if reached is None else f"That is reached already: {reached_text(reached, view, now)}"


def refuse_unfit(view: RunView, kind: RequestKind, *, plan_hash: str = "") -> None:
    """Refuse a request that the state of the run does not allow.

    Raises:
        RefusedError: With the reason, and what helps.
    """
    if kind is RequestKind.RETRY and view.state in TO_RETRY:
        resume_of(view)
    reason = _unfit_approval(view, plan_hash) if kind is RequestKind.APPROVE else _unfit_request(view, kind)
    if reason:
        raise RefusedError(f"Run {view.id} does not accept the request {kind.value}: {reason}.", hint=way_on(view))


def _unfit_approval(view: RunView, plan_hash: str) -> str:
    waiting = [stage for stage in view.stages if stage.state is StageState.AWAITING_APPROVAL]
    offered = {stage.plan.plan_hash for stage in waiting if stage.plan}
    if not offered:
        return "no plan waits for approval"
    return "" if plan_hash in offered else "the plan has changed since it was shown; review it again"


def _unfit_request(view: RunView, kind: RequestKind) -> str:
    is_over = f"it is {view.state.value}"
    match kind:
        case RequestKind.CANCEL | RequestKind.PAUSE | RequestKind.UNPAUSE:
            return is_over if view.goal is not Goal.FORWARD or view.state is RunState.SUCCEEDED else ""
        case RequestKind.PARK:
            return is_over if view.goal is Goal.TEARDOWN else ""
        case RequestKind.RETRY:
            if view.state is RunState.TORN_DOWN:
                return is_over
            return "" if view.goal is not Goal.FORWARD or view.state is RunState.FAILED else "nothing has failed"
    return ""
