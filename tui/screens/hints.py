"""The lines at the edges of the console: where one is, which panes there are, which keys work here."""

from __future__ import annotations

from collections.abc import Mapping

from actions.run.view import RunState, RunView
from tui.keys import Context, footer
from tui.live.desk import CLUSTER, Desk
from tui.live.health import FeedState
from tui.present.cells import Cells, Span, Tone
from tui.present.header import HeaderFacts, place_of
from tui.present.run import RUN_TONES

_NARROW = 100
_SHORT = {"blueprints": "bluepr", "accelerators": "accel"}
_MARKS = {
    RunState.RUNNING: "▶",
    RunState.AWAITING_APPROVAL: "◆",
    RunState.UNKNOWN: "?",
    RunState.FAILED: "✘",
    RunState.TEARING_DOWN: "◀",
}
_MUTATIONS = ("approve", "retry", "cancel", "teardown", "shell")
_STATES = {
    "approve": (RunState.AWAITING_APPROVAL,),
    "retry": (RunState.FAILED, RunState.CANCELLED, RunState.PARKED),
    "cancel": (RunState.WAITING, RunState.RUNNING, RunState.AWAITING_APPROVAL, RunState.UNKNOWN),
    "teardown": tuple(state for state in RunState if state is not RunState.TORN_DOWN),
}
"""In which states of the run a key of the run pane is worth its place."""


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
        trouble=health.label(desk.clock.monotonic()) if is_troubled else _connection(desk),
    )


def _connection(desk: Desk) -> str:
    state = desk.supervisor.health(CLUSTER).state
    return "connecting" if state is FeedState.STARTING else ""


def run_mark(view: RunView | None) -> Span | None:
    """The sign of the run on screen, for its tab: from every pane one sees that it waits, works or has failed."""
    return None if view is None or view.state not in _MARKS else Span(_MARKS[view.state], RUN_TONES[view.state])


def tabs_line(
    order: tuple[str, ...], present: tuple[str, ...], current: str, *, width: int, marks: Mapping[str, Span | None]
) -> Cells:
    """Digits and names of all panes; the current one in brackets, those of the arrangement stressed.

    Args:
        order: Names of the panes, in the order of their digits.
        present: Those in the arrangement, seen or behind the current one.
        current: The one with the focus.
        width: Terminal columns.
        marks: What stands behind a name.
    """
    spans: list[Span] = []
    for position, name in enumerate(order, start=1):
        shown = _SHORT.get(name, name) if width < _NARROW else name
        found = marks.get(name)
        mark = [] if found is None else [found]
        if name == current:
            spans += [Span(f"[{position % 10} {shown}", Tone.ACCENT), *mark, Span("]", Tone.ACCENT)]
        else:
            tone = Tone.STRONG if name in present else Tone.MUTED
            gap = "" if width < _NARROW else " "
            spans += [Span(f"{gap}{position % 10}", Tone.BUSY), Span(f" {shown}", tone), *mark, Span(" ")]
    return tuple(spans)


def hints_line(context: Context, *, is_readonly: bool, is_zoomed: bool = False, run: RunView | None = None) -> Cells:
    """Keys that work in the focused pane, as the run on screen is; a plan that waits is told in every other pane."""
    spans: list[Span] = [Span(" ")]
    if is_zoomed:
        spans += [Span("z", Tone.ACCENT), Span(" unzoom  ", Tone.WARN)]
    state = None if run is None else run.state
    if state is RunState.AWAITING_APPROVAL and context is not Context.RUN:
        spans += [Span("4", Tone.ACCENT), Span(" ◆ a plan waits  ", Tone.WARN)]
    for name, label in footer(context):
        if (is_readonly and label in _MUTATIONS) or (label in _STATES and state not in _STATES[label]):
            continue
        spans += [Span(name, Tone.ACCENT), Span(f" {label}  ", Tone.MUTED)]
    return tuple(spans)
