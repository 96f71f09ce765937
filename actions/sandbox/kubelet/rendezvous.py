"""Where programs of several pods wait for each other, and learn that one of them is lost."""

from __future__ import annotations

import asyncio

from actions.sandbox.programs.program import Meeting


class Gathering:
    """One round of a meeting: complete once, perhaps broken afterwards."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.members: set[str] = set()
        self.is_complete = asyncio.Event()
        self.is_broken = False


class Meetings:
    """All meetings of a cluster. A round that is complete makes way for the next one of the same group."""

    def __init__(self) -> None:
        self._open: dict[str, Gathering] = {}
        self._joined: dict[str, Gathering] = {}

    async def join(self, meeting: Meeting, member: str) -> Gathering:
        """Wait until all are here.

        Args:
            meeting: Which group, and how many they are.
            member: Who comes; coming twice counts once.
        """
        gathering = self._open.get(meeting.group)
        if gathering is None or gathering.size != meeting.size:
            gathering = self._open[meeting.group] = Gathering(meeting.size)
        gathering.members.add(member)
        self._joined[member] = gathering
        if len(gathering.members) >= gathering.size:
            gathering.is_complete.set()
            del self._open[meeting.group]
        await gathering.is_complete.wait()
        return gathering

    def leave(self, member: str, *, is_finished: bool) -> None:
        """A member ends; unless it has finished its work, the others of a complete round are told."""
        gathering = self._joined.pop(member, None)
        if gathering is None:
            return
        gathering.members.discard(member)
        if gathering.is_complete.is_set() and not is_finished:
            gathering.is_broken = True
