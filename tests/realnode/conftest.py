"""Tests on real nodes are collected beside some: `make realnode`."""

from __future__ import annotations

from tests.realnode.running import FOLDER, real_nodes

collect_ignore_glob = [] if FOLDER else ["test_*.py"]
if FOLDER and not real_nodes().has_images_of_today:
    collect_ignore_glob = ["test_today*.py"]
