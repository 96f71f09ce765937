"""Commands on kinds, namespaces and owners: the objects of one kind, the list of all, the tree of an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actions.base.errors import MissingError
from actions.base.names import segment
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.commands.targets import resolve_targets
from tui.feeds.objects import ObjectsScope
from tui.feeds.services import ConsoleServices
from tui.present.objects import kinds_page
from tui.present.subject import Subject
from tui.screens.tree import TreeScreen
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace
from tui.settings.filters import require_selector

if TYPE_CHECKING:
    from actions.cluster.objects.operations import Target

_ALL = "all"
_OF_RUNS = ("Run", "Stage", "Blueprint")
_NAMED = 3


class KindCommands:
    """The handlers of `objects`, `kinds` and `namespace`.

    Args:
        workspace: The panes.
        services: Find kinds, and follow the objects of one.
        actions: Shows the list of kinds, and notifications.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"objects": self._objects, "kinds": self._kinds, "namespace": self._namespace}

    async def _objects(self, arguments: args.KindArguments) -> None:
        require_selector(arguments.labels)
        kind = await self._services.objects.find(arguments.kind)
        chosen = arguments.namespace or self._services.namespace
        namespace = "" if chosen == _ALL or not kind.is_namespaced else chosen
        self._services.show_objects(ObjectsScope(kind, namespace, arguments.labels, arguments.fields))
        self._workspace.open("objects", "")

    async def _kinds(self, _arguments: args.NoArguments) -> None:
        catalogue = await self._services.objects.kinds()
        self._app.show(Viewer("kinds", kinds_page(catalogue.kinds)))

    async def _namespace(self, arguments: args.NamespaceArguments) -> None:
        if not arguments.namespace:
            await self._objects(args.KindArguments(kind="namespaces"))
            return
        wanted = "" if arguments.namespace == _ALL else arguments.namespace
        if wanted:
            await self._require(wanted)
        self._services.narrow(wanted)
        self._app.notify_plainly(f"Pods, events and objects are those of {wanted or 'all namespaces'}.")

    async def _require(self, namespace: str) -> None:
        """Refuse a namespace that does not exist; one that may not be read is taken at its word.

        Raises:
            MissingError: There is none of that name.
        """
        from actions.cluster.http.errors import ApiAccessError

        await self._services.cluster.wait_connected()
        path = f"/api/v1/namespaces/{segment(namespace)}"
        try:
            await self._services.cluster.session.get(path)
        except ApiAccessError:
            return
        except MissingError as error:
            raise MissingError(f"There is no namespace {namespace}.", hint=":ns lists them.") from error


class TreeCommand:
    """The handler of `tree`: a run, a job or any object with its owners, pods, nodes and claims.

    Args:
        workspace: The panes; the selected object is meant if none is named.
        services: The cluster's session, and the run on screen.
        actions: Shows the tree.
        submit: Starts the command line of a line of the tree.
    """

    def __init__(
        self,
        workspace: PaneWorkspace,
        services: ConsoleServices,
        actions: AppActions,
        submit: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions
        self._submit = submit

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"tree": self._tree}

    async def _tree(self, arguments: args.TargetArguments) -> None:
        from actions.cluster.objects.owner_tree import collect_tree

        subject = None if arguments.object else self._workspace.current.subject()
        if subject is not None and subject.kind in _OF_RUNS:
            title, targets = await self._of_run(subject)
        else:
            targets = await resolve_targets(self._services, self._workspace, arguments.object)
            title = ", ".join(target.title() for target in targets[:_NAMED])
        catalogue = await self._services.objects.kinds()
        tree = await collect_tree(self._services.cluster.session, catalogue, targets)
        self._app.show(TreeScreen(f"tree of {title}", tree, self._submit))

    async def _of_run(self, subject: Subject) -> tuple[str, tuple[Target, ...]]:
        """Return the jobs of a run, or of one of its stages.

        Raises:
            MissingError: It has none in the cluster on screen.
        """
        view, snapshot = self._services.runs.view, self._services.cluster.snapshot()
        run = subject.name if subject.kind == "Run" else view.id if view is not None else ""
        stage = subject.name if subject.kind == "Stage" else ""
        found = [
            f"{job.kind.lower()}/{job.namespace}/{job.name}"
            for job in (snapshot.workloads.values() if snapshot is not None else ())
            if run and job.run == run and stage in ("", job.stage)
        ]
        title = f"{run}/{stage}" if stage else run
        if not found:
            raise MissingError(f"{title or 'No run'} has no job in this cluster.", hint="Put the cursor on a job.")
        return title, await resolve_targets(self._services, self._workspace, ",".join(found))
