"""Progress bars of what runs: how far, how fast, how long still."""

from __future__ import annotations

from collections.abc import Mapping

from actions.telemetry.points import Progress
from tui.present.bars import bar
from tui.present.cells import Cells, Span, Tone
from tui.present.names import short_names
from tui.present.times import duration

_BAR_WIDTH = 8


def progress_lines(states: Mapping[tuple[str, str], Progress], *, limit: int) -> list[Cells]:
    """One line for each pod, with the bar that moved last; of many pods the slowest first.

    Args:
        states: Newest state by pod and label, what moved last at the end.
        limit: Most lines.
    """
    newest: dict[str, Progress] = {}
    for (pod, _label), state in states.items():
        newest.pop(pod, None)
        newest[pod] = state
    names = short_names(list(newest))
    slowest = sorted(newest.items(), key=lambda item: _share(item[1]))
    return [_line(names[pod], state) for pod, state in slowest[:limit]]


def _share(state: Progress) -> float:
    return state.done / state.total if state.total else 0.0


def _line(name: str, state: Progress) -> Cells:
    share = _share(state)
    filled = bar(share, _BAR_WIDTH)
    counted = f"{state.done:,}/{state.total:,}" if state.total else f"{state.done:,}"
    spans = [
        Span(f"{name} ", Tone.MUTED),
        Span(filled, Tone.GOOD if share >= 1 else Tone.BUSY),
        Span("·" * (_BAR_WIDTH - len(filled)), Tone.MUTED),
        Span(f" {share:4.0%} " if state.total else " "),
        Span(counted, Tone.STRONG),
    ]
    # a narrow pane cuts from the right: what is asked for first stands first
    if state.remaining_seconds is not None:
        spans.append(Span(f" · {duration(state.remaining_seconds)} to go"))
    if state.per_second:
        spans.append(Span(f" · {state.per_second:.3g}/s"))
    spans.append(Span(f" {state.label}", Tone.MUTED))
    return tuple(spans)
