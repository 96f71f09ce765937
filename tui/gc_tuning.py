"""Settings of the garbage collector: skip what lives for ever, free the rest soon.

A full collection visits every object of the program: with all libraries loaded and a large cluster on screen that
would stop the loop for tens of milliseconds, again and again, to find nothing. So what exists when the program has
started is *frozen*: no collection visits it.

The rest has to be collected often. Textual's widgets, and the styles that every change of focus makes anew, refer to
each other, so only the collector frees them: one change of the layout leaves about 8,000 such objects.
"""

from __future__ import annotations

import ctypes
import gc
import time
from contextlib import suppress
from typing import Literal

THRESHOLDS = (5_000, 8, 2)
"""Objects made and not freed before the youngest generation is collected; how many of these collections before one of
the middle generation; how many of those before a full one: after some 100,000 objects, 10 MB. With 10,000 × 20 × 50,
as it was, ten million objects could be garbage first."""
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
"""From malloc.h."""
_OWN_MAPPING_BYTES = 128 << 10
_TRIM_SECONDS = 20.0
"""Least time between two returns of memory to the system: one takes a few milliseconds."""
_FREEZES = 2
"""Number of full collections that freeze what survives them: what was loaded after the start (verbs, the AWS library)
is part of the program from then on. 84,000 objects, 50 ms a collection, become 19,000 and 7 ms."""


class _Freezer:
    """A callback of the collector: freezes what survives the first full collections, and returns what they freed."""

    def __init__(self) -> None:
        self._left = _FREEZES
        self._trimmed_at = 0.0

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase != "stop" or info["generation"] != 2:
            return
        if self._left:
            self._left -= 1
            gc.freeze()
        now = time.monotonic()
        if now - self._trimmed_at >= _TRIM_SECONDS:
            self._trimmed_at = now
            _return_free_memory()


_freezer = _Freezer()


def share_one_heap() -> None:
    """Make all threads allocate from one heap of the C library, where it has several (glibc).

    A heap for each thread that ever worked keeps what that thread once needed: a fifth of the memory of a long
    session. Only one Python thread runs at a time, so threads do not wait for each other.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)  # else it grows with each large block that is freed


def _return_free_memory() -> None:
    """Return the free pages of the heap to the system: what a closed screen has left lies between what stays."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def disable_during_startup() -> None:
    """Disable collection until `freeze_startup_objects`: what is imported at startup, and read of a cluster, stays."""
    gc.disable()


def freeze_startup_objects() -> None:
    """Freeze everything that exists now, and collect what is made from here on."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    if _freezer not in gc.callbacks:
        gc.callbacks.append(_freezer)


def collect_frozen() -> None:
    """Free frozen objects that are no longer used: the snapshot of a cluster that was left.

    Takes some 0.2 s, or twice that after a cluster of 50,000 pods.
    """
    gc.unfreeze()
    gc.collect()
