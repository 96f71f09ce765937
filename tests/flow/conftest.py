"""The clusters that flow tests with `kubectl` run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from tests.faults.rehearsal import a_sandbox
from tests.flow.kubectl import Kubectl, a_cluster, a_real_cluster
from tests.realcluster.running import KINDS, own_namespace, real_cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def shared_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Kubectl]:
    """`kubectl` with a cluster that the tests of a module share, and with it what it remembers of the server."""
    start = a_real_cluster if request.param == "real" else a_cluster
    async with start(tmp_path_factory.mktemp("cluster")) as kubectl:
        yield kubectl


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(shared_cluster: Kubectl, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """`kubectl` in a namespace of its own; a test that takes it runs in its module's event loop."""
    async with own_namespace(shared_cluster.kubeconfig, tmp_path, has_account=shared_cluster.is_real) as kubeconfig:
        yield replace(shared_cluster, kubeconfig=kubeconfig)


@pytest.fixture(scope="module", params=KINDS)
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig of a cluster that the tests of a module share, a process of its own."""
    if request.param == "real":
        yield Path(real_cluster().kubeconfig)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with a_sandbox("rights", speed=100.0) as running:
            yield running.kubeconfig


@pytest.fixture
async def session(kubeconfig: Path) -> AsyncIterator[KubeSession]:
    """The administrator's."""
    opened = await KubeSession.connect(ClusterTarget(kubeconfig))
    yield opened
    await opened.aclose()
