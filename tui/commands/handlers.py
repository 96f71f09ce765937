"""The handler of every command, by id, and the app actions that handlers are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from actions.base.errors import ConfigError
from actions.base.executors import in_thread
from tui.commands.dispatcher import AppActions, Handler, plugin_confirmation
from tui.commands.objects import ForwardCommand, ObjectCommands
from tui.commands.runs import ResultsCommands, RunCommands, TerraformCommands
from tui.commands.view import ContextCommand, ViewCommands, WatchCommand
from tui.feeds.run_actions import RunActions
from tui.feeds.services import ConsoleServices
from tui.screens.confirm import ConfirmModal
from tui.screens.shell import ShellScreen
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from actions.fleet.facts import PodFacts
    from tui.base_app import TypeAheadApp


def handlers_for(
    workspace: PaneWorkspace, services: ConsoleServices, actions: RunActions, app_actions: AppActions
) -> dict[str, Handler]:
    """One for every command."""
    return {
        **ViewCommands(workspace, services, app_actions).handlers(),
        **ObjectCommands(workspace, services, show=app_actions.show, open_shell=app_actions.open_shell).handlers(),
        **ContextCommand(services, app_actions).handlers(),
        **ForwardCommand(services, app_actions).handlers(),
        **ResultsCommands(services, app_actions).handlers(),
        **TerraformCommands(services, actions, app_actions).handlers(),
        **WatchCommand(workspace, services).handlers(),
        **RunCommands(workspace, services, actions, say=app_actions.say).handlers(),
    }


def app_actions(app: TypeAheadApp[Any], services: ConsoleServices, *, save: Callable[[Path], None]) -> AppActions:
    """Return what commands may do with `app`.

    Args:
        app: The console.
        desk: The data behind its panes.
        save: Writes the screen to a file.
    """

    def show(screen: Screen[None]) -> None:
        app.push_screen(screen)

    def leave_front() -> bool:
        if len(app.screen_stack) <= 1:
            return False
        app.pop_screen()
        return True

    def open_shell(pod: PodFacts, container: str) -> None:
        app.push_screen(ShellScreen(services, pod, container))

    return AppActions(show, app.say, save, app.exit, leave_front, open_shell, partial(allow_plugin, app, services))


async def begin_when_allowed(
    app: TypeAheadApp[Any], services: ConsoleServices, error: ConfigError, begin: Callable[[], Awaitable[None]]
) -> None:
    """Begin once the operator has allowed the exec plugin that is wanted; end with any other error, or a no."""
    if await allow_plugin(app, services, error):
        await begin()
    else:
        app.exit(error)


async def allow_plugin(app: TypeAheadApp[Any], services: ConsoleServices, error: ConfigError) -> bool:
    """Ask whether a kubeconfig's exec plugin may be started, if that is what is wrong. A script asks nobody.

    To be called in a worker.
    """
    from actions.cluster.auth.exec_plugins import PluginUnconfirmedError, confirm

    if not isinstance(error, PluginUnconfirmedError) or not services.settings.has_operator:
        return False
    if not await app.put_in_front(ConfirmModal(plugin_confirmation(error.request))):
        return False
    await in_thread("plugin", confirm, error.request)
    return True
