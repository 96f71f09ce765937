"""What a run may ask of Terraform, whether the program does it or it is simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from actions.terraform.events import TerraformEvent

OnEvent = Callable[[TerraformEvent], None]
"""Called for every event, in order, on the loop's thread. Must be quick."""

Variables = Mapping[str, str | int | float | bool]


class ResourceChange(msgspec.Struct, frozen=True):
    """What a plan means to do with one resource."""

    address: str
    action: str
    """`create`, `update`, `replace`, `delete`, `read`, `forget`; `noop` changes are left out."""


class PlanSummary(msgspec.Struct, frozen=True):
    """A saved plan, as it is shown for approval."""

    add: int
    change: int
    destroy: int
    resources: tuple[ResourceChange, ...]
    plan_hash: str
    """Of what the plan changes, values included; equal for equal plans. An approval is bound to it."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.add or self.change or self.destroy)


class Terraform(Protocol):
    """One root with its state. One operation at a time."""

    is_simulated: bool

    async def init(self) -> None:
        """Bring the root into the work folder and install its providers. Safe to repeat."""
        ...

    async def plan(self, variables: Variables, *, on_event: OnEvent | None = None) -> PlanSummary:
        """Compare, and save a plan."""
        ...

    async def apply(self, plan_hash: str = "", *, on_event: OnEvent | None = None) -> dict[str, str]:
        """Apply the saved plan, or go on watching an apply that is running. Returns the outputs.

        Args:
            plan_hash: What was approved. Empty: whatever is saved.
            on_event: Gets every event, also those from before an adoption.
        """
        ...

    async def destroy(self, variables: Variables, *, on_event: OnEvent | None = None) -> None:
        """Destroy everything in the state, or go on watching a destroy that is running. Safe to repeat."""
        ...

    async def outputs(self) -> dict[str, str]:
        """The outputs in the state, without sensitive ones; other than texts as JSON."""
        ...

    async def state_list(self) -> tuple[str, ...]:
        """Addresses of everything in the state."""
        ...

    def running(self) -> str:
        """`apply`, `destroy` or `plan` if such a process is alive, also one of an earlier runner; else empty."""
        ...

    def interrupt(self) -> bool:
        """Ask the running operation, once, to stop after what it is doing. False if nothing runs."""
        ...
