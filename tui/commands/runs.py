"""Commands on runs: launch to teardown, results, what Terraform left open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from actions.command import verbs
from actions.run.engine.systemd import logout_warning
from actions.run.state.records import RequestKind
from tui.commands.app_actions import AppActions, Handler
from tui.feeds.run_actions import RunActions
from tui.feeds.services import ConsoleServices
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace

_REQUESTS = {
    "pause": RequestKind.PAUSE,
    "unpause": RequestKind.UNPAUSE,
    "cancel": RequestKind.CANCEL,
    "park": RequestKind.PARK,
}


class RunCommands:
    """The handlers of launch, approve, retry, pause, cancel, park, teardown and resume.

    Each ends when the request is in the run's journal, not when the run has followed it.

    Args:
        workspace: The panes; a launched run is shown.
        services: The blueprints, and the run on screen.
        run_actions: Writes the requests.
        actions: Shows notifications.
    """

    def __init__(
        self, workspace: PaneWorkspace, services: ConsoleServices, run_actions: RunActions, actions: AppActions
    ) -> None:
        self._workspace = workspace
        self._services = services
        self._run_actions = run_actions
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        requests = {name: self._request(kind) for name, kind in _REQUESTS.items()}
        return {
            "launch": self._launch,
            "approve": self._approve,
            "retry": self._retry,
            "teardown": self._teardown,
            "resume": self._resume,
            **requests,
        }

    async def _launch(self, arguments: verbs.LaunchArguments) -> None:
        from actions.blueprint.parameters import bind

        blueprint = await self._services.blueprints.find(arguments.blueprint)
        preset = arguments.preset or self._services.settings.preferred_preset(blueprint.presets)
        binding = bind(blueprint, arguments.set, preset=preset, existing_cluster=arguments.existing_cluster)
        await self._run_actions.fetch_supplies(blueprint, binding, say=self._app.notify_plainly)
        await self._run_actions.launch(blueprint, binding, auto_approve=arguments.auto_approve)
        self._notify(logout_warning())
        self._services.unwatch()
        self._workspace.arrange("watch")
        self._workspace.open("run", "")

    async def _approve(self, arguments: verbs.ApproveArguments) -> None:
        self._notify(await self._run_actions.approve(arguments.run, arguments.stage))

    async def _retry(self, arguments: verbs.RetryArguments) -> None:
        self._notify(await self._run_actions.ask_for(arguments.run, RequestKind.RETRY))

    async def _resume(self, arguments: verbs.ResumeArguments) -> None:
        run_id = await self._run_actions.resume(arguments.run, takeover=arguments.takeover)
        self._app.notify_plainly(f"Run {run_id} continues.")

    async def _teardown(self, arguments: verbs.TeardownArguments) -> None:
        obstacle = await self._run_actions.teardown(
            arguments.run,
            confirm=arguments.confirm,
            deletes_data=arguments.delete_data,
            even_if_shared=arguments.even_if_shared,
        )
        self._notify(obstacle)
        self._workspace.focus("run")

    def _request(self, kind: RequestKind) -> Callable[[verbs.RunArguments], Awaitable[None]]:
        async def handler(arguments: verbs.RunArguments) -> None:
            self._notify(await self._run_actions.ask_for(arguments.run, kind))

        return handler

    def _notify(self, text: str) -> None:
        """Show a sentence, unless it is empty."""
        if text:
            self._app.notify_plainly(text)


class ResultsCommands:
    """The handlers of `results` and `export`. Each ends with the cluster's answer; a copy continues after the console.

    Args:
        services: The runs.
        actions: Shows the list, and notifications.
    """

    def __init__(self, services: ConsoleServices, actions: AppActions) -> None:
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"results": self._results, "export": self._export}

    async def _results(self, arguments: verbs.RunArguments) -> None:
        from actions.run.results import list_results, results_table

        run = self._services.runs.find(arguments.run)
        listing = await list_results(run.folder, self._services.clock)
        self._app.show(Viewer(f"results of {run.id}", results_table(listing)))

    async def _export(self, arguments: verbs.ExportArguments) -> None:
        from actions.run.results import export_results

        run = self._services.runs.find(arguments.run)
        result = await export_results(
            run.folder,
            arguments.to,
            self._services.clock,
            on_line=_ignore_line,
            on_begin=lambda _copy, sentence: self._app.notify_plainly(sentence),
            service_account=arguments.service_account,
        )
        self._app.notify_plainly(result)


def _ignore_line(_line: str) -> None:
    """Drop a line that the Job printed: the console shows its result alone."""


class TerraformCommands:
    """The handlers of `terraform`, `import` and `waive`.

    Each ends when the decision is in the run's journal; the next attempt of the stage follows it.

    Args:
        services: The runs.
        run_actions: Writes the decisions.
        actions: Shows the report, and notifications.
    """

    def __init__(self, services: ConsoleServices, run_actions: RunActions, actions: AppActions) -> None:
        self._services = services
        self._run_actions = run_actions
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"terraform": self._terraform, "import": self._import, "waive": self._waive}

    async def _terraform(self, arguments: verbs.RunArguments) -> None:
        run = self._services.runs.find(arguments.run)
        self._app.show(Viewer(f"terraform of {run.id}", await self._run_actions.terraform(arguments.run)))

    async def _import(self, arguments: verbs.ImportArguments) -> None:
        stage = await self._run_actions.import_resource(
            arguments.run, arguments.address, arguments.id, stage=arguments.stage
        )
        self._app.notify_plainly(f"{arguments.address} will be imported when you retry {stage}.")

    async def _waive(self, arguments: verbs.WaiveArguments) -> None:
        stage = await self._run_actions.waive(
            arguments.run, arguments.address, confirm=arguments.confirm, stage=arguments.stage
        )
        self._app.notify_plainly(f"{arguments.address} is waived. Retry {stage}.")
