"""The verbs on what Terraform left open in a run: look, import, waive."""

from __future__ import annotations

from collections.abc import Mapping

from actions.command import verbs as registry
from tui.live.desk import Desk
from tui.live.run_actions import RunActions
from tui.modals.viewer import Viewer
from tui.screens.carrier import Verb
from tui.screens.hands import ScreenHands


class TerraformVerbs:
    """Each ends when the journal has it; the run's next step acts on it.

    Args:
        desk: The run on screen.
        actions: Writes.
        hands: The app's doing.
    """

    def __init__(self, desk: Desk, actions: RunActions, hands: ScreenHands) -> None:
        self._desk = desk
        self._actions = actions
        self._hands = hands

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {"terraform": self._terraform, "import": self._import, "waive": self._waive}

    async def _terraform(self, arguments: registry.OnRun) -> None:
        run = self._desk.runs.find(arguments.run)
        self._hands.show(Viewer(f"terraform of {run.id}", await self._actions.terraform(arguments.run)))

    async def _import(self, arguments: registry.Import) -> None:
        stage = await self._actions.import_resource(
            arguments.run, arguments.address, arguments.id, stage=arguments.stage
        )
        self._hands.say(f"{arguments.address} will be imported when {stage} goes on: retry it.")

    async def _waive(self, arguments: registry.Waive) -> None:
        stage = await self._actions.waive(
            arguments.run, arguments.address, confirm=arguments.confirm, stage=arguments.stage
        )
        self._hands.say(f"{arguments.address} of {stage} is waived: retry it.")
