"""The protocols between the runner, stage handlers and the backend, with their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from actions.base.errors import ConsoleError
from actions.base.wording import counted
from actions.run.state.records import PlanOffer, StageFinding, TerraformBody
from actions.run.state.view import OwnedObject, RunView, StageView, TerraformMemory


class StageFailedError(ConsoleError):
    """The stage came to its end, and the end is not success.

    Args:
        message: Why, in one sentence.
        findings: What was looked at, for a check.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, findings: tuple[StageFinding, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class Performed(msgspec.Struct, frozen=True):
    """A stage came to its end, or to a plan that has to be approved first."""

    message: str = ""
    outputs: Mapping[str, str] = msgspec.field(default_factory=dict)
    findings: tuple[StageFinding, ...] = ()
    plan: PlanOffer | None = None
    """If given, nothing was done yet: `perform` is called again once it is approved."""


class StageHandler(Protocol):
    """One stage of one run. Made anew for every call; all that it remembers is in the journal and in the world."""

    def describe(self) -> list[str]:
        """The `kubectl` or `terraform` commands that it stands for, one line each."""
        ...

    async def probe(self) -> Performed | None:
        """Look whether the stage has been done. Changes nothing.

        Returns:
            How it ended, or `None` if it has to be performed (again).

        Raises:
            StageFailedError: It has been done, and failed.
        """
        ...

    async def perform(self) -> Performed:
        """Do it. Safe to call twice; cancelled when the goal of the run changes.

        Raises:
            ConsoleError: It failed.
        """
        ...

    async def undo(self) -> str:
        """Remove what it made, and nothing else. Safe to call twice, and when nothing was made.

        Returns:
            What was done, in one line.

        Raises:
            ConsoleError: Something could not be removed.
        """
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A handler whose work is a process of its own, which goes on when its runner dies."""

    async def stop(self) -> None:
        """Ask what still runs to stop, and wait for its end. Safe to call twice, and when nothing runs.

        Raises:
            ConsoleError: It has not stopped.
        """
        ...


class StageJournal(Protocol):
    """The part of the journal that a handler writes. All but `note` and `warn` is on disk when the call returns.

    `own` and `deleted` wait as long as the journal cannot be written, because its disk is full or another process
    holds its lock: so await `own` before the world is touched.
    """

    def note(self, text: str) -> None:
        """Say what the stage waits for, one line. Cheap; the newest wins."""
        ...

    def warn(self, text: str) -> None:
        """Say what is wrong beside the stage's work, one line; empty when it is right again. Shown behind the note."""
        ...

    def owned(self) -> Sequence[OwnedObject]:
        """What the stage owns and has not deleted, oldest first."""
        ...

    async def own(self, item: OwnedObject) -> None:
        """Record an object: before it is applied without uid, after it with uid."""
        ...

    async def deleted(self, item: OwnedObject) -> None:
        """Record that an owned object is gone."""
        ...

    async def terraform(self) -> TerraformMemory:
        """Return the memory of the stage's Terraform processes, as the newest record leaves it."""
        ...

    async def remember(self, body: TerraformBody) -> None:
        """Record something of a Terraform process. Waits as long as the disk is full."""
        ...


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


class RunBackend(Protocol):
    """The world of one run."""

    def handler(self, view: RunView, stage: StageView, journal: StageJournal) -> StageHandler:
        """Who performs and undoes a stage.

        Raises:
            ConsoleError: The stage cannot be carried out by this program.
        """
        ...

    def watching(self, view: RunView, stage: StageView, journal: StageJournal) -> AbstractAsyncContextManager[None]:
        """While it is entered, logs and accelerators that the stage asks to watch are spooled.

        None of what goes wrong with that leaves it: `journal` is warned, and `with_warnings` knows what is lost.
        """
        ...

    async def with_warnings(self, stage: StageView, done: Performed) -> Performed:
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
