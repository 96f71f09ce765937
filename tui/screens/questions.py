"""What is asked before something dangerous is done."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from actions.command.verbs import Arguments, Call, Danger, Export, Launch, Teardown, Waive
from actions.run.state.planner import kept_stages
from actions.run.state.view import RunView, StageState
from tui.live.run_feed import RunFeed
from tui.live.waiting import waiting_stage
from tui.modals.confirm import Question
from tui.present.cells import Cells, Span, Tone
from tui.present.run import holders_of

if TYPE_CHECKING:
    from actions.cluster.auth.exec_plugins import PluginRequest

_PLAN_LINES = 14
_WIDTH = 66
"""Columns of text in a dialog on a terminal of eighty columns."""


class Questioner:
    """Knows what the operator has to be told before a call is carried out.

    Args:
        runs: The run that an empty argument means.
    """

    def __init__(self, runs: RunFeed) -> None:
        self._runs = runs

    def question_of(self, call: Call) -> Question | None:
        """What to ask; `None` where there is nothing to ask here.

        Raises:
            ConsoleError: The call means a run or stage that is not there.
        """
        if isinstance(call.arguments, Launch):
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

    def vouch(self, call: Call) -> Arguments:
        """The arguments after a yes: a typed name counts as the confirmation."""
        if isinstance(call.arguments, Teardown) and self._runs.view is not None:
            return replace(call.arguments, confirm=self._runs.view.cluster.name)
        if isinstance(call.arguments, Waive):
            return replace(call.arguments, confirm=call.arguments.address)
        return call.arguments

    def _yes_or_no(self, call: Call, view: RunView) -> Question:
        if call.command.id == "approve":
            return _approval(view, getattr(call.arguments, "stage", ""))
        if isinstance(call.arguments, Export):
            said = f"A Job in its cluster copies them to {call.arguments.to}. It goes on if the console is left."
        elif call.command.id == "park" and holders_of(view):
            said = f"{call.command.help} Undone: {', '.join(stage.title for stage in holders_of(view))}."
        else:
            said = call.command.help
        lines = [(Span(line),) for line in textwrap.wrap(said, _WIDTH)]
        return Question(f"{call.command.title}: {view.id}?", lines)

    def _typed(self, call: Call, view: RunView) -> Question | None:
        if getattr(call.arguments, "confirm", ""):
            return None  # whoever wrote the name has confirmed; a wrong one is refused
        if isinstance(call.arguments, Waive):
            said = "It may exist and cost money. The run forgets it: neither a teardown nor the audit looks for it."
            lines = [(Span(line),) for line in textwrap.wrap(said, _WIDTH)]
            address = call.arguments.address
            return Question(f"Waive {address}", lines, word=address, word_is="the resource's address")
        return Question(
            f"Tear down {view.id}",
            teardown_lines(view, deletes_data=getattr(call.arguments, "delete_data", False)),
            word=view.cluster.name,
            word_is="the cluster's name",
        )


def plugin_question(request: PluginRequest) -> Question:
    """Return whether a program that a kubeconfig names may be started."""
    folded = [textwrap.wrap(line, _WIDTH, subsequent_indent="    ") or [""] for line in request.lines()]
    lines: list[Cells] = [(Span(part),) for parts in folded for part in parts]
    lines += [
        (Span(""),),
        (Span("It runs as you. It is asked again if the program or its arguments change.", Tone.WARN),),
    ]
    return Question("Start this program for a token?", lines)


def _named(what: str, titles: list[str]) -> list[Cells]:
    text = f"{what}: {', '.join(titles)}."
    return [(Span(f"  {line}"),) for line in textwrap.wrap(text, _WIDTH)] if titles else []


def _approval(view: RunView, stage_id: str) -> Question:
    stage = waiting_stage(view, stage_id)
    plan = stage.plan
    lines: list[Cells] = []
    if plan is not None:
        counts = f"{plan.add} to add, {plan.change} to change, {plan.destroy} to destroy"
        lines.append((Span(counts, Tone.WARN if plan.destroy else Tone.STRONG),))
        lines += [(Span(f"  {line}"),) for line in plan.lines[:_PLAN_LINES]]
        if len(plan.lines) > _PLAN_LINES:
            lines.append((Span(f"  … {len(plan.lines) - _PLAN_LINES} more", Tone.MUTED),))
    return Question(f"Approve the plan of {stage.title}?", lines)


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
