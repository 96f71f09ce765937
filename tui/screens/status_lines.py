"""The lines at the edges of the console: the facts of the header, the tabs of all panes, the hints of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from actions.base.wording import counted
from actions.cluster.auth.kubeconfig import ContextParts
from actions.run.resume import has_work_left
from actions.run.state.view import ENDED, TO_RETRY, Goal, NoticeKind, RunState, RunView, StageState, notice_words
from tui.feeds.cluster import leaves_out_claims
from tui.feeds.followed import FollowedCluster
from tui.feeds.runs import RunFeed
from tui.feeds.services import ConsoleServices, troubles_elsewhere
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.present.cells import Cells, Link, Span, Tone, fit, text_of, width_of
from tui.present.header import HeaderFacts
from tui.present.run import RUN_TONES, trouble_in
from tui.present.subject import Subject
from tui.present.text import unused_text
from tui.settings.keymap import NO_CHANGES, Keymap
from tui.settings.keys import KeyContext, common_keys, footer, key_name

_NEEDED = 2
"""The last keys of the footer, help and the way out, are shown at any width."""
_SHORT = {"blueprints": "bp", "logs": "log", "accelerators": "acc", "charts": "cha", "events": "ev", "objects": "obj"}
_RARE = ("queues",)
"""Panes of which a narrow screen has the key alone while they are not shown."""
_LEAST_NAME = 2
"""Letters of a name that are shown on the narrowest screen."""
_MARKS = {
    RunState.RUNNING: "▶",
    RunState.AWAITING_APPROVAL: "◆",
    RunState.UNKNOWN: "?",
    RunState.STALLED: "▲",
    RunState.FAILED: "✘",
    RunState.TEARING_DOWN: "◀",
}
_TROUBLE_WIDTH = 46
_SHORT_TROUBLE = 24
_OTHER_WIDTH = 72
"""Columns of a trouble behind the name of its run."""
_MUTATIONS = ("approve", "resume", "cancel", "park", "teardown", "launch", "shell")
_STATES = {
    "approve": (RunState.AWAITING_APPROVAL,),
    "cancel": (RunState.WAITING, RunState.RUNNING, RunState.AWAITING_APPROVAL, RunState.UNKNOWN, RunState.STALLED),
    "results": (RunState.SUCCEEDED,),
    "park": ENDED,
    "teardown": tuple(state for state in RunState if state not in (RunState.TORN_DOWN, RunState.TEARING_DOWN)),
}
"""Run states in which the footer shows a key."""
_WITHOUT_WORK = (*TO_RETRY, RunState.STALLED)
"""Run states from which a resume goes on, if anything is left."""


class Alone(Enum):
    """The reason why one pane of several is shown."""

    ZOOMED = auto()
    IN_FRONT = auto()
    """It is not in the layout."""
    TABBED = auto()
    """The screen is too small for all."""


_ALONE = {
    Alone.ZOOMED: ("zoom", "unzoom", "unzoom"),
    Alone.IN_FRONT: ("back", "layout", "layout"),
    Alone.TABBED: ("focus next", "next: too small for all", "next"),
}
"""The key that shows the others, its words in the footer, and those of a narrow one."""


class SelectedRun(msgspec.Struct, frozen=True):
    """The run that the keys of a pane act on, as far as the footer depends on it.

    Args:
        state: Its state.
        is_resumable: It has work to do that waits for a resume.
    """

    state: RunState
    is_resumable: bool = False


def header_facts(services: ConsoleServices) -> HeaderFacts:
    """Return the facts of the header line at this moment."""
    settings = services.settings
    now = services.clock.now().timestamp()
    expires_at = services.credentials.expires_at
    health = services.health("nodes")
    is_troubled = health.state in (FeedState.WAITING, FeedState.REFUSED)
    place = place_shown(services, services.followed.on_screen)
    return HeaderFacts(
        account=place.account,
        cluster=place.cluster,
        region=place.region,
        expires_in_seconds=None if expires_at is None else expires_at - now,
        needed_seconds=_needed_seconds(services),
        demo=settings.demo.text() if settings.demo else "",
        is_readonly=settings.readonly,
        paid=services.paid.now(),
        leaves_out_claims=leaves_out_claims(services.cluster.snapshot()),
        as_of=services.followed.on_screen.as_of_words(),
        trouble=_trouble(services, replace(health, as_of="")) if is_troubled else _connection(services),
        is_refused=health.state is FeedState.REFUSED,
        alarm=_alarm(services.runs),
        unused=_unused(services, now),
    )


def place_shown(services: ConsoleServices, cluster: FollowedCluster) -> ContextParts:
    """Return name, region and account of a cluster; of a single one also as the settings and credentials have them."""
    place = cluster.feed.place
    if len(services.clusters) > 1:
        return place  # one may be of another account
    region, account = services.settings.region, services.credentials.account
    return ContextParts(place.cluster, place.region or region, place.account or account)


def _unused(services: ConsoleServices, now: float) -> str:
    """Return the accelerators that the run on screen holds at 0 % for minutes."""
    view = services.runs.view
    return unused_text(view.unused, now) if view is not None and view.unused is not None else ""


def _needed_seconds(services: ConsoleServices) -> float | None:
    """Return the longest expected time for what is left of the run on screen, if the credentials may not last for it.

    `None` without such a run, and for credentials that renew themselves.
    """
    view = services.runs.view
    if view is None or view.goal is not Goal.FORWARD or not services.credentials.needs_login:
        return None
    left = [stage for stage in view.stages if stage.state not in (StageState.SUCCEEDED, StageState.SKIPPED)]
    return sum(stage.expect_high_seconds for stage in left) or None


def _alarm(runs: RunFeed) -> str:
    """Return the obstacles to the run on screen, or the reason why there is none; a dead runner is shown elsewhere."""
    if runs.unreadable is not None:
        return "the newest run cannot be read"
    notices = [] if runs.view is None else runs.view.notices
    told = (NoticeKind.NO_RUNNER, NoticeKind.ELSEWHERE, NoticeKind.ALARM, NoticeKind.ALARMS_UNSENT)
    return ", ".join(notice_words(notice) for notice in notices if notice.kind not in told)


def _trouble(services: ConsoleServices, health: FeedHealth) -> str:
    label = services.label_of(health)
    has_snapshot = services.cluster.snapshot() is not None
    return label if has_snapshot else label.replace("stale", "no answer for", 1)


def _connection(services: ConsoleServices) -> str:
    state = services.followed.on_screen.connection.state
    return "connecting" if state is FeedState.STARTING else ""


def selected_run(services: ConsoleServices, subject: Subject | None) -> SelectedRun | None:
    """Return the run that is selected in a list of runs, else the one on screen."""
    wanted = subject.name if subject is not None and subject.kind == "Run" else ""
    view = services.runs.view
    if view is not None and wanted in ("", view.id):
        waits = view.state in _WITHOUT_WORK or view.is_paused or services.runs.is_interrupted
        return SelectedRun(view.state, waits and has_work_left(view))
    found = next((run for run in services.runs.summaries if run.id == wanted), None)
    return None if found is None else SelectedRun(found.state, found.is_interrupted or found.state in _WITHOUT_WORK)


def is_elsewhere(services: ConsoleServices, subject: Subject | None) -> bool:
    """Return whether another machine carries out the run that is selected in a list, else the one on screen."""
    view = services.runs.view
    wanted = subject.name if subject is not None and subject.kind == "Run" else view.id if view is not None else ""
    return any(run.id == wanted for run in services.runs.listed_elsewhere())


def run_mark(view: RunView | None) -> Span | None:
    """Return the mark on the run's tab, which shows its state in every pane; `None` in states without a mark."""
    if view is not None and trouble_in(view.notices):
        return Span("▲", Tone.BAD)
    return None if view is None or view.state not in _MARKS else Span(_MARKS[view.state], RUN_TONES[view.state])


