"""Commands on the contents of the focused pane: copy, save, mark, search, how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from actions.base.errors import MissingError, ParameterError, RefusedError
from actions.base.executors import in_thread
from actions.base.untrusted import redact
from actions.base.wording import counted
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.feeds.services import ConsoleServices
from tui.panes.logs import LogsPane
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace
from tui.terminal.clipboard import Clipboard, Clipping, copy_out, has_browser, open_browser

_WRAPS = ("all", "none")


class ReadingCommands:
    """The handlers of `browse`, `copy`, `save`, `goto`, `search`, `set`, `axis`, `mark` and `only`.

    Args:
        workspace: The panes.
        services: The settings.
        actions: Shows notifications.
        clipboard: Sends a text to the terminal.
        submit: Starts a command line.
    """

    def __init__(
        self,
        workspace: PaneWorkspace,
        services: ConsoleServices,
        actions: AppActions,
        clipboard: Clipboard,
        submit: Callable[[str], None],
    ) -> None:
        self._submit = submit
        self._workspace = workspace
        self._services = services
        self._app = actions
        self._clipboard = clipboard

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {
            "browse": self._browse,
            "copy": self._copy,
            "save": self._save,
            "goto": self._goto,
            "search": self._search,
            "set": self._set,
            "axis": self._axis,
            "mark": self._mark,
            "only": self._only,
        }

    async def _copy(self, arguments: args.CopyArguments) -> None:
        if not self._services.settings.has_operator:
            raise RefusedError("A script has no clipboard.", hint="Use screenshot or save.")
        clipping = self._workspace.current.clipping(arguments.column)
        self._app.notify_plainly(copy_out(self._clipboard, clipping))

    async def _browse(self, arguments: args.BrowseArguments) -> None:
        """Open an address in a browser, where there is one; else copy it. One inside a pod becomes a forwarded port."""
        found, wanted = await self._log().addresses(), arguments.to.lower()
        known = ", ".join(address.title for address, _ in found)
        address, pod = next((one for one in found if wanted in one[0].title.lower()), (None, ""))
        if address is None:
            none = f"no {arguments.to!r}" if known else "no address of wandb, MLflow or TensorBoard"
            raise MissingError(f"The log has {none}.", hint=f"It has {known}." if known else "")
        if address.is_local:
            self._submit(f"forward {self._place_of(pod)}:{address.port}")
        elif has_browser():
            open_browser(address.url)
            self._app.notify_plainly(f"Opened {address.title}: {redact(address.url)}")
        else:
            copied = ""
            if self._services.settings.has_operator and self._clipboard.has_clipboard:
                copied = f" {copy_out(self._clipboard, Clipping(address.url, 'it'))}"
            self._app.notify_plainly(f"{address.title}: {redact(address.url)}{copied}")

    def _place_of(self, name: str) -> str:
        """Return `namespace/name` of a running pod.

        Raises:
            MissingError: It does not run.
        """
        snapshot = self._services.cluster.snapshot()
        pods = (pod for pod in (snapshot.pods.values() if snapshot else ()) if pod.name == name)
        pod = next((pod for pod in pods if pod.phase == "Running"), None)
        if pod is None:
            raise MissingError(f"The address is inside the pod {name}, which does not run.")
        return pod.key

    async def _save(self, arguments: args.SaveArguments) -> None:
        data = await self._log().contents()
        await in_thread("save", self._services.settings.write_file, Path(arguments.file), data)
        lines = counted(data.count(b"\n"), "line")
        self._app.notify_plainly(f"Saved {lines} of the log to {arguments.file}.")

    async def _goto(self, arguments: args.GotoArguments) -> None:
        self._log().go_to(arguments.time)

    async def _search(self, arguments: args.SearchArguments) -> None:
        self._log().search(arguments.pattern)

    async def _set(self, arguments: args.SetArguments) -> None:
        pane, option, value = self._workspace.current, arguments.option, arguments.value
        front = self._app.front()
        if isinstance(front, Viewer):
            if option != "wrap":
                raise RefusedError(f"A text has no {option!r} to set.", hint="It has wrap.")
            _require_one_of(option, value, _WRAPS)
            front.wrap(value)
            return
        known = pane.OPTIONS.get(option)
        if known is None:
            hint = f"It has {', '.join(pane.OPTIONS)}." if pane.OPTIONS else "Focus the logs or the charts pane."
            raise RefusedError(f"The {pane.CONTEXT} pane has no {option!r} to set.", hint=hint)
        _require_one_of(option, value, known)
        pane.set_option(option, value)

    async def _axis(self, arguments: args.AxisArguments) -> None:
        self._workspace.current.move_axis(arguments.move)

    async def _mark(self, arguments: args.MarkArguments) -> None:
        self._workspace.current.mark(arguments.action)

    async def _only(self, arguments: args.OnlyArguments) -> None:
        self._log().show_only([name for part in arguments.pods.split(",") if (name := part.strip())])

    def _log(self) -> LogsPane:
        """Return the log pane.

        Raises:
            RefusedError: It is not open.
        """
        pane = self._workspace.current
        if not isinstance(pane, LogsPane):
            raise RefusedError("The focused pane has no log.", hint="Focus the logs pane.")
        return pane


def _require_one_of(option: str, value: str, known: Sequence[str]) -> None:
    if value and value not in known:
        raise ParameterError(f"{option}: {value!r} is none of {', '.join(known)}.")
