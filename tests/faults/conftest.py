"""A sandbox for each module that asks for one; the module says by `SANDBOX_SPEED` how fast its world turns.

`SANDBOX_IS_EXECUTED` says that it is looked at as a process, and must not be a copy of one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from actions.cluster.auth.session import ClusterTarget, KubeSession
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import a_sandbox
from tests.faults.somebody import Somebody
from tests.support import zygote


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """The module's own, in a state folder of its own."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        if getattr(request.module, "SANDBOX_IS_EXECUTED", False):
            patch.setattr(zygote, "IS_USED", False)
        with a_sandbox(name, speed=request.module.SANDBOX_SPEED) as running:
            yield running


@pytest.fixture
async def somebody(sandbox: RunningSandbox) -> AsyncIterator[Somebody]:
    """Somebody else, in the sandbox."""
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    yield Somebody(session)
    await session.aclose()