def other_trouble(services: ConsoleServices) -> str:
    """Return the newest other run whose pods are in trouble, with that: `NAME: worker-7 restarted 7×`.

    Empty if there is none: the run on screen has a tab and words of its own.
    """
    runs = services.runs
    shown = runs.view.id if runs.view is not None else ""
    here = {run.id: trouble_in(run.notices).partition(": ")[2] for run in runs.summaries}
    found = here | troubles_elsewhere(services)
    name, trouble = next(((run, trouble) for run, trouble in found.items() if trouble and run != shown), ("", ""))
    short = runs.names.get(name) or services.remote.names.get(name, name)
    return f"{short}: {trouble.partition(': ')[0]}" if trouble else ""


def tabs_line(
    order: tuple[str, ...],
    present: tuple[str, ...],
    current: str,
    *,
    width: int,
    marks: Mapping[str, Span | None],
    keymap: Keymap = NO_CHANGES,
) -> Cells:
    """Return keys and names of all panes: the current one in brackets, those of the arrangement stressed.

    Where names would not all fit, rare panes that are not shown lose theirs, and others are cut, the longest first.
    Room for every mark in `marks` is counted, also for one that is `None`, so that it does not change the names when
    it comes. Where not even those fit, the first ones are left out as far as the current one needs it.

    Args:
        order: Names of the panes, in the order of their keys.
        present: Panes of the arrangement, also those behind the current one.
        current: The pane with the focus.
        width: Terminal columns.
        marks: The mark behind a name, by name.
        keymap: The operator's own keys.
    """
    spare = width - sum(mark is None for mark in marks.values())
    line = _joined_tabs(_tabs({name: name for name in order}, present, current, marks, keymap, gap=" "))
    if width_of(line) <= spare:
        return line
    unnamed = [name for name in _RARE if name not in (current, *present)]
    shown = {name: "" if name in unnamed else _SHORT.get(name, name) for name in order}
    surplus = width_of(_joined_tabs(_tabs(shown, present, current, marks, keymap))) - spare
    tabs = _tabs(_cut(shown, surplus), present, current, marks, keymap)
    if width_of(_joined_tabs(tabs)) > spare:  # not even so: keys alone, but for the current one
        tabs = _tabs({name: shown[name] if name == current else "" for name in order}, present, current, marks, keymap)
    last = order.index(current) if current else 0
    first = 0
    while first < last and width_of(_joined_tabs(tabs[first : last + 1])) + bool(first) > width:
        first += 1
    return _joined_tabs([[Span("‹", Tone.MUTED)] * bool(first), *tabs[first:]])


