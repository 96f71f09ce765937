"""Commands that place panes: layouts, split, resize, swap, close, equalize, zoom, focus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from actions.base.errors import ParameterError
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.screens.viewer import Viewer
from tui.screens.workspace import LAYOUTS, PaneWorkspace


class PaneCommands:
    """The handlers of commands that place panes.

    Args:
        workspace: The panes.
        actions: Shows notifications, and the list of layouts.
    """

    def __init__(self, workspace: PaneWorkspace, actions: AppActions) -> None:
        self._workspace = workspace
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {
            "layout": self._layout,
            "split": self._split,
            "resize": self._resize,
            "swap": self._swap,
            "close": without_arguments(self._workspace.close),
            "equalize": without_arguments(self._workspace.equalize),
            "zoom": without_arguments(self._workspace.zoom),
            "focus": self._focus,
        }

    async def _layout(self, arguments: args.LayoutArguments) -> None:
        layouts, saved = self._workspace.layouts, arguments.saved
        if saved and arguments.name not in ("save", "delete"):
            raise ParameterError(f"layout cannot use {saved!r}.", hint="Type layout NAME, or layout save NAME.")
        match arguments.name:
            case "save":
                await layouts.save(saved, self._workspace.split.arrangement)
                self._app.notify_plainly(f"Saved. Show it with :layout {saved}.")
            case "delete":
                await layouts.delete(saved)
                self._app.notify_plainly(f"The layout {saved} is deleted.")
            case "list":
                await layouts.read()
                self._app.show(Viewer("layouts", _list_of(layouts.names)))
            case name:
                await self._workspace.arrange_saved(name)

    async def _split(self, arguments: args.SplitArguments) -> None:
        self._workspace.cut(arguments.direction, arguments.pane)

    async def _resize(self, arguments: args.ResizeArguments) -> None:
        self._workspace.resize(arguments.direction, arguments.cells)

    async def _swap(self, arguments: args.SwapArguments) -> None:
        self._workspace.swap(arguments.pane)

    async def _focus(self, arguments: args.FocusArguments) -> None:
        self._workspace.focus(arguments.pane)


def without_arguments(act: Callable[[], object]) -> Callable[[args.NoArguments], Awaitable[None]]:
    """Return a handler that takes no arguments."""

    async def handler(_arguments: args.NoArguments) -> None:
        act()

    return handler


def _list_of(saved: tuple[str, ...]) -> str:
    lines = ["Of the console", "", *(f"  {name}" for name in LAYOUTS), ""]
    if not saved:
        return "\n".join([*lines, "None is saved. Save the panes as they are with :layout save NAME."])
    return "\n".join([*lines, "Saved", "", *(f"  {name}" for name in saved), "", "Show one with :layout NAME."])
