"""The reconciliation of a Terraform root: interrupts, killed processes, states that could not be saved.

They are recorded in the journal, and nothing is planned, applied or destroyed before they are settled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, RefusedError
from actions.base.wording import listed
from actions.run.context.protocols import StageJournal
from actions.run.state.records import Interrupted, OperationEnded, PendingResource, Resolution, Resolved
from actions.run.state.view import Interruption, PendingChange, TerraformMemory
from actions.terraform.driver import TerraformDriver
from actions.terraform.events import UNOBSERVED, VANISHED
from actions.terraform.failure import UnsavedStateError
from actions.terraform.plans import RunningOperation, Variables
from actions.terraform.working_directory import STATE_FILE, VANISHED_STATE

INTERRUPT_SECONDS = 600.0
"""Time for an interrupted Terraform to finish its present changes and to save its state."""
UNHEARD_SECONDS = 15.0
"""Silence after which no interrupt can have reached Terraform, which reports one within milliseconds."""
_LOOK_SECONDS = 0.2
_ASK_SECONDS = 5.0
_SHOWN = 5


class Reconciliation:
    """The reconciliation of one stage's Terraform root with the journal.

    Args:
        run_id: The run, for the commands in hints.
        terraform: The root.
        journal: The stage's.
        clock: For waiting.
        say: Takes a sentence for the stage's log.
    """

    def __init__(
        self,
        run_id: str,
        terraform: TerraformDriver,
        journal: StageJournal,
        clock: Clock,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._run_id = run_id
        self._terraform = terraform
        self._journal = journal
        self._clock = clock
        self._say = say

    async def stop(self) -> None:
        """Interrupt a running process, and wait for its end. No process is ever interrupted twice.

        Raises:
            RefusedError: It has not stopped in time.
        """
        end = self._clock.monotonic() + INTERRUPT_SECONDS
        ask_at = 0.0
        while self._terraform.running():
            now = self._clock.monotonic()
            if now >= ask_at:
                await self._ask_once()
                ask_at = now + _ASK_SECONDS
            if now >= end:
                raise self._still_running()
            self._journal.note("Waiting until Terraform has finished what it is making.")
            await self._clock.sleep(_LOOK_SECONDS)

    async def remember(self) -> None:
        """Record resources outside of the state: made by a process that ended early, or vanished in a destroy.

        Raises:
            ConsoleError: The state cannot be read, so that these are unknown.
        """
        ended = await self._terraform.ended()
        if ended is None or ended.process in (await self._journal.terraform()).ended:
            return
        pending = tuple(
            PendingResource(item.address, item.action, item.resource_type, item.resource_id) for item in ended.pending
        )
        await self._journal.remember(OperationEnded(ended.operation, ended.process, pending))
        for item in pending:
            self._say(
                f"{item.address} was gone when it was to be destroyed."
                if item.action == VANISHED
                else f"Terraform was ended while it made {item.address}: it may exist outside the state."
            )
        if any(item.action == VANISHED for item in pending):
            copy = self._terraform.keep_backup()
            if copy is not None:
                self._say(f"The state from before is in {copy}.")

    async def save_state(self) -> None:
        """Push a state that an earlier operation could not save.

        Raises:
            UnsavedStateError: An operator has to decide.
        """
        try:
            message = await self._terraform.save_state()
        except UnsavedStateError as error:
            waive = f"eksml-tui runs waive {self._run_id} errored.tfstate --confirm errored.tfstate"
            raise UnsavedStateError(error.message, hint=f"{error.hint} Or, if it is not needed: {waive}") from error
        if message:
            self._say(message)

    async def settle(self, variables: Callable[[], Variables]) -> None:
        """Require that every resource that was ever begun is in the state, or waived.

        Args:
            variables: The root's, for an import by hand.

        Raises:
            RefusedError: A resource may exist outside of the state, and an operator has to decide.
            ConsoleError: The state cannot be read.
        """
        await self.remember()
        waiting = [item for item in (await self._journal.terraform()).pending if item.is_open]
        if not waiting:
            return
        tracked = frozenset((await self._terraform.state()).addresses)
        for item in waiting:
            if item.address in tracked:
                await self._journal.remember(Resolved(item.address, Resolution.TRACKED))
        still = [item for item in waiting if item.address not in tracked]
        if still:
            with suppress(ConsoleError):  # of a run that was taken over, the working directory may not be here yet
                await self._terraform.init(variables())
            raise unknown_error(self._run_id, still, self._terraform.program_name)

    async def _ask_once(self) -> None:
        running = self._terraform.process()
        if running is None or not may_interrupt(
            running, await self._journal.terraform(), now=self._clock.now().timestamp()
        ):
            return
        await self._journal.remember(_interrupted(running, is_sent=False))
        if self._terraform.interrupt():
            await self._journal.remember(_interrupted(running, is_sent=True))

    def _still_running(self) -> RefusedError:
        running = self._terraform.process()
        by_hand = (
            f" To end it now, without saving what it is making: kill -INT {running.process.pid}" if running else ""
        )
        return RefusedError(
            f"Terraform has not stopped within {INTERRUPT_SECONDS:.0f} s of its interrupt.",
            hint=f"Wait for its end, then retry.{by_hand}",
        )


def may_interrupt(running: RunningOperation, memory: TerraformMemory, *, now: float) -> bool:
    """Return whether to send the process an interrupt: only if it has certainly had none.

    A runner may die between recording an interrupt and sending it. Terraform reports an interrupt at once: a process
    that has reported none for a while, though it could, never got it.

    Args:
        running: The process, with what its output and the kernel show.
        memory: The records of the stage.
        now: Seconds since the epoch.
    """
    if running.has_heard:
        return False
    asked = [item for item in memory.interrupts if item.process == running.process]
    if not asked:
        return True
    if any(item.is_sent for item in asked):
        return False
    return running.would_have_heard and _age(asked[-1], now) >= UNHEARD_SECONDS


def unknown_error(run_id: str, items: list[PendingChange], program: str) -> RefusedError:
    """Return the refusal to continue while some resources may exist outside of the state.

    Args:
        run_id: The run.
        items: The resources.
        program: The program, for the command that imports one.
    """
    vanished = [item for item in items if item.has_vanished]
    if vanished:
        return vanished_error(run_id, vanished)
    names = listed([item.address for item in items], _SHOWN)
    first = items[0].address
    by_hand = (
        f"{program} import '{first}' {items[0].resource_id or 'ID'}, in the stage's folder "
        f"(eksml-tui runs terraform {run_id})"
    )
    if all(item.is_unobserved for item in items):
        return RefusedError(
            f"Another machine carried out a plan, and how that ended is not known: {names} may exist.",
            hint=f"Look for them. For each that exists: {by_hand}; then for the "
            f"others: eksml-tui runs waive {run_id} {UNOBSERVED} --confirm {UNOBSERVED}. Then retry.",
        )
    return RefusedError(
        f"Terraform was ended while it made {names}: "
        f"{'it' if len(items) == 1 else 'they'} may exist outside the state.",
        hint=f"Look for it. If it exists: {by_hand}; if not: "
        f"eksml-tui runs waive {run_id} '{first}' --confirm '{first}'. Then retry.",
    )


def vanished_error(run_id: str, items: list[PendingChange]) -> RefusedError:
    """Return the refusal to call a destroy a success that has not found what it was to destroy.

    Args:
        run_id: The run.
        items: The resources.
    """
    names = listed([item.address for item in items], _SHOWN)
    them = "it" if len(items) == 1 else "them"
    return RefusedError(
        f"Terraform did not destroy {names}: AWS did not find {them}. With the credentials of another account or "
        f"region nothing is found, and everything goes on running.",
        hint=f"Look for {them}. If {them} still run{'s' if them == 'it' else ''}: correct the credentials, copy "
        f"{VANISHED_STATE} over {STATE_FILE} in the stage's folder (eksml-tui runs terraform {run_id}), and retry. "
        f"If deleted by hand: eksml-tui runs waive {run_id} {VANISHED_STATE} --confirm {VANISHED_STATE}. Then retry.",
    )


def _age(item: Interruption, now: float) -> float:
    return now - item.at


def _interrupted(running: RunningOperation, *, is_sent: bool) -> Interrupted:
    process = running.process
    return Interrupted(running.operation, process.pid, process.start_ticks, process.boot_id, is_sent=is_sent)
