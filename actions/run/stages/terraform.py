"""The terraform stage: plan, approval, apply; undone by destroy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actions.base.errors import ConflictError, RefusedError
from actions.blueprint.render import tfvars_of
from actions.blueprint.roots import root_folder
from actions.blueprint.stages import TerraformStage
from actions.run.creation import load_environment
from actions.run.folder import terraform_path
from actions.run.handler import Performed
from actions.run.records import PlanOffer
from actions.run.toollog import ProgramLog
from actions.run.work import StageWork
from actions.terraform.events import TerraformEvent
from actions.terraform.program import open_terraform
from actions.terraform.protocol import OnEvent, PlanSummary, Terraform

T = TypeVar("T")

INTERRUPT_SECONDS = 600.0
"""How long Terraform may take to finish what it is making and to save its state."""
_LOOK_SECONDS = 0.2
_SHOWN_CHANGES = 500
_SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "-/+", "read": "<=", "forget": "."}


class TerraformHandler:
    """One root with its own state in the run's folder. A process that outlived its runner is gone on with."""

    def __init__(self, work: StageWork) -> None:
        self._work = work
        stage = work.blueprint.stage(work.stage.id)
        self._root = stage.root if isinstance(stage, TerraformStage) else ""
        preset = work.blueprint.presets.get(work.view.preset)
        self._may_simulate = bool(preset and preset.simulate_terraform)

    def describe(self) -> list[str]:
        program = f"terraform -chdir={terraform_path(self._work.folder, self._work.stage.id)}"
        return [
            f"{program} init -input=false",
            f"{program} plan -input=false -var-file=run.tfvars.json -out=run.tfplan",
            f"{program} apply run.tfplan",
        ]

    async def probe(self) -> Performed | None:
        return None  # perform goes on with a living process, and a finished one leaves nothing to plan

    async def perform(self) -> Performed:
        terraform = self._open()
        if terraform.running() == "apply":
            return await self._applied(terraform, "")
        self._work.journal.note("Installing providers.")
        await terraform.init()
        if self._work.stage.is_approved and self._work.stage.plan is not None:
            try:
                return await self._applied(terraform, self._work.stage.plan.plan_hash)
            except (RefusedError, ConflictError):
                self._work.journal.note("The approved plan is out of date: planning again.")
        return await self._planned(terraform)

    async def state(self) -> tuple[str, ...]:
        """Addresses of what is in the stage's state; empty if it never began.

        Raises:
            ConsoleError: It cannot be read.
        """
        if not terraform_path(self._work.folder, self._work.stage.id).is_dir():
            return ()
        return await self._open().state_list()

    async def undo(self) -> str:
        if not terraform_path(self._work.folder, self._work.stage.id).is_dir():
            return "Nothing was made."
        terraform = self._open()
        if terraform.running() in ("plan", "apply"):
            await self._stopped(terraform)
        if terraform.running() != "destroy" and not await terraform.state_list():
            return "Nothing is in its state."
        await terraform.init()
        async with _EventLog(self._work, terraform, "destroy") as on_event:
            await terraform.destroy(self._variables(), on_event=on_event)
        return "Destroyed." + _simulated(terraform)

    async def _planned(self, terraform: Terraform) -> Performed:
        self._work.journal.note("Planning.")
        async with _EventLog(self._work, terraform, "plan") as on_event:
            plan = await self._interruptible(terraform, lambda: terraform.plan(self._variables(), on_event=on_event))
        if plan.is_empty:
            return Performed("Nothing to change." + _simulated(terraform), outputs=await terraform.outputs())
        if self._is_approved(plan):
            return await self._applied(terraform, plan.plan_hash)
        return Performed(
            f"{plan.add} to add, {plan.change} to change, {plan.destroy} to destroy." + _simulated(terraform),
            plan=_offer_of(plan),
        )

    async def _applied(self, terraform: Terraform, plan_hash: str) -> Performed:
        async with _EventLog(self._work, terraform, "apply") as on_event:
            outputs = await self._interruptible(terraform, lambda: terraform.apply(plan_hash, on_event=on_event))
        return Performed("Applied." + _simulated(terraform), outputs=outputs)

    async def _interruptible(self, terraform: Terraform, call: Callable[[], Awaitable[T]]) -> T:
        """When the stage is cancelled, Terraform is asked once to stop, and waited for: it saves its state then."""
        try:
            return await call()
        except asyncio.CancelledError:
            await self._stopped(terraform)
            raise

    async def _stopped(self, terraform: Terraform) -> None:
        terraform.interrupt()
        self._work.journal.note("Waiting until Terraform has finished what it is making.")
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                while terraform.running():
                    await self._work.clock.sleep(_LOOK_SECONDS)
        except TimeoutError as error:
            raise RefusedError(
                f"Terraform has not stopped within {INTERRUPT_SECONDS:.0f} s of being asked to.",
                hint="Wait for its end, then retry.",
            ) from error

    def _is_approved(self, plan: PlanSummary) -> bool:
        stage = self._work.stage
        return stage.is_approved and stage.plan is not None and stage.plan.plan_hash == plan.plan_hash

    def _open(self) -> Terraform:
        return open_terraform(
            root_folder(self._work.blueprint.folder, self._root),
            terraform_path(self._work.folder, self._work.stage.id),
            load_environment(self._work.folder),
            may_simulate=self._may_simulate,
            clock=self._work.clock,
        )

    def _variables(self) -> dict[str, bool | int | float | str]:
        return tfvars_of(
            self._work.blueprint,
            self._work.stage.id,
            self._work.binding,
            run_id=self._work.view.id,
            outputs=self._work.view.outputs,
        )


class _EventLog:
    """Puts Terraform's messages into the stage's spool and the newest into its note.

    An adopted process tells its events from the beginning: those that are in the spool are skipped.
    """

    def __init__(self, work: StageWork, terraform: Terraform, operation: str) -> None:
        self._work = work
        self._log = ProgramLog(work, "terraform", operation, is_adopted=terraform.running() == operation)

    async def __aenter__(self) -> OnEvent:
        def take(event: TerraformEvent) -> None:
            self._work.journal.note(event.message)
            self._log.take(event.message)

        return take

    async def __aexit__(self, *_: object) -> None:
        self._log.close()


def _offer_of(plan: PlanSummary) -> PlanOffer:
    lines = [f"{_SIGNS.get(change.action, '?')} {change.address}" for change in plan.resources]
    hidden = len(lines) - _SHOWN_CHANGES
    shown = [*lines[:_SHOWN_CHANGES], *([f"… and {hidden} more"] if hidden > 0 else [])]
    return PlanOffer(plan.plan_hash, plan.add, plan.change, plan.destroy, tuple(shown))


def _simulated(terraform: Terraform) -> str:
    return " Simulated: there is no terraform program." if terraform.is_simulated else ""
