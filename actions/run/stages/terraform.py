"""The terraform stage: plan, approval, apply; undone by destroy."""

from __future__ import annotations

import asyncio
import math
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from actions.base.errors import ConsoleError, RefusedError, ToolError
from actions.base.wording import counted, listed
from actions.blueprint.render import tfvars_of
from actions.blueprint.source_files import needs_account, variables_of
from actions.blueprint.stages import TerraformStage
from actions.blueprint.version_rules import support_type
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import STAGE, retry_unreachable
from actions.run.context.run_account import require_account
from actions.run.context.stage_context import StageContext
from actions.run.output.program_log import ProgramLog, ToolLog
from actions.run.stages.terraform_place import RootPlace
from actions.run.stages.terraform_reconcile import Reconciliation, unknown_error
from actions.run.stages.terraform_takeover import (
    may_be_half_destroyed,
    remember_unobserved,
)
from actions.run.state.records import DESTROYED, MADE, CheckResult, PlanOffer, RunAccount, StageFinding
from actions.terraform.driver import TerraformDriver
from actions.terraform.events import ChangeProgress, ChangeState, TerraformEvent
from actions.terraform.failure import NoPlanError, StalePlanError, StateLockedError, UnknownEndError
from actions.terraform.plans import OnEvent, PlanSummary
from actions.terraform.providers import discard_installed

T = TypeVar("T")

DELETE_DATA = "delete_data"
"""The variable of a root that lets a destroy empty its buckets."""
LOCK_SECONDS = 600.0
"""Time to wait for a state that another process has locked."""
_BUCKET = re.compile(r"(?<!data\.)\baws_s3_bucket\.[\w-]+(?:\[[^\[\]]*\])?$")
_SHOWN_BUCKETS = 5
_SHOWN_HELD = 3
_LOCK_LOOK_SECONDS = 5.0
_COMPARED_SECONDS = 30.0
"""Time for which a comparison of accounts counts: an init or a wait for a lock may take minutes."""
_SHOWN_CHANGES = 500
_SHOWN_FINDINGS = 200
_SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "-/+", "read": "<=", "forget": "."}
_DONE_WORDS = {"create": MADE, "update": "changed", "delete": DESTROYED}
_RESULTS = {ChangeState.DONE: CheckResult.PASSED, ChangeState.FAILED: CheckResult.FAILED}


