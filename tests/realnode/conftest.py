"""Tests on real nodes are collected beside some: `make realnode`."""

from __future__ import annotations

from tests.realnode.running import FOLDER

collect_ignore_glob = [] if FOLDER else ["test_*.py"]
