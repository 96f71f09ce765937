"""Home: clusters, the fleet's totals, runs, problems and blueprints as the sections of one board."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec

from actions.base.wording import counted, duration, folded, listed
from actions.cluster.auth.kubeconfig import parse_context_name
from actions.fleet.facts import UNCOUNTED
from actions.fleet.node_report import RESOURCES
from actions.fleet.quantity import bounded, format_dollars, percent_of
from actions.fleet.totals import FleetTotals
from actions.run.paid import Paid
from actions.run.state.view import ENDED, RunState
from tui.feeds.supervisor import MAY_NOT
from tui.present.cells import Cells, Span, Tone, fit, fit_ends, meter, text_of, width_of
from tui.present.cost import accelerators_text, launch_cost_text, launch_rate_text, launch_time_text
from tui.present.home.board import Board, BoardEntry, BoardRow, Section, board_of
from tui.present.home.clusters import ClusterFacts, cluster_count, cluster_figures, uncounted
from tui.present.home.latest import latest_section
from tui.present.run import RUN_TONES, trouble_in
from tui.present.runs import remote_spent, remote_state
from tui.present.subject import Subject

if TYPE_CHECKING:
    from actions.blueprint.launch_plan import CostSummary
    from actions.blueprint.model import Blueprint
    from actions.cluster.diagnose.overview import Problem
    from actions.fleet.cost import FleetCost
    from actions.fleet.facts import EventFacts
    from actions.run.journal.reader import RunSummary
    from actions.run.store.remote import RemoteRun

WIDE = 150
"""From so many columns on, runs and problems are side by side."""
MEDIUM = 100
"""From so many columns on, clusters and fleet are side by side."""
_DOT = Span(" · ", Tone.MUTED)
_ALWAYS = ("cpu", "memory")
_WAITS = (RunState.AWAITING_APPROVAL,)
_AT_WORK = (RunState.RUNNING, RunState.TEARING_DOWN, RunState.WAITING, RunState.UNKNOWN, RunState.STALLED)
_SIGNS = {
    RunState.AWAITING_APPROVAL: "◆",
    RunState.RUNNING: "▶",
    RunState.WAITING: "○",
    RunState.UNKNOWN: "?",
    RunState.STALLED: "▲",
    RunState.SUCCEEDED: "✔",
    RunState.FAILED: "✘",
    RunState.CANCELLED: "■",
    RunState.PARKED: "‖",
    RunState.TEARING_DOWN: "◀",
    RunState.TORN_DOWN: "◌",
}
_SEVERITIES = {"error": ("✘", Tone.BAD), "warning": ("▲", Tone.WARN), "info": ("○", Tone.MUTED)}


class HomeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that Home shows, at one moment. `None` is unknown yet.

    Args:
        now: Seconds since the epoch.
        context: Name of the context on screen.
        clusters: All that are followed, if these are several.
        contexts: Names and clusters of the kubeconfig.
        contexts_error: The reason why it cannot be read.
        cluster_state: The state of the cluster on screen in a few words, with its tone.
        totals: Sums over all nodes.
        leaves_out_claims: They are without devices of claims.
        paid: All that is paid for by the hour.
        unscheduled: Pods without a node.
        runs: All runs, the newest first; `None` before the list is read.
        runs_error: The reason why it cannot be read.
        elsewhere: Runs that other machines carry out, the newest first.
        silent: Ids of those whose heartbeats are missing.
        troubles: The verdict on the pods of those that have some in trouble, by run.
        names: Short names of runs.
        unused: Accelerators at 0 % for minutes, in words, by run.
        problems: The most urgent first.
        blueprints: The catalogue; `None` before it is read.
        broken: Number of blueprints that cannot be read.
        latest: The newest events, the last one first.
        costs: By blueprint.
        keys: Names of keys by command line.
        is_readonly: The session changes nothing.
    """

    now: float
    context: str = ""
    clusters: tuple[ClusterFacts, ...] = ()
    contexts: tuple[tuple[str, str], ...] | None = None
    contexts_error: str = ""
    cluster_state: Span = Span("")
    totals: FleetTotals | None = None
    leaves_out_claims: bool = False
    paid: Paid | None = None
    unscheduled: int = 0
    runs: tuple[RunSummary, ...] | None = None
    unread: int = 0
    runs_error: str = ""
    elsewhere: tuple[RemoteRun, ...] = ()
    silent: frozenset[str] = frozenset()
    troubles: Mapping[str, str] = msgspec.field(default_factory=dict)
    names: Mapping[str, str] = msgspec.field(default_factory=dict)
    unused: Mapping[str, str] = msgspec.field(default_factory=dict)
    problems: tuple[Problem, ...] | None = None
    blueprints: tuple[Blueprint, ...] | None = None
    broken: int = 0
    latest: tuple[EventFacts, ...] = ()
    costs: Mapping[str, CostSummary] = msgspec.field(default_factory=dict)
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_readonly: bool = False


