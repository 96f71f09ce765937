"""The protocols between the runner, stage handlers and the backend, with their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from actions.base.errors import ConsoleError
from actions.base.wording import counted
from actions.run.context.access import ClusterConnection
from actions.run.state.records import NodesUsed, PlanOffer, RunAccount, StageFinding, TerraformBody
from actions.run.state.view import OwnedObject, RunView, StageView, TerraformMemory


class StageFailedError(ConsoleError):
    """A stage ended without success.

    Args:
        message: The reason, in one sentence.
        findings: The lines of a check.
        hint: The remedy.
    """

    def __init__(self, message: str, *, findings: tuple[StageFinding, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class Performed(msgspec.Struct, frozen=True):
    """The success of a stage, or a plan that has to be approved first."""

    message: str = ""
    outputs: Mapping[str, str] = msgspec.field(default_factory=dict)
    findings: tuple[StageFinding, ...] = ()
    plan: PlanOffer | None = None
    """If given, nothing was changed yet: `perform` is called again once it is approved."""


class StageHandler(Protocol):
    """The code of one stage of one run. Created for every call; its only memory is the journal and the world."""

    def describe(self) -> list[str]:
        """Return the equivalent `kubectl`, `aws` or `terraform` commands, one line each."""
        ...

    async def probe(self) -> Performed | None:
        """Find out whether the stage has been performed. Changes nothing.

        Returns:
            Its result, or `None` if it has to be performed (again).

        Raises:
            StageFailedError: It has been performed, and failed.
        """
        ...

    async def perform(self) -> Performed:
        """Perform the stage. Safe to call twice; cancelled when the goal of the run changes.

        Raises:
            ConsoleError: It failed.
        """
        ...

    async def undo(self) -> str:
        """Remove what the stage made, and nothing else. Safe to call twice, and when nothing was made.

        Returns:
            The result, in one line.

        Raises:
            ConsoleError: Something could not be removed.
        """
        ...


@runtime_checkable
class Preparable(Protocol):
    """A handler that has something to do before the logs of its stage are followed."""

    async def prepare(self) -> None:
        """Remove what an earlier attempt has left and is in the way, once its logs are read. Safe to call twice.

        Raises:
            StageFailedError: The stage cannot begin.
            ConsoleError: The cluster does not answer.
        """
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A handler whose work is a process of its own, which continues when its runner dies."""

    async def stop(self) -> None:
        """Interrupt the process and wait for its end. Safe to call twice, and when nothing runs.

        Raises:
            ConsoleError: It has not stopped.
        """
        ...


class StageJournal(Protocol):
    """The part of the journal that a handler writes, on disk when the call returns; messages are in the heartbeat.

    `own` and `deleted` wait while the journal cannot be written, because its disk is full or another process holds its
    lock: so await `own` before anything is changed.
    """

    def note(self, text: str) -> None:
        """Set the stage's progress message, one line. Cheap; the newest wins."""
        ...

    def warn(self, text: str) -> None:
        """Set the stage's warning, one line; empty to clear it. Shown behind the progress message."""
        ...

    def trouble(self, text: str) -> None:
        """Set what its pods suffer from now (crash loop, restarts, out of memory), one line; empty to clear it."""
        ...

    def owned(self) -> Sequence[OwnedObject]:
        """Return the objects that the stage owns and has not deleted, oldest first."""
        ...

    async def own(self, item: OwnedObject) -> None:
        """Record an object: without uid before it is applied, with uid after."""
        ...

    async def deleted(self, item: OwnedObject) -> None:
        """Record that an owned object is gone."""
        ...

    async def terraform(self) -> TerraformMemory:
        """Return the memory of the stage's Terraform processes, as the newest record leaves it."""
        ...

    async def remember(self, body: TerraformBody | NodesUsed) -> None:
        """Record an event of a Terraform process, or the use of nodes. Waits while the disk is full."""
        ...

    async def identify(self, account: RunAccount) -> None:
        """Record the AWS account of a run that has none in its journal. Waits while the disk is full."""
        ...


class AuditReport(msgspec.Struct, frozen=True):
    """The result of the audit after a teardown, one line for each object."""

    leftovers: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Places that could not be searched, one sentence each."""

    def sentence(self) -> str:
        """Return a summary in one line. It excludes leftovers only if everything could be searched."""
        if self.leftovers:
            verb = "is" if len(self.leftovers) == 1 else "are"
            return " ".join([f"{counted(len(self.leftovers), 'object')} {verb} left.", *self.unknown])
        if self.unknown:
            return " ".join(["It is unknown whether anything is left.", *self.unknown])
        return "Nothing is left except what is kept on purpose." if self.retained else "Nothing is left."


class RunBackend(Protocol):
    """The world of one run."""

    def handler(self, view: RunView, stage: StageView, journal: StageJournal) -> StageHandler:
        """Return the handler of a stage.

        Raises:
            ConsoleError: The stage cannot be carried out by this program.
        """
        ...

    def watching(self, view: RunView, stage: StageView, journal: StageJournal) -> AbstractAsyncContextManager[None]:
        """Store the logs and accelerator samples that the stage's `watch` names, while the context is entered.

        Failures of that do not leave the context: they are warnings in `journal`, and `with_warnings` adds the gaps.
        """
        ...

    async def with_warnings(self, stage: StageView, done: Performed) -> Performed:
        """Return the result of a stage, with warnings from its log."""
        ...

    async def others_using(self, view: RunView, journal: StageJournal) -> Sequence[str]:
        """Return others in the cluster who use what a teardown of the run removes, a clause each."""
        ...

    async def drain(self, view: RunView, journal: StageJournal) -> str:
        """Drain the nodes that were provisioned for the run's pods. Returns the result in one line."""
        ...

    async def audit(self, view: RunView, journal: StageJournal) -> AuditReport:
        """Search everywhere for what is left of the run."""
        ...

    async def cluster_of(self, view: RunView) -> ClusterConnection | None:
        """Return the connection to the run's cluster; `None` before the run has one.

        Raises:
            ConsoleError: It cannot be reached, or is another one.
        """
        ...

    def removes_cluster(self, view: RunView) -> bool:
        """Return whether a step of the run's teardown that has begun removes the cluster."""
        ...

    def reservation(self, view: RunView) -> str:
        """Return the id of the run's capacity reservation; empty if it names none. Blocking disk I/O."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