def _cut(shown: Mapping[str, str], columns: int) -> dict[str, str]:
    """Return names without that many letters at their ends: of the longest first, and none like another.

    Args:
        shown: What is shown for each name.
        columns: The number of letters that are too many; none if it is not positive.
    """
    cut = dict(shown)
    for _ in range(columns):
        able = [name for name, text in cut.items() if len(text) > _LEAST_NAME and text[:-1] not in cut.values()]
        if not able:
            break
        longest = max(reversed(able), key=lambda name: len(cut[name]))
        cut[longest] = cut[longest][:-1]
    return cut


def _joined_tabs(tabs: Sequence[Sequence[Span]]) -> Cells:
    return tuple(span for tab in tabs for span in tab)


def _tabs(
    shown: Mapping[str, str],
    present: tuple[str, ...],
    current: str,
    marks: Mapping[str, Span | None],
    keymap: Keymap,
    *,
    gap: str = "",
) -> list[list[Span]]:
    tabs: list[list[Span]] = []
    for name, text in shown.items():
        key = key_name(KeyContext.EVERYWHERE, f"open {name}", keymap)
        opens, span = f"open {name}", marks.get(name)
        mark = [] if span is None else [Link(span.text, span.tone, line=opens)]
        if name == current:
            tabs.append([Span(f"[{key} {text}", Tone.ACCENT), *mark, Span("]", Tone.ACCENT)])
        else:
            tone = Tone.STRONG if name in present else Tone.MUTED
            tabs.append(
                [
                    Link(f"{gap}{key}", Tone.BUSY, line=opens),
                    *([Link(f" {text}", tone, line=opens)] if text else []),
                    *mark,
                    Span(" "),
                ]
            )
    return tabs


def hints_line(
    context: KeyContext,
    *,
    run: RunView | None = None,
    selected: SelectedRun | None = None,
    is_readonly: bool = False,
    alone: Alone | None = None,
    keymap: Keymap = NO_CHANGES,
    width: int = 0,
    drains: Mapping[str, int] = MappingProxyType({}),
    other: str = "",
) -> Cells:
    """Return the keys of the focused pane that apply to the selected run.

    A plan that waits and a stalled runner are shown in every pane that has no key for them. Where there is no room for
    all, the pane's last keys are left out, then those of all panes but help and the way out: `?` shows them. At last
    the states that all panes show have a word, or a sign.

    Args:
        context: Key context of the focused pane.
        run: The run on screen.
        selected: The run that keys of the pane act on.
        is_readonly: The session is read-only.
        alone: The reason why one pane of several is shown.
        keymap: The operator's own keys.
        width: Columns that there are; 0 for any number.
        drains: Pods that are left on the nodes that are being drained.
        other: Another run whose pods are in trouble, and that trouble.
    """
    news = _alone_hints(alone, keymap)
    if drains:
        news.append(_News(key_name(KeyContext.EVERYWHERE, "open nodes", keymap), *_draining(drains), Tone.WARN))
    if run is not None:
        news += _run_news(run, context, selected, keymap)
    if other and context is not KeyContext.RUNS:
        news.append(_other_news(other, keymap))
    common = common_keys(context, keymap)
    hints = []
    for name, label in footer(context, keymap)[: -len(common)]:
        if not (is_readonly and label in _MUTATIONS) and _applies(label, selected):
            hints.append(_hint(name, label, Tone.MUTED))
    everywhere = [_hint(name, label, Tone.MUTED) for name, label in common]
    most = _NEEDED + 1  # with `:`, which gives way after the words of states
    for form, needed in (("words", most), ("short", most), ("short", _NEEDED), ("sign", most)):
        told = [_hint(one.key, getattr(one, form), one.tone) for one in news]
        line = _fitted(told, hints, everywhere, width, needed)
        if not width or width_of(line[:-1]) <= width:
            return line
    return _joined([_hint(one.key, one.sign, one.tone) for one in news], everywhere[-_NEEDED:])


