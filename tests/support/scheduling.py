"""The tests that a worker takes together, and those that come first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

RECORD = "RECORD_DURATIONS"
"""Environment variable: set to 1, the durations of a whole run are written to `FILE`."""
FILE = Path(__file__).with_name("durations.json")
"""Seconds by unit, as last recorded by `make durations`; units that take less than `_LEAST_SECONDS` are left out."""
_LEAST_SECONDS = 5.0

_RULES = "tests/contract/"
"""Rules about the code: one worker parses the tree (3 s) for all of them."""
_ALONE = "tests/contract/test_wheel.py"


class UnitScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    """xdist's `loadfile`, with the rules about the code as one unit."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that a test belongs to: its module's path, or the folder of the rules."""
    module = nodeid.partition("::")[0]
    return _RULES if module.startswith(_RULES) and module != _ALONE else module


@cache
def _recorded() -> Mapping[str, float]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def start_order(nodeid: str, recorded: Mapping[str, float] | None = None) -> float:
    """Return a key for sorting: what takes longest comes first, as what begins late is waited for at the end.

    Units without a record are equal, so that a stable sort leaves them in the order of `testpaths`.

    Args:
        nodeid: Of a test.
        recorded: Seconds by unit, instead of those in `FILE`.
    """
    return -(_recorded() if recorded is None else recorded).get(unit_of(nodeid), 0.0)


class DurationRecorder:
    """A plugin of pytest that adds up what the tests of each unit take, and writes `file` when the session ends.

    Args:
        file: Is replaced.
    """

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add setup, call or teardown of a test."""
        self._seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the longest ones, in whole seconds, longest first."""
        kept = {unit: round(seconds) for unit, seconds in self._seconds.most_common() if seconds >= _LEAST_SECONDS}
        self._file.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
