"""Commands on kinds and namespaces: the objects of one kind, the list of all, the namespace of the panes."""

from __future__ import annotations

from collections.abc import Mapping

from actions.base.errors import MissingError
from actions.base.names import segment
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.feeds.objects import ObjectsScope
from tui.feeds.services import ConsoleServices
from tui.present.objects import kinds_page
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace
from tui.settings.filters import require_selector

_ALL = "all"


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
        kind = await self._services.followed.on_screen.kinds.find(arguments.kind)
        chosen = arguments.namespace or self._services.namespace
        namespace = "" if chosen == _ALL or not kind.is_namespaced else chosen
        self._services.show_objects(ObjectsScope(kind, namespace, arguments.labels, arguments.fields))
        self._workspace.open("objects", "")

    async def _kinds(self, _arguments: args.NoArguments) -> None:
        catalogue = await self._services.followed.on_screen.kinds.read()
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
