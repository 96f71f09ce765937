"""The real cluster that this test run has been started beside, if there is one."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from actions.base.files import write_private
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import create
from actions.cluster.objects.client import Discovery, ObjectRef, delete, list_objects
from tests.realcluster.harness.cluster import RunningCluster

FOLDER = os.environ.get("REALCLUSTER", "")
KINDS = ("sandbox", "real") if FOLDER else ("sandbox",)
"""Of clusters, for tests that are the same on each: `make realcluster` adds the real one."""

_ACCOUNT_SECONDS = 120.0
_POLL_SECONDS = 0.05


def real_cluster() -> RunningCluster:
    """Return the real cluster, with all that is needed to reach it."""
    return RunningCluster.read(Path(FOLDER))


@asynccontextmanager
async def own_namespace(kubeconfig: Path, folder: Path, *, has_account: bool = True) -> AsyncIterator[Path]:
    """A namespace that nobody else uses, with a pod's service account in it; deleted in the end, without waiting.

    Args:
        kubeconfig: Of the cluster.
        folder: For the kubeconfig of the namespace.
        has_account: False on the sandbox, which makes no service account by itself and needs none for a pod.

    Yields:
        A kubeconfig whose context is in it.
    """
    name = f"test-{secrets.token_hex(4)}"
    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    discovery = Discovery(session)
    space = ObjectRef("v1", "Namespace", "", name)
    try:
        await create(session, discovery, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        async with asyncio.timeout(_ACCOUNT_SECONDS):
            while has_account and not await list_objects(session, discovery, "v1", "ServiceAccount", namespace=name):
                await asyncio.sleep(_POLL_SECONDS)
        yield _in_namespace(kubeconfig, folder / "kubeconfig", name)
        await delete(session, discovery, space)
    finally:
        await session.aclose()


def _in_namespace(kubeconfig: Path, path: Path, namespace: str) -> Path:
    document = yaml.safe_load(kubeconfig.read_bytes())
    document["contexts"][0]["context"]["namespace"] = namespace
    write_private(path, yaml.safe_dump(document).encode())
    return path