def home_board(facts: HomeFacts, width: int, height: int) -> Board:
    """Lay the sections out: below each other; on wide screens some side by side, on high ones events below them."""

    runs, problems, launch = (partial(make, facts) for make in (_runs, _problems, _blueprints))
    clusters = partial(_clusters, facts, is_dense=width < MEDIUM)
    fleet = partial(_fleet, facts, is_dense=width < MEDIUM)
    filler = partial(latest_section, facts.latest, facts.keys.get("open events", "8")) if _is_read(facts) else None
    if width >= WIDE:
        bands = [[(clusters, 0.5), (fleet, 0.5)], [(runs, 0.5), (problems, 0.5)], [(launch, 1.0)]]
        return board_of(bands, width, height, order=(1, 0, 2), filler=filler)
    if width >= MEDIUM:
        bands = [[(clusters, 0.45), (fleet, 0.55)], [(runs, 1.0)], [(problems, 1.0)], [(launch, 1.0)]]
        return board_of(bands, width, height, order=(1, 2, 0, 3), filler=filler)
    bands = [[(clusters, 1.0)], [(fleet, 1.0)], [(runs, 1.0)], [(problems, 1.0)], [(launch, 1.0)]]
    return board_of(bands, width, height, order=(1, 0, 2, 3, 4) if facts.clusters else (1, 2, 3, 4, 0), filler=filler)


def _is_read(facts: HomeFacts) -> bool:
    """Return whether all other sections have their size: what fills the rest must not come and go at the start."""
    is_listed = facts.runs is not None and not facts.unread
    return facts.totals is not None and is_listed and facts.blueprints is not None


def _text(text: str, tone: Tone = Tone.MUTED) -> BoardRow:
    return BoardRow((Span("  "), Span(text, tone)))


def _texts(text: str, width: int, tone: Tone = Tone.MUTED) -> tuple[BoardRow, ...]:
    return tuple(_text(line, tone) for line in _wrapped(text, max(20, width - 2)))


@lru_cache(maxsize=64)
def _wrapped(text: str, width: int, max_lines: int | None = None) -> tuple[str, ...]:
    """Wrap a text. The same ones are laid out at each paint, a third of what a board costs."""
    return tuple(folded(text, width, most=max_lines))


def _clusters(facts: HomeFacts, width: int, *, is_dense: bool) -> Section:
    *rows, last = _cluster_rows(facts, width)
    keys = BoardRow(last.cells, last.entry, ((), *_key_lines(facts.keys, width)))
    enter = "enter shows it" if facts.clusters else "enter connects"
    hints = ["tab next section"] * is_dense + [enter] * (len(facts.contexts or ()) > 1)
    hint = " · ".join(hints)
    return Section("Clusters", (*rows, keys), hint, more=BoardEntry("more clusters", "context"))


def _key_lines(keys: Mapping[str, str], width: int) -> list[Cells]:
    """Return what to press, where there is room for it: beside the fleet, or on a high screen."""
    here = "tab: next section · j k: next line · enter: open it"
    panes = f"{keys.get('open nodes', '1')} … {keys.get('open runs', '0')}: other panes"
    rest = f"{keys.get('command-line', ':')} any command · {keys.get('palette', 'ctrl+p')} finds one"
    text = f"{here} · {panes} · {rest} · {keys.get('help', '?')} keys"
    return [(Span(f"  {line}", Tone.MUTED),) for line in _wrapped(text, max(20, width - 2))]


