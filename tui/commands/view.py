"""Commands that change what is on screen: panes and their places, the cluster, the watched job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.errors import ConfigError, MissingError
from actions.base.wording import listed
from actions.cluster.auth.kubeconfig import whole_context
from actions.cluster.job_pods import JobRef, job_named, job_of
from actions.cluster.kinds import watched_names
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.commands.targets import cluster_meant, subject_meant
from tui.feeds.alarms import alarm_page
from tui.feeds.services import ConsoleServices
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace
from tui.settings.keys import help_page

if TYPE_CHECKING:
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from tui.feeds.cluster import ClusterFeed
    from tui.present.subject import Subject


class ViewCommands:
    """The handlers of commands on panes, filters, and of `help`, `screenshot`, `back`, `quit`.

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
            "columns": self._columns,
            "theme": self._theme,
            "screenshot": self._screenshot,
            "back": without_arguments(self._back),
            "help": self._help,
            "alarms": self._alarms,
            "ack": without_arguments(self._acknowledge),
            "quit": without_arguments(self._app.leave),
        }

    async def _open(self, arguments: args.OpenArguments) -> None:
        if arguments.context:
            self._services.put_on_screen(cluster_meant(self._services, arguments.context))
        self._workspace.open(arguments.pane, arguments.of)

    async def _filter(self, arguments: args.FilterArguments) -> None:
        saved = self._services.settings.filters
        name = arguments.text.removeprefix("@")
        is_saved = name != arguments.text and name in saved
        self._workspace.current.filter(saved[name] if is_saved else arguments.text)

    async def _sort(self, arguments: args.SortArguments) -> None:
        self._workspace.current.order(arguments.column, descending=arguments.descending)

    async def _columns(self, arguments: args.ColumnsArguments) -> None:
        titles = [title.strip() for title in arguments.names.split(",") if title.strip()]
        self._workspace.current.choose_columns(titles)

    async def _theme(self, arguments: args.ThemeArguments) -> None:
        self._app.choose_theme(arguments.theme)

    async def _screenshot(self, arguments: args.ScreenshotArguments) -> None:
        await self._app.save_screen(Path(arguments.file), None)
        self._app.notify_plainly(f"Saved {arguments.file}.")

    async def _help(self, _arguments: args.NoArguments) -> None:
        focused, keymap = self._workspace.current.CONTEXT, self._services.settings.keymap
        self._app.show(Viewer("help", lambda width: help_page(focused, keymap, width)))

    async def _alarms(self, _arguments: args.NoArguments) -> None:
        waiting = self._services.alarms.waiting
        self._app.show(Viewer("alarms  :ack acknowledges them", lambda width: alarm_page(waiting, width)))

    def _acknowledge(self) -> None:
        alarms = self._services.alarms.acknowledge()
        if not alarms:
            raise MissingError("No alarm waits to be acknowledged.")
        self._app.notify_plainly(f"Acknowledged: {listed([alarm.text for alarm in alarms], 3)}")

    def _back(self) -> None:
        if not self._app.close_notifications() and not self._app.close_front():
            self._workspace.back()


class PaneCommands:
    """The handlers of commands that place panes.

    Args:
        workspace: The panes.
    """

    def __init__(self, workspace: PaneWorkspace) -> None:
        self._workspace = workspace

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
        self._workspace.arrange(arguments.name)

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


_RUN = "run"
"""In the place of a context: the cluster of the run on screen; in the place of a job: the run itself."""


class ContextCommand:
    """The handler of `context`: lists the contexts of the kubeconfig, or puts the cluster of one on screen.

    Args:
        services: Follow the cluster.
        actions: Shows the list, and asks about exec plugins.
    """

    def __init__(self, services: ConsoleServices, actions: AppActions) -> None:
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"context": self._context}

    async def _context(self, arguments: args.ContextArguments) -> None:
        from actions.cluster.auth.kubeconfig import ClusterTarget

        if not arguments.name:
            self._app.show(Viewer("context", self._page()))
            return
        if arguments.name == _RUN:
            target = self._target_of_run()
        else:
            name = whole_context(arguments.name, self._context_names())
            target = ClusterTarget(self._services.settings.target.kubeconfig, name, "")
        try:
            await self._services.require_usable(target)
        except ConfigError as error:
            if not await self._app.allow_plugin(error):
                raise
        self._services.show(target)

    def _context_names(self) -> list[str]:
        from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of

        try:
            return [name for name, _ in contexts_of(ClusterTarget(self._services.settings.target.kubeconfig))]
        except ConfigError:
            return []  # connecting gives the reason

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
        lines = ["Show one with :context NAME", ""]
        try:
            for name, cluster in contexts_of(ClusterTarget(self._services.settings.target.kubeconfig)):
                of = "" if cluster == name else cluster  # `aws eks update-kubeconfig` gives both the cluster's ARN
                lines.append(f"{'▶' if name == current else ' '} {name:<40} {of}".rstrip())
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
        return {"watch": self._watch, "queue": self._queue}

    async def _watch(self, arguments: args.WatchArguments) -> None:
        if arguments.job == _RUN:
            self._services.unwatch()
            self._workspace.arrange("watch")
            return
        await self._services.watch(await self._job(arguments))
        self._workspace.arrange("job")
        self._workspace.open("pods", "job")
        self._workspace.focus("logs")

    async def _queue(self, arguments: args.WatchArguments) -> None:
        job = await self._job(arguments)
        self._workspace.open("queues", f"{job.kind}/{job.namespace}/{job.name}")

    async def _job(self, arguments: args.WatchArguments) -> JobRef:
        """Return the job that is named, or that of the selected pod, and put its cluster on screen."""
        cluster, subject = subject_meant(self._services, self._workspace, arguments)
        self._services.put_on_screen(cluster)
        await cluster.feed.wait_connected()
        if subject.row is not None and subject.row.is_watched:
            return JobRef(subject.kind, subject.namespace, subject.name)
        found = _job_found(cluster.feed, subject)
        if found is None:
            raise MissingError(
                f"{subject.title()} is not part of a job.", hint=f"Watch one of {watched_names()}: kind/name."
            )
        return found


def _job_found(cluster: ClusterFeed, subject: Subject) -> JobRef | None:
    """Return the job of a pod, or the job whose name was typed without a kind; `None` if there is none."""
    snapshot = cluster.snapshot()
    if snapshot is None or subject.kind != "Pod":
        return None
    pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}")
    if pod is not None:
        return job_of(pod, snapshot.workloads)
    return job_named(subject.namespace, subject.name, snapshot.workloads)
