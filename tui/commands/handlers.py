"""The handler of every command, by id, and the app actions that handlers are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from actions.base.errors import ConfigError
from actions.base.executors import in_thread
from tui.commands.dispatcher import ScreenHands, Verb, plugin_question
from tui.commands.objects import ForwardVerb, ObjectVerbs
from tui.commands.runs import ResultsVerbs, RunVerbs, TerraformVerbs
from tui.commands.view import ContextVerb, ViewVerbs, WatchVerb
from tui.feeds.run_actions import RunActions
from tui.feeds.services import Desk
from tui.screens.confirm import ConfirmModal
from tui.screens.shell import ShellScreen
from tui.screens.workspace import Workspace

if TYPE_CHECKING:
    from actions.fleet.facts import PodFacts
    from tui.base_app import PatientApp


def verbs_of(workspace: Workspace, desk: Desk, actions: RunActions, hands: ScreenHands) -> dict[str, Verb]:
    """One for every command."""
    return {
        **ViewVerbs(workspace, desk, hands).verbs(),
        **ObjectVerbs(workspace, desk, show=hands.show, open_shell=hands.open_shell).verbs(),
        **ContextVerb(desk, hands).verbs(),
        **ForwardVerb(desk, hands).verbs(),
        **ResultsVerbs(desk, hands).verbs(),
        **TerraformVerbs(desk, actions, hands).verbs(),
        **WatchVerb(workspace, desk).verbs(),
        **RunVerbs(workspace, desk, actions, say=hands.say).verbs(),
    }


def hands_of(app: PatientApp[Any], desk: Desk, *, save: Callable[[Path], None]) -> ScreenHands:
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
        app.push_screen(ShellScreen(desk, pod, container))

    return ScreenHands(show, app.say, save, app.exit, leave_front, open_shell, partial(allow_plugin, app, desk))


async def settle(app: PatientApp[Any], desk: Desk, error: ConfigError, begin: Callable[[], Awaitable[None]]) -> None:
    """Begin once the operator has allowed the exec plugin that is wanted; end with any other error, or a no."""
    if await allow_plugin(app, desk, error):
        await begin()
    else:
        app.exit(error)


async def allow_plugin(app: PatientApp[Any], desk: Desk, error: ConfigError) -> bool:
    """Ask whether a kubeconfig's exec plugin may be started, if that is what is wrong. A script asks nobody.

    To be called in a worker.
    """
    from actions.cluster.auth.exec_plugins import PluginUnconfirmedError, confirm

    if not isinstance(error, PluginUnconfirmedError) or not desk.settings.has_operator:
        return False
    if not await app.put_in_front(ConfirmModal(plugin_question(error.request))):
        return False
    await in_thread("plugin", confirm, error.request)
    return True
