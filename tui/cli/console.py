"""`eksml-tui` itself: the console on a terminal, or a script that runs in it without one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing, suppress
from datetime import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError, UsageError
from actions.base.files import require_folder, require_writable, state_folder
from tui.cli.streams import ProgressWriter, places_text, speaks_unicode
from tui.cli.target import ChosenTarget, chosen_target, require_target

if TYPE_CHECKING:
    from actions.command.arguments import LaunchArguments
    from actions.run.limits.options import LimitTexts
    from actions.script.artifacts import Artifacts
    from actions.script.model import Script
    from actions.script.report import Report
    from tui.script_driver import ScriptDriver
    from tui.settings.keymap import Keymap
    from tui.settings.settings import AlarmSettings, ConsoleSettings


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
    if options.record:
        from actions.script.recording import require_new
        from tui.settings.settings import form_of

        form_of(options.record, {".yaml": "script", ".yml": "script"})
        require_new(options.record)
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
        options.nodes = options.nodes or script.nodes
    run_id = _run_id_of(options)
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3 in this process: tokens, and the profile of its credentials
    if script is None or artifacts is None:
        return _open(options, chosen, run_id)
    require_target(chosen.target, may_ask=False)  # on a terminal, the console does both after its first frame
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

    return load_script(options.script, check_place=artifacts.check, check_launch=_launch_check(options))


def _launch_check(options: Namespace) -> Callable[[LaunchArguments], None]:
    """Return a check that blueprint, preset and parameters of a launch exist: not hours later."""

    def check(launch: LaunchArguments) -> None:
        from actions.blueprint.catalogue import Catalogue
        from actions.blueprint.parameters import require_known

        blueprint = Catalogue.usual(options.blueprints).find(launch.blueprint)
        require_known(blueprint, launch.set, preset=launch.preset)

    return check


def _run_id_of(options: Namespace) -> str | None:
    if not options.run:
        return None
    from actions.run.client import RunMissingError, find_run

    try:
        return find_run(options.run).name
    except RunMissingError as error:
        from tui.cli.run_verbs.remote_runs import run_elsewhere

        return run_elsewhere(options, error).id


def _require_terminal() -> None:
    if os.environ.get("TEXTUAL_DRIVER"):
        from tui.base_app import is_in_browser

        if is_in_browser(os.environ):
            return
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
    from tui.settings.settings import form_of

    for file, form in ((options.report, "json"), (options.junit, "xml"), (options.summary, "md")):
        if file and file != Path("-"):
            form_of(file, {f".{form}": form})
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
    from msgspec.structs import replace

    from tui.app import ConsoleApp
    from tui.shutdown import ExitDeadline

    settings = replace(_settings(options, chosen, run_id, watch=watch), layout_folder=state_folder())
    app = ConsoleApp(settings, exit_deadline=ExitDeadline())
    outcome = run_to_the_end(app.run_async(mouse=not options.no_mouse))
    if isinstance(outcome, ConsoleError):
        raise outcome
    return FAILED if app.return_code is None else app.return_code


class _Performance:
    """One script that is played, and what it has come to when the console does not return that itself.

    Args:
        script: The script.
        artifacts: The files that it may write.
        print_line: See `Player`.
    """

    def __init__(self, script: Script, artifacts: Artifacts, print_line: Callable[[str], None]) -> None:
        self._script = script
        self._artifacts = artifacts
        self._print_line = print_line
        self._has_ended = asyncio.Event()
        self.report: Report | None = None

    async def play(self, driver: ScriptDriver) -> Report:
        """Play it on the console of this driver."""
        from actions.script.play import Player
        from actions.script.run_observer import RunObserver

        clock = SystemClock()
        try:
            await driver.show_named_run()
            with closing(RunObserver(driver, clock)) as run:
                self.report = await Player(
                    self._script,
                    driver,
                    run,
                    clock=clock,
                    print_line=self._print_line,
                    artifacts=self._artifacts,
                    passed=driver.step_passed,
                ).play()
                return self.report
        finally:
            self._has_ended.set()

    async def wait_for_its_end(self) -> None:
        """Return when it has been played, or after five seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_ended.wait(), _END_SECONDS)


