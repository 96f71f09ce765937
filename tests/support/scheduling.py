"""Which tests a worker of `make test` takes together, and which come first."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

_RULES = "tests/contract/"
"""Rules about the code: one worker parses the tree (3 s) for all of them."""
_ALONE = "tests/contract/test_wheel.py"
_LONGEST = (
    "tests/operators/test_recordings.py",
    "tests/faults/test_d18_bounds.py",
    "tests/faults/test_d19_memory.py",
)


class UnitScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    """xdist's `loadfile`, with the rules about the code as one unit."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that a test belongs to: its module's path, or the folder of the rules."""
    module = nodeid.partition("::")[0]
    return _RULES if module.startswith(_RULES) and module != _ALONE else module


def started_first(nodeid: str) -> bool:
    """Return whether a test is in one of the longest modules, by the wall time of a whole run."""
    return nodeid.startswith(_LONGEST)
