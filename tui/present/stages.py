"""The stages of something staged, as a rail shows them: what each is doing, how long, against what was expected."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tui.present.cells import Tone


class StageLook(StrEnum):
    """How a stage looks."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    """For a person: an approval."""
    UNKNOWN = "unknown"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNDOING = "undoing"
    UNDONE = "undone"


class Glyph(msgspec.Struct, frozen=True):
    """A sign with its tone."""

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
    """One stage of a rail.

    Args:
        key: Its identity: the stage's id.
        title: What people call it.
        look: What it is doing.
        elapsed_seconds: How long it has been or was at it; `None` before it starts.
        expected_seconds: Low and high of what is expected; `None` if nothing is.
        note: The one thing to know about it now: a reason, a count.
        is_warning: The note is a warning, whatever the stage is doing.
    """

    key: str
    title: str
    look: StageLook
    elapsed_seconds: float | None = None
    expected_seconds: tuple[float, float] | None = None
    note: str = ""
    is_warning: bool = False

    @property
    def share(self) -> float | None:
        """Elapsed against the high end of the expectation; above 1 when overdue; `None` if unknown."""
        if self.elapsed_seconds is None or not self.expected_seconds or self.expected_seconds[1] <= 0:
            return None
        return self.elapsed_seconds / self.expected_seconds[1]
