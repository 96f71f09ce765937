"""Plans with the hash that an approval is bound to, and what is known of an operation's process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.process import ProcessIdentity
from actions.base.untrusted import one_line
from actions.terraform.events import PendingOperation, TerraformEvent

OnEvent = Callable[[TerraformEvent], None]
"""Called for every event, in order, on the loop's thread. Must be quick."""

Variables = Mapping[str, str | int | float | bool]


class ResourceChange(msgspec.Struct, frozen=True):
    """The planned change of one resource."""

    address: str
    action: str
    """`create`, `update`, `replace`, `delete`, `read`, `forget`; `noop` changes are left out."""


class PlanSummary(msgspec.Struct, frozen=True):
    """The summary of a saved plan, as it is shown for approval.

    It is counted as Terraform does: a replacement is one to add and one to destroy.
    """

    resources: tuple[ResourceChange, ...]
    plan_hash: str
    """Hash of the plan's changes, values included; equal for equal plans. An approval is bound to it."""

    @property
    def add(self) -> int:
        """The number of resources to make."""
        return self._count("create", "replace")

    @property
    def change(self) -> int:
        """The number of resources to change in place."""
        return self._count("update")

    @property
    def destroy(self) -> int:
        """The number of resources to destroy."""
        return self._count("delete", "replace")

    def _count(self, *actions: str) -> int:
        return sum(resource.action in actions for resource in self.resources)

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
    return PlanSummary(effective, hashlib.sha256(data).hexdigest())


def _change_of(resource: _PlannedResource) -> ResourceChange:
    actions = resource.change.actions
    single = actions[0] if len(actions) == 1 and actions[0] in _SINGLE else "noop"
    word = "replace" if set(actions) in _REPLACED else single
    return ResourceChange(one_line(resource.address), word)
