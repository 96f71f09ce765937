"""The interface of a Terraform root, real or simulated, and its plans with the hash an approval is bound to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.process import ProcessIdentity
from actions.base.untrusted import one_line
from actions.terraform.events import ChangeProgress, PendingOperation, TerraformEvent
from actions.terraform.state import DeadHolder, StateFile, StateLock

OnEvent = Callable[[TerraformEvent], None]
"""Called for every event, in order, on the loop's thread. Must be quick."""

Variables = Mapping[str, str | int | float | bool]


class ResourceChange(msgspec.Struct, frozen=True):
    """The planned change of one resource."""

    address: str
    action: str
    """`create`, `update`, `replace`, `delete`, `read`, `forget`; `noop` changes are left out."""


class PlanSummary(msgspec.Struct, frozen=True):
    """The summary of a saved plan, as it is shown for approval."""

    add: int
    change: int
    destroy: int
    resources: tuple[ResourceChange, ...]
    plan_hash: str
    """Hash of the plan's changes, values included; equal for equal plans. An approval is bound to it."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return not (self.add or self.change or self.destroy)


class RunningOperation(msgspec.Struct, frozen=True):
    """A living Terraform process, and the interrupts that it has got."""

    operation: str
    process: ProcessIdentity
    has_heard: bool
    """It was interrupted: its output shows that, or the kernel holds the signal for it."""
    would_have_heard: bool
    """It is working, and would report an interrupt at once."""


class Ended(msgspec.Struct, frozen=True):
    """An operation that ended early (killed, interrupted twice, with the machine), or in which resources vanished."""

    operation: str
    process: str
    """Identity of the process, unique in its folder."""
    pending: tuple[PendingOperation, ...]


class Terraform(Protocol):
    """A Terraform root with its state. One operation at a time."""

    is_simulated: bool

    async def init(self, variables: Variables | None = None) -> str:
        """Copy the root into the work folder and install its providers. Safe to repeat.

        Args:
            variables: The root's, written there for commands by hand; `None` if a plan follows, which writes them.

        Returns:
            A sentence on newly recorded providers; usually empty.
        """
        ...

    async def plan(self, variables: Variables, *, on_event: OnEvent | None = None) -> PlanSummary:
        """Compute and save a plan."""
        ...

    async def apply(self, plan_hash: str = "", *, on_event: OnEvent | None = None) -> dict[str, str]:
        """Apply the saved plan, or adopt a running apply. Returns the outputs.

        Args:
            plan_hash: Hash of the approved plan; empty for any saved one.
            on_event: Gets every event, also those from before an adoption.
        """
        ...

    async def destroy(
        self, variables: Variables, *, on_event: OnEvent | None = None, may_be_gone: bool = False
    ) -> None:
        """Destroy everything in the state, or adopt a running destroy. Safe to repeat.

        Args:
            variables: The root's.
            on_event: Gets every event.
            may_be_gone: A destroy that another machine saw alone may have deleted any of it: nothing has vanished.
        """
        ...

    async def outputs(self) -> dict[str, str]:
        """Return the outputs in the state, without sensitive ones; values other than texts as JSON."""
        ...

    async def state(self) -> StateFile:
        """Return the addresses in the state, wherever the root's backend keeps it.

        Raises:
            UninitialisedError: The root's own backend has to be configured by `init` first.
            ConsoleError: The state cannot be read.
        """
        ...

    def running(self) -> str:
        """Return `apply`, `destroy` or `plan` if such a process is alive, also of an earlier runner; else empty."""
        ...

    def process(self) -> RunningOperation | None:
        """Return the living process, also of an earlier runner. Reads its whole output: call it rarely."""
        ...

    def interrupt(self) -> bool:
        """Interrupt the running operation; it stops after its present changes. False if nothing runs.

        The caller has made sure that it is the first interrupt: after a second one, unfinished changes are not saved.
        """
        ...

    def changes(self) -> tuple[ChangeProgress, ...]:
        """Return the changes of the newest apply or destroy so far."""
        ...

    async def ended(self) -> Ended | None:
        """Return the newest apply or destroy, if it ended early, or if resources vanished in it."""
        ...

    def keep_backup(self) -> Path | None:
        """Copy the state from before the newest destroy, which later operations overwrite.

        Returns:
            The copy; `None` if there is none in the work folder.
        """
        ...

    def unsaved(self) -> tuple[str, ...] | None:
        """Return the addresses in a state that could not be saved in its backend; `None` if there is none."""
        ...

    async def save_state(self) -> str:
        """Push a state that could not be saved in its backend, if nothing is lost by that.

        Returns:
            The result in a sentence; empty if there was nothing to do.

        Raises:
            UnsavedStateError: An operator has to decide.
        """
        ...

    async def update_in_place(self, variables: Variables, addresses: Sequence[str]) -> None:
        """Update some resources of the state with other variables; make, replace and destroy none."""
        ...

    def dead_holders(self) -> Sequence[DeadHolder]:
        """Return the processes of this work folder that have ended and may have left the lock of the state."""
        ...

    async def try_lock(self) -> None:
        """Take the lock of the state, and give it back.

        Raises:
            StateLockedError: Another process has it.
        """
        ...

    async def unlock(self, lock: StateLock) -> None:
        """Remove a lock whose holder is dead."""
        ...


_SINGLE = frozenset({"create", "update", "delete", "read", "forget"})
_REPLACED = ({"create", "delete"}, {"create", "forget"})


class _Change(msgspec.Struct):
    actions: list[str] = []
    before: Any = None
    after: Any = None
    after_unknown: Any = None


class _PlannedResource(msgspec.Struct):
    address: str
    change: _Change


class _Plan(msgspec.Struct):
    resource_changes: list[_PlannedResource] = []
    output_changes: dict[str, _Change] = {}
    errored: bool = False


def read_plan(shown: bytes) -> PlanSummary:
    """Summarise the output of `terraform show -json` for a plan file.

    Source: `format_version` 1.2, Terraform 1.11.4. Values go into the hash only: they may be secrets.

    Raises:
        FormatError: It is not a plan.
    """
    try:
        plan = decode_json(shown, _Plan)
    except msgspec.DecodeError as error:
        raise FormatError("Terraform's plan cannot be read.", hint="Use Terraform 1.5 to 1.14.") from error
    changes = [_change_of(resource) for resource in plan.resource_changes]
    effective = tuple(change for change in changes if change.action != "noop")
    canonical = [
        [item.address, item.change.actions, item.change.before, item.change.after, item.change.after_unknown]
        for item in sorted(plan.resource_changes, key=lambda item: item.address)
    ]
    outputs = {name: [item.actions, item.after] for name, item in plan.output_changes.items()}
    data = msgspec.json.encode([canonical, outputs], order="deterministic")
    return summary_of(effective, plan_hash=hashlib.sha256(data).hexdigest())


def summary_of(changes: Sequence[ResourceChange], *, plan_hash: str) -> PlanSummary:
    """Count changes as Terraform does: a replacement is one to add and one to destroy."""
    return PlanSummary(
        add=sum(change.action in ("create", "replace") for change in changes),
        change=sum(change.action == "update" for change in changes),
        destroy=sum(change.action in ("delete", "replace") for change in changes),
        resources=tuple(changes),
        plan_hash=plan_hash,
    )


def _change_of(resource: _PlannedResource) -> ResourceChange:
    actions = resource.change.actions
    single = actions[0] if len(actions) == 1 and actions[0] in _SINGLE else "noop"
    word = "replace" if set(actions) in _REPLACED else single
    return ResourceChange(one_line(resource.address), word)
