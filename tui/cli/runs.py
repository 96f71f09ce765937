"""`eksml-tui runs`: list, inspect and control the runs launched from this machine.

A verb that needs more than the journal imports it: most others are used many times while a run goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.clock import SystemClock, time_of_day
from actions.base.errors import ConfigError, ConsoleError, MissingError, RefusedError, UsageError
from actions.base.untrusted import plain_text
from actions.run.client import (
    RunMissingError,
    RunSummary,
    find_run,
    list_runs,
    load_run,
    resume_interrupted,
    resume_run,
    send_request,
)
from actions.run.journal.folder import ENDPOINT_VARIABLE, load_environment
from actions.run.journal.reader import RunReader
from actions.run.output.reader import OutputLine, OutputReader
from actions.run.report import run_json, run_table, runs_json, runs_table
from actions.run.state.planner import is_watched
from actions.run.state.records import RequestKind
from actions.run.state.view import OVER, RunView, StageState
from tui.cli.sandbox import demos
from tui.cli.tables.output import print_table
from tui.cli.target import asked, aws_environment

if TYPE_CHECKING:
    from actions.run.results import Copy

_FOLLOW_SECONDS = 0.25
_STORES_SECONDS = 3.0
"""Time for the stores of parked runs to name another machine."""
_RUN_FIELDS = (
    "id", "folder", "state", "stage", "blueprint", "title", "cluster", "created_at", "began_at", "ended_at",
    "last_loss", "spent.usd", "spent.usd_per_hour", "spent.unpriced", "spent.by_use",
    "spent.simulated", "limits", "leftovers", "unknown", "error", "notices",
)  # fmt: skip
_CURVES = {
    ".txt": "plot",
    ".svg": "svg",
    ".csv": "csv",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
_LOOKING = ("list", "show", "logs", "terraform", "compare", "curves", "archive")
_RESUMING = ("list", "show", "logs", "compare", "curves", "results", "terraform")
"""Verbs that restart runners which have died. Others start one themselves, or must not find one just started."""


def run(options: Namespace) -> int:
    """Carry out one verb.

    Raises:
        ConsoleError: It cannot be done.
    """
    if options.readonly and options.verb not in _LOOKING:
        raise RefusedError(f"runs {options.verb} would change a run, and --readonly is set.", hint="Omit --readonly.")
    verbs: dict[str, Callable[[Namespace], int]] = {
        "list": _list,
        "show": _show,
        "logs": _logs,
        "compare": _compare,
        "curves": _curves,
        "resume": _resume,
        "results": _results,
        "export": _export,
        "approve": _approve,
        "teardown": _teardown,
        "terraform": _terraform,
        "waive": _waive,
        "cancel": lambda chosen: _wish(chosen, RequestKind.CANCEL),
        "park": lambda chosen: _wish(chosen, RequestKind.PARK),
        "pause": lambda chosen: _wish(chosen, RequestKind.PAUSE),
        "clean": _stored,
        "takeover": _take_over,
        "limit": _limit,
        "rm": _stored,
        "archive": _stored,
    }
    if not options.readonly and options.verb in _RESUMING:
        _resume_interrupted(options)
    try:
        return verbs[options.verb](options)
    except RunMissingError as error:
        if not getattr(options, "run", ""):
            raise
        from tui.cli.run_verbs.remote_runs import show_or_refuse

        return show_or_refuse(options, error)


def _stored(options: Namespace) -> int:
    from tui.cli.run_verbs.storage import VERBS

    return VERBS[options.verb](options)


def _resume_interrupted(options: Namespace) -> None:
    """Restart runners that have died, where possible; print a sentence about each on stderr."""
    served = {demo.environment[ENDPOINT_VARIABLE] for demo in demos()}
    try:
        sentences = resume_interrupted(environment=_environment(options), endpoints=served, needs_room=True)
    except ConsoleError:
        return  # no run can be listed: the verb's own error explains it
    for sentence in sentences:
        _warn(sentence)


def _list(options: Namespace) -> int:
    if options.of_store is not None or options.cluster:
        from tui.cli.run_verbs.remote_runs import print_known_runs

        return print_known_runs(options)
    runs = _listed(options)
    is_short = sys.stdout.isatty()
    now = SystemClock().now().timestamp()
    print_table(
        options.output,
        table=lambda: runs_table(runs, now=now, is_short=is_short),
        document=lambda: runs_json(runs),
        fields=_RUN_FIELDS,
    )
    return 0


def _listed(options: Namespace) -> list[RunSummary]:
    """Return the runs of this machine; the stores of those without a runner name who has taken them over."""
    runs = list_runs()
    if options.readonly or not any(run.store for run in runs):
        return runs
    from actions.run.store.elsewhere import note_taken

    os.environ.update(_environment(options))  # for boto3
    return list_runs() if asyncio.run(note_taken(runs, at_most_seconds=_STORES_SECONDS)) else runs


def _show(options: Namespace) -> int:
    if options.of_store is not None:
        from tui.cli.run_verbs.remote_runs import copied

        folder = copied(options, options.run)
    else:
        folder = find_run(options.run)
    if options.commands:
        from actions.run.engine.live_backend import runbook

        sys.stdout.write(runbook(folder))
        return 0
    view = load_run(folder)
    now = SystemClock().now().timestamp()
    print_table(
        options.output,
        table=lambda: run_table(view, now=now),
        document=lambda: run_json(view, now=now),
        rows="stages",
    )
    return 0


def _compare(options: Namespace) -> int:
    from actions.run.comparison import comparison_csv, comparison_json, comparison_table, metric_to_compare, read_run

    folders = list(dict.fromkeys(_folder_here_or_copied(options, run) for run in options.runs))
    if len(folders) < 2:
        raise UsageError("runs compare needs two runs.", hint="List them with `eksml-tui runs list`.")
    runs = [read_run(folder) for folder in folders]
    metric = metric_to_compare(runs, options.metric)
    match options.output:
        case "plot":
            from tui.cli.tables.plots import comparison_plot

            sys.stdout.writelines(f"{line}\n" for line in comparison_plot(runs, metric))
        case "csv":
            sys.stdout.write(comparison_csv(runs, metric))
        case form:
            print_table(
                form,
                table=lambda: comparison_table(runs, metric),
                document=lambda: comparison_json(runs, metric, has_samples=form != "wide"),
                rows="runs",
            )
    return 0


def _folder_here_or_copied(options: Namespace, run: str) -> Path:
    """Return the folder of a run of this machine; with `--store` also of a copy, of one that is not here."""
    try:
        return find_run(run)
    except RunMissingError:
        if options.of_store is None:
            raise
    from tui.cli.run_verbs.remote_runs import copied

    return copied(options, run)


def _curves(options: Namespace) -> int:
    from actions.run.comparison import curves_json, read_run, series_csv
    from tui.cli.tables.output import formatted
    from tui.cli.tables.plots import run_plot, run_svg
    from tui.settings.settings import form_of, write_file

    if options.of_store is not None:
        from tui.cli.run_verbs.remote_runs import copied

        run = read_run(copied(options, options.run))
    else:
        run = read_run(find_run(options.run))
    unknown = [metric for metric in options.metric if metric not in run.metrics()]
    if unknown:
        raise MissingError(f"Run {run.id} has no {unknown[0]!r}.", hint=f"It has {', '.join(run.metrics()) or 'none'}.")
    output = options.output or "plot"
    if options.file is not None:
        output = form_of(options.file, _CURVES, options.output)
    match output:
        case "csv":
            data = series_csv({metric: run.series(metric) for metric in options.metric or run.metrics()}).encode()
        case "json" | "yaml":
            data = formatted(output, curves_json(run, options.metric or run.metrics())).encode()
        case "svg":
            data = run_svg(run, options.metric).encode()
        case _:
            data = "".join(f"{line}\n" for line in run_plot(run, options.metric)).encode()
    if options.file is None:
        sys.stdout.write(data.decode())
    else:
        write_file(options.file, data)
    return 0


def _results(options: Namespace) -> int:
    from actions.run.results import list_results, results_json, results_table

    folder = _entered(options)
    listing = asyncio.run(list_results(folder, SystemClock()))
    print_table(
        options.output,
        table=lambda: results_table(listing),
        document=lambda: results_json(listing),
        rows="files",
    )
    return 0


def _export(options: Namespace) -> int:
    from actions.run.results import export_results

    folder = _entered(options)
    begun: list[Copy] = []

    def begin(copy: Copy, sentence: str) -> None:
        begun.append(copy)
        _say(sentence)

    done = export_results(
        folder,
        options.to,
        SystemClock(),
        on_line=_say,
        on_begin=begin,
        service_account=options.service_account,
        is_detached=options.detach,
    )
    try:
        summary = asyncio.run(done)
    except KeyboardInterrupt:
        if begun:
            _say(f"\n{begun[0].ref.describe()} continues; run the same command again to see its progress.")
        raise
    if summary:
        _say(summary)
    return 0


def _entered(options: Namespace) -> Path:
    """Return the run's folder; point this process at the AWS account that the run was launched into."""
    folder = find_run(options.run)
    os.environ.update({**load_environment(folder), **_environment(options)})
    return folder


