"""Commands on runs: launch to teardown, results, what Terraform left open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from actions.base.errors import UsageError
from actions.command import arguments as args
from actions.run.engine.systemd import logout_warning
from actions.run.state.records import RequestKind
from tui.commands.app_actions import AppActions, Handler
from tui.feeds.run_actions import RunActions
from tui.feeds.services import ConsoleServices
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace

_REQUESTS = {
    "pause": RequestKind.PAUSE,
    "cancel": RequestKind.CANCEL,
    "park": RequestKind.PARK,
}


class RunCommands:
    """The handlers of launch, approve, pause, cancel, park, resume and teardown.

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
            "limit": self._limit,
            "teardown": self._teardown,
            "resume": self._resume,
            "takeover": self._take_over,
            **requests,
        }

    async def _launch(self, arguments: args.LaunchArguments) -> None:
        from actions.blueprint.parameters import bind
        from actions.run.launch import LaunchOrder
        from actions.run.limits.options import limits_of, require_limit, with_usual
        from tui.present.blueprints import store_of_command
        from tui.present.limits import texts_of_command

        settings, cluster = self._services.settings, self._services.cluster
        blueprint = await self._services.blueprints.find(arguments.blueprint)
        preset = arguments.preset or settings.preferred_preset(blueprint.presets)
        binding = bind(blueprint, arguments.set, preset=preset, existing_cluster=arguments.existing_cluster)
        target = cluster.target if arguments.existing_cluster else settings.target
        self._app.notify_plainly(f"Launching {blueprint.id}.")  # account and journal may take seconds
        texts = texts_of_command(arguments)
        usual = settings.limits
        limits = limits_of(with_usual(texts, usual), now=self._services.clock.now())
        require_limit(texts, limits)
        order = LaunchOrder(
            blueprint,
            binding,
            target=target,
            environment=settings.run_environment,
            clock=self._services.clock,
            auto_approve=arguments.auto_approve,
            limits=limits,
            store_url=store_of_command(arguments.store, settings.store),
        )
        waived = [name.strip() for name in arguments.waive.split(",")]
        await self._run_actions.launch(order, say=self._app.notify_plainly, waived=waived)
        self._notify(logout_warning())
        self._services.unwatch()
        self._workspace.arrange("watch")
        self._workspace.open("run", "")

    async def _approve(self, arguments: args.ApproveArguments) -> None:
        self._notify(await self._run_actions.approve(arguments.run, arguments.stage))

    async def _limit(self, arguments: args.LimitArguments) -> None:
        from tui.present.limits import texts_of_command

        texts = texts_of_command(arguments)
        if not (texts.is_given or arguments.none):
            raise UsageError("No limit was named.", hint="Write limit until=+8h budget=50, or limit none=true.")
        self._notify(await self._run_actions.limit(arguments.run, texts, is_none=arguments.none))

    async def _resume(self, arguments: args.ResumeArguments) -> None:
        self._app.notify_plainly(
            await self._run_actions.resume(arguments.run, stage=arguments.stage, takeover=arguments.takeover)
        )

    async def _take_over(self, arguments: args.TakeoverArguments) -> None:
        sentence = await self._run_actions.take_over(
            arguments.run,
            source=arguments.source,
            confirm=arguments.confirm,
            is_machine_gone=arguments.machine_is_gone,
            say=self._app.notify_plainly,
        )
        self._app.notify_plainly(sentence)
        await self._services.runs.refresh_list()
        self._services.open_run(arguments.run)  # from its journal on this machine, not from records in other places

    async def _teardown(self, arguments: args.TeardownArguments) -> None:
        obstacle = await self._run_actions.teardown(
            arguments.run,
            confirm=arguments.confirm,
            deletes_data=arguments.delete_data,
            even_if_shared=arguments.even_if_shared,
        )
        self._notify(obstacle)
        self._workspace.focus("run")

    def _request(self, kind: RequestKind) -> Callable[[args.RunArguments], Awaitable[None]]:
        async def handler(arguments: args.RunArguments) -> None:
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

    async def _results(self, arguments: args.RunArguments) -> None:
        from actions.run.results import list_results, results_table

        run = self._services.runs.find(arguments.run)
        self._app.notify_plainly("Listing the results: by a short Job, if no pod of the run has its volume.")
        listing = await list_results(run.folder, self._services.clock)
        self._app.show(Viewer(f"results of {run.id}", results_table(listing)))

    async def _export(self, arguments: args.ExportArguments) -> None:
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
    """The handlers of `terraform` and `waive`.

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
        return {"terraform": self._terraform, "waive": self._waive}

    async def _terraform(self, arguments: args.RunArguments) -> None:
        run = self._services.runs.find(arguments.run)
        self._app.show(Viewer(f"terraform of {run.id}", await self._run_actions.terraform(arguments.run)))

    async def _waive(self, arguments: args.WaiveArguments) -> None:
        stage = await self._run_actions.waive(
            arguments.run, arguments.address, confirm=arguments.confirm, stage=arguments.stage
        )
        self._app.notify_plainly(f"{arguments.address} is waived. Resume {stage}.")
