"""Programs that wait for each other."""

from __future__ import annotations

import asyncio

from actions.sandbox.kubelet.rendezvous import RendezvousTable
from actions.sandbox.programs.program import Rendezvous


async def test_no_program_goes_on_before_all_are_there() -> None:
    rendezvous_table = RendezvousTable()
    first = asyncio.create_task(rendezvous_table.join(Rendezvous("job", 2), "a"))
    await asyncio.sleep(0)
    assert not first.done()
    second = await rendezvous_table.join(Rendezvous("job", 2), "b")
    assert await first is second


async def test_a_member_that_is_lost_breaks_the_round_for_the_others() -> None:
    rendezvous_table = RendezvousTable()
    current_round, _ = await asyncio.gather(
        rendezvous_table.join(Rendezvous("job", 2), "a"), rendezvous_table.join(Rendezvous("job", 2), "b")
    )
    rendezvous_table.leave("a", is_finished=False)
    assert current_round.is_broken


async def test_a_member_that_has_finished_breaks_nothing() -> None:
    rendezvous_table = RendezvousTable()
    current_round, _ = await asyncio.gather(
        rendezvous_table.join(Rendezvous("job", 2), "a"), rendezvous_table.join(Rendezvous("job", 2), "b")
    )
    rendezvous_table.leave("a", is_finished=True)
    assert not current_round.is_broken


async def test_a_member_that_leaves_while_it_waits_is_not_counted() -> None:
    rendezvous_table = RendezvousTable()
    waiting = asyncio.create_task(rendezvous_table.join(Rendezvous("job", 2), "a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    rendezvous_table.leave("a", is_finished=False)
    other = asyncio.create_task(rendezvous_table.join(Rendezvous("job", 2), "b"))
    await asyncio.sleep(0)
    assert not other.done()
    other.cancel()