def _cluster_rows(facts: HomeFacts, width: int) -> Iterable[BoardRow]:
    contexts = facts.contexts or ()
    names = [name for name, _ in contexts]
    if facts.context and facts.context not in names:
        names.insert(0, facts.context)
    current = [name for name in names if name == facts.context]
    others = [name for name in names if name != facts.context]
    short = {name: parse_context_name(name) for name in names}
    room = max((width_of(parts.cluster) for parts in short.values()), default=0)
    for one in facts.clusters:
        yield _followed_row(one, facts.clusters, width)
    followed = {one.key for one in facts.clusters}
    for name in (*current, *others) if not facts.clusters else [name for name in others if name not in followed]:
        parts = short[name]
        is_current = name == facts.context
        cells = [
            Span("▶ " if is_current else "  ", Tone.ACCENT),
            *fit(Span(parts.cluster, Tone.STRONG if is_current else Tone.PLAIN), min(room, max(12, width // 2))),
        ]
        if is_current and facts.cluster_state.text:
            cells += [_DOT, Span(facts.cluster_state.text.partition(": ")[0], facts.cluster_state.tone)]
        for part in (parts.region, parts.account):
            cells += [_DOT, Span(part, Tone.MUTED)] if part else []
        line = "open nodes" if is_current else f"context name={shlex.quote(name)}"
        yield BoardRow(tuple(cells), BoardEntry(f"cluster {name}", line))
    if names:
        return
    if facts.contexts is None and not facts.contexts_error:
        yield _text("Reading the kubeconfig.")
        return
    yield from _texts(facts.contexts_error or "The kubeconfig has no context.", width, Tone.WARN)
    yield from _texts("A launch makes a cluster of its own: choose a blueprint.", width)


def _followed_row(one: ClusterFacts, clusters: Sequence[ClusterFacts], width: int) -> BoardRow:
    """Return the row of one of several clusters: its state, figures and place; of a name that differs, all of it."""
    room = min(max(width_of(other.name) for other in clusters), max(12, width // 3))
    cells = [
        Span("▶ " if one.is_on_screen else "  ", Tone.ACCENT),
        *fit_ends(Span(one.name, Tone.STRONG if one.is_on_screen else Tone.PLAIN), room),
        *(_DOT, Span(one.state.text.partition(": ")[0], one.state.tone)),
        *(_DOT, *cluster_figures(one)),
    ]
    for part in (one.place.region, one.place.account):
        cells += [_DOT, Span(part, Tone.MUTED)] if part else []
    line = "open nodes" if one.is_on_screen else f"context name={shlex.quote(one.key)}"
    return BoardRow(tuple(cells), BoardEntry(f"cluster {one.key}", line, Subject("Cluster", one.name, cluster=one.key)))


def _fleet(facts: HomeFacts, width: int, *, is_dense: bool = False) -> Section:
    totals = facts.totals
    if totals is None:
        state = facts.cluster_state
        text = f"No totals: {state.text}" if state.tone is Tone.BAD else "Reading nodes and pods."
        return Section("Fleet", _texts(text, width, state.tone if state.tone is Tone.BAD else Tone.MUTED))
    bars = _bars(totals, width, in_row=2 if is_dense and width >= _TWO_BARS else 1)
    paid, idle = _money_rows(facts.paid, width)
    missing = _texts(f"{UNCOUNTED}.", width, Tone.WARN) if facts.leaves_out_claims else ()
    unknown = uncounted(facts.clusters)
    old = [one for one in facts.clusters if one.totals is not None and not (one.is_live or one.same_as)]
    parts = [(unknown, "not in these sums"), (old, "as last seen")]
    open_ = "; ".join(f"? {listed([one.name for one in some], 3)}: {what}" for some, what in parts if some)
    head = (_nodes_row(totals, facts.unscheduled, is_part=bool(unknown)), *paid)
    head, idle = (*head, *(_texts(f"{open_}.", width, Tone.WARN) if open_ else ())), [*idle, *missing]
    title = f"Fleet of {counted(cluster_count(facts.clusters), 'cluster')}" if facts.clusters else "Fleet"
    return Section(title, (*head, *bars, *idle) if is_dense else (*head, *idle, *bars))


def _nodes_row(totals: FleetTotals, unscheduled: int, *, is_part: bool) -> BoardRow:
    missing = totals.nodes - totals.ready
    nodes = bounded(f"{totals.nodes:,} node{'s' * (totals.nodes != 1)}", is_lower_bound=is_part)
    cells = [Span("  "), Span(nodes, Tone.STRONG)]
    if totals.nodes:
        cells.append(Span(f", {missing:,} not ready", Tone.BAD) if missing else Span(", all ready", Tone.GOOD))
    cells += [_DOT, Span(f"{totals.pods:,} pod{'s' * (totals.pods != 1)}")]
    if unscheduled:
        cells += [_DOT, Span(f"{unscheduled:,} without a node", Tone.WARN)]
    return BoardRow(tuple(cells), BoardEntry("fleet nodes", "open nodes"))


def _bars(totals: FleetTotals, width: int, *, in_row: int) -> list[BoardRow]:
    """Return a bar for each resource that there is, one or two in a row."""
    shown = [
        (name, amount(totals.requested), amount(totals.allocatable), written)
        for name, amount, written in RESOURCES
        if name in _ALWAYS or amount(totals.allocatable) or amount(totals.requested)
    ]
    if not totals.nodes:
        return []
    room = (width - 2 - (in_row - 1) * 3) // in_row
    figures = [f"{written(part)}/{written(whole)}" for _, part, whole, written in shown]
    longest = max(map(len, figures))
    cells = max(4, room - 7 - longest - 7)
    parts = []
    for (name, part, whole, _), figure in zip(shown, figures, strict=True):
        percent = percent_of(part, whole)
        share = "" if percent is None else f"{percent:.0f}%"
        label = name.upper() if name in ("cpu", "gpu", "efa") else name
        parts.append((Span(f"{label:<7}"), *meter(part, whole, cells=cells), Span(f" {figure:<{longest}} {share:>4}")))
    rows = [parts[at : at + in_row] for at in range(0, len(parts), in_row)]
    return [BoardRow((Span("  "), *_joined([fit(part, room) for part in row], Span("   ")))) for row in rows]


_TWO_BARS = 68
"""Columns that two bars in a row need."""
_LEAST_STAGE = 11


def _joined(parts: Sequence[Cells], between: Span) -> Cells:
    spans: list[Span] = []
    for part in parts:
        spans += [*([between] if spans else []), *part]
    return tuple(spans)


def _money_rows(paid: Paid | None, width: int) -> tuple[list[BoardRow], list[BoardRow]]:
    """Return the row of all that is paid for, and that of what is idle of it where it needs one of its own."""
    if paid is None or not (paid.things or (paid.nodes and paid.nodes.nodes)):
        return [], []
    entry = BoardEntry("fleet cost", "open cost")
    total: Cells = (Span("  "), Span(paid.hourly.text, Tone.STRONG), _DOT, Span(paid.hourly.monthly_text))
    nodes = paid.nodes
    if nodes is None or not nodes.idle_text:
        return [BoardRow(total, entry)], []
    idle = Span(nodes.idle_text, Tone.WARN if nodes.idle_accelerators else Tone.GOOD)
    if width_of(total) + width_of(idle) + 3 <= width:
        return [BoardRow((*total, _DOT, idle), entry)], []
    return [BoardRow(total, entry)], [BoardRow((Span("  "), idle))]


def _runs(facts: HomeFacts, width: int) -> Section:
    key = facts.keys.get("open runs", "0")
    if facts.runs is None:
        text = facts.runs_error or "Reading the runs."
        return Section("Runs", _texts(text, width, Tone.BAD if facts.runs_error else Tone.MUTED))
    taken = {run.id for run in facts.elsewhere}
    shown = [run for run in facts.runs if _is_present(run) and run.id not in taken]
    unread: Cells = (Span(f"{facts.unread} not read yet", Tone.MUTED),) if facts.unread else ()
    if not shown and not facts.elsewhere and facts.unread:
        return Section("Runs", _texts("Reading the runs.", width), note=unread)
    if not shown and not facts.elsewhere:
        count = len(facts.runs)
        all_of_them = f"All {count} runs are torn down: {key} lists them." if count > 1 else ""
        was = all_of_them or (f"The only run is torn down: {key} shows it." if count else "No run yet.")
        how = "" if facts.is_readonly else " Choose a blueprint below: enter opens its launch form."
        return Section("Runs", (*_kept_rows(facts), *_texts(f"{was}{how}", width)))
    waiting = sum(run.state in _WAITS for run in shown)
    note: Cells = (Span(f"{waiting} wait{'s' * (waiting == 1)} for approval", Tone.WARN),) if waiting else ()
    if facts.elsewhere:
        others = Span(f"{len(facts.elsewhere)} on other machines", Tone.MUTED)
        note = (*note, _DOT, others) if note else (others,)
    note = (*note, _DOT, *unread) if note and unread else note or unread
    room = _name_room(shown, facts, width)
    ranked = [(_run_rank(run), _run_row(run, facts, width, room)) for run in shown]
    ranked += [(_remote_rank(run, facts), _remote_row(run, facts, width, room)) for run in facts.elsewhere]
    rows = tuple(row for _, row in sorted(ranked, key=lambda one: one[0])) + _kept_rows(facts)
    count = len(taken | {run.id for run in facts.runs}) + facts.unread
    return Section("Runs", rows, f"{key} all runs ({count})", BoardEntry("more runs", "open runs"), note)


def _kept_rows(facts: HomeFacts) -> tuple[BoardRow, ...]:
    """Return the line on runs that are torn down and keep data that costs."""
    kept = facts.paid.kept if facts.paid is not None else ()
    if facts.paid is None or not kept:
        return ()
    verb = "keeps" if len(kept) == 1 else "keep"
    text = f"{counted(len(kept), 'torn-down run')} {verb} data: {facts.paid.kept_hourly.text}"
    how = f"  {facts.keys.get('open runs', '0')} lists them" if len(kept) > 1 else ""
    line = f"open run of={next(iter(kept))}" if len(kept) == 1 else "open runs"
    return (BoardRow((Span("◌ ", Tone.MUTED), Span(text, Tone.WARN), Span(how, Tone.MUTED)), BoardEntry("kept", line)),)


def _name_room(shown: Sequence[RunSummary], facts: HomeFacts, width: int) -> tuple[int, int]:
    """Return the columns for names of runs and for their stages: names are whole where there is room.

    What a stage leaves free is for the trouble of its run, which is cut on eighty columns.
    """
    stages = [run.stage for run in shown] + [run.status.stage for run in facts.elsewhere]
    needed = max(map(len, stages), default=0)
    ids = [run.id for run in shown] + [run.id for run in facts.elsewhere]
    longest = max((len(facts.names.get(run, run)) for run in ids), default=0)
    name = min(longest, 40, max(20, width - 60) + (0 if needed else _LEAST_STAGE))
    return name, min(needed + 1, 18, max(_LEAST_STAGE, width - name - 52)) if needed else 0


def _remote_row(run: RemoteRun, facts: HomeFacts, width: int, room: tuple[int, int]) -> BoardRow:
    """Return the row of a run of another machine: dim, with who carries it out and where."""
    sign, trouble = _SIGNS[run.state] if run.lease else "✘", facts.troubles.get(run.id, "")
    name_width, stage_width = room
    is_silent = run.id in facts.silent
    stage_width = 0 if is_silent else stage_width
    state = remote_state(run, is_silent=is_silent)
    state = Span(state.text, Tone.BAD) if trouble else state
    line = (
        Span("▲ ", Tone.BAD) if trouble else Span(f"{sign} ", Tone.MUTED),
        *fit_ends(Span(facts.names.get(run.id, run.id), Tone.MUTED), name_width),
        Span(" "),
        *fit(state, 20 if is_silent else 12),
        *fit(Span(f" {run.status.stage}", Tone.MUTED), stage_width),
        Span(f"  {run.owner}", Tone.MUTED),
        Span(f"  {remote_spent(run)}" if remote_spent(run) else "", Tone.MUTED),
        *([Span(f"  {trouble}", Tone.BAD)] if trouble else []),
    )
    entry = BoardEntry(f"run {run.id}", f"open run of={run.id}", Subject("Run", run.id), weight=2 if trouble else 0)
    return BoardRow(line, entry, _whole(trouble, line, width))


def _whole(trouble: str, line: Cells, width: int) -> tuple[Cells, ...]:
    """Return the lines below a run whose trouble is cut at the end of its own line: shown where rows are free."""
    if width_of(line) <= width:
        return ()
    return tuple((Span("    "), Span(part, Tone.BAD)) for part in _wrapped(trouble, max(20, width - 6), max_lines=3))


def _is_present(run: RunSummary) -> bool:
    return run.state is not RunState.TORN_DOWN or bool(run.error or run.leftovers)


def _run_rank(run: RunSummary) -> int:
    """Return the place of a run: first what waits for a person, then trouble, work, and what only costs money."""
    if run.error or run.state is RunState.TORN_DOWN:
        return 4
    return 0 if run.state in _WAITS else 1 if trouble_in(run.notices) else 2 if run.state in _AT_WORK else 3


def _remote_rank(run: RemoteRun, facts: HomeFacts) -> int:
    return 1 if run.id in facts.troubles else 5


def _run_row(run: RunSummary, facts: HomeFacts, width: int, room: tuple[int, int]) -> BoardRow:
    name = facts.names.get(run.id, run.id)
    subject = Subject("Run", run.id)
    if run.error:
        cells: Cells = (Span("✘ ", Tone.BAD), Span(f"{name}  "), Span(run.error, Tone.BAD))
        return BoardRow(cells, BoardEntry(f"run {run.id}", f"open run of={run.id}", subject))
    unused = facts.unused.get(run.id, "")
    is_waiting = run.state in _WAITS
    tone = RUN_TONES[run.state]
    word = "plan waits" if is_waiting else run.state.value
    sign, trouble = _SIGNS[run.state], trouble_in(run.notices).partition(": ")[2]
    if run.is_interrupted and not is_waiting:
        word, tone = "no runner", Tone.BAD
    elif run.is_copy:
        word, tone = "copy", Tone.MUTED
    elif trouble:
        sign, tone = "▲", Tone.BAD
    elif unused:
        word, sign, tone = _unused_word(unused), "▲", Tone.WARN
    name_width, stage_width = room
    line = (
        Span(f"{sign} ", tone),
        *fit_ends(Span(name, Tone.WARN if is_waiting else Tone.PLAIN), name_width),
        *fit(Span(f" {word}", tone), 13),
        *fit(Span(f" {run.stage}"), stage_width),
        *fit(Span(_elapsed(run, facts.now)), 8, align_right=True),
        *fit(Span(_spent(run, facts.now)), 9, align_right=True),
        *(
            (Span(f"  {trouble}", Tone.BAD),)
            if trouble
            else (Span(f"  {unused.partition(' at ')[2]}", Tone.WARN), *_holds(run, facts))
            if unused
            else _holds(run, facts)
        ),
    )
    weight = 3 if is_waiting else 2 if trouble or unused else 1
    entry = BoardEntry(f"run {run.id}", f"open run of={run.id}", subject, weight=weight)
    return BoardRow(line, entry, _whole(trouble, line, width) if trouble else ())


def _unused_word(text: str) -> str:
    """Return what fits into the place of a run's state: `3 of 8 at 0%`."""
    return text.partition(" for ")[0].replace(" accelerators", "")


def _elapsed(run: RunSummary, now: float) -> str:
    end = run.ended_at or now
    return duration(max(0.0, end - run.created_at)) if run.created_at else "?"


def _spent(run: RunSummary, now: float) -> str:
    money = run.spending
    return "" if money is None else bounded(format_dollars(money.usd_at(now)), is_lower_bound=money.is_lower_bound)


def _holds(run: RunSummary, facts: HomeFacts) -> Cells:
    if run.leftovers:
        return (Span(f"  {counted(run.leftovers, 'object')} left", Tone.BAD),)
    hourly = facts.paid.of(run.id) if facts.paid is not None else None
    # The rate is that of the whole run, control plane and file system included; accelerators are only a part of it.
    rate = hourly.text if hourly is not None else ""
    used = run.paid.uses if run.paid is not None else None
    uses = f"uses {used.text} of what is there" if used is not None else ""
    holders = run.paid.holders if run.paid is not None else ()
    held = f"holds {', '.join(holders)}" if holders else ""
    text = " · ".join(filter(None, (rate, uses, held)))
    return (Span(f"  {text}", Tone.WARN if run.state in ENDED else Tone.MUTED),) if text else ()


def _idle_rows(facts: HomeFacts) -> tuple[tuple[BoardRow, ...], tuple[BoardRow, ...]]:
    """Return a problem for the idle accelerators of each run, the dearest first, and the one for all others."""
    paid = facts.paid
    if paid is None or paid.nodes is None or not paid.nodes.idle_accelerators or facts.leaves_out_claims:
        return (), ()
    found = [(run, nodes) for run, nodes in paid.of_runs.items() if nodes.idle_accelerators]
    rows = [_idle_row(facts, run, nodes) for run, nodes in sorted(found, key=lambda one: -one[1].idle_usd_per_hour)]
    rest = paid.nodes_of_nobody
    others = [_idle_row(facts, "", rest)] if rest is not None and rest.idle_accelerators else []
    return tuple(rows), tuple(others)


def _idle_row(facts: HomeFacts, run: str, nodes: FleetCost) -> BoardRow:
    summary = next((one for one in facts.runs or () if one.id == run), None)
    what = f"Run {facts.names.get(run, run)}" if run else "Nodes of no run of this machine"
    cells: Cells = (Span("▲ ", Tone.WARN), Span(f"{what}  "), Span(nodes.idle_text, Tone.WARN))
    if summary is None:
        step = f"{facts.keys.get('open nodes', '1')} lists the nodes: what has made them frees them."
        return BoardRow(cells, BoardEntry("idle nodes", "open nodes", weight=2), _steps(step))
    park, undo = facts.keys.get("park", "P"), facts.keys.get("teardown", "T")
    step = f"{park} parks it: its accelerators go, its data stays. {undo} in its pane tears it down."
    if summary.state not in ENDED:
        place = f" at {summary.stage}" if summary.stage else ""
        step = f"It is {summary.state.value}{place}, and its pods do not ask for them."
    elif facts.is_readonly:
        step = "It is over; this session is read-only."
    entry = BoardEntry(f"idle {run}", f"open run of={run}", Subject("Run", run), weight=3)
    return BoardRow(cells, entry, _steps(step))


def _steps(step: str) -> tuple[Cells, ...]:
    return ((Span("    → ", Tone.WARN), Span(step, Tone.MUTED)),)


def _problems(facts: HomeFacts, width: int) -> Section:
    if facts.totals is None:
        state, text = facts.cluster_state, "They are looked for when the cluster is read."
        if state.tone is Tone.BAD:
            is_refused = state.text.startswith(MAY_NOT)
            text = f"Not known: {state.text}." if is_refused else "Unknown until the cluster answers."
        return Section("Problems", (_text(text),))
    if facts.problems is None:
        return Section("Problems", (*_idle_rows(facts)[0], _text("Looking at pods, nodes and events.")))
    why = facts.keys.get("why", "w")
    whole = BoardEntry("whole cluster", "why")
    of_runs, of_others = _idle_rows(facts)
    unknown = [one.name for one in facts.clusters if not (one.is_searched or one.same_as)]
    if unknown and not (facts.problems or of_runs or of_others):
        return Section("Problems", _texts(f"No problem elsewhere; ? {listed(unknown, 3)}: not known.", width))
    if not (facts.problems or of_runs or of_others):
        found = (Span("✔ ", Tone.GOOD), Span("No problem in pods, nodes and events. "))
        return Section("Problems", (BoardRow((*found, Span(f"{why} reads the logs, too.", Tone.MUTED)), whole),))
    names = max((width_of(_problem_title(one, facts)) for one in facts.problems), default=0)
    room = min(names, max(36 if facts.clusters else 24, width * 3 // 10))
    rows = (*of_runs, *(_problem_row(one, facts, room, width) for one in facts.problems), *of_others)
    errors = sum(one.severity.value == "error" for one in facts.problems)
    note: Cells = (Span(f"{errors} error{'s' * (errors != 1)}", Tone.BAD),) if errors else ()
    if unknown:
        note = (*note, *([_DOT] if note else []), Span(f"? {listed(unknown, 3)}: not known", Tone.WARN))
    return Section("Problems", rows, f"enter or {why}: cause and evidence", BoardEntry("more problems", "why"), note)


def _problem_title(one: Problem, facts: HomeFacts) -> str:
    """Return the object of a problem, with its cluster where several are followed."""
    cluster = next((known.name for known in facts.clusters if known.key == one.cluster), "") if one.cluster else ""
    return ": ".join(filter(None, (text_of(fit_ends(cluster, min(10, width_of(cluster)))), one.title))) or "cluster"


def _problem_row(one: Problem, facts: HomeFacts, names: int, width: int) -> BoardRow:
    sign, tone = _SEVERITIES[one.severity.value]
    title = fit_ends(_problem_title(one, facts), names)
    cells: Cells = (Span(f"{sign} ", tone), *title, Span(f"  {one.text}"))
    steps = _wrapped(one.next_step, max(20, width - 6), max_lines=2)
    details = tuple((Span("      " if at else "    → ", tone), Span(step, Tone.MUTED)) for at, step in enumerate(steps))
    selector = one.selector
    subject = Subject(one.kind, one.name, one.namespace, cluster=one.cluster) if one.kind else None
    if subject is None and one.cluster:
        subject = Subject("Cluster", one.cluster, cluster=one.cluster)
    key = " ".join(filter(None, ("problem", one.cluster, one.code, one.title, one.text if not one.kind else "")))
    line = f"why object={shlex.quote(selector)}" if selector else "why"
    line += f" context={shlex.quote(one.cluster)}" if one.cluster else ""
    entry = BoardEntry(key, line, subject, weight=2)
    return BoardRow(cells, entry, details)


def _blueprints(facts: HomeFacts, width: int) -> Section:
    key = facts.keys.get("open blueprints", "3")
    if facts.blueprints is None:
        return Section("Launch", (_text("Reading the blueprints."),))
    rows = tuple(_blueprint_row(one, facts, width) for one in facts.blueprints)
    if facts.broken:
        text = f"{facts.broken} blueprint{'s' * (facts.broken != 1)} cannot be read: {key} shows why."
        rows += (_text(text, Tone.BAD),)
    is_simulated = any(cost.is_simulated for cost in facts.costs.values())
    note: Cells = (Span("rehearsals, simulated cost", Tone.ACCENT),) if is_simulated else ()
    hint = f"{key} details" if facts.is_readonly else "enter opens the launch form"
    more = BoardEntry("more blueprints", "open blueprints")
    return Section("Launch", rows or (_text("There is no blueprint."),), hint, more, note)


def _blueprint_row(blueprint: Blueprint, facts: HomeFacts, width: int) -> BoardRow:
    cost = facts.costs.get(blueprint.id)
    names = max(len(one.id) for one in facts.blueprints or (blueprint,))
    rest = width - min(names, 30) - 2
    if cost is not None and cost.error:
        figures: Cells = (Span(f"  cannot be planned: {cost.error}", Tone.BAD),)
    else:
        figures = (
            *fit(Span(f"  {accelerators_text(cost)}"), 14),
            *fit(Span(launch_rate_text(cost)), 12, align_right=True),
            *fit(Span(launch_cost_text(cost)), 23, align_right=True),
            *fit(Span(launch_time_text(cost), Tone.MUTED), 9, align_right=True),
        )
    title = blueprint.title if rest - width_of(figures) >= _LEAST_TITLE else ""
    name = fit(Span(blueprint.id, Tone.STRONG), min(names, 30))
    cells = (Span("  "), *name, *figures, Span(f"  {title}", Tone.MUTED))
    is_known = facts.runs or facts.elsewhere  # who has launched one does not need to be told what it is for
    summary = () if is_known else _wrapped(blueprint.summary, max(20, width - 6), max_lines=2)
    details = tuple((Span(f"    {line}", Tone.MUTED),) for line in summary)
    entry = BoardEntry(f"blueprint {blueprint.id}", f"launch {blueprint.id}", Subject("Blueprint", blueprint.id))
    return BoardRow(cells, entry, details)


_LEAST_TITLE = 16