def _fitted(
    first: list[list[Span]], hints: list[list[Span]], everywhere: list[list[Span]], width: int, needed: int
) -> Cells:
    """Return a line with as many of the keys as there is room for; one of the pane, and those that are needed, stay."""
    hints, everywhere = [*hints], [*everywhere]
    while width and width_of(_joined(first, hints, everywhere)[:-1]) > width:  # the last gap may be cut
        if len(hints) > 1:
            hints.pop()
        elif len(everywhere) > needed:
            everywhere.pop(-1 - _NEEDED)
        else:
            break
    return _joined(first, hints, everywhere)


class _News(msgspec.Struct, frozen=True):
    """A key at the beginning of the footer, with what every pane shows of a state: in words, in fewer, as a sign."""

    key: str
    words: str
    short: str
    sign: str
    tone: Tone


def _alone_hints(alone: Alone | None, keymap: Keymap) -> list[_News]:
    if alone is None:
        return []
    does, words, short = _ALONE[alone]
    return [_News(key_name(KeyContext.EVERYWHERE, does, keymap), words, short, short, Tone.WARN)]


def _run_news(run: RunView, context: KeyContext, selected: SelectedRun | None, keymap: Keymap) -> list[_News]:
    """Return the key of the run with what it waits for or suffers from, except in panes with keys for that."""
    key = key_name(KeyContext.EVERYWHERE, "open run", keymap)
    news = []
    has_key_for_plan = (
        context in (KeyContext.RUN, KeyContext.RUNS) and selected is not None and _applies("approve", selected)
    )
    if run.state is RunState.AWAITING_APPROVAL and not has_key_for_plan:
        news.append(_News(key, "◆ a plan waits", "◆ plan", "◆", Tone.WARN))
    if run.state is RunState.STALLED and context not in (KeyContext.RUN, KeyContext.RUNS):
        news.append(_News(key, "▲ runner stalled", "▲ stalled", "▲", Tone.BAD))
    trouble = trouble_in(run.notices).partition(": ")[2].partition(": ")[0]
    if trouble:
        long, short = (text_of(fit(Span(trouble), width)).rstrip() for width in (_TROUBLE_WIDTH, _SHORT_TROUBLE))
        news.append(_News(key, f"▲ {long}", f"▲ {short}", "▲", Tone.BAD))
    return news


def _other_news(other: str, keymap: Keymap) -> _News:
    """Return the key of the list of runs, with the name and the trouble of another run than the one on screen."""
    key = key_name(KeyContext.EVERYWHERE, "open runs", keymap)
    long, short = (text_of(fit(Span(other), width)).rstrip() for width in (_OTHER_WIDTH, _SHORT_TROUBLE))
    return _News(key, f"▲ {long}", f"▲ {short}", "▲", Tone.BAD)


def _draining(drains: Mapping[str, int]) -> tuple[str, str, str]:
    """Return what the footer tells of drains, from wide to narrow."""
    left = counted(sum(drains.values()), "pod")
    which = next(iter(drains)).partition(".")[0] if len(drains) == 1 else f"{len(drains)} nodes"
    return f"◐ draining {which}: {left} left", "◐ draining", "◐"


def _joined(*groups: list[list[Span]]) -> Cells:
    return (Span(" "), *(span for group in groups for hint in group for span in hint))


def _hint(key: str, words: str, tone: Tone) -> list[Span]:
    """Return a key with its label; a click on either presses the key."""
    return [Link(key, Tone.ACCENT, key=key), Link(f" {words}", tone, key=key), Span("  ")]


def _applies(label: str, selected: SelectedRun | None) -> bool:
    if label == "resume":  # an approval starts a runner, too
        is_waiting = selected is not None and selected.state is RunState.AWAITING_APPROVAL
        return selected is not None and selected.is_resumable and not is_waiting
    return label not in _STATES or (selected is not None and selected.state in _STATES[label])
