"""The clusters that flow tests with `kubectl` run on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.kubectl import Kubectl, a_cluster, a_real_cluster
from tests.realcluster.running import KINDS


@pytest.fixture(params=KINDS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """`kubectl` with a cluster, or a namespace of the real one, of its own."""
    async with (a_real_cluster if request.param == "real" else a_cluster)(tmp_path) as kubectl:
        yield kubectl
