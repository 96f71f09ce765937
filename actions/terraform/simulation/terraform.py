"""Terraform pretended: for rehearsals on a machine that has no `terraform`. Every event says so.

A root that may be simulated holds `simulation.json`: the addresses that it would make, its outputs, in which
`${name}` stands for a variable, and for resources that a sandbox must know of, the calls by which they are made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import BlueprintError, RefusedError
from actions.base.files import private_directory, write_private
from actions.base.readonly import refuse_if_readonly
from actions.terraform.events import ChangeProgress, EventKind, TerraformEvent
from actions.terraform.protocol import (
    Ended,
    OnEvent,
    PlanSummary,
    ResourceChange,
    RunningOperation,
    Variables,
    summary_of,
)
from actions.terraform.simulation import aws_calls as simulated_calls
from actions.terraform.state import StateLock

SIMULATION_FILE = "simulation.json"
STATE_FILE = "simulated.tfstate.json"
RESOURCE_SECONDS = 0.2

_NOTICE = "terraform is not on PATH: this is simulated, nothing is made"


class Simulation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a root would make."""

    resources: tuple[str, ...]
    outputs: dict[str, str]
    defaults: dict[str, str | int | float | bool] = {}
    """Of variables that the root does not insist on."""
    calls: dict[str, simulated_calls.Resource] = {}
    """By address."""


class _SimulatedState(msgspec.Struct):
    resources: list[str] = []
    outputs: dict[str, str] = {}
    planned: dict[str, str] = {}
    variables: dict[str, str | int | float | bool] = {}
    plan_hash: str = ""


class SimulatedTerraform:
    """Answers like the driver, makes nothing, remembers what it pretends in a file.

    Args:
        root: A root with `simulation.json`.
        work: Private folder.
        environment: Says where the sandbox's AWS is.
        clock: The machine's by default.
    """

    is_simulated = True

    def __init__(
        self, root: Path, work: Path, environment: Mapping[str, str] | None = None, *, clock: Clock | None = None
    ) -> None:
        self._root = root
        self._environment = environment or {}
        self._file = private_directory(work) / STATE_FILE
        self._clock = clock or SystemClock()
        self._operation = ""
        self._is_interrupted = False

    async def init(self) -> str:
        """Nothing to install.

        Raises:
            BlueprintError: The root cannot be simulated.
        """
        self._simulation()
        return ""

    async def plan(self, variables: Variables, *, on_event: OnEvent | None = None) -> PlanSummary:
        """Compare the pretended state with the simulation."""
        simulation, state = self._simulation(), self._state()
        _tell(on_event, _NOTICE)
        missing = [address for address in simulation.resources if address not in state.resources]
        variables = {**simulation.defaults, **variables}
        state.planned = {name: simulated_calls.filled(text, variables) for name, text in simulation.outputs.items()}
        content = msgspec.json.encode([missing, state.planned], order="deterministic")
        state.variables = dict(variables)
        state.plan_hash = hashlib.sha256(content).hexdigest()
        self._save(state)
        changes = [ResourceChange(address, "create") for address in missing]
        return summary_of(changes, plan_hash=state.plan_hash)

    async def apply(self, plan_hash: str = "", *, on_event: OnEvent | None = None) -> dict[str, str]:
        """Pretend to make what is missing.

        Raises:
            RefusedError: No plan, or another one than approved; or it was asked to stop.
        """
        refuse_if_readonly("terraform apply")
        state = self._state()
        if not state.plan_hash or plan_hash not in ("", state.plan_hash):
            raise RefusedError("The saved plan is not the one that was approved.", hint="Plan and approve again.")
        _tell(on_event, _NOTICE)
        simulation = self._simulation()
        for address in simulation.resources:
            if address not in state.resources:
                await self._work("apply", address, "create", on_event)
                state.resources.append(address)
                self._save(state)
                if address in simulation.calls:
                    call = simulation.calls[address]
                    await simulated_calls.make(call, state.variables, self._environment, self._clock)
        state.outputs, state.plan_hash = state.planned, ""
        self._save(state)
        return dict(state.outputs)

    async def destroy(self, variables: Variables, *, on_event: OnEvent | None = None) -> None:
        """Pretend to destroy everything in the pretended state."""
        del variables
        refuse_if_readonly("terraform destroy")
        state, calls = self._state(), self._simulation().calls
        _tell(on_event, _NOTICE)
        for address in reversed(list(state.resources)):
            await self._work("destroy", address, "delete", on_event)
            if address in calls:
                await simulated_calls.unmake(calls[address], state.variables, self._environment, self._clock)
            state.resources.remove(address)
            self._save(state)
        state.outputs = {}
        self._save(state)

    async def outputs(self) -> dict[str, str]:
        """The outputs of the pretended state."""
        return dict(self._state().outputs)

    async def state_list(self) -> tuple[str, ...]:
        """Addresses in the pretended state."""
        return tuple(self._state().resources)

    def running(self) -> str:
        """The operation that is going on in this process."""
        return self._operation

    def interrupt(self) -> bool:
        """Stop after the resource that is being pretended."""
        self._is_interrupted = bool(self._operation)
        return self._is_interrupted

    def process(self) -> RunningOperation | None:
        """There is none: what is pretended ends with its runner."""
        return None

    def changes(self) -> tuple[ChangeProgress, ...]:
        """Nothing is kept of them."""
        return ()

    async def ended(self) -> Ended | None:
        """Nothing is made, so nothing is left pending."""
        return None

    async def tracked(self) -> frozenset[str]:
        """Addresses in the pretended state."""
        return frozenset(self._state().resources)

    def unsaved(self) -> tuple[str, ...] | None:
        """The pretended state is saved where it belongs."""
        return None

    async def save_state(self) -> str:
        """Nothing to save."""
        return ""

    async def import_resource(self, address: str, resource_id: str, variables: Variables) -> None:
        """Refuse: nothing that is pretended exists.

        Raises:
            RefusedError: Always.
        """
        del resource_id, variables
        raise RefusedError(f"{address} cannot be imported: there is no terraform program.", hint="Install Terraform.")

    async def unlock_if_dead(self, lock: StateLock) -> bool:
        """Nothing is locked."""
        del lock
        return False

    async def _work(self, operation: str, address: str, action: str, on_event: OnEvent | None) -> None:
        if self._is_interrupted:
            self._is_interrupted = False
            raise RefusedError("Terraform was asked to stop, and stopped.", hint="Plan again to go on.")
        self._operation = operation
        try:
            _tell(on_event, f"{address}: simulated {action}", EventKind.APPLY_START, address, action)
            await self._clock.sleep(RESOURCE_SECONDS)
            _tell(on_event, f"{address}: simulated {action} complete", EventKind.APPLY_COMPLETE, address, action)
        finally:
            self._operation = ""

    def _simulation(self) -> Simulation:
        path = self._root / SIMULATION_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=Simulation)
        except OSError as error:
            raise BlueprintError("this root cannot be simulated: it has no simulation.json.", file=str(path)) from error
        except msgspec.DecodeError as error:
            raise BlueprintError(f"{error}.", file=str(path)) from error

    def _state(self) -> _SimulatedState:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_SimulatedState)
        except FileNotFoundError:
            return _SimulatedState()

    def _save(self, state: _SimulatedState) -> None:
        write_private(self._file, msgspec.json.encode(state))


def _tell(
    on_event: OnEvent | None, message: str, kind: EventKind = EventKind.LOG, address: str = "", action: str = ""
) -> None:
    if on_event is not None:
        on_event(TerraformEvent(kind, message, address=address, action=action))
