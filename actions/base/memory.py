"""Memory that is free again, handed back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Have the C library return what is free: after a peak it keeps it, in pieces between what is used.

    Takes milliseconds: for after a rare, large piece of work. Does nothing where the library cannot.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
