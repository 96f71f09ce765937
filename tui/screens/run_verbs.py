"""The verbs that ask something of runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from actions.command import verbs as registry
from actions.run.engine.systemd import logout_warning
from actions.run.state.records import WishKind
from tui.live.desk import Desk
from tui.live.run_actions import RunActions
from tui.screens.carrier import Verb
from tui.screens.workspace import Workspace

_WISHES = {
    "pause": WishKind.PAUSE,
    "unpause": WishKind.UNPAUSE,
    "cancel": WishKind.CANCEL,
    "park": WishKind.PARK,
}


class RunVerbs:
    """Launch, approve, retry, pause, cancel, park, tear down. Each ends when the wish is written, not when it is done.

    Args:
        workspace: The panes; a launched run is shown.
        desk: Blueprints and the run on screen.
        actions: Who writes.
        say: Tells the operator one sentence.
    """

    def __init__(self, workspace: Workspace, desk: Desk, actions: RunActions, *, say: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._desk = desk
        self._actions = actions
        self._say = say

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        wishes = {name: self._wish(kind) for name, kind in _WISHES.items()}
        return {
            "launch": self._launch,
            "approve": self._approve,
            "retry": self._retry,
            "teardown": self._teardown,
            "resume": self._resume,
            **wishes,
        }

    async def _launch(self, arguments: registry.Launch) -> None:
        from actions.blueprint.parameters import bind

        blueprint = await self._desk.blueprints.find(arguments.blueprint)
        preset = arguments.preset or self._desk.settings.preferred_preset(blueprint.presets)
        binding = bind(blueprint, arguments.set, preset=preset, existing_cluster=arguments.existing_cluster)
        await self._actions.launch(blueprint, binding, auto_approve=arguments.auto_approve)
        self._tell(logout_warning())
        self._desk.unwatch()
        self._workspace.arrange("watch")
        self._workspace.open("run", "")

    async def _approve(self, arguments: registry.Approve) -> None:
        self._tell(await self._actions.approve(arguments.run, arguments.stage))

    async def _retry(self, arguments: registry.Retry) -> None:
        self._tell(await self._actions.ask_for(arguments.run, WishKind.RETRY))

    async def _resume(self, arguments: registry.Resume) -> None:
        self._say(f"Run {await self._actions.resume(arguments.run, takeover=arguments.takeover)} goes on.")

    async def _teardown(self, arguments: registry.Teardown) -> None:
        asked = self._actions.teardown(arguments.run, confirm=arguments.confirm, deletes_data=arguments.delete_data)
        self._tell(await asked)
        self._workspace.focus("run")

    def _wish(self, kind: WishKind) -> Callable[[registry.OnRun], Awaitable[None]]:
        async def verb(arguments: registry.OnRun) -> None:
            self._tell(await self._actions.ask_for(arguments.run, kind))

        return verb

    def _tell(self, text: str) -> None:
        if text:
            self._say(text)
