"""What consoles, scripts and the command line may do with runs: find, start, wish. Quick, synchronous calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.base.process import ProcessIdentity, own_module, spawn_detached
from actions.run.creation import ENDPOINT_VARIABLE, load_environment
from actions.run.folder import journal_path, runner_log_path, runs_home
from actions.run.journal import Journal
from actions.run.lease import grant_lease
from actions.run.reader import RunReader, RunSummary, list_runs, load_run
from actions.run.records import Wish, WishKind
from actions.run.secrets import referenced_environment
from actions.run.view import Goal, RunState, RunView, StageState

__all__ = ["RunReader", "RunSummary", "find_run", "list_runs", "load_run", "resume_interrupted", "start_runner", "wish"]

RUNNER_MODULE = "actions.run"


def find_run(run_id: str, *, home: Path | None = None) -> Path:
    """The folder of a run.

    Args:
        run_id: Its id, or the beginning of it if no other run begins so; `latest` for the newest.
        home: The folder of all runs, if not the usual one.

    Raises:
        MissingError: There is none, or more than one.
    """
    runs = list_runs(home)
    if run_id == "latest" and runs:
        return runs[0].folder
    exact = [run for run in runs if run.id == run_id]
    found = exact or [run for run in runs if run_id and run.id.startswith(run_id)]
    if len(found) == 1:
        return found[0].folder
    if found:
        raise MissingError(f"{run_id!r} is the beginning of {len(found)} runs.", hint="Write more of its id.")
    where = home or runs_home()
    raise MissingError(f"There is no run {run_id!r} in {where}.", hint="List them with `eksml-tui runs list`.")


def start_runner(
    folder: Path, *, environment: Mapping[str, str] | None = None, module: str = RUNNER_MODULE
) -> ProcessIdentity | None:
    """Start the run's runner, unless one is at work.

    Args:
        folder: The run's folder.
        environment: Given to the process and not stored, e.g. credentials. Our own `AWS_` variables are passed on,
            too. Neither is if it is for another AWS endpoint than the run's.
        module: What to run; with the folder as its only argument.

    Returns:
        The new process, or `None` if there was nothing to start.

    Raises:
        ToolError: It could not be started.
    """
    secrets = referenced_environment(load_run(folder).parameters.values())
    stored = load_environment(folder)
    endpoint = stored.get(ENDPOINT_VARIABLE, "")
    given = dict(environment or {})
    if given.get(ENDPOINT_VARIABLE, endpoint) != endpoint:
        given = {}

    def start() -> ProcessIdentity:
        return spawn_detached(
            [*_scope(folder.name), *own_module(module, str(folder))],
            output=runner_log_path(folder),
            directory=folder,
            extra_environment=stored | given | secrets,
            without_aws=os.environ.get(ENDPOINT_VARIABLE, "") != endpoint,
        )

    return grant_lease(journal_path(folder), SystemClock(), start)


def resume_interrupted(*, environment: Mapping[str, str] | None = None, home: Path | None = None) -> list[str]:
    """Start a runner for every run that a crash or a reboot has interrupted, of the AWS endpoint that we work with.

    Args:
        environment: See `start_runner`.
        home: The folder of all runs, if not the usual one.

    Returns:
        A sentence for each, for telling the operator; also of a run whose runner could not be started.
    """
    endpoint = dict(environment or {}).get(ENDPOINT_VARIABLE, os.environ.get(ENDPOINT_VARIABLE, ""))
    told = []
    for run in list_runs(home):
        if not run.is_interrupted:
            continue
        try:
            if load_environment(run.folder).get(ENDPOINT_VARIABLE, "") != endpoint:
                continue
            if start_runner(run.folder, environment=environment) is not None:
                told.append(f"Run {run.id} was interrupted and goes on.")
        except ConsoleError as error:
            told.append(f"Run {run.id} was interrupted and cannot go on: {error.sentence()}")
    return told


def wish(
    folder: Path,
    kind: WishKind,
    *,
    plan_hash: str = "",
    delete_data: bool = False,
    clock: Clock | None = None,
    start: bool = True,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Write a wish into the run's journal and see to it that a runner acts on it.

    Args:
        folder: The run's folder.
        kind: What is wished.
        plan_hash: With `APPROVE`: the plan that was looked at.
        delete_data: With `TEARDOWN`: whether stages that hold data may be undone too.
        clock: Stamps the record.
        start: Start a runner if none is at work.
        environment: For a runner that has to be started; see `start_runner`.

    Raises:
        RefusedError: The run is in no state for it; nothing was written.
        JournalError: The journal cannot be written.
    """
    refuse_unfit(load_run(folder), kind, plan_hash=plan_hash)
    journal = Journal(journal_path(folder), clock or SystemClock())
    try:
        journal.append(Wish(wish=kind, plan_hash=plan_hash, delete_data=delete_data))
    finally:
        journal.close()
    if start:
        start_runner(folder, environment=environment)


def refuse_unfit(view: RunView, kind: WishKind, *, plan_hash: str = "") -> None:
    """Refuse a wish that the run cannot follow.

    Raises:
        RefusedError: With the reason.
    """
    reason = _unfit_approval(view, plan_hash) if kind is WishKind.APPROVE else _unfit_wish(view, kind)
    if reason:
        raise RefusedError(f"Run {view.id} cannot be asked to {kind.value}: {reason}.")


def _unfit_approval(view: RunView, plan_hash: str) -> str:
    waiting = [stage for stage in view.stages if stage.state is StageState.AWAITING_APPROVAL]
    offered = {stage.plan.plan_hash for stage in waiting if stage.plan}
    if not offered:
        return "no plan waits for approval"
    return "" if plan_hash in offered else "the plan has changed since it was shown; look at it again"


def _unfit_wish(view: RunView, kind: WishKind) -> str:
    is_over = f"it is {view.state.value}"
    match kind:
        case WishKind.CANCEL | WishKind.PAUSE | WishKind.UNPAUSE:
            return is_over if view.goal is not Goal.FORWARD or view.state is RunState.SUCCEEDED else ""
        case WishKind.PARK:
            return is_over if view.goal is Goal.TEARDOWN else ""
        case WishKind.RETRY:
            return "" if view.goal is not Goal.FORWARD or view.state is RunState.FAILED else "nothing has failed"
    return ""


def _scope(run_id: str) -> list[str]:
    """A systemd scope of the user's own, so that the end of a login session does not end the run."""
    if not shutil.which("systemd-run") or not os.environ.get("XDG_RUNTIME_DIR") or not _has_user_manager():
        return []
    return ["systemd-run", "--user", "--scope", "--quiet", "--collect", f"--description=eksml-tui run {run_id}"]


def _has_user_manager() -> bool:
    return (Path(os.environ["XDG_RUNTIME_DIR"]) / "systemd" / "private").exists()
