"""The handlers of all commands, by id, and the app actions that they are given."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported
from textual.screen import Screen

from actions.base.errors import ConfigError, RefusedError, ToolError
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.process import run_in_terminal
from tui.commands.app_actions import AppActions, Handler
from tui.commands.changes import ObjectChanges
from tui.commands.charts import CurveCommands
from tui.commands.confirmations import plugin_confirmation
from tui.commands.edit import EditCommand
from tui.commands.kinds import KindCommands
from tui.commands.objects import ForwardCommand, ObjectCommands
from tui.commands.plugins import PluginCommand
from tui.commands.reading import ReadingCommands
from tui.commands.runs import ResultsCommands, RunCommands, TerraformCommands
from tui.commands.screenshot import save_uncovered
from tui.commands.view import ContextCommand, PaneCommands, ViewCommands, WatchCommand
from tui.feeds.run_actions import RunActions
from tui.feeds.services import ConsoleServices
from tui.panes.clusters import title_in
from tui.screens.confirm import Confirmation, ConfirmModal
from tui.screens.shell import ShellScreen
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from actions.fleet.facts import PodFacts
    from tui.base_app import TypeAheadApp
    from tui.feeds.followed import FollowedCluster


def handlers_for(
    app: TypeAheadApp[Any], services: ConsoleServices, workspace: PaneWorkspace, run_actions: RunActions
) -> dict[str, Handler]:
    """Return the handler of every command, by id."""
    actions = app_actions(app, services)
    submit = partial(submit_line, app)
    return {
        **ViewCommands(workspace, services, actions).handlers(),
        **CurveCommands(workspace, services, actions, submit).handlers(),
        **PaneCommands(workspace).handlers(),
        **ObjectCommands(workspace, services, actions).handlers(),
        **EditCommand(workspace, services, actions).handlers(),
        **ObjectChanges(workspace, services, actions).handlers(),
        **KindCommands(workspace, services, actions).handlers(),
        **ContextCommand(services, actions).handlers(),
        **ForwardCommand(services, actions).handlers(),
        **ResultsCommands(services, actions).handlers(),
        **ReadingCommands(workspace, services, actions, app, submit).handlers(),
        **TerraformCommands(services, run_actions, actions).handlers(),
        **PluginCommand(workspace, services, actions).handlers(),
        **WatchCommand(workspace, services).handlers(),
        **RunCommands(workspace, services, run_actions, actions).handlers(),
    }


def app_actions(app: TypeAheadApp[Any], services: ConsoleServices) -> AppActions:
    """Return the actions of `app` that handlers use."""

    def show(screen: Screen[None]) -> None:
        app.push_screen(screen)

    def close_front() -> bool:
        if len(app.screen_stack) <= 1:
            return False
        app.pop_screen()
        return True

    def run_beside(work: Coroutine[Any, Any, None]) -> None:
        app.run_worker(work, group="plugins", exit_on_error=True)

    def open_shell(cluster: FollowedCluster, pod: PodFacts, container: str) -> None:
        title = title_in(services, cluster, f"{pod.key} {container}")
        app.push_screen(ShellScreen(cluster.feed, pod, container, title))

    return AppActions(
        show=show,
        notify_plainly=app.notify_and_release,
        save_screen=partial(save_uncovered, app, services.settings),
        leave=app.exit,
        close_notifications=app.close_notifications,
        withdraw_notification=app.withdraw_notification,
        close_front=close_front,
        front=lambda: app.screen,
        open_shell=open_shell,
        allow_plugin=partial(allow_plugin, app, services),
        choose_theme=app.choose_theme,
        edit_text=partial(edit_text, app),
        confirm=partial(confirm, app),
        type_line=partial(type_line, app),
        run_in_front=partial(run_in_front, app),
        run_beside=run_beside,
    )


def submit_line(app: TypeAheadApp[Any], line: str) -> None:
    """Start a command line on the console's screen, whatever is in front of it."""
    from tui.screens.console import ConsoleScreen

    console = app.screen_stack[0]
    if isinstance(console, ConsoleScreen):
        console.action_run_line(line)


async def type_line(app: TypeAheadApp[Any], text: str) -> None:
    """Open the `:` line of the console's screen with a text on it."""
    from tui.screens.console import ConsoleScreen

    console = app.screen_stack[0]
    if isinstance(console, ConsoleScreen):
        await console.action_command_line_with(text)


async def edit_text(app: TypeAheadApp[Any], text: str, argv: Sequence[str]) -> str:
    """Open a text in an editor; return it as it was saved.

    Raises:
        RefusedError: See `run_in_front`.
        ToolError: The editor failed.
    """
    with tempfile.TemporaryDirectory(prefix="eksml-tui-") as folder:
        file = Path(folder) / "object.yaml"
        file.write_text(text)
        if code := await run_in_front(app, [*argv, str(file)]):
            raise ToolError(argv, exit_code=code, tail="")
        return read_file(file).decode()


async def run_in_front(
    app: TypeAheadApp[Any], argv: Sequence[str], environment: Mapping[str, str] | None = None
) -> int:
    """Run a program that has the whole terminal; return its exit code.

    Feeds, runs and alarms go on meanwhile; keys are the program's, and nothing is painted until it has ended.

    Args:
        app: The app that gives way.
        argv: The program and its arguments.
        environment: All its variables; ours by default.

    Raises:
        RefusedError: There is no terminal, or the program cannot be started.
    """
    if app.is_headless:
        raise RefusedError(f"{argv[0]} needs a terminal.", hint="Start it from a shell.")
    code, refusal, was_unseen = 0, "", app.is_unseen
    try:
        app.is_unseen = True
        with app.suspend():
            try:
                code = await run_in_terminal(argv, environment)
            except OSError as error:  # raised through it, the terminal would stay suspended
                refusal = str(error)
            app.is_unseen = was_unseen
    except SuspendNotSupported as error:
        refusal = str(error)
    finally:
        app.is_unseen = was_unseen
    if refusal:
        raise RefusedError(f"{argv[0]} cannot be started: {refusal}.")
    return code


async def confirm(app: TypeAheadApp[Any], confirmation: Confirmation) -> bool:
    """Ask whether to go on."""
    answer: bool | None = await app.put_in_front(ConfirmModal(confirmation))
    return bool(answer)


async def begin_when_allowed(
    app: TypeAheadApp[Any], services: ConsoleServices, error: ConfigError, begin: Callable[[], Awaitable[None]]
) -> None:
    """Begin once the operator has allowed the exec plugin that `error` is about; else end the app with `error`."""
    if await allow_plugin(app, services, error):
        await begin()
    else:
        app.exit(error)


async def allow_plugin(app: TypeAheadApp[Any], services: ConsoleServices, error: ConfigError) -> bool:
    """Ask whether an exec plugin of a kubeconfig may be started, if `error` is about one. Without an operator: no.

    To be called in a worker.
    """
    from actions.cluster.auth.exec_plugins import PluginUnconfirmedError, confirm

    if not isinstance(error, PluginUnconfirmedError) or not services.settings.has_operator:
        return False
    if not await app.put_in_front(ConfirmModal(plugin_confirmation(error.request))):
        return False
    await in_thread("plugin", confirm, error.request)
    return True
