"""The answer of `eksml-tui nodes --output json`: a stable schema.

    {"schema": "eksml-nodes/1",
     "region": "us-west-2",
     "summary": {"nodes": 4, "ready": 4, "pods": 21,
                 "requested": RESOURCES, "allocatable": RESOURCES,
                 "usd_per_hour": 11.728 | null, "usd_per_month": … | null, "unpriced": 0,
                 "accelerators": 8, "idle_accelerators": 2,
                 "idle_usd_per_hour": … | null, "idle_unpriced": 0,
                 "text": "$11.73/h"},
     "nodes": [{"name", "instance_type", "region", "zone", "capacity_type", "pool", "state", "ready", "schedulable",
                "pods", "pods_allocatable", "requested": RESOURCES, "allocatable": RESOURCES,
                "accelerators", "idle_accelerators", "idle_usd_per_hour": … | null,
                "price": {"usd_per_hour", "source", "as_of": "2026-01-21" | null} | null,
                "created_at": "2026-11-20T10:00:00Z" | null, "version"}]}
    RESOURCES = {"cpu_milli", "memory_bytes", "gpu", "neuron", "efa"}

An unknown number is null, never 0; a sum is of what is known, and null when nothing is. Keys are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from actions.base.clock import format_rfc3339
from actions.fleet.cost import CostModel, FleetCost, NodeCost, total_of
from actions.fleet.facts import NOTHING, UNUSED, NodeFacts, NodeUsage, Resources
from actions.fleet.nodestate import state_of
from actions.fleet.prices import Price
from actions.fleet.report import sorted_nodes

SCHEMA = "eksml-nodes/1"

Json = dict[str, object]


def nodes_json(
    nodes: Iterable[NodeFacts], usage: Mapping[str, NodeUsage], model: CostModel, *, region: str = ""
) -> str:
    """Render the fleet as one JSON document of two-space indents, the last line ended by a newline.

    Args:
        nodes: Each once.
        usage: By node name.
        model: Prices.
        region: The region of the cluster, empty if unknown.
    """
    ordered = sorted_nodes(nodes)
    costs = [model.node_cost(node, usage.get(node.name, UNUSED)) for node in ordered]
    document = {
        "schema": SCHEMA,
        "region": region,
        "summary": _summary(ordered, usage, total_of(costs)),
        "nodes": [_node(node, usage.get(node.name, UNUSED), cost) for node, cost in zip(ordered, costs, strict=True)],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _summary(nodes: list[NodeFacts], usage: Mapping[str, NodeUsage], cost: FleetCost) -> Json:
    offered, requested, pods = NOTHING, NOTHING, 0
    for node in nodes:
        use = usage.get(node.name, UNUSED)
        offered, requested, pods = offered.plus(node.allocatable), requested.plus(use.requested), pods + use.pods
    is_known = not nodes or cost.unpriced < cost.nodes
    is_idle_known = not cost.idle_unpriced or cost.idle_usd_per_hour > 0
    return {
        "nodes": len(nodes),
        "ready": sum(node.is_ready for node in nodes),
        "pods": pods,
        "requested": _resources(requested),
        "allocatable": _resources(offered),
        "usd_per_hour": _number(cost.usd_per_hour) if is_known else None,
        "usd_per_month": _number(cost.usd_per_month) if is_known else None,
        "unpriced": cost.unpriced,
        "accelerators": cost.accelerators,
        "idle_accelerators": cost.idle_accelerators,
        "idle_usd_per_hour": _number(cost.idle_usd_per_hour) if is_idle_known else None,
        "idle_unpriced": cost.idle_unpriced,
        "text": cost.hourly_text,
    }


def _node(node: NodeFacts, use: NodeUsage, cost: NodeCost) -> Json:
    created = format_rfc3339(datetime.fromtimestamp(node.created_at, UTC)) if node.created_at else None
    return {
        "name": node.name,
        "instance_type": node.instance_type,
        "region": node.region,
        "zone": node.zone,
        "capacity_type": node.capacity_type,
        "pool": node.pool,
        "state": state_of(node),
        "ready": node.is_ready,
        "schedulable": node.is_schedulable,
        "pods": use.pods,
        "pods_allocatable": node.pods_allocatable,
        "requested": _resources(use.requested),
        "allocatable": _resources(node.allocatable),
        "accelerators": cost.accelerators,
        "idle_accelerators": cost.idle_accelerators,
        "idle_usd_per_hour": _number(cost.idle_usd_per_hour),
        "price": _price(cost.price),
        "created_at": created,
        "version": node.version,
    }


def _price(price: Price | None) -> Json | None:
    if price is None:
        return None
    as_of = price.as_of.isoformat() if price.as_of else None
    return {"usd_per_hour": _number(price.usd_per_hour), "source": price.source, "as_of": as_of}


def _resources(amount: Resources) -> Json:
    return {field: getattr(amount, field) for field in amount.__struct_fields__}


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else round(float(amount), 6)
