"""The parts of nodes that were there which scheduled pods take: recorded at each change, in a sum of their own."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from actions.base.errors import AccessError, UnreachableError
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import StageContext
from actions.run.objects.node_use import NodeUseRecorder
from actions.run.paid import paid_by
from actions.run.spending import spending_fields, spending_of
from actions.run.state.fold import fold
from actions.run.state.records import NODE_CLAIM, Action, Body, Intent, JournalRecord, NodesUsed, Outcome, Result
from tests.unit.fleet.test_fit import EIGHT, a_pod, gpus
from tests.unit.run.world import creation

HOUR = 3600.0
P5 = "55.040000"


def on(node: str, count: int = 8, phase: str = "Running") -> dict[str, Any]:
    pod = a_pod(gpus(count)) | {"status": {"phase": phase}}
    pod["spec"]["nodeName"] = node
    return pod


class World:
    """A stage's context, with one node behind the connection."""

    def __init__(self, *, existing: bool = True, owned: tuple[Any, ...] = ()) -> None:
        self.remember = AsyncMock()
        self.fetch = AsyncMock(return_value=EIGHT)
        journal = SimpleNamespace(remember=self.remember, owned=lambda: owned)
        view = SimpleNamespace(existing_cluster=existing, cluster=SimpleNamespace(region="us-west-2"))
        self.recorder = NodeUseRecorder(cast(StageContext, SimpleNamespace(view=view, journal=journal)))

    async def see(self, *pods: dict[str, Any]) -> list[NodesUsed]:
        await self.recorder.take(cast(ClusterConnection, SimpleNamespace(fetch=self.fetch)), pods)
        return [call.args[0] for call in self.remember.await_args_list]


async def test_pods_are_counted_from_when_they_are_scheduled_to_their_end() -> None:
    world = World()
    assert await world.see(a_pod(gpus(8))) == [], "it waits"
    half = NodesUsed(1, "27.520000")
    assert await world.see(on("one", 4)) == [half]
    assert await world.see(on("one", 4)) == [half], "nothing has changed"
    assert await world.see(on("one", 4), on("one", 4)) == [half, NodesUsed(1, P5)]
    assert await world.see(on("one", 8, "Succeeded")) == [half, NodesUsed(1, P5), NodesUsed()]
    assert world.fetch.await_count == 1


async def test_a_node_that_may_not_be_read_has_no_known_price() -> None:
    world = World()
    world.fetch.side_effect = UnreachableError("no answer")
    assert await world.see(on("one")) == []
    world.fetch.side_effect = AccessError("nodes may not be read")
    assert await world.see(on("one")) == [NodesUsed(1, "0.000000", 1)]


async def test_nodes_that_were_started_for_the_run_are_not_used_but_added() -> None:
    claim = SimpleNamespace(kind=NODE_CLAIM, existed=False, uid="claim-1")
    world = World(owned=(claim,))
    owners = [{"kind": "NodeClaim", "uid": "claim-1"}]
    world.fetch.return_value = EIGHT | {"metadata": EIGHT["metadata"] | {"ownerReferences": owners}}
    assert await world.see(on("one")) == []
    assert await World(existing=False).see(on("one")) == []


@pytest.mark.parametrize(
    ("bodies", "usd", "rate", "said"),
    [
        ([], 0, None, ""),
        ([(2.0, NodesUsed(1, P5))], Decimal(P5) * 4, "$55.04/h", "; uses $55.04/h of what is there, $220.16 so far"),
        ([(2.0, NodesUsed(1, P5)), (3.0, NodesUsed())], Decimal(P5), None, "; used $55.04 of what is there"),
        (
            [(2.0, NodesUsed(2, P5)), (3.0, Outcome(Action.PERFORM, Result.FAILED))],
            Decimal(P5),
            None,
            "; used $55.04 of what is there",
        ),
        ([(2.0, NodesUsed(1, "0.000000", 1))], 0, "?", "; uses ? of what is there"),
        (
            [(2.0, NodesUsed(2, P5, 1))],
            Decimal(P5) * 4,
            "≥ $55.04/h",
            "; uses ≥ $55.04/h of what is there, $220.16 so far",
        ),
    ],
)
def test_what_is_used_is_a_sum_of_its_own(
    bodies: list[tuple[float, Body]], usd: Decimal, rate: str | None, said: str
) -> None:
    lines: list[tuple[float, Body]] = [(1.0, Intent(Action.PERFORM)), *bodies]
    created = replace(creation(), prices=(), existing_cluster=True)
    records = [JournalRecord(1, 0.0, "me", "", 1, created)]
    records += [JournalRecord(n, at * HOUR, "me", "train", 1, body) for n, (at, body) in enumerate(lines, 2)]
    view = fold(records, holder="me")
    found = spending_of(view, 6 * HOUR)
    if not bodies:
        assert found is None
        return
    assert found is not None
    assert (found.usd, found.used_usd) == (Decimal(0), Decimal(usd))
    assert found.text == f"$0.00 so far{said}"
    assert (found.uses.text if found.uses else None) == rate
    uses = paid_by(view).uses
    assert (uses.text if uses else None) == rate
    fields = spending_fields(found)
    assert fields is not None
    assert fields["used_usd_per_hour"] == (None if rate in (None, "?") else "55.04")
