"""The lines at the edges of the console: where one is, which panes there are, which keys work here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actions.run.state.view import NoticeKind, RunState, RunView, notice_words
from tui.feeds.services import CLUSTER, Desk
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.present.cells import Cells, Span, Tone
from tui.present.header import HeaderFacts, place_of
from tui.present.run import RUN_TONES
from tui.present.subject import Subject
from tui.settings.keymap import NO_CHANGES, Keymap
from tui.settings.keys import Context, footer, name_of

_NARROW = 100
_SHORT = {"blueprints": "bluepr", "accelerators": "accel"}
_MARKS = {
    RunState.RUNNING: "▶",
    RunState.AWAITING_APPROVAL: "◆",
    RunState.UNKNOWN: "?",
    RunState.STALLED: "▲",
    RunState.FAILED: "✘",
    RunState.TEARING_DOWN: "◀",
}
_MUTATIONS = ("approve", "retry", "cancel", "park", "resume", "teardown", "launch", "shell")
_ENDED = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
_STATES = {
    "approve": (RunState.AWAITING_APPROVAL,),
    "retry": (RunState.FAILED, RunState.CANCELLED, RunState.PARKED),
    "cancel": (RunState.WAITING, RunState.RUNNING, RunState.AWAITING_APPROVAL, RunState.UNKNOWN, RunState.STALLED),
    "results": (RunState.SUCCEEDED,),
    "park": _ENDED,
    "teardown": tuple(state for state in RunState if state not in (RunState.TORN_DOWN, RunState.TEARING_DOWN)),
}
"""In which states of the run a key is worth its place."""


class RunAtHand(msgspec.Struct, frozen=True):
    """What the footer has to know of the run that keys act on.

    Args:
        state: How it is.
        is_interrupted: There is something to do, and no runner is alive.
    """

    state: RunState
    is_interrupted: bool = False


def header_facts(desk: Desk) -> HeaderFacts:
    """What the header line says at this moment."""
    settings, identity = desk.settings, desk.cluster.identity
    now = desk.clock.now().timestamp()
    expires_at = desk.credentials.expires_at
    health = desk.health("nodes")
    is_troubled = health.state in (FeedState.WAITING, FeedState.REFUSED)
    guessed = place_of(desk.cluster.context_name)
    return HeaderFacts(
        account=(identity.account if identity else guessed.account) or desk.credentials.account,
        cluster=(identity.name if identity else "") or guessed.cluster,
        region=(identity.region if identity else "") or guessed.region or settings.region,
        expires_in_seconds=None if expires_at is None else expires_at - now,
        demo=settings.demo.text() if settings.demo else "",
        is_readonly=settings.readonly,
        cost=desk.fleet_cost(),
        trouble=_trouble(desk, health) if is_troubled else _connection(desk),
        alarm=_alarm(desk.runs.view),
    )


def _alarm(view: RunView | None) -> str:
    """The obstacles to the run on screen; that its runner has died is told, and mended, elsewhere."""
    notices = [] if view is None else [one for one in view.notices if one.kind is not NoticeKind.NO_RUNNER]
    return ", ".join(map(notice_words, notices))


def _trouble(desk: Desk, health: FeedHealth) -> str:
    label = desk.label_of(health)
    has_picture = desk.cluster.snapshot() is not None
    return label if has_picture else label.replace("stale", "no answer for", 1)


def _connection(desk: Desk) -> str:
    state = desk.supervisor.health(CLUSTER).state
    return "connecting" if state is FeedState.STARTING else ""


def run_at_hand(desk: Desk, subject: Subject | None) -> RunAtHand | None:
    """The run that is selected in a list of runs, else the one on screen."""
    wanted = subject.name if subject is not None and subject.kind == "Run" else ""
    view = desk.runs.view
    if view is not None and wanted in ("", view.id):
        return RunAtHand(view.state, desk.runs.is_interrupted)
    found = next((run for run in desk.runs.summaries if run.id == wanted), None)
    return None if found is None else RunAtHand(found.state, found.is_interrupted)


def run_mark(view: RunView | None) -> Span | None:
    """The sign of the run on screen, for its tab: from every pane one sees that it waits, works or has failed."""
    return None if view is None or view.state not in _MARKS else Span(_MARKS[view.state], RUN_TONES[view.state])


def tabs_line(
    order: tuple[str, ...],
    present: tuple[str, ...],
    current: str,
    *,
    width: int,
    marks: Mapping[str, Span | None],
    keymap: Keymap = NO_CHANGES,
) -> Cells:
    """Keys and names of all panes; the current one in brackets, those of the arrangement stressed.

    Args:
        order: Names of the panes, in the order of their keys.
        present: Those in the arrangement, seen or behind the current one.
        current: The one with the focus.
        width: Terminal columns.
        marks: What stands behind a name.
        keymap: The operator's own keys.
    """
    spans: list[Span] = []
    for name in order:
        key = name_of(Context.EVERYWHERE, f"open {name}", keymap)
        shown = _SHORT.get(name, name) if width < _NARROW else name
        found = marks.get(name)
        mark = [] if found is None else [found]
        if name == current:
            spans += [Span(f"[{key} {shown}", Tone.ACCENT), *mark, Span("]", Tone.ACCENT)]
        else:
            tone = Tone.STRONG if name in present else Tone.MUTED
            gap = "" if width < _NARROW else " "
            spans += [Span(f"{gap}{key}", Tone.BUSY), Span(f" {shown}", tone), *mark, Span(" ")]
    return tuple(spans)


def hints_line(
    context: Context,
    *,
    run: RunView | None = None,
    at_hand: RunAtHand | None = None,
    is_readonly: bool = False,
    is_zoomed: bool = False,
    keymap: Keymap = NO_CHANGES,
) -> Cells:
    """Keys that work in the focused pane, as the run at hand is.

    A plan that waits, and a runner that is stalled, are told in every other pane.

    Args:
        context: Of the focused pane.
        run: The run on screen.
        at_hand: The run that keys of the pane act on.
        is_readonly: Nothing may be changed.
        is_zoomed: The pane has the whole screen.
        keymap: The operator's own keys.
    """
    spans: list[Span] = [Span(" ")]
    if is_zoomed:
        zoom = name_of(Context.EVERYWHERE, "zoom", keymap)
        spans += [Span(zoom, Tone.ACCENT), Span(" unzoom  ", Tone.WARN)]
    is_told = context in (Context.RUN, Context.RUNS) and at_hand is not None and _is_worth_it("approve", at_hand)
    if run is not None and run.state is RunState.AWAITING_APPROVAL and not is_told:
        go_there = name_of(Context.EVERYWHERE, "open run", keymap)
        spans += [Span(go_there, Tone.ACCENT), Span(" ◆ a plan waits  ", Tone.WARN)]
    if run is not None and run.state is RunState.STALLED and context not in (Context.RUN, Context.RUNS):
        go_there = name_of(Context.EVERYWHERE, "open run", keymap)
        spans += [Span(go_there, Tone.ACCENT), Span(" ▲ runner stalled  ", Tone.BAD)]
    for name, label in footer(context, keymap):
        if not (is_readonly and label in _MUTATIONS) and _is_worth_it(label, at_hand):
            spans += [Span(name, Tone.ACCENT), Span(f" {label}  ", Tone.MUTED)]
    return tuple(spans)


def _is_worth_it(label: str, at_hand: RunAtHand | None) -> bool:
    if label == "resume":  # an approval starts a runner, too
        if at_hand is None or at_hand.state is RunState.AWAITING_APPROVAL:
            return False
        return at_hand.is_interrupted or at_hand.state is RunState.STALLED
    return label not in _STATES or (at_hand is not None and at_hand.state in _STATES[label])
