"""`eksml-tui nodes`: the node table, once."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace

from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.inventory import Census, take_census
from actions.fleet.cost import CostModel
from actions.fleet.node_report import nodes_json, nodes_table
from tui.cli.target import ChosenTarget, chosen_target, require_target


def print_nodes(options: Namespace) -> int:
    """Print what the cluster's nodes are, do and cost."""
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed
    census, region = asyncio.run(_take(chosen))
    model = CostModel.load(region=region)
    if options.output == "json":
        sys.stdout.write(nodes_json(census.nodes, census.usage, model, region=region))
    else:
        sys.stdout.write(nodes_table(census.nodes, census.usage, model))
    return 0


async def _take(chosen: ChosenTarget) -> tuple[Census, str]:
    require_target(chosen.target)
    session = await KubeSession.connect(chosen.target, readonly=True, token_factory=token_factory)
    try:
        identity = await session.identity()
        return await take_census(session), identity.region or chosen.region
    finally:
        await session.aclose()
