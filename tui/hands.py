"""What verbs may do with the app: the verbs themselves do not know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.screens.hands import ScreenHands
from tui.screens.shell import ShellScreen

if TYPE_CHECKING:
    from actions.fleet.facts import PodFacts
    from tui.app import ConsoleApp
    from tui.modals.viewer import Viewer


def hands_of(app: ConsoleApp) -> ScreenHands:
    """The hands that work on `app`."""

    def show(viewer: Viewer) -> None:
        app.push_screen(viewer)

    def leave_front() -> bool:
        if len(app.screen_stack) <= 1:
            return False
        app.pop_screen()
        return True

    def open_shell(pod: PodFacts, container: str) -> None:
        app.push_screen(ShellScreen(app.desk, pod, container))

    return ScreenHands(show, app.say, app.host.save_screen, app.exit, leave_front, open_shell)
