"""The handlers of all commands, by id, and the app actions that they are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from actions.base.errors import ConfigError
from actions.base.executors import in_thread
from tui.commands.app_actions import AppActions, Handler
from tui.commands.confirmations import plugin_confirmation
from tui.commands.objects import ForwardCommand, ObjectCommands
from tui.commands.runs import ResultsCommands, RunCommands, TerraformCommands
from tui.commands.screenshot import save_screen
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
    app: TypeAheadApp[Any], services: ConsoleServices, workspace: PaneWorkspace, run_actions: RunActions
) -> dict[str, Handler]:
    """Return the handler of every command, by id."""
    actions = app_actions(app, services)
    return {
        **ViewCommands(workspace, services, actions).handlers(),
        **ObjectCommands(workspace, services, actions).handlers(),
        **ContextCommand(services, actions).handlers(),
        **ForwardCommand(services, actions).handlers(),
        **ResultsCommands(services, actions).handlers(),
        **TerraformCommands(services, run_actions, actions).handlers(),
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

    def open_shell(pod: PodFacts, container: str) -> None:
        app.push_screen(ShellScreen(services, pod, container))

    return AppActions(
        show=show,
        notify_plainly=app.notify_and_release,
        save_screen=partial(save_screen, app, services.settings),
        leave=app.exit,
        close_front=close_front,
        open_shell=open_shell,
        allow_plugin=partial(allow_plugin, app, services),
    )


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