def _play(options: Namespace, chosen: ChosenTarget, script: Script, artifacts: Artifacts, run_id: str | None) -> int:
    from msgspec.structs import replace

    from tui.app import ConsoleApp

    progress = ProgressWriter(sys.stderr if options.report == _STDOUT else sys.stdout)

    def print_line(line: str) -> None:
        if not options.visible:
            progress.write(line)

    performance = _Performance(script, artifacts, print_line)

    async def session() -> Report | None:
        # without --run, only a run that the script launches is shown: its `always` would tear another one down
        settings = replace(_settings(options, chosen, run_id or ""), has_operator=False, write_file=artifacts.write)
        app = ConsoleApp(settings, play=performance.play)
        size = None if options.visible else script.size
        playing = asyncio.create_task(app.run_async(headless=not options.visible, size=size))
        _stop_on_signals(lambda: app.stop_playing() if app.play_began.is_set() else playing.cancel())
        await require_begin(playing, app.play_began, seconds=script.deadline_seconds)
        outcome = await playing
        if outcome is None and app.play_began.is_set():  # by a defect: `always` is still played
            await performance.wait_for_its_end()
        return outcome

    try:
        report = run_to_the_end(session())
    except asyncio.CancelledError:
        return INTERRUPTED
    if report is None:
        sentence = "The console ended before the script did."
        if performance.report is None:
            raise ConfigError(sentence, hint="Run it again with --debug.")
        sys.stderr.write(f"eksml-tui: {sentence} `eksml-tui runs list` shows what goes on.\n")
        report = performance.report
    _write_reports(options, report)
    print_line(f"{report.result} after {report.seconds:.1f} s")
    return report.exit_code


_STDOUT = Path("-")


def _write_reports(options: Namespace, report: Report) -> None:
    from actions.script.report import report_json, write_junit, write_report, write_summary

    if options.report == _STDOUT:
        sys.stdout.buffer.write(report_json(report))
    elif options.report:
        write_report(report, options.report)
    if options.junit:
        write_junit(report, options.junit)
    if options.summary:
        write_summary(report, options.summary)


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


def _keymap() -> Keymap:
    """Load the operator's own keys, and those of plugins."""
    from tui.settings.keymap import NO_CHANGES, keymap_path, plugin_files

    keymap = NO_CHANGES  # few have such files, and only they import what reads YAML
    if keymap_path().exists():
        from tui.settings.keyfile import load_keymap

        keymap = load_keymap()
    if files := plugin_files():
        from tui.settings.plugins import with_plugins

        keymap = with_plugins(keymap, files)
    return keymap


def _settings(options: Namespace, chosen: ChosenTarget, run_id: str | None, *, watch: str = "") -> ConsoleSettings:
    from actions.run.alarms.ways import SILENCED
    from tui.settings.settings import ConsoleSettings, DemoBadge

    return ConsoleSettings(
        target=chosen.target,
        contexts=chosen.contexts,
        readonly=options.readonly,
        blueprint_folders=_blueprint_folders(options.blueprints),
        run_environment={**chosen.environment, **({SILENCED: "off"} if options.script else {})},
        demo=DemoBadge(chosen.demo_speed) if chosen.demo_speed is not None else None,
        store=options.store,
        prometheus=options.prometheus,
        region=chosen.region,
        profile=chosen.profile,
        open_run=run_id,
        watch=watch,
        keymap=_keymap(),
        keeps_snapshots=options.keep_snapshots and not options.script,
        theme=options.theme,
        aliases=options.aliases,
        filters=options.filters,
        alarms=_alarm_settings(options),
        limits=_limits(options),
        record=options.record,
        has_clipboard=not options.no_clipboard,
        is_ascii=options.ascii or not speaks_unicode(os.environ),
    )


def _limits(options: Namespace) -> LimitTexts | None:
    """Return the limits of config.yaml for launches, and how they end a run; `None` for none and the usual end."""
    names = ("until", "budget", "max_hourly", "before_credentials_end", "before_capacity_end", "idle", "watchdog")
    has_any = any(getattr(options, f"limit_{name}", None) for name in names)
    if not has_any and getattr(options, "limit_action", "park") == "park":
        return None
    from tui.cli.run_verbs.limits import texts_of

    return texts_of(options, "limit")


def _alarm_settings(options: Namespace) -> AlarmSettings:
    from actions.run.alarms.ways import AlarmWays, hours_of
    from tui.settings.settings import AlarmSettings, DesktopNotice

    quiet = hours_of(options.quiet_hours) or (time(0), time(0))
    ways = AlarmWays(tuple(options.alarm_hook), getattr(options, "alarm_webhook", None), *quiet)
    return AlarmSettings(
        bell=options.bell, desktop=DesktopNotice(options.desktop), repeat_minutes=options.alarm_repeat, ways=ways
    )


def _blueprint_folders(extra: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders to search for blueprints; empty for the usual ones, which need no import yet."""
    if not extra:
        return ()
    from actions.blueprint.catalogue import Catalogue

    return Catalogue.usual(extra).folders
