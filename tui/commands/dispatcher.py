"""The dispatcher: the one way from a key, the `:` line, the palette or a script to the handler of a command."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actions.base.errors import ConsoleError, MissingError, RefusedError, describe_bug
from actions.command.arguments import (
    TARGETED,
    Arguments,
    LaunchArguments,
    ScaleArguments,
    TakeoverArguments,
    TargetArguments,
)
from actions.command.parse import parse_typed
from actions.command.verbs import (
    Call,
    Danger,
)
from tui.feeds.runs import RunFeed, whole_id
from tui.feeds.services import ConsoleServices
from tui.present.subject import Subject
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from tui.base_app import TypeAheadApp
    from tui.commands.app_actions import Handler
    from tui.commands.script_writer import ScriptWriter


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
        self.script_writer: ScriptWriter | None = None
        """Writes a script of the commands that are carried out, if the session is recorded."""

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
            if isinstance(command, str):
                command = expanded(command, self._services.settings.aliases)
            is_kind = self._services.followed.on_screen.kinds.knows
            call = parse_typed(command, is_kind) if isinstance(command, str) else command
            call = with_whole_run(with_selected_run(call, self._workspace.current.subject()), self._services.runs)
            self._refuse_mutation(call)
        except ConsoleError as error:
            self._app.notify_error(error)
            return
        release = self._app.type_ahead.hold()
        self._app.run_worker(self._run(call, release), group="commands", exit_on_error=True)

    async def execute(self, call: Call) -> None:
        """Run the handler of a complete and confirmed call.

        Raises:
            RefusedError: The session is read-only, or what is on screen is not live, and the command could change
                something.
            ConsoleError: The command failed.
        """
        self._refuse_mutation(call)
        await self._carry_out(with_whole_run(call, self._services.runs))

    async def _run(self, call: Call, release: Callable[[], None]) -> None:
        try:
            self._refuse_mutation(call)
            arguments = await self._confirmed(call)
            if arguments is not None:
                await self._carry_out(Call(call.command, arguments))
        except ConsoleError as error:
            self._app.notify_error(error)
        except Exception as error:  # noqa: BLE001 - the command boundary: a defect in one handler must not end the console
            self._app.notify_plainly(f"{call.command.id} failed: {describe_bug(error)}.")
        finally:
            self._app.release_when_shown(release, self._workspace.current)

    async def _carry_out(self, call: Call) -> None:
        script_writer, handler = self.script_writer, self._handlers[call.command.id]
        if script_writer is None:
            await handler(call.arguments)
            return
        line, is_done = script_writer.begun(call), False
        try:
            await handler(call.arguments)
            is_done = True
        finally:
            script_writer.ended(call, line, is_done=is_done)

    async def _confirmed(self, call: Call) -> Arguments | None:
        """Ask for the confirmation that the danger of a command requires.

        Returns:
            The arguments to run the handler with; `None` after a no.
        """
        if call.command.danger is Danger.NONE:
            return call.arguments
        if isinstance(call.arguments, LaunchArguments):
            return await self._reviewed(call.arguments)
        if isinstance(call.arguments, TARGETED):
            return await self._confirmed_change(call, call.arguments)
        from tui.commands.confirmations import confirmation_for, confirmed_arguments, require_as_shown, with_users
        from tui.screens.confirm import ConfirmModal, TypeNameModal

        confirmation = confirmation_for(call, self._services.runs)
        if confirmation is None:
            return call.arguments
        shown = self._services.runs.view
        confirmation = await with_users(confirmation, call, self._services.runs)
        modal = TypeNameModal(confirmation) if confirmation.word else ConfirmModal(confirmation)
        if not await self._app.put_in_front(modal):
            return None
        require_as_shown(call, shown, self._services.runs.view)
        return confirmed_arguments(call, self._services.runs.view)

    async def _confirmed_change(self, call: Call, arguments: TargetArguments | ScaleArguments) -> Arguments | None:
        """Name the objects that a change is meant for, as they are when the dialog opens."""
        from tui.commands.targets import KIND_OF_A_NAME, confirmation_of_change, resolve_targets
        from tui.screens.confirm import ConfirmModal, TypeNameModal

        services, kind = self._services, KIND_OF_A_NAME.get(call.command.id, "pods")
        cluster, targets = await resolve_targets(services, self._workspace, arguments, kind=kind)
        confirmation, resolved = await confirmation_of_change(services, cluster, call, targets)
        modal = TypeNameModal(confirmation) if confirmation.word else ConfirmModal(confirmation)
        return resolved.arguments if await self._app.put_in_front(modal) else None

    async def _reviewed(self, arguments: LaunchArguments) -> LaunchArguments | None:
        """Show the launch form, which has plan and cost, and a confirmation of its own.

        Raises:
            ParameterError, UnknownNameError: The form could not show what was typed: it has no such preset, parameter,
                or value.
        """
        from actions.blueprint.parameters import read_known
        from tui.screens.launch import LaunchScreen

        blueprint = await self._services.blueprints.find(arguments.blueprint)
        typed = read_known(blueprint, arguments.set, preset=arguments.preset)
        wanted = replace(arguments, set=typed)
        return await self._app.put_in_front(LaunchScreen(blueprint, wanted, self._services))

    def _refuse_mutation(self, call: Call) -> None:
        if self._services.settings.readonly and call.command.is_mutation:
            from tui.base_app import is_in_browser

            is_served = is_in_browser(os.environ)
            raise RefusedError(
                f"This console is read-only: {call.command.id} was not carried out.",
                hint="Serve it with --allow-changes." if is_served else "Start without --readonly.",
            )

    @cached_property
    def _handlers(self) -> Mapping[str, Handler]:
        return self._make_handlers()


def expanded(line: str, aliases: Mapping[str, str]) -> str:
    """Return a line with the operator's own word at its beginning replaced by the line that it stands for."""
    word, _, rest = line.strip().partition(" ")
    return f"{aliases[word]} {rest}".rstrip() if word in aliases else line


def with_selected_run(call: Call, subject: Subject | None) -> Call:
    """Return the call with the selected run in the place of an empty `run`."""
    if subject is None or subject.kind != "Run" or getattr(call.arguments, "run", None) != "":
        return call
    return Call(call.command, replace(call.arguments, run=subject.name))


def with_whole_run(call: Call, runs: RunFeed) -> Call:
    """Return a takeover with the whole id of its run; any other call as it is.

    Raises:
        MissingError: Several runs begin like that, or none is selected.
    """
    if not isinstance(call.arguments, TakeoverArguments):
        return call
    if not call.arguments.run and runs.view is None:
        raise MissingError("No run is selected.", hint="Put the cursor on one in the runs pane, or name it.")
    run = whole_id(runs, call.arguments.run) or (runs.view.id if runs.view else "")
    return Call(call.command, replace(call.arguments, run=run))
