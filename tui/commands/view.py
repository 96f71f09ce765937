"""Commands that change what is on screen: panes, the cluster, the watched job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.errors import ConfigError, MissingError
from actions.cluster.job_pods import JobRef, job_named, job_of
from actions.cluster.kinds import watched_names
from actions.command import verbs
from tui.commands.app_actions import AppActions, Handler
from tui.feeds.services import ConsoleServices
from tui.present.subject import Subject, parse_subject
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace
from tui.settings.keys import help_page

if TYPE_CHECKING:
    from actions.cluster.auth.kubeconfig import ClusterTarget


class ViewCommands:
    """The handlers of commands on panes, filters, layouts, and of `help`, `screenshot`, `back`, `quit`.

    Args:
        workspace: The panes.
        services: The settings.
        actions: Shows help and notifications, saves the screen, ends the console.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {
            "open": self._open,
            "filter": self._filter,
            "sort": self._sort,
            "layout": self._layout,
            "chart": self._chart,
            "zoom": _without_arguments(self._workspace.zoom),
            "focus": self._focus,
            "screenshot": self._screenshot,
            "back": _without_arguments(self._back),
            "help": self._help,
            "quit": _without_arguments(self._app.leave),
        }

    async def _open(self, arguments: verbs.OpenArguments) -> None:
        self._workspace.open(arguments.pane, arguments.of)

    async def _filter(self, arguments: verbs.FilterArguments) -> None:
        self._workspace.current.filter(arguments.text)

    async def _sort(self, arguments: verbs.SortArguments) -> None:
        self._workspace.current.order(arguments.column, descending=arguments.descending)

    async def _chart(self, arguments: verbs.ChartArguments) -> None:
        from tui.panes.charts import ChartsPane

        pane = self._workspace.pane("charts")
        if isinstance(pane, ChartsPane):
            pane.choose(arguments.metric)

    async def _layout(self, arguments: verbs.LayoutArguments) -> None:
        self._workspace.arrange(arguments.name)

    async def _focus(self, arguments: verbs.FocusArguments) -> None:
        self._workspace.focus(arguments.pane)

    async def _screenshot(self, arguments: verbs.ScreenshotArguments) -> None:
        self._app.save_screen(Path(arguments.file))
        self._app.notify_plainly(f"Saved {arguments.file}.")

    async def _help(self, _arguments: verbs.NoArguments) -> None:
        self._app.show(Viewer("help", help_page(self._workspace.current.CONTEXT, self._services.settings.keymap)))

    def _back(self) -> None:
        if not self._app.close_front():
            self._workspace.back()


def _without_arguments(act: Callable[[], object]) -> Callable[[verbs.NoArguments], Awaitable[None]]:
    async def handler(_arguments: verbs.NoArguments) -> None:
        act()

    return handler


_RUN = "run"
"""In the place of a context: the cluster of the run on screen; in the place of a job: the run itself."""


class ContextCommand:
    """The handler of `context`: lists the contexts of the kubeconfig, or connects to one.

    Args:
        services: The cluster's feed is connected anew.
        actions: Shows the list, and asks about exec plugins.
    """

    def __init__(self, services: ConsoleServices, actions: AppActions) -> None:
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"context": self._context}

    async def _context(self, arguments: verbs.ContextArguments) -> None:
        from actions.cluster.auth.kubeconfig import ClusterTarget

        if not arguments.name:
            self._app.show(Viewer("context", self._page()))
            return
        if arguments.name == _RUN:
            target = self._target_of_run()
        else:
            target = ClusterTarget(self._services.settings.target.kubeconfig, arguments.name, "")
        try:
            await self._services.require_usable(target)
        except ConfigError as error:
            if not await self._app.allow_plugin(error):
                raise
        self._services.unwatch()
        self._services.cluster.target = target
        self._services.connect()

    def _target_of_run(self) -> ClusterTarget:
        from actions.cluster.auth.kubeconfig import ClusterTarget
        from actions.run.journal.folder import kubeconfig_path

        folder = self._services.runs.folder
        if folder is None:
            raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")
        path = kubeconfig_path(folder)
        if not path.is_file():
            raise MissingError(
                f"Run {folder.name} has no kubeconfig of its own.", hint="It gets one when its cluster exists."
            )
        return ClusterTarget(path, "", "")

    def _page(self) -> str:
        from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of
        from actions.run.journal.folder import kubeconfig_path

        current = self._services.cluster.context_name
        lines = ["Connect to one with :context NAME", ""]
        try:
            for name, cluster in contexts_of(ClusterTarget(self._services.settings.target.kubeconfig)):
                lines.append(f"{'▶' if name == current else ' '} {name:<40} {cluster}")
        except ConfigError as error:
            lines.append(f"  {error.sentence()}")
        folder = self._services.runs.folder
        if folder is not None and kubeconfig_path(folder).is_file():
            lines += ["", f"  {_RUN:<40} the cluster of run {folder.name}, by its own kubeconfig"]
        return "\n".join(lines)


class WatchCommand:
    """The handler of `watch`: points the panes at a job, the named one or the one of the selected pod.

    Args:
        workspace: The panes.
        services: Follow the job.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices) -> None:
        self._workspace = workspace
        self._services = services

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"watch": self._watch}

    async def _watch(self, arguments: verbs.WatchArguments) -> None:
        if arguments.job == _RUN:
            self._services.unwatch()
            self._workspace.arrange("watch")
            return
        await self._services.cluster.wait_connected()
        await self._services.watch(self._job(arguments.job))
        self._workspace.arrange("job")
        self._workspace.open("pods", "job")
        self._workspace.focus("logs")

    def _job(self, typed: str) -> JobRef:
        if typed:
            subject: Subject | None = parse_subject(typed, default_namespace=self._services.cluster.namespace)
        else:
            subject = self._workspace.current.subject()
        if subject is None:
            raise MissingError("Nothing is selected.", hint="Name a job: :watch pytorchjob/NAME.")
        if subject.row is not None and subject.row.is_watched:
            return JobRef(subject.kind, subject.namespace, subject.name)
        found = self._found(subject)
        if found is None:
            raise MissingError(
                f"{subject.title()} is not part of a job.", hint=f"Watch one of {watched_names()}: kind/name."
            )
        return found

    def _found(self, subject: Subject) -> JobRef | None:
        """Return the job of a pod, or the job whose name was typed without a kind; `None` if there is none."""
        snapshot = self._services.cluster.snapshot()
        if snapshot is None or subject.kind != "Pod":
            return None
        pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}")
        if pod is not None:
            return job_of(pod, snapshot.workloads)
        return job_named(subject.namespace, subject.name, snapshot.workloads)
