"""The dialogs before dangerous commands: their texts, and the arguments that a yes adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from actions.base.clock import time_of_day
from actions.base.errors import RefusedError
from actions.base.executors import in_thread
from actions.base.wording import counted, folded
from actions.command.arguments import (
    ApproveArguments,
    Arguments,
    ExportArguments,
    ResumeArguments,
    TakeoverArguments,
    TeardownArguments,
    WaiveArguments,
)
from actions.command.verbs import (
    Call,
    Danger,
)
from actions.run.paid import priced
from actions.run.resume import held_rate, resume_of
from actions.run.state.planner import kept_stages, parking_order
from actions.run.state.records import Action, RequestKind
from actions.run.state.view import RunView, StageState
from tui.feeds.runs import RunFeed, waiting_stage
from tui.present.cells import Cells, Span, Tone
from tui.screens.confirm import Confirmation

if TYPE_CHECKING:
    from actions.cluster.auth.exec_plugins import PluginRequest

_REQUESTS = ("cancel", "park")
"""Commands with a dialog that are requests to the run's runner; those of `approve` and `teardown` are complete only
after it."""
_PLAN_LINES = 14
_WIDTH = 66
"""Columns of text in a dialog on a terminal of eighty columns."""


def confirmation_for(call: Call, runs: RunFeed) -> Confirmation | None:
    """Return the dialog for `call`, by the danger of its command; `None` if it needs none.

    Puts the run that the call means on screen: the dialog and the effects of the command belong to it.

    Raises:
        ConsoleError: There is no such run or stage, or the run does not accept the request.
    """
    if call.command.danger is Danger.NONE:
        return None
    if isinstance(call.arguments, TakeoverArguments):
        return _taking_over(call.arguments, runs)
    runs.require_here(getattr(call.arguments, "run", ""))
    summary = runs.find(getattr(call.arguments, "run", ""))
    if runs.view is None or runs.view.id != summary.id:
        runs.choose(summary.folder)
    view = runs.view
    if view is None:
        return None
    if call.command.id in _REQUESTS:
        from actions.run.client import refuse_unfit  # imports what starts runners, which a dialog does not need

        refuse_unfit(view, RequestKind(call.command.id))  # before a yes, which would not help
    match call.command.danger:
        case Danger.CONFIRM:
            return _yes_or_no(call, view)
        case Danger.TYPE_NAME:
            return _typed(call, view)
        case _ as never:
            assert_never(never)


async def with_users(confirmation: Confirmation, call: Call, runs: RunFeed) -> Confirmation:
    """Return the dialog of a teardown that removes what other runs count on with these; any other as it is.

    Raises:
        RefusedError: It was not asked for by name, with the ways on: before a name is typed, which would not help.
        ConfigError: The folder of all runs cannot be read.
    """
    view, folder = runs.view, runs.folder
    if not isinstance(call.arguments, TeardownArguments) or view is None or folder is None:
        return confirmation
    from actions.run.teardown.sharing import local_users, refuse_shared

    deletes_data = call.arguments.delete_data or view.deletes_data
    if not (call.arguments.even_if_shared or view.even_if_shared):
        await in_thread("runs", lambda: refuse_shared(folder, view, deletes_data=deletes_data))
        return confirmation
    users = await in_thread("runs", lambda: local_users(folder, view, deletes_data=deletes_data))
    text = f"▲ Others use what it removes: {'; '.join(users)}." if users else ""
    return replace(confirmation, lines=[*_wrapped(text, Tone.BAD), *confirmation.lines])


def confirmed_arguments(call: Call, view: RunView | None) -> Arguments:
    """Return the arguments of `call` after a yes: the typed name becomes its `confirm`.

    Args:
        call: The confirmed call.
        view: The run on screen.
    """
    if isinstance(call.arguments, TeardownArguments) and view is not None:
        return replace(call.arguments, confirm=view.cluster.name)
    if isinstance(call.arguments, WaiveArguments):
        return replace(call.arguments, confirm=call.arguments.address)
    if isinstance(call.arguments, TakeoverArguments):
        return replace(call.arguments, confirm=call.arguments.run)
    return call.arguments


def require_as_shown(call: Call, shown: RunView | None, now: RunView | None) -> None:
    """Require that the run of a dialog is still on screen, and that its plan waits: another console may be faster.

    Raises:
        RefusedError: It is another run, or the plan does not wait any more.
    """
    if shown is None or isinstance(call.arguments, TakeoverArguments):
        return
    if now is None or now.id != shown.id:
        raise RefusedError(f"The run {shown.id} is not on screen any more.", hint="Choose it, and answer again.")
    if isinstance(call.arguments, ApproveArguments):
        asked = waiting_stage(shown, call.arguments.stage)
        stage = now.stage(asked.id)
        if stage.state is not StageState.AWAITING_APPROVAL or stage.plan != asked.plan:
            by = f" {stage.approved_by} has approved it." if stage.approved_by else ""
            raise RefusedError(f"The plan of {asked.title} that was shown does not wait any more.{by}")


def _yes_or_no(call: Call, view: RunView) -> Confirmation | None:
    if call.command.id == "approve":
        return _approval(view, getattr(call.arguments, "stage", ""))
    if isinstance(call.arguments, ResumeArguments):
        resume = resume_of(view, call.arguments.stage)
        if resume.request is None:  # a runner alone: nothing is asked of the run that was not before
            return None
        lines = [line for text in resume.lines() for line in _wrapped(text)]
        return Confirmation(f"Resume {view.id}?", [*lines, *place_lines(view), *_limit_lines(view)])
    if isinstance(call.arguments, ExportArguments):
        place = call.arguments.to or "the place that its role may write to"
        text = f"A Job in its cluster copies them to {place}. It continues if you leave the console."
    elif call.command.id == "park":
        undone = [stage for action, stage in parking_order(view.stages) if action is Action.UNDO]
        titles = [view.stage(stage).title for stage in undone]
        text = " ".join([call.command.help, *([f"Undone: {', '.join(titles)}."] if titles else [])])
        rates = held_rate(view), held_rate(view, without=undone) or "nothing"
        text += f" An hour costs {rates[0]} now, {rates[1]} when parked." if rates[0] else ""
    else:
        text = call.command.help
    return Confirmation(f"{call.command.title}: {view.id}?", [*_wrapped(text), *place_lines(view), *_limit_lines(view)])


def _limit_lines(view: RunView) -> list[Cells]:
    from actions.run.limits.options import limits_text

    return _wrapped(f"limits: {limits_text(view.limits)}", Tone.MUTED)


def place_lines(view: RunView) -> list[Cells]:
    """Return where a run works: its cluster, region, account and context, as far as they are known."""
    account = view.account.id if view.account is not None else ""
    cluster = view.cluster
    return _places(cluster=cluster.name, region=cluster.region, account=account, context=cluster.context)


def _places(**known: str) -> list[Cells]:
    text = " · ".join(f"{name} {value}".replace(" ", "\xa0") for name, value in known.items() if value)
    return [(Span(line.replace("\xa0", " ").removesuffix(" ·"), Tone.MUTED),) for line in _folded(text)]


def _folded(text: str) -> list[str]:
    return folded(text, _WIDTH)


def _taking_over(arguments: TakeoverArguments, runs: RunFeed) -> Confirmation | None:
    """Return the dialog of a takeover; the run is on another machine, so none is put on screen."""
    if arguments.confirm:
        return None  # typed on the line; the handler refuses a wrong one
    text = (
        "The machine that carries it out now will not change anything in it any more. If that machine may be alive, "
        "this one waits a few seconds before it begins."
    )
    if arguments.machine_is_gone:
        text = "You state that the machine that had it no longer exists: locks that it left are removed."
    remote = runs.others.find(arguments.run) if runs.others is not None else None
    lines = _wrapped(text)
    if remote is not None and remote.lease is not None:
        who = f"{remote.owner} has it, last heartbeat {time_of_day(remote.seen_at)} UTC."
        where = _places(cluster=remote.about.cluster, region=remote.about.region, account=remote.about.account)
        lines = [*_wrapped(who), *lines, *where]
    return Confirmation(f"Take over {arguments.run}", lines, word=arguments.run, word_is="the run's id")


def _typed(call: Call, view: RunView) -> Confirmation | None:
    if getattr(call.arguments, "confirm", ""):
        return None  # typing the name on the line is the confirmation; the handler refuses a wrong one
    if isinstance(call.arguments, WaiveArguments):
        text = "It may exist and cost money. The run forgets it: neither a teardown nor the audit looks for it."
        address = call.arguments.address
        return Confirmation(f"Waive {address}", _wrapped(text), word=address, word_is="the resource's address")
    return Confirmation(
        f"Tear down {view.id}",
        teardown_lines(
            view,
            deletes_data=getattr(call.arguments, "delete_data", False) or view.deletes_data,
        ),
        word=view.cluster.name,
        word_is="the cluster's name",
    )


def plugin_confirmation(request: PluginRequest) -> Confirmation:
    """Return the dialog before an exec plugin of a kubeconfig is started."""
    folds = [folded(line, _WIDTH, further="    ") or [""] for line in request.lines()]
    lines: list[Cells] = [(Span(part),) for parts in folds for part in parts]
    lines += [
        (Span(""),),
        (Span("It runs as you. You are asked again if the program or its arguments change.", Tone.WARN),),
    ]
    return Confirmation("Start this program for a token?", lines)


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
    lines += place_lines(view)
    return Confirmation(f"Approve the plan of {stage.title}?", lines)


def teardown_lines(view: RunView, *, deletes_data: bool) -> list[Cells]:
    """Return the text of the teardown dialog: what the teardown of the run removes, what it leaves, and its price."""
    kinds: dict[str, int] = {}
    for item in view.owned:
        if not item.is_deleted and not item.existed:
            kinds[item.kind] = kinds.get(item.kind, 0) + 1
    made = ", ".join(
        f"{count}\xa0{kind}" if count == 1 else f"{count}\xa0×\xa0{kind}" for kind, count in sorted(kinds.items())
    )
    left = frozenset() if deletes_data else kept_stages(view.stages)
    roots = [stage for stage in view.stages if stage.kind == "terraform" and stage.state is StageState.SUCCEEDED]
    gone = [root.title for root in roots if root.id not in left]
    kept = [priced(view, root) for root in roots if root.id in left]
    before = sum(item.existed for item in view.owned)
    lines = _wrapped(f"Stops its jobs, deletes {made or 'nothing in the cluster'}, then audits.", most=2)
    lines += _wrapped(f"Destroyed by Terraform: {', '.join(gone)}." if gone else "")
    if deletes_data:
        lines += _wrapped("Storage of the run is deleted with all data on it.", Tone.BAD)
    else:
        data = f"Left by Terraform, for its data: {', '.join(kept)}." if kept else "Storage with data stays."
        lines += _wrapped(f"{data} :teardown delete_data=true removes it.", Tone.WARN if kept else Tone.MUTED)
    if before:
        lines += _wrapped(
            f"{counted(before, 'object')} that {'was' if before == 1 else 'were'} there before the run"
            f" stay{'s' if before == 1 else ''}.",
            Tone.MUTED,
        )
    return [*lines, *place_lines(view)]


def _wrapped(text: str, tone: Tone = Tone.PLAIN, *, most: int | None = None) -> list[Cells]:
    return [(Span(line.replace("\xa0", " "), tone),) for line in folded(text, _WIDTH, most=most)]
