"""A saved plan in numbers, with the hash that an approval is bound to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from actions.base.errors import FormatError
from actions.base.untrusted import one_line
from actions.terraform.protocol import PlanSummary, ResourceChange

_SINGLE = frozenset({"create", "update", "delete", "read", "forget"})
_REPLACED = ({"create", "delete"}, {"create", "forget"})


class _Change(msgspec.Struct):
    actions: list[str] = []
    before: Any = None
    after: Any = None
    after_unknown: Any = None


class _Resource(msgspec.Struct):
    address: str
    change: _Change


class _Plan(msgspec.Struct):
    resource_changes: list[_Resource] = []
    output_changes: dict[str, _Change] = {}
    errored: bool = False


def read_plan(shown: bytes) -> PlanSummary:
    """Summarise what `terraform show -json` prints for a plan file.

    Source: `format_version` 1.2, Terraform 1.11.4. Values go into the hash only: they may be secrets.

    Raises:
        FormatError: It is no plan.
    """
    try:
        plan = msgspec.json.decode(shown, type=_Plan)
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


def _change_of(resource: _Resource) -> ResourceChange:
    actions = resource.change.actions
    single = actions[0] if len(actions) == 1 and actions[0] in _SINGLE else "noop"
    word = "replace" if set(actions) in _REPLACED else single
    return ResourceChange(one_line(resource.address), word)