def _resume(options: Namespace) -> int:
    folder = find_run(options.run)
    _to_change(options)
    _require_yes(options, load_run(folder))
    if options.without_store:
        from actions.run.store.access import note_vouched

        note_vouched(folder)
        _say(f"An answer of the store of {folder.name} is not waited for.")
    said = resume_run(
        folder,
        stage=options.stage,
        takeover=options.takeover,
        environment=_environment(options),
    )
    _say(said)
    return 0


def _require_yes(options: Namespace, view: RunView) -> None:
    """Print what follows a resume; ask, if it buys something.

    Raises:
        UsageError: It costs money, and there is no terminal to ask on.
        RefusedError: Nothing follows, or the answer was no.
    """
    from actions.run.resume import resume_of

    resume = resume_of(view, options.stage)
    if resume.request is None:
        return
    sys.stderr.write("".join(f"{line}\n" for line in resume.lines()))
    if not resume.rate or view.is_cost_simulated or options.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("A resume costs money, and without a terminal it cannot be confirmed.", hint="Add --yes.")
    if not asked(f"Resume {view.id}?"):
        raise RefusedError("Nothing was resumed.")


def _take_over(options: Namespace) -> int:
    from tui.cli.run_verbs.remote_runs import take_over

    return take_over(options)


def _to_change(options: Namespace) -> Path:
    """Return the run's folder, after its store was asked for another machine; unless a runner here would know it."""
    folder = find_run(options.run)
    if load_run(folder).store:
        from tui.cli.run_verbs.remote_runs import note_if_taken

        note_if_taken(folder, _environment(options))
    return folder


