"""The garbage collector, kept from going over what lives for ever.

A full collection visits every object of the program: with all libraries loaded and a large cluster on screen that
would stop the loop for tens of milliseconds, again and again, to find nothing.
"""

from __future__ import annotations

import gc

_THRESHOLDS = (10_000, 20, 50)


def rest() -> None:
    """Look at nothing while the program starts: what is imported stays. Lasts until `keep_what_is`."""
    gc.disable()


def keep_what_is() -> None:
    """Count everything that is there now as living for ever, and look less often at what comes."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
