"""`eksml-tui` itself: the console on a terminal, or a script that runs in it without one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError, UsageError
from actions.base.files import require_folder, require_writable
from tui.cli.streams import ProgressWriter, places_text, speaks_unicode
from tui.cli.target import ChosenTarget, chosen_target, require_target

if TYPE_CHECKING:
    from actions.script.artifacts import Artifacts
    from actions.script.model import Script
    from tui.script_driver import ScriptDriver
    from tui.settings.settings import ConsoleSettings


ResultT = TypeVar("ResultT")

_TASKS_SECONDS = 0.5
"""For tasks that were cancelled."""


def run_to_the_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run as `asyncio.run` does, but wait half a second only for tasks that do not end when they are cancelled.

    Threads of the loop's pool are not waited for at all: `tui.shutdown.leave` does that.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda *_: None)  # of tasks that were not waited for
        with suppress(TimeoutError, asyncio.CancelledError):
            loop.run_until_complete(asyncio.wait_for(_end_tasks(), 2 * _TASKS_SECONDS))
        loop.close()
        asyncio.set_event_loop(None)


async def _end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_TASKS_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()


FAILED = 1

INTERRUPTED = 130
_END_SECONDS = 5.0
"""For a console to end, after it was cancelled."""


def run(options: Namespace) -> int:
    """Open the console, or play a script."""
    artifacts = _artifacts_of(options)
    script = _script_of(options, artifacts)
    if script is not None and options.script_check:
        sys.stdout.write(f"{script.file}: {len(script.steps)} steps, {len(script.always)} always.\n")
        return 0
    if script is None or artifacts is None:
        _require_terminal()
    else:
        _require_writable_results(options)
        if options.visible:
            _require_cursor_addressing()
    run_id = _run_id_of(options)
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3 in this process: tokens, and the profile of its credentials
    if script is None or artifacts is None:
        return _open(options, chosen, run_id)
    require_target(
        chosen.target, may_ask=False
    )  # on a terminal, the console does this and the next step after its first frame
    if not options.readonly:
        from actions.run.client import resume_interrupted

        for sentence in resume_interrupted(environment=chosen.environment):
            sys.stderr.write(f"eksml-tui: {sentence}\n")
    return _play(options, chosen, script, artifacts, run_id)


def _artifacts_of(options: Namespace) -> Artifacts | None:
    if not options.script:
        return None
    from actions.script.artifacts import Artifacts

    return Artifacts(options.artifacts or Path.cwd(), options.allow_write)


def _script_of(options: Namespace, artifacts: Artifacts | None) -> Script | None:
    if artifacts is None:
        return None
    from actions.script.parse import load_script

    return load_script(options.script, check_place=artifacts.check)


def _run_id_of(options: Namespace) -> str | None:
    if not options.run:
        return None
    from actions.run.client import find_run

    return find_run(options.run).name


def _require_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("The console needs a terminal.", hint="Play a script with --script FILE instead.")
    _require_cursor_addressing()


def _require_cursor_addressing() -> None:
    if not places_text(os.environ):
        name = os.environ.get("TERM", "")
        raise UsageError(
            f"The console needs a terminal that can position text, and TERM is {f'“{name}”' if name else 'not set'}.",
            hint="Set TERM to your terminal's type, such as xterm-256color, or play a script with --script FILE.",
        )


def _require_writable_results(options: Namespace) -> None:
    """Refuse files and folders of results that cannot be written, before hours are spent on the results."""
    for file in (options.report, options.junit):
        if file and file != Path("-"):
            require_writable(file)
    if options.artifacts:
        require_folder(options.artifacts)


def watch_job(options: Namespace, chosen: ChosenTarget) -> int:
    """Open the console on a job of the cluster."""
    os.environ.update(chosen.environment)
    return _open(options, chosen, None, watch=options.job)


def _open(options: Namespace, chosen: ChosenTarget, run_id: str | None, *, watch: str = "") -> int:
    from tui.gc_tuning import disable_during_startup, share_one_heap

    share_one_heap()
    disable_during_startup()
    from tui.app import ConsoleApp
    from tui.shutdown import ExitDeadline

    app = ConsoleApp(_settings(options, chosen, run_id, watch=watch), exit_deadline=ExitDeadline())
    outcome = run_to_the_end(app.run_async(mouse=not options.no_mouse))
    if isinstance(outcome, ConsoleError):
        raise outcome
    return FAILED if app.return_code is None else app.return_code


def _play(options: Namespace, chosen: ChosenTarget, script: Script, artifacts: Artifacts, run_id: str | None) -> int:
    from msgspec.structs import replace

    from actions.script.report import Report, report_json, write_junit, write_report
    from tui.app import ConsoleApp

    to_stdout = options.report == Path("-")
    progress = ProgressWriter(sys.stderr if to_stdout else sys.stdout)

    def print_line(line: str) -> None:
        if not options.visible:
            progress.write(line)

    async def play(driver: ScriptDriver) -> Report:
        from actions.script.play import Player
        from actions.script.run_observer import RunObserver

        clock = SystemClock()
        await driver.show_named_run()
        with closing(RunObserver(driver, clock)) as run:
            player = Player(script, driver, run, clock=clock, print_line=print_line, artifacts=artifacts)
            return await player.play()

    async def session() -> Report | None:
        app = ConsoleApp(
            # without --run, only a run that the script launches is shown: its `always` would tear another one down
            replace(_settings(options, chosen, run_id or ""), has_operator=False, write_file=artifacts.write),
            play=play,
        )
        size = None if options.visible else script.size
        playing = asyncio.create_task(app.run_async(headless=not options.visible, size=size))
        _stop_on_signals(lambda: app.stop_playing() if app.play_began.is_set() else playing.cancel())
        await require_begin(playing, app.play_began, seconds=script.deadline_seconds)
        return await playing

    try:
        report = run_to_the_end(session())
    except asyncio.CancelledError:
        return INTERRUPTED
    if report is None:
        raise ConfigError("The console ended before the script did.", hint="Run it again with --debug.")
    if to_stdout:
        sys.stdout.buffer.write(report_json(report))
    elif options.report:
        write_report(report, options.report)
    if options.junit:
        write_junit(report, options.junit)
    print_line(f"{report.result} after {report.seconds:.1f} s")
    return report.exit_code


async def require_begin(playing: asyncio.Task[Any], began: asyncio.Event, *, seconds: float) -> None:
    """Return when the script is being played, or when the console has ended before that.

    Args:
        playing: The task of the console.
        began: Set when the script begins.
        seconds: The longest wait.

    Raises:
        ConfigError: The script did not begin in time; the console is cancelled.
        CancelledError: The caller was cancelled.
    """
    waiting = asyncio.create_task(began.wait())
    done, _ = await asyncio.wait({playing, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not done:
        playing.cancel()
        await asyncio.wait({playing}, timeout=_END_SECONDS)
        raise ConfigError(f"The console did not begin to play within {seconds:.0f} s.", hint="Run it with --debug.")


def _stop_on_signals(stop: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)


def _settings(options: Namespace, chosen: ChosenTarget, run_id: str | None, *, watch: str = "") -> ConsoleSettings:
    from tui.settings.keymap import load_keymap
    from tui.settings.settings import ConsoleSettings, DemoBadge

    return ConsoleSettings(
        target=chosen.target,
        readonly=options.readonly,
        blueprint_folders=_blueprint_folders(options.blueprints),
        run_environment=chosen.environment,
        demo=DemoBadge(chosen.demo_speed) if chosen.demo_speed is not None else None,
        region=chosen.region,
        profile=chosen.profile,
        open_run=run_id,
        watch=watch,
        keymap=load_keymap(),
        is_ascii=options.ascii or not speaks_unicode(os.environ),
    )


def _blueprint_folders(extra: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders to search for blueprints; empty for the usual ones, which need no import yet."""
    if not extra:
        return ()
    from actions.blueprint.catalogue import Catalogue

    return Catalogue.usual(extra).folders
