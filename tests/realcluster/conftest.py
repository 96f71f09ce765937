"""The tests that only a real cluster can answer are collected beside one: `make realcluster`."""

from __future__ import annotations

from tests.realcluster.running import FOLDER

collect_ignore = (
    []
    if FOLDER
    else [
        "test_asked_first.py",
        "test_odd_worlds.py",
        "test_rehearsal.py",
        "test_rights.py",
        "test_watchdog.py",
    ]
)