class TerraformHandler:
    """The terraform stage: one root with its own state, in the run's folder or store. An orphan is adopted."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._root = context.declared(TerraformStage).root
        self._account = context.view.account
        self._compared_at = -math.inf
        self._place = RootPlace(context, self._root)

    def describe(self) -> list[str]:
        program = f"{self._place.program_name} -chdir={self._place.work}"
        return [
            f"{program} init -input=false",
            f"{program} plan -input=false -var-file=run.tfvars.json -out=run.tfplan",
            f"{program} apply run.tfplan",
        ]

    async def probe(self) -> Performed | None:
        return None  # perform adopts a living process, and a finished one leaves nothing to plan

    async def perform(self) -> Performed:
        terraform = await self._place.open()
        if terraform.running() == "apply":
            try:
                return await self._applied(terraform, "")
            except UnknownEndError as error:
                self._context.journal.note(error.message)
        await self._require_account()
        await self._prepared(terraform)
        if self._context.stage.is_approved and self._context.stage.plan is not None:
            try:
                return await self._applied(terraform, self._context.stage.plan.plan_hash)
            except (NoPlanError, StalePlanError, UnknownEndError):
                self._context.journal.note("The approved plan is out of date: planning again.")
        return await self._planned(terraform)

    async def stop(self) -> None:
        if self._place.is_prepared:
            await self._reconciliation(await self._place.open()).stop()
        await self._remember_unobserved()

    async def leftovers(self) -> list[str]:
        """List resources in the stage's state, and those that may exist outside of it; empty if it never began.

        Raises:
            ConsoleError: The state cannot be read.
        """
        if not self._place.may_hold():
            return []
        terraform = await self._place.open()
        state = await self._place.state(terraform)
        unsaved = terraform.unsaved()
        ended = await terraform.ended()
        memory = await self._context.journal.terraform()
        unknown = [item.address for item in memory.pending if item.is_open]
        if ended is not None and ended.process not in memory.ended:
            unknown += [item.address for item in ended.pending]
        lines = list(state.everything)
        if unsaved is not None:
            lines += [f"{address} (in errored.tfstate, which was not pushed)" for address in unsaved or ("unknown",)]
        return lines + [f"{address} may exist outside the state" for address in dict.fromkeys(unknown)]

    async def undo(self) -> str:
        if not self._place.may_hold():
            return "Nothing was made."
        terraform = await self._place.open()
        if terraform.running() in ("plan", "apply"):
            await self._reconciliation(terraform).stop()
        if terraform.running() == "destroy":
            try:
                return await self._destroyed(terraform)
            except UnknownEndError as error:
                self._context.journal.note(error.message)
        await self._require_account()
        await self._known(terraform)
        state = await self._place.state(terraform)
        if not state.everything:
            return "Nothing is in its state."
        await terraform.init()
        await self._emptiable(terraform)
        return await self._destroyed(terraform)

    async def _emptiable(self, terraform: TerraformDriver) -> None:
        """Let the destroy empty the root's buckets, if the teardown may delete data and the root has a variable for it.

        Terraform reads that permission from the state, so variables of the destroy alone change nothing.
        """
        if not self._context.view.deletes_data or DELETE_DATA not in self._declared():
            return
        buckets = [address for address in (await terraform.state()).addresses if _BUCKET.search(address)]
        if not buckets:
            return
        self._say(f"{listed(buckets, _SHOWN_BUCKETS)} will be emptied: the teardown may delete data.")
        variables = {**self._variables(), DELETE_DATA: True}
        await self._retried(terraform, lambda: terraform.update_in_place(variables, buckets))

    async def _require_account(self) -> None:
        """Require credentials of the run's account, unless the root works in none or they were compared just now.

        Raises:
            ConsoleError: As `require_account`.
        """
        now = self._context.clock.monotonic()
        if now - self._compared_at < _COMPARED_SECONDS or not needs_account(self._context.blueprint.folder, self._root):
            return
        self._account = await require_account(self._context)
        self._compared_at = self._context.clock.monotonic()

    async def _prepared(self, terraform: TerraformDriver) -> None:
        """Reconcile earlier operations on the root, and install providers."""
        await self._known(terraform)
        self._context.journal.note("Installing providers.")
        message = await terraform.init()
        if message:
            self._say(message)

    async def _known(self, terraform: TerraformDriver) -> None:
        """Reconcile what earlier operations have left, on this machine and on others.

        Raises:
            RefusedError: An operator has to decide.
            ConsoleError: The state is lost, or cannot be read.
        """
        await self._remember_unobserved()
        await self._place.state(terraform)
        reconciliation = self._reconciliation(terraform)
        await self._retried(terraform, reconciliation.save_state)
        await self._place.state(terraform)
        try:
            await self._retried(terraform, lambda: reconciliation.settle(self._variables))
        except RefusedError:
            await self._free(terraform)
            raise

    async def _remember_unobserved(self) -> None:
        stage, journal = self._context.stage, self._context.journal
        if await remember_unobserved(stage, journal, has_history=self._place.has_history):
            self._say("Another machine carried out the plan of this stage, and how that ended is not known.")

    async def _planned(self, terraform: TerraformDriver) -> Performed:
        await self._require_account()
        self._context.journal.note("Planning.")

        async def plan() -> PlanSummary:
            async with _EventLog(self._context, terraform, "plan") as on_event:
                return await terraform.plan(self._variables(), on_event=on_event)

        others = await self._held_before(terraform)
        found = await self._interruptible(terraform, lambda: self._retried(terraform, plan))
        if found.is_empty:
            return Performed("Nothing to change." + others, outputs=await terraform.outputs())
        if self._is_approved(found):
            return await self._applied(terraform, found.plan_hash)
        return Performed(
            f"{found.add} to add, {found.change} to change, {found.destroy} to destroy." + others,
            plan=_offer_of(found),
        )

    async def _held_before(self, terraform: TerraformDriver) -> str:
        """Return a sentence on what the root's own backend holds before the run has made anything; empty if nothing."""
        stage = self._context.stage
        is_begun = stage.attempt > 1 or stage.plan is not None or self._place.has_history
        if is_begun or not self._place.has_own_backend:
            return ""
        held = (await self._place.state(terraform)).managed
        if not held:
            return ""
        sentence = (
            f"The root's own backend holds {counted(len(held), 'resource')} from before this run, and a teardown "
            f"destroys what it holds: {listed(held, _SHOWN_HELD)}."
        )
        self._say(sentence)
        return f" {sentence}"

    async def _applied(self, terraform: TerraformDriver, plan_hash: str) -> Performed:
        if not terraform.running():
            await self._require_account()

        async def apply() -> Mapping[str, str]:
            async with _EventLog(self._context, terraform, "apply") as on_event:
                return await terraform.apply(plan_hash, on_event=on_event)

        try:
            outputs = await self._interruptible(terraform, lambda: self._retried(terraform, apply))
        except ToolError as error:
            raise await self._explained(terraform, error) from error
        return Performed("Applied.", outputs=outputs)

    async def _destroyed(self, terraform: TerraformDriver) -> str:
        if not terraform.running():
            await self._require_account()

        may_be_gone = may_be_half_destroyed(
            self._context.view, self._context.stage, has_history=self._place.has_history
        )

        async def destroy() -> None:
            async with _EventLog(self._context, terraform, "destroy") as on_event:
                await terraform.destroy(self._variables(), on_event=on_event, may_be_gone=may_be_gone)

        try:
            await self._retried(terraform, destroy)
        except ToolError as error:
            raise await self._explained(terraform, error) from error
        await self._reconciliation(terraform).remember()
        vanished = [item for item in (await self._context.journal.terraform()).pending if item.is_open]
        if vanished:
            refusal = unknown_error(self._context.view.id, vanished, terraform.program_name)
            raise StageFailedError(refusal.message, findings=_findings_of(terraform.changes()), hint=refusal.hint)
        discard_installed(self._place.work)
        return "Destroyed."

    async def _explained(self, terraform: TerraformDriver, error: ToolError) -> StageFailedError:
        """Return the failure of an operation, with the outcome of each resource, and those outside of the state."""
        findings = _findings_of(terraform.changes())
        message = error.message
        try:
            await self._reconciliation(terraform).remember()
        except ConsoleError as unread:
            message = f"{message}. {unread.message}"
        open_items = [item for item in (await self._context.journal.terraform()).pending if item.is_open]
        if not open_items:
            return StageFailedError(message, findings=findings, hint=error.hint)
        await self._free(terraform)
        unknown = unknown_error(self._context.view.id, open_items, terraform.program_name)
        return StageFailedError(f"{message}. {unknown.message}", findings=findings, hint=unknown.hint)

    async def _interruptible(self, terraform: TerraformDriver, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`; when cancelled, interrupt Terraform once and wait for its end."""
        try:
            return await call()
        except asyncio.CancelledError:
            reconciliation = self._reconciliation(terraform)
            await reconciliation.stop()
            await reconciliation.remember()
            raise

    async def _retried(self, terraform: TerraformDriver, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`; wait for a locked state, and free one that a dead process has locked.

        A state that does not answer is waited for, too: an operation that has no lock has done nothing.

        Raises:
            StateLockedError: It is still locked.
            UnreachableError, AccessError: There is still no answer, or no login.
        """
        context = self._context
        end = self._context.clock.monotonic() + LOCK_SECONDS
        while True:
            try:
                return await retry_unreachable(call, clock=context.clock, note=context.journal.note, policy=STAGE)
            except StateLockedError as error:
                reason = await self._place.unlocked(terraform, error.lock)
                if reason:
                    self._say(f"{error.message} Unlocked, as {reason}.")
                    continue
                if self._context.clock.monotonic() >= end:
                    raise StateLockedError(
                        error.lock, program=terraform.program_name, folder=self._place.work
                    ) from error
                self._context.journal.note(f"{error.message} Waiting.")
            await self._context.clock.sleep(_LOCK_LOOK_SECONDS)

    async def _free(self, terraform: TerraformDriver) -> None:
        """Remove the lock that a dead process has left, if any: an import by hand needs it, and tells of another's."""
        with suppress(ConsoleError):
            done = await self._place.freed(terraform)
            if done:
                self._say(done)

    def _reconciliation(self, terraform: TerraformDriver) -> Reconciliation:
        context = self._context
        return Reconciliation(context.view.id, terraform, context.journal, context.clock, say=self._say)

    def _say(self, sentence: str) -> None:
        with ToolLog(self._context, "terraform", "state") as log:
            log.take(sentence)

    def _is_approved(self, plan: PlanSummary) -> bool:
        stage = self._context.stage
        return stage.is_approved and stage.plan is not None and stage.plan.plan_hash == plan.plan_hash

    def _declared(self) -> Mapping[str, bool]:
        return variables_of(self._context.blueprint.folder, self._root)

    def _variables(self) -> dict[str, bool | int | float | str]:
        return root_variables(self._context, self._account)


def root_variables(context: StageContext, account: RunAccount | None) -> dict[str, bool | int | float | str]:
    """Return the variables of a Terraform stage's root.

    Args:
        context: The stage's.
        account: The run's; `None` for a root that works in none.

    Raises:
        BlueprintError: An earlier stage has not reported an output.
    """
    launched = datetime.fromtimestamp(context.view.created_at, UTC)
    return tfvars_of(
        context.blueprint,
        context.stage.id,
        context.binding,
        run_id=context.view.id,
        outputs=context.view.outputs,
        circumstances={
            "account_id": account.id if account else "",
            "namespace": context.namespace,
            "token_program": sys.executable,
            "support_type": support_type(context.binding, launched.date()),
        },
    )


class _EventLog:
    """The log of one operation: Terraform's messages in the stage's output, the newest as its progress message.

    The events of an adopted process are read from the beginning: those that are in the output are skipped.
    """

    def __init__(self, context: StageContext, terraform: TerraformDriver, operation: str) -> None:
        self._context = context
        self._log = ProgramLog(context, "terraform", operation, is_adopted=terraform.running() == operation)

    async def __aenter__(self) -> OnEvent:
        def take(event: TerraformEvent) -> None:
            if not event.is_script:  # hundreds of characters of shell tell nothing at a glance; the log has them
                self._context.journal.note(event.message)
            self._log.take(event.message)

        return take

    async def __aexit__(self, *_: object) -> None:
        self._log.close()


def _findings_of(changes: Sequence[ChangeProgress]) -> tuple[StageFinding, ...]:
    """Return the outcome for each resource, one line each."""
    return tuple(
        StageFinding(_RESULTS.get(change.step, CheckResult.UNKNOWN), change.address, _became(change))
        for change in changes[:_SHOWN_FINDINGS]
    )


def _became(change: ChangeProgress) -> str:
    match change.step:
        case ChangeState.DONE:
            return _DONE_WORDS.get(change.action, change.action)
        case ChangeState.FAILED:
            return change.error or f"{change.action} failed"
        case ChangeState.STARTED:
            return f"{change.action} was under way"
        case ChangeState.PLANNED:
            return f"{change.action} was not begun"


def _offer_of(plan: PlanSummary) -> PlanOffer:
    lines = [f"{_SIGNS.get(change.action, '?')} {change.address}" for change in plan.resources]
    hidden = len(lines) - _SHOWN_CHANGES
    shown = [*lines[:_SHOWN_CHANGES], *([f"… and {hidden} more"] if hidden > 0 else [])]
    return PlanOffer(plan.plan_hash, plan.add, plan.change, plan.destroy, tuple(shown))
