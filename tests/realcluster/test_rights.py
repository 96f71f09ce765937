"""The console's message to a user without rights, as a real API server refuses that user."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import AccessError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from tests.realcluster.running import real_cluster


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/nodes", "/apis/batch/v1/jobs"])
async def test_a_refusal_names_user_and_right(path: str) -> None:
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().nobody)))
    try:
        with pytest.raises(AccessError, match=r'User "nobody" cannot list resource'):
            await session.get(path)
    finally:
        await session.aclose()
