"""The garbage collector, kept from going over what lives for ever, and from leaving what is dead.

A full collection visits every object of the program: with all libraries loaded and a large cluster on screen that
would stop the loop for tens of milliseconds, again and again, to find nothing. So what is there when the program has
started is *frozen*: no collection looks at it.

The rest has to be looked at often. Textual's widgets, and the styles that every change of focus makes anew, refer to
each other, so only the collector frees them: one change of the layout leaves about 8,000 such objects.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from typing import Literal

_THRESHOLDS = (5_000, 8, 4)
"""Objects made and not freed until the youngest are looked at; how many of those looks until one at the middle
generation; how many of those until one at all: a full collection after some 225,000 objects, 20 MB. With 10,000 × 20 ×
50, as it was, ten million objects could be garbage first."""
_M_ARENA_MAX = -8
"""Of malloc.h."""
_FREEZES = 2
"""So many full collections freeze what survives them: what was loaded after the start (verbs, the AWS library) is part
of the program from then on. 84,000 objects, 50 ms a collection, become 19,000 and 7 ms."""


class _Freezer:
    """Freezes what survives the first full collections."""

    def __init__(self) -> None:
        self._left = _FREEZES

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and self._left:
            self._left -= 1
            gc.freeze()


_freezer = _Freezer()


def share_one_heap() -> None:
    """Have all threads take memory from one heap of the C library, where it has several (glibc).

    A heap for each thread that was ever at work keeps what it once needed: a fifth of the memory of a long session.
    Only one thread of Python works at a time, so they do not wait for each other.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def disable_during_startup() -> None:
    """Look at nothing while the program starts: what is imported stays. Lasts until `freeze_startup_objects`."""
    gc.disable()


def freeze_startup_objects() -> None:
    """Count everything that is there now as living for ever, and look at what comes from here on."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
    if _freezer not in gc.callbacks:
        gc.callbacks.append(_freezer)


def collect_frozen() -> None:
    """Free what was counted as living for ever and is not used any more: the picture of a cluster that was left.

    Takes some 0.2 s, or twice that after a cluster of 50,000 pods.
    """
    gc.unfreeze()
    gc.collect()