def _wish(options: Namespace, kind: RequestKind) -> int:
    folder = _to_change(options)
    in_the_way = send_request(folder, kind, environment=_environment(options))
    _say(f"Asked run {folder.name} to {kind.value}.")
    _warn(in_the_way)
    return 0


def _limit(options: Namespace) -> int:
    from tui.cli.run_verbs.limits import run_limit

    return run_limit(options)


def _approve(options: Namespace) -> int:
    folder = _to_change(options)
    waiting = [stage for stage in load_run(folder).stages if stage.state is StageState.AWAITING_APPROVAL and stage.plan]
    for stage in waiting:
        if stage.plan and (not options.plan or stage.plan.plan_hash.startswith(options.plan)):
            given = _environment(options)
            in_the_way = send_request(folder, RequestKind.APPROVE, plan_hash=stage.plan.plan_hash, environment=given)
            _warn(in_the_way)
            plan = stage.plan
            counts = f"{plan.add} to add, {plan.change} to change, {plan.destroy} to destroy"
            _say(f"Approved the plan of {stage.id}: {counts}.")
            return 0
    raise RefusedError(f"No {'such ' if options.plan else ''}plan of run {folder.name} is waiting for approval.")


def _teardown(options: Namespace) -> int:
    folder = find_run(options.run)
    cluster = load_run(folder).cluster.name
    if options.confirm != cluster:
        raise ConfigError(
            f"Tearing down run {folder.name} removes what it made in cluster {cluster}.",
            hint=f"Add --confirm {cluster} to confirm.",
        )
    in_the_way = send_request(
        _to_change(options),
        RequestKind.TEARDOWN,
        delete_data=options.delete_data,
        even_if_shared=options.even_if_shared,
        environment=_environment(options),
    )
    _say(f"Asked run {folder.name} to tear down what it made; watch it with: eksml-tui runs show {folder.name}")
    _warn(in_the_way)
    return 0


