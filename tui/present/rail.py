"""The rows of the rail: the stages of a run, and the steps of its teardown, each with its state, time and note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from actions.base.wording import folded
from actions.run.state.records import Action, CheckResult
from actions.run.state.view import TEARDOWN_PREFIX, RunState, RunView, StageState, StageView
from tui.present.cells import Cells, Span, Tone


class StageLook(StrEnum):
    """The state of a stage as the rail shows it."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    """For approval by the operator."""
    UNKNOWN = "unknown"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNDOING = "undoing"
    UNDONE = "undone"


class Glyph(msgspec.Struct, frozen=True):
    """A character with its tone."""

    sign: str
    tone: Tone


GLYPHS: dict[StageLook, Glyph] = {
    StageLook.PENDING: Glyph("○", Tone.MUTED),
    StageLook.RUNNING: Glyph("▶", Tone.BUSY),
    StageLook.WAITING: Glyph("◆", Tone.WARN),
    StageLook.UNKNOWN: Glyph("?", Tone.WARN),
    StageLook.DONE: Glyph("✔", Tone.GOOD),
    StageLook.FAILED: Glyph("✘", Tone.BAD),
    StageLook.SKIPPED: Glyph("–", Tone.MUTED),
    StageLook.CANCELLED: Glyph("■", Tone.MUTED),
    StageLook.UNDOING: Glyph("◀", Tone.BUSY),
    StageLook.UNDONE: Glyph("◌", Tone.MUTED),
}


class StageLine(msgspec.Struct, frozen=True):
    """A stage of a rail.

    Args:
        key: The stage's id.
        title: Name for people.
        look: State.
        elapsed_seconds: Time since its start, or its whole duration; `None` before it starts.
        expected_seconds: Low and high end of the expected duration; `None` if unknown.
        note: The most important detail: a reason, a count.
        is_warning: The note is a warning, independent of the state.
        is_trouble: Its pods crash, restart or were killed: the note names them.
    """

    key: str
    title: str
    look: StageLook
    elapsed_seconds: float | None = None
    expected_seconds: tuple[float, float] | None = None
    note: str = ""
    is_warning: bool = False
    is_trouble: bool = False

    @property
    def share(self) -> float | None:
        """Elapsed time over the high end of the expectation; above 1 when overdue; `None` if unknown."""
        if self.elapsed_seconds is None or not self.expected_seconds or self.expected_seconds[1] <= 0:
            return None
        return self.elapsed_seconds / self.expected_seconds[1]


LOOKS = {
    StageState.PENDING: StageLook.PENDING,
    StageState.RUNNING: StageLook.RUNNING,
    StageState.AWAITING_APPROVAL: StageLook.WAITING,
    StageState.UNKNOWN: StageLook.UNKNOWN,
    StageState.SUCCEEDED: StageLook.DONE,
    StageState.FAILED: StageLook.FAILED,
    StageState.SKIPPED: StageLook.SKIPPED,
    StageState.CANCELLED: StageLook.CANCELLED,
    StageState.UNDONE: StageLook.UNDONE,
}


_STEPS: Mapping[str, str] = {Action.DRAIN: "draining", Action.AUDIT: "auditing"}
"""The work of a step of a teardown that undoes no stage."""
NO_PROGRESS: Mapping[str, float] = {}


def rail_of(
    view: RunView, *, now: float, approve_key: str = "a", left: Mapping[str, float] = NO_PROGRESS
) -> list[StageLine]:
    """Return the stages, and after them the steps of a teardown.

    Args:
        view: The run.
        now: Seconds since the epoch.
        approve_key: Key that approves a waiting plan; empty where no approval is taken.
        left: Seconds that stages still take by their own progress, which counts before what is expected.
    """
    asks = f"press {approve_key} to approve" if approve_key else "waits for approval"
    looks = {**LOOKS, StageState.RUNNING: StageLook.UNKNOWN} if view.state is RunState.STALLED else LOOKS
    stages = [
        _line(stage, stage.id, looks[stage.state], now, asks=asks, left=left.get(stage.id))
        for stage in view.stages
        if stage.state is not StageState.SKIPPED
    ]
    steps = []
    for step in view.teardown:
        look = looks[step.state]
        look = StageLook.UNDOING if look is StageLook.RUNNING else look
        line = _line(step, f"{TEARDOWN_PREFIX}{step.id}", look, now)
        is_idle = look is not StageLook.UNDOING or bool(line.note)
        if look is not StageLook.SKIPPED:
            steps.append(line if is_idle else replace(line, note=_STEPS.get(step.kind, "")))
    return [*stages, *_skipped(view.stages, SKIPPED), *steps, *_skipped(view.teardown, KEPT)]


SKIPPED, KEPT = ":skipped", ":kept"
"""Keys of the one row for all stages that are skipped, and of that for what a teardown keeps."""


def row_key(view: RunView, stage_id: str) -> str:
    """Return the key of the rail's row that shows a stage."""
    return SKIPPED if stage_id in {one.id for one in view.stages if one.state is StageState.SKIPPED} else stage_id


def skipped_lines(view: RunView, key: str, width: int) -> list[Cells]:
    """Return the stages of the row `SKIPPED` or `KEPT`, one below the other, with the reason of each."""
    stages = view.stages if key == SKIPPED else view.teardown
    skipped = [stage for stage in stages if stage.state is StageState.SKIPPED]
    texts = [f"– {one.title} {one.message}".rstrip() for one in skipped]
    return [(Span(line, Tone.MUTED),) for text in texts for line in folded(text, max(20, width), further="  ")]


def _skipped(stages: Iterable[StageView], key: str) -> list[StageLine]:
    titles = [stage.title for stage in stages if stage.state is StageState.SKIPPED]
    title = f"{len(titles)} {key[1:]}: {', '.join(titles)}"
    return [StageLine(key, title, StageLook.SKIPPED)] if titles else []


def _line(
    stage: StageView, key: str, look: StageLook, now: float, *, asks: str = "", left: float | None = None
) -> StageLine:
    elapsed = None if stage.started_at is None else max(0.0, (stage.ended_at or now) - stage.started_at)
    expects = (stage.expect_low_seconds, stage.expect_high_seconds) if stage.expect_high_seconds > 0 else None
    if left is not None and elapsed is not None:
        expects = (elapsed + left, elapsed + left)
    has_message = stage.state in (StageState.RUNNING, StageState.FAILED)
    warning = warning_of(stage)
    note = asks if look is StageLook.WAITING else stage.message if has_message else warning
    trouble = stage.trouble if look is StageLook.RUNNING else ""
    note = trouble or note
    return StageLine(
        key, title_of(key, stage), look, elapsed, expects, note, is_warning=bool(warning), is_trouble=bool(trouble)
    )


def title_of(key: str, stage: StageView) -> str:
    """Return the title of a rail's row: a step that removes a stage is marked `undo`."""
    is_undo = key.startswith(TEARDOWN_PREFIX) and stage.kind not in (Action.DRAIN, Action.AUDIT)
    return f"undo {stage.title}" if is_undo else stage.title


def warning_of(stage: StageView) -> str:
    """Return the first failed check of a stage that succeeded; empty if there is none."""
    if stage.state is not StageState.SUCCEEDED:
        return ""
    wrong = next((found for found in stage.findings if found.result is CheckResult.FAILED), None)
    return "" if wrong is None else f"▲ {wrong.subject} {wrong.detail}"
