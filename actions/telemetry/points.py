"""What a reader finds in a log: points of curves, states of progress bars."""

from __future__ import annotations

import msgspec


class Point(msgspec.Struct, frozen=True, gc=False):
    """One value of one curve."""

    metric: str
    """`train_loss`, `val_loss`, `test_loss`, or a named extra: `lr`, `grad_norm`, `throughput`…"""
    step: int | None
    """Global step; `None` if the line does not say."""
    value: float
    """May be NaN or infinite: that is what the trainer printed."""
    rank: int = 0
    epoch: float | None = None
    key: str = ""
    """The name that the trainer used, e.g. `reduced_train_loss`."""
    at: float | None = None
    """Seconds since the epoch, from the log line's own timestamp."""
    raw: str = ""
    """The number as it was printed; empty for one that was worked out from another."""


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The state of a progress bar or counter."""

    label: str
    done: int
    total: int | None
    elapsed_seconds: float | None = None
    remaining_seconds: float | None = None
    per_second: float | None = None
    rank: int = 0