def _terraform(options: Namespace) -> int:
    from actions.run.terraform_changes import terraform_json, terraform_report, terraform_table

    folder = find_run(options.run)
    report = terraform_report(folder, load_run(folder))
    print_table(
        options.output, table=lambda: terraform_table(report, folder.name), document=lambda: terraform_json(report)
    )
    return 0


def _waive(options: Namespace) -> int:
    from actions.run.terraform_changes import waive

    folder = find_run(options.run)
    stage = waive(folder, options.address, confirm=options.confirm, stage=options.stage).stage
    _say(f"Waived {options.address} of {stage}; continue with: eksml-tui runs resume {folder.name}")
    return 0


def _logs(options: Namespace) -> int:
    folder = find_run(options.run)
    view = load_run(folder)
    stages = [stage.id for stage in view.stages if not options.stage or stage.id == options.stage]
    if not stages:
        known = ", ".join(stage.id for stage in view.stages)
        raise ConfigError(f"Run {folder.name} has no stage {options.stage!r}.", hint=f"It has {known}.")
    printer = _Printer(folder, stages)
    if not options.follow:
        printer.print_new()
        return 0
    reader = RunReader(folder)
    try:
        _follow(printer, reader)
    finally:
        reader.close()
    return 0


def _follow(printer: _Printer, reader: RunReader) -> None:
    view: RunView | None = None
    while True:
        view = reader.poll() or view
        is_over = view is not None and view.state in OVER and not (reader.runner_alive and not is_watched(view))
        if not printer.print_new() and is_over:
            return
        time.sleep(_FOLLOW_SECONDS)  # noqa: TID251 - a program without a loop that polls a file


class _Printer:
    """A printer of the output of some stages, each line once."""

    def __init__(self, folder: Path, stages: list[str]) -> None:
        self._readers = {stage: OutputReader(folder, stage) for stage in stages}
        self._offsets = dict.fromkeys(stages, 0)

    def print_new(self) -> bool:
        """Print new lines; return whether there were any."""
        printed = [self._print_stage(stage, reader) for stage, reader in self._readers.items()]
        sys.stdout.flush()
        return any(printed)

    def _print_stage(self, stage: str, reader: OutputReader) -> bool:
        start = self._offsets[stage]
        while True:
            lines, end = reader.lines(self._offsets[stage])
            sys.stdout.writelines(map(_printed, lines))
            if end == self._offsets[stage]:
                return end != start
            self._offsets[stage] = end


def _printed(line: OutputLine) -> str:
    """Format a line: with colours for a terminal; plain, and with only the last state of a bar, for a file."""
    moment = time_of_day(line.at_ns / 1e9)
    text = line.text if sys.stdout.isatty() else plain_text(line.text.rstrip("\r").rpartition("\r")[2])
    return f"{moment} {line.pod} {text}\n"


def _environment(options: Namespace) -> dict[str, str]:
    """Return the variables that the command line gives a new runner; a run of the demo has its own."""
    return {} if options.demo else aws_environment(options)


def _warn(text: str) -> None:
    if text:
        sys.stderr.write(f"eksml-tui: {text}\n")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
