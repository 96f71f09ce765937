"""The cluster with real nodes beside which this test run has been started, if there is one."""

from __future__ import annotations

import os
from pathlib import Path

from tests.realnode.harness.cluster import RunningNodes

FOLDER = os.environ.get("REALNODE", "")


def real_nodes() -> RunningNodes:
    """Return the cluster, with all that is needed to reach it."""
    return RunningNodes.read(Path(FOLDER))
