"""The dispatcher: the one way from a key, the `:` line, the palette or a script to the handler of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actions.base.errors import ConsoleError, RefusedError
from actions.command.parse import parse_line
from actions.command.verbs import Arguments, Call, Danger, LaunchArguments
from tui.feeds.services import ConsoleServices
from tui.present.subject import Subject
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from tui.base_app import TypeAheadApp
    from tui.commands.app_actions import Handler


class CommandDispatcher:
    """The dispatcher of commands to their handlers.

    A command of the operator (`submit`) is completed with the selected run and confirmed by the danger of its command
    before its handler runs, in a worker; errors become notifications. A command of a script (`execute`) is complete and
    confirmed as written; errors are raised. A read-only session refuses mutations of both. Used on the loop only.

    Args:
        app: Shows dialogs and notifications, and runs the workers.
        services: The settings, and the runs that commands mean.
        workspace: The panes; the selection of the current one completes commands.
        make_handlers: Makes the handlers, one for each command by id. Called for the first command: handlers import
            all that can be done with the console.
    """

    def __init__(
        self,
        app: TypeAheadApp[Any],
        services: ConsoleServices,
        workspace: PaneWorkspace,
        make_handlers: Callable[[], Mapping[str, Handler]],
    ) -> None:
        self._app = app
        self._services = services
        self._workspace = workspace
        self._make_handlers = make_handlers

    @property
    def known(self) -> frozenset[str]:
        """The ids of all commands that have a handler."""
        return frozenset(self._handlers)

    def submit(self, command: str | Call) -> None:
        """Start a command of the operator in a worker, and keep the keys typed next until its effect is on screen.

        Args:
            command: A line as typed after `:`, or a command with its arguments.
        """
        try:
            call = parse_line(command) if isinstance(command, str) else command
            call = with_selected_run(call, self._workspace.current.subject())
        except ConsoleError as error:
            self._app.notify_error(error)
            return
        release = self._app.type_ahead.hold()
        self._app.run_worker(self._run(call, release), group="commands", exit_on_error=True)

    async def execute(self, call: Call) -> None:
        """Run the handler of a complete and confirmed call.

        Raises:
            RefusedError: The session is read-only, and the command could change something.
            ConsoleError: The command failed.
        """
        self._refuse_mutation(call)
        await self._handlers[call.command.id](call.arguments)

    async def _run(self, call: Call, release: Callable[[], None]) -> None:
        try:
            self._refuse_mutation(call)
            arguments = await self._confirmed(call)
            if arguments is not None:
                await self._handlers[call.command.id](arguments)
        except ConsoleError as error:
            self._app.notify_error(error)
        except Exception as error:  # noqa: BLE001 - the command boundary: a defect in one handler must not end the console
            self._app.notify_plainly(f"{call.command.id} failed: a bug of eksml-tui ({type(error).__name__}: {error}).")
        finally:
            self._app.release_when_shown(release, self._workspace.current)

    async def _confirmed(self, call: Call) -> Arguments | None:
        """Ask for the confirmation that the danger of a command requires.

        Returns:
            The arguments to run the handler with; `None` after a no.
        """
        if call.command.danger is Danger.NONE:
            return call.arguments
        if isinstance(call.arguments, LaunchArguments):
            return await self._reviewed(call.arguments)
        from tui.commands.confirmations import confirmation_for, confirmed_arguments
        from tui.screens.confirm import ConfirmModal, TypeNameModal

        confirmation = confirmation_for(call, self._services.runs)
        if confirmation is None:
            return call.arguments
        modal = TypeNameModal(confirmation) if confirmation.word else ConfirmModal(confirmation)
        if not await self._app.put_in_front(modal):
            return None
        return confirmed_arguments(call, self._services.runs.view)

    async def _reviewed(self, arguments: LaunchArguments) -> LaunchArguments | None:
        """Show the launch form, which has plan and cost, and a confirmation of its own."""
        from tui.screens.launch import LaunchScreen

        blueprint = await self._services.blueprints.find(arguments.blueprint)
        return await self._app.put_in_front(LaunchScreen(blueprint, arguments, self._services))

    def _refuse_mutation(self, call: Call) -> None:
        if self._services.settings.readonly and call.command.is_mutation:
            raise RefusedError(
                f"This console is read-only: {call.command.id} was not carried out.", hint="Start without --readonly."
            )

    @cached_property
    def _handlers(self) -> Mapping[str, Handler]:
        return self._make_handlers()


def with_selected_run(call: Call, subject: Subject | None) -> Call:
    """Return the call with the selected run in the place of an empty `run`."""
    if subject is None or subject.kind != "Run" or getattr(call.arguments, "run", None) != "":
        return call
    return Call(call.command, replace(call.arguments, run=subject.name))
