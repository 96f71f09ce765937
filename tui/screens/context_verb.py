"""The verb that looks at another cluster: a context of the kubeconfig, or the cluster of the run on screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from actions.base.errors import ConfigError, MissingError
from actions.command import verbs as registry
from tui.live.desk import Desk
from tui.modals.viewer import Viewer
from tui.screens.carrier import Verb
from tui.screens.hands import ScreenHands

if TYPE_CHECKING:
    from actions.cluster.auth.kubeconfig import ClusterTarget

_THE_RUN = "run"


class ContextVerb:
    """Lists contexts, and goes to one.

    Args:
        desk: Whose cluster is changed.
        hands: The app's doing.
    """

    def __init__(self, desk: Desk, hands: ScreenHands) -> None:
        self._desk = desk
        self._hands = hands

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {"context": self._context}

    async def _context(self, arguments: registry.Context) -> None:
        from actions.cluster.auth.kubeconfig import ClusterTarget

        if not arguments.name:
            self._hands.show(Viewer("context", self._page()))
            return
        if arguments.name == _THE_RUN:
            other = self._of_run()
        else:
            other = ClusterTarget(self._desk.settings.target.kubeconfig, arguments.name, "")
        try:
            await self._desk.require_usable(other)
        except ConfigError as error:
            if not await self._hands.allow_plugin(error):
                raise
        self._desk.unwatch()
        self._desk.cluster.target = other
        self._desk.connect()

    def _of_run(self) -> ClusterTarget:
        from actions.cluster.auth.kubeconfig import ClusterTarget
        from actions.run.journal.folder import kubeconfig_path

        folder = self._desk.runs.folder
        if folder is None:
            raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")
        path = kubeconfig_path(folder)
        if not path.is_file():
            raise MissingError(
                f"Run {folder.name} has no kubeconfig of its own.", hint="It gets one when its cluster is there."
            )
        return ClusterTarget(path, "", "")

    def _page(self) -> str:
        from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of
        from actions.run.journal.folder import kubeconfig_path

        here = self._desk.cluster.context_name
        lines = ["Go to one with :context NAME", ""]
        try:
            for name, cluster in contexts_of(ClusterTarget(self._desk.settings.target.kubeconfig)):
                lines.append(f"{'▶' if name == here else ' '} {name:<40} {cluster}")
        except ConfigError as error:
            lines.append(f"  {error.sentence()}")
        folder = self._desk.runs.folder
        if folder is not None and kubeconfig_path(folder).is_file():
            lines += ["", f"  {_THE_RUN:<40} the cluster of run {folder.name}, by its own kubeconfig"]
        return "\n".join(lines)
