"""The memory of a run's Terraform processes, and the resources that they made, folded from records. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import assert_never

from msgspec.structs import replace

from actions.base.process import ProcessIdentity
from actions.run.state.records import (
    CheckResult,
    Interrupted,
    OperationEnded,
    Outcome,
    Resolved,
    Result,
    TerraformBody,
    Unlocked,
)
from actions.run.state.view import Interruption, PendingChange, TerraformMemory


def remembered(memory: TerraformMemory, body: TerraformBody, at: float) -> TerraformMemory:
    """Return the memory with one more record taken into account.

    Args:
        memory: The memory before it.
        body: The record.
        at: The time of the record, in seconds since the epoch.
    """
    match body:
        case Interrupted():
            process = ProcessIdentity(body.pid, body.start_ticks, body.boot_id)
            return replace(memory, interrupts=(*memory.interrupts, Interruption(process, at, body.is_sent)))
        case OperationEnded():
            return _with_end(memory, body, at)
        case Resolved():
            return _with_resolution(memory, body, at)
        case Unlocked():
            return replace(memory, unlocked=(*memory.unlocked, body))
        case _ as never:
            assert_never(never)


def _with_end(memory: TerraformMemory, body: OperationEnded, at: float) -> TerraformMemory:
    if body.process in memory.ended:
        return memory
    pending = {item.address: item for item in memory.pending}
    for item in body.pending:
        pending[item.address] = PendingChange(item.address, item.action, item.resource_type, item.resource_id, at)
    return replace(memory, pending=tuple(pending.values()), ended=(*memory.ended, body.process))


def _with_resolution(memory: TerraformMemory, body: Resolved, at: float) -> TerraformMemory:
    pending = {item.address: item for item in memory.pending}
    known = pending.get(body.address) or PendingChange(body.address, "", "", "", at)
    resource_id = body.resource_id or known.resource_id
    pending[body.address] = replace(known, how=body.how, resource_id=resource_id, at=at)
    return replace(memory, pending=tuple(pending.values()))


_RESOURCE = re.compile(r"(?:^|\.)(\w+)\.[\w-]+(?:\[[^\[\]]*\])?$")
"""The type at the end of the address of a Terraform resource."""


def resources_in(outcome: Outcome, detail: str) -> Iterator[str]:
    """Yield the types of the resources of which a failed operation has come to that end."""
    for finding in outcome.findings if outcome.result is Result.FAILED else ():
        if finding.detail == detail and finding.result is CheckResult.PASSED:
            yield from _RESOURCE.findall(finding.subject)
