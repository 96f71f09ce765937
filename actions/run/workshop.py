"""What a runner works with: everything that touches the world, behind one protocol."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from actions.base.wording import counted
from actions.run.handler import Performed, StageHandler, StageJournal
from actions.run.view import RunView, StageView


class AuditReport(msgspec.Struct, frozen=True):
    """What was found after a teardown, one line an object."""

    leftovers: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What could not be asked, one sentence each."""

    def sentence(self) -> str:
        """The whole in a line. That nothing is left is said only where everything could be asked."""
        if self.leftovers:
            verb = "is" if len(self.leftovers) == 1 else "are"
            return " ".join([f"{counted(len(self.leftovers), 'object')} {verb} left.", *self.unknown])
        return (
            " ".join(["It is unknown whether anything is left.", *self.unknown]) if self.unknown else "Nothing is left."
        )


class Workshop(Protocol):
    """The world of one run."""

    def handler(self, view: RunView, stage: StageView, journal: StageJournal) -> StageHandler:
        """Who performs and undoes a stage.

        Raises:
            ConsoleError: The stage cannot be carried out by this program.
        """
        ...

    def watching(self, view: RunView, stage: StageView, journal: StageJournal) -> AbstractAsyncContextManager[None]:
        """While it is entered, logs and accelerators that the stage asks to watch are spooled.

        None of what goes wrong with that leaves it: `journal` is warned, and `considered` knows what is lost.
        """
        ...

    async def considered(self, stage: StageView, done: Performed) -> Performed:
        """How a stage ended, with what its log says against it although it ended well."""
        ...

    async def drain(self, view: RunView, journal: StageJournal) -> str:
        """Let the nodes go that the run's pods brought. Returns what was done."""
        ...

    async def audit(self, view: RunView, journal: StageJournal) -> AuditReport:
        """Look for what is left of the run, everywhere."""
        ...

    async def aclose(self) -> None:
        """Give up connections."""
        ...
