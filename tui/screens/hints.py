"""The lines at the edges of the console: where one is, which panes there are, which keys work here."""

from __future__ import annotations

from tui.keys import Context, footer
from tui.live.desk import CLUSTER, Desk
from tui.live.health import FeedState
from tui.present.cells import Cells, Span, Tone
from tui.present.header import HeaderFacts, place_of

_NARROW = 100
_SHORT = {"blueprints": "bluepr", "accelerators": "accel"}


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


def tabs_line(order: tuple[str, ...], visible: tuple[str, ...], current: str, *, width: int) -> Cells:
    """Digits and names of all panes; the current one in brackets, visible ones stressed."""
    spans: list[Span] = []
    for position, name in enumerate(order, start=1):
        shown = _SHORT.get(name, name) if width < _NARROW else name
        if name == current:
            spans.append(Span(f"[{position % 10} {shown}]", Tone.ACCENT))
        else:
            tone = Tone.STRONG if name in visible else Tone.MUTED
            gap = "" if width < _NARROW else " "
            spans += [Span(f"{gap}{position % 10}", Tone.BUSY), Span(f" {shown} ", tone)]
    return tuple(spans)


def hints_line(context: Context, *, is_readonly: bool) -> Cells:
    """Keys that work in the focused pane."""
    spans: list[Span] = [Span(" ")]
    for name, label in footer(context):
        if is_readonly and label in ("approve", "retry", "cancel", "teardown", "shell"):
            continue
        spans += [Span(name, Tone.ACCENT), Span(f" {label}  ", Tone.MUTED)]
    return tuple(spans)
