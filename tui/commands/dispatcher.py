"""The dispatcher: refuses a command, asks for confirmation, or runs its handler."""

from __future__ import annotations

import textwrap
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from msgspec.structs import replace
from textual.screen import Screen

from actions.base.errors import ConfigError, RefusedError
from actions.command.verbs import (
    Arguments,
    Call,
    Danger,
    ExportArguments,
    LaunchArguments,
    TeardownArguments,
    WaiveArguments,
)
from actions.fleet.facts import PodFacts
from actions.run.state.planner import kept_stages
from actions.run.state.view import RunView, StageState
from tui.feeds.runs import RunFeed, waiting_stage
from tui.present.cells import Cells, Span, Tone
from tui.present.run import holders_of
from tui.present.subject import Subject
from tui.screens.confirm import Confirmation

if TYPE_CHECKING:
    from actions.cluster.auth.exec_plugins import PluginRequest


class AppActions(msgspec.Struct, frozen=True):
    """What verbs may do with the app, handed in so that they need not know it.

    Args:
        show: Put a screen in front.
        say: Tell the operator one sentence.
        save: Write the settled screen to a file.
        leave: End the console.
        leave_front: Close what is in front of the console; `False` if nothing is.
        open_shell: Put a shell in a container in front.
        allow_plugin: Ask whether an exec plugin may be started, if an error is about one.
    """

    show: Callable[[Screen[None]], None]
    say: Callable[[str], None]
    save: Callable[[Path], None]
    leave: Callable[[], None]
    leave_front: Callable[[], bool]
    open_shell: Callable[[PodFacts, str], None]
    allow_plugin: Callable[[ConfigError], Awaitable[bool]]


def with_selected_run(call: Call, subject: Subject | None) -> Call:
    """The call with the selected run in the place of an empty one."""
    if subject is None or subject.kind != "Run" or getattr(call.arguments, "run", None) != "":
        return call
    return Call(call.command, replace(call.arguments, run=subject.name))


_PLAN_LINES = 14
_WIDTH = 66
"""Columns of text in a dialog on a terminal of eighty columns."""


class Confirmations:
    """Knows what the operator has to be told before a call is carried out.

    Args:
        runs: The run that an empty argument means.
    """

    def __init__(self, runs: RunFeed) -> None:
        self._runs = runs

    def confirmation_for(self, call: Call) -> Confirmation | None:
        """What to ask; `None` where there is nothing to ask here.

        Raises:
            ConsoleError: The call means a run or stage that is not there.
        """
        if isinstance(call.arguments, LaunchArguments):
            return None  # the launch form shows plan and cost, and asks itself
        meant = self._runs.find(getattr(call.arguments, "run", ""))
        if self._runs.view is None or self._runs.view.id != meant.id:
            self._runs.choose(meant.folder)  # what is asked about is on screen, and so is what comes of it
        view = self._runs.view
        if view is None:
            return None
        match call.command.danger:
            case Danger.NONE:
                return None
            case Danger.CONFIRM:
                return self._yes_or_no(call, view)
            case Danger.TYPE_NAME:
                return self._typed(call, view)
            case _ as never:
                assert_never(never)

    def confirmed_arguments(self, call: Call) -> Arguments:
        """The arguments after a yes: a typed name counts as the confirmation."""
        if isinstance(call.arguments, TeardownArguments) and self._runs.view is not None:
            return replace(call.arguments, confirm=self._runs.view.cluster.name)
        if isinstance(call.arguments, WaiveArguments):
            return replace(call.arguments, confirm=call.arguments.address)
        return call.arguments

    def _yes_or_no(self, call: Call, view: RunView) -> Confirmation:
        if call.command.id == "approve":
            return _approval(view, getattr(call.arguments, "stage", ""))
        if isinstance(call.arguments, ExportArguments):
            said = f"A Job in its cluster copies them to {call.arguments.to}. It goes on if the console is left."
        elif call.command.id == "park" and holders_of(view):
            said = f"{call.command.help} Undone: {', '.join(stage.title for stage in holders_of(view))}."
        else:
            said = call.command.help
        lines = [(Span(line),) for line in textwrap.wrap(said, _WIDTH)]
        return Confirmation(f"{call.command.title}: {view.id}?", lines)

    def _typed(self, call: Call, view: RunView) -> Confirmation | None:
        if getattr(call.arguments, "confirm", ""):
            return None  # whoever wrote the name has confirmed; a wrong one is refused
        if isinstance(call.arguments, WaiveArguments):
            said = "It may exist and cost money. The run forgets it: neither a teardown nor the audit looks for it."
            lines = [(Span(line),) for line in textwrap.wrap(said, _WIDTH)]
            address = call.arguments.address
            return Confirmation(f"Waive {address}", lines, word=address, word_is="the resource's address")
        return Confirmation(
            f"Tear down {view.id}",
            teardown_lines(view, deletes_data=getattr(call.arguments, "delete_data", False)),
            word=view.cluster.name,
            word_is="the cluster's name",
        )


