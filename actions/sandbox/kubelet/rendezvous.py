"""The points where programs of several pods wait for each other, and learn that one of them is lost."""

from __future__ import annotations

import asyncio

from actions.sandbox.programs.program import Rendezvous


class RendezvousRound:
    """A round of a rendezvous: complete once, perhaps broken afterwards."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.members: set[str] = set()
        self.is_complete = asyncio.Event()
        self.is_broken = False


class RendezvousTable:
    """The rendezvous of a cluster. A round that is complete makes way for the next one of the same group."""

    def __init__(self) -> None:
        self._open: dict[str, RendezvousRound] = {}
        self._joined: dict[str, RendezvousRound] = {}

    async def join(self, rendezvous: Rendezvous, member: str) -> RendezvousRound:
        """Wait until all members have joined.

        Args:
            rendezvous: The group, and its size.
            member: The name of the one that joins; joining twice counts once.
        """
        current_round = self._open.get(rendezvous.group)
        if current_round is None or current_round.size != rendezvous.size:
            current_round = self._open[rendezvous.group] = RendezvousRound(rendezvous.size)
        current_round.members.add(member)
        self._joined[member] = current_round
        if len(current_round.members) >= current_round.size:
            current_round.is_complete.set()
            del self._open[rendezvous.group]
        await current_round.is_complete.wait()
        return current_round

    def leave(self, member: str, *, is_finished: bool) -> None:
        """Take out a member that ends; unless it has finished its work, a complete round is broken."""
        current_round = self._joined.pop(member, None)
        if current_round is None:
            return
        current_round.members.discard(member)
        if current_round.is_complete.is_set() and not is_finished:
            current_round.is_broken = True
