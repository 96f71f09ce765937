"""Commands on runs: launch to teardown, results, what Terraform left open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from actions.command import verbs
from actions.run.engine.systemd import logout_warning
from actions.run.state.records import RequestKind
from tui.commands.dispatcher import AppActions, Handler
from tui.feeds.run_actions import RunActions
from tui.feeds.services import ConsoleServices
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace

_WISHES = {
    "pause": RequestKind.PAUSE,
    "unpause": RequestKind.UNPAUSE,
    "cancel": RequestKind.CANCEL,
    "park": RequestKind.PARK,
}


class RunCommands:
    """Launch, approve, retry, pause, cancel, park, tear down. Each ends when the wish is written, not when it is done.

    Args:
        workspace: The panes; a launched run is shown.
        desk: Blueprints and the run on screen.
        actions: Who writes.
        say: Tells the operator one sentence.
    """

    def __init__(
        self, workspace: PaneWorkspace, services: ConsoleServices, actions: RunActions, *, say: Callable[[str], None]
    ) -> None:
        self._workspace = workspace
        self._services = services
        self._actions = actions
        self._say = say

    def handlers(self) -> Mapping[str, Handler]:
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

    async def _launch(self, arguments: verbs.LaunchArguments) -> None:
        from actions.blueprint.parameters import bind

        blueprint = await self._services.blueprints.find(arguments.blueprint)
        preset = arguments.preset or self._services.settings.preferred_preset(blueprint.presets)
        binding = bind(blueprint, arguments.set, preset=preset, existing_cluster=arguments.existing_cluster)
        await self._actions.launch(blueprint, binding, auto_approve=arguments.auto_approve)
        self._tell(logout_warning())
        self._services.unwatch()
        self._workspace.arrange("watch")
        self._workspace.open("run", "")

    async def _approve(self, arguments: verbs.ApproveArguments) -> None:
        self._tell(await self._actions.approve(arguments.run, arguments.stage))

    async def _retry(self, arguments: verbs.RetryArguments) -> None:
        self._tell(await self._actions.ask_for(arguments.run, RequestKind.RETRY))

    async def _resume(self, arguments: verbs.ResumeArguments) -> None:
        self._say(f"Run {await self._actions.resume(arguments.run, takeover=arguments.takeover)} goes on.")

    async def _teardown(self, arguments: verbs.TeardownArguments) -> None:
        asked = self._actions.teardown(arguments.run, confirm=arguments.confirm, deletes_data=arguments.delete_data)
        self._tell(await asked)
        self._workspace.focus("run")

    def _wish(self, kind: RequestKind) -> Callable[[verbs.RunArguments], Awaitable[None]]:
        async def verb(arguments: verbs.RunArguments) -> None:
            self._tell(await self._actions.ask_for(arguments.run, kind))

        return verb

    def _tell(self, text: str) -> None:
        if text:
            self._say(text)


class ResultsCommands:
    """Asks the run's cluster; each ends when there is an answer. A copy goes on if the console is left.

    Args:
        desk: The run on screen.
        hands: The app's doing.
    """

    def __init__(self, services: ConsoleServices, app_actions: AppActions) -> None:
        self._services = services
        self._app = app_actions

    def handlers(self) -> Mapping[str, Handler]:
        """By command id."""
        return {"results": self._results, "export": self._export}

    async def _results(self, arguments: verbs.RunArguments) -> None:
        from actions.run.results import list_results, results_table

        run = self._services.runs.find(arguments.run)
        listing = await list_results(run.folder, self._services.clock)
        self._app.show(Viewer(f"results of {run.id}", results_table(listing)))

    async def _export(self, arguments: verbs.ExportArguments) -> None:
        from actions.run.results import export_results

        run = self._services.runs.find(arguments.run)
        told = await export_results(
            run.folder,
            arguments.to,
            self._services.clock,
            on_line=_ignore_line,
            on_begin=lambda _copy, sentence: self._app.say(sentence),
            service_account=arguments.service_account,
        )
        self._app.say(told)


def _ignore_line(_line: str) -> None:
    """What the Job prints is for a terminal; the console says how it ended."""


class TerraformCommands:
    """Each ends when the journal has it; the run's next step acts on it.

    Args:
        desk: The run on screen.
        actions: Writes.
        hands: The app's doing.
    """

    def __init__(self, services: ConsoleServices, actions: RunActions, app_actions: AppActions) -> None:
        self._services = services
        self._actions = actions
        self._app = app_actions

    def handlers(self) -> Mapping[str, Handler]:
        """By command id."""
        return {"terraform": self._terraform, "import": self._import, "waive": self._waive}

    async def _terraform(self, arguments: verbs.RunArguments) -> None:
        run = self._services.runs.find(arguments.run)
        self._app.show(Viewer(f"terraform of {run.id}", await self._actions.terraform(arguments.run)))

    async def _import(self, arguments: verbs.ImportArguments) -> None:
        stage = await self._actions.import_resource(
            arguments.run, arguments.address, arguments.id, stage=arguments.stage
        )
        self._app.say(f"{arguments.address} will be imported when {stage} goes on: retry it.")

    async def _waive(self, arguments: verbs.WaiveArguments) -> None:
        stage = await self._actions.waive(
            arguments.run, arguments.address, confirm=arguments.confirm, stage=arguments.stage
        )
        self._app.say(f"{arguments.address} of {stage} is waived: retry it.")
