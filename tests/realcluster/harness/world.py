"""The cluster's contents besides a control plane: nodes, add-ons, and the controllers that stand in for absent ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from actions.base.clock import Clock
from actions.cluster.auth.session import KubeSession
from actions.fleet.instance_types import InstanceTable
from actions.sandbox.aws.application import create_aws_app
from actions.sandbox.clientkit.cache import watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.controllers.addons import ADDON_KINDS, addon_controllers
from actions.sandbox.controllers.bootstrap import bootstrap_cluster
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.keys import AccessKey
from actions.sandbox.model.options import SandboxOptions
from tests.realcluster.harness.background import in_background

ACCESS_KEY = AccessKey("realcluster", "realcluster")


@asynccontextmanager
async def world(session: KubeSession, options: SandboxOptions, clock: Clock, groups: NodeGroups) -> AsyncIterator[None]:
    """Seed the cluster; play operators, Karpenter, EC2 and device plugins until the context is left."""
    client, types = ApiClient(session, clock), InstanceTable.load()
    await bootstrap_cluster(client, types, options, groups)
    async with watching(session, ADDON_KINDS, clock) as caches:
        controllers = addon_controllers(client, caches, types, options, groups)
        tasks = [in_background(one.run(), type(one).__name__) for one in controllers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def account(
    session: KubeSession, options: SandboxOptions, authority: bytes, groups: NodeGroups
) -> AsyncIterator[str]:
    """Answer for AWS until the context is left. Yields the endpoint's URL.

    Args:
        session: With the cluster that EKS tells of.
        options: Its name and region.
        authority: Who signed its certificate, in PEM.
        groups: Its node groups.
    """
    app = create_aws_app(session, options, key=ACCESS_KEY, authority=authority, groups=groups)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _, port = runner.addresses[0][:2]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
