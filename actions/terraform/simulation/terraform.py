"""A simulated Terraform for rehearsals on machines without `terraform`. Every operation begins with a notice of that.

A root that may be simulated has a `simulation.json`: the addresses that it would make, its outputs with `${name}` for
variables, and the AWS calls of resources that a sandbox must have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.decoding import decode_json
from actions.base.errors import BlueprintError, FormatError, RefusedError
from actions.base.files import private_directory, read_file, write_private
from actions.base.guard import require_guard
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
from actions.terraform.state import DeadHolder, StateFile, StateLock
from actions.terraform.working_directory import SIMULATED_STATE

SIMULATION_FILE = "simulation.json"
RESOURCE_SECONDS = 0.2

_NOTICE = "terraform is not on PATH: this is simulated, nothing is made"


class Simulation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `simulation.json`."""

    resources: tuple[str, ...]
    outputs: dict[str, str]
    defaults: dict[str, str | int | float | bool] = {}
    """Values of optional variables."""
    calls: dict[str, simulated_calls.Resource] = {}
    """AWS resources by address."""


class _SimulatedState(msgspec.Struct):
    resources: list[str] = []
    outputs: dict[str, str] = {}
    planned: dict[str, str] = {}
    variables: dict[str, str | int | float | bool] = {}
    plan_hash: str = ""


class SimulatedTerraform:
    """The simulation of a root: it makes nothing real, and keeps its simulated state in a file.

    Args:
        root: A root with `simulation.json`.
        work: Private folder.
        environment: Names the endpoint of the sandbox's AWS.
        clock: The machine's by default.
    """

    is_simulated = True

    def __init__(
        self, root: Path, work: Path, environment: Mapping[str, str] | None = None, *, clock: Clock | None = None
    ) -> None:
        self._root = root
        self._environment = environment or {}
        self._file = private_directory(work) / SIMULATED_STATE
        self._clock = clock or SystemClock()
        self._operation = ""
        self._is_interrupted = False

    async def init(self, variables: Variables | None = None) -> str:
        """Check that the root can be simulated; there is nothing to install.

        Raises:
            BlueprintError: The root cannot be simulated.
        """
        del variables
        self._simulation()
        return ""

    async def plan(self, variables: Variables, *, on_event: OnEvent | None = None) -> PlanSummary:
        """Compare the simulated state with the simulation."""
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
        """Simulate the creation of what is missing.

        Raises:
            RefusedError: No plan, or another one than approved; or it was interrupted.
        """
        refuse_if_readonly("terraform apply")
        await require_guard("terraform apply")
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

    async def destroy(
        self, variables: Variables, *, on_event: OnEvent | None = None, may_be_gone: bool = False
    ) -> None:
        """Simulate the destruction of everything in the simulated state."""
        del variables, may_be_gone
        refuse_if_readonly("terraform destroy")
        await require_guard("terraform destroy")
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
        """Return the outputs of the simulated state."""
        return dict(self._state().outputs)

    async def state(self) -> StateFile:
        """Return the addresses in the simulated state."""
        lineage = "simulated" if self._file.exists() else ""
        return StateFile(lineage, 0, tuple(self._state().resources))

    def running(self) -> str:
        """Return the operation that runs in this process; empty if none does."""
        return self._operation

    def interrupt(self) -> bool:
        """Stop after the present resource."""
        self._is_interrupted = bool(self._operation)
        return self._is_interrupted

    def process(self) -> RunningOperation | None:
        """Return `None`: a simulation ends with its runner."""
        return None

    def changes(self) -> tuple[ChangeProgress, ...]:
        """Return no changes: none are kept."""
        return ()

    async def ended(self) -> Ended | None:
        """Return `None`: nothing is made, so nothing is left pending."""
        return None

    def keep_backup(self) -> Path | None:
        """Return `None`: nothing vanishes."""
        return None

    def unsaved(self) -> tuple[str, ...] | None:
        """Return `None`: the simulated state is always saved."""
        return None

    async def save_state(self) -> str:
        """Return an empty text: there is nothing to save."""
        return ""

    async def update_in_place(self, variables: Variables, addresses: Sequence[str]) -> None:
        """Do nothing: what is simulated has no variables that outlive an apply."""

    def dead_holders(self) -> Sequence[DeadHolder]:
        """Return none: nothing is locked."""
        return ()

    async def try_lock(self) -> None:
        """Do nothing: nothing is locked."""

    async def unlock(self, lock: StateLock) -> None:
        """Do nothing: nothing is locked."""

    async def _work(self, operation: str, address: str, action: str, on_event: OnEvent | None) -> None:
        if self._is_interrupted:
            self._is_interrupted = False
            raise RefusedError("Terraform was interrupted, and stopped.", hint="Plan again to continue.")
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
            return decode_json(read_file(path), Simulation)
        except OSError as error:
            raise BlueprintError("this root cannot be simulated: it has no simulation.json.", file=str(path)) from error
        except msgspec.DecodeError as error:
            raise BlueprintError(f"{error}.", file=str(path)) from error

    def _state(self) -> _SimulatedState:
        return _load(self._file)

    def _save(self, state: _SimulatedState) -> None:
        write_private(self._file, msgspec.json.encode(state))


def count_simulated(work: Path) -> int:
    """Return the number of resources in the simulated state of a work folder; 0 if there is none.

    Raises:
        FormatError: It cannot be read.
    """
    return len(_load(work / SIMULATED_STATE).resources)


def _load(path: Path) -> _SimulatedState:
    try:
        return decode_json(read_file(path), _SimulatedState)
    except FileNotFoundError:
        return _SimulatedState()
    except msgspec.DecodeError as error:
        raise FormatError(f"{path} is not a simulated state: {error}.") from error


def _tell(
    on_event: OnEvent | None, message: str, kind: EventKind = EventKind.LOG, address: str = "", action: str = ""
) -> None:
    if on_event is not None:
        on_event(TerraformEvent(kind, message, address=address, action=action))