def plugin_confirmation(request: PluginRequest) -> Confirmation:
    """Return whether a program that a kubeconfig names may be started."""
    folded = [textwrap.wrap(line, _WIDTH, subsequent_indent="    ") or [""] for line in request.lines()]
    lines: list[Cells] = [(Span(part),) for parts in folded for part in parts]
    lines += [
        (Span(""),),
        (Span("It runs as you. It is asked again if the program or its arguments change.", Tone.WARN),),
    ]
    return Confirmation("Start this program for a token?", lines)


def _named(what: str, titles: list[str]) -> list[Cells]:
    text = f"{what}: {', '.join(titles)}."
    return [(Span(f"  {line}"),) for line in textwrap.wrap(text, _WIDTH)] if titles else []


def _approval(view: RunView, stage_id: str) -> Confirmation:
    stage = waiting_stage(view, stage_id)
    plan = stage.plan
    lines: list[Cells] = []
    if plan is not None:
        counts = f"{plan.add} to add, {plan.change} to change, {plan.destroy} to destroy"
        lines.append((Span(counts, Tone.WARN if plan.destroy else Tone.STRONG),))
        lines += [(Span(f"  {line}"),) for line in plan.lines[:_PLAN_LINES]]
        if len(plan.lines) > _PLAN_LINES:
            lines.append((Span(f"  … {len(plan.lines) - _PLAN_LINES} more", Tone.MUTED),))
    return Confirmation(f"Approve the plan of {stage.title}?", lines)


def teardown_lines(view: RunView, *, deletes_data: bool) -> list[Cells]:
    """What a teardown of the run would remove, and what it would leave."""
    owned = [item for item in view.owned if not item.is_deleted and not item.existed]
    kinds: dict[str, int] = {}
    for item in owned:
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
    lines: list[Cells] = [(Span("Stops its jobs, removes what it made in reverse order, then audits."),)]
    counted = ", ".join(f"{count}\xa0{kind}" for kind, count in sorted(kinds.items()))
    lines += [(Span(f"  {line}".replace("\xa0", " ")),) for line in textwrap.wrap(counted, _WIDTH)]
    left = frozenset() if deletes_data else kept_stages(view.stages)
    roots = [stage for stage in view.stages if stage.kind == "terraform" and stage.state is StageState.SUCCEEDED]
    lines += _named("Destroyed by Terraform", [root.title for root in roots if root.id not in left])
    lines += _named("Left by Terraform, for its data", [root.title for root in roots if root.id in left])
    kept = sum(item.existed for item in view.owned)
    if kept:
        lines.append((Span(f"  {kept} objects were there before the run: they stay.", Tone.MUTED),))
    if deletes_data:
        lines.append((Span("Storage of the run is deleted with all data on it.", Tone.BAD),))
    else:
        lines.append((Span("Storage with data stays; it goes with :teardown delete_data=true", Tone.MUTED),))
    return lines


Handler = Callable[[Any], Awaitable[None]]
"""Carries out one command; its argument is the command's own Struct."""

Ask = Callable[[Confirmation], Awaitable[bool]]
ConfirmationFor = Callable[[Call], Confirmation | None]
"""What to ask before a call; `None` where the call says it all itself."""
ConfirmedArguments = Callable[[Call], Arguments]
"""The arguments of a call to which the operator said yes."""


class CommandDispatcher:
    """Carries calls out, each by the verb of its command.

    A read-only session refuses whatever could change something before anything else happens. A dangerous call that
    comes from a key or the `:` line is asked about; one from a script has said it all.

    Args:
        verbs: Makes the verbs, by command id, one for every command. Called for the first call: they import all that
            can be done with the console.
        is_readonly: Refuse mutations.
        ask: Shows a question and waits for the answer.
        doubt: The question before a call.
        vouch: What a yes adds to the arguments.
    """

    def __init__(
        self,
        handlers: Callable[[], Mapping[str, Handler]],
        *,
        is_readonly: bool,
        ask: Ask,
        confirmation_for: ConfirmationFor,
        confirmed_arguments: ConfirmedArguments,
    ) -> None:
        self._make_handlers = handlers
        self._is_readonly = is_readonly
        self._ask = ask
        self._confirmation_for = confirmation_for
        self._confirmed_arguments = confirmed_arguments

    @property
    def known(self) -> frozenset[str]:
        """Ids of the commands that it can carry out."""
        return frozenset(self._handlers)

    @cached_property
    def _handlers(self) -> Mapping[str, Handler]:
        return self._make_handlers()

    def refuse_mutation(self, call: Call) -> None:
        """Refuse what a read-only session may not do.

        Raises:
            RefusedError: The session is read-only and the call could change something.
        """
        if self._is_readonly and call.command.is_mutation:
            raise RefusedError(
                f"This console is read-only: {call.command.id} was not carried out.", hint="Start without --readonly."
            )

    async def dispatch(self, call: Call, *, is_asked: bool) -> bool:
        """Carry `call` out.

        Args:
            call: What to do.
            is_asked: Whether somebody is there to be asked.

        Returns:
            Whether it was done; `False` if the operator said no.

        Raises:
            ConsoleError: It cannot be done.
        """
        self.refuse_mutation(call)
        arguments = call.arguments
        question = self._confirmation_for(call) if is_asked and call.command.danger is not Danger.NONE else None
        if question is not None:
            if not await self._ask(question):
                return False
            arguments = self._confirmed_arguments(call)
        await self._handlers[call.command.id](arguments)
        return True
