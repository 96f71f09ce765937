"""Calls that name no run mean the one under the cursor, where runs are listed."""

from __future__ import annotations

from msgspec.structs import replace

from actions.command.verbs import Call
from tui.present.subject import Subject


def aimed(call: Call, subject: Subject | None) -> Call:
    """The call with the selected run in the place of an empty one."""
    if subject is None or subject.kind != "Run" or getattr(call.arguments, "run", None) != "":
        return call
    return Call(call.command, replace(call.arguments, run=subject.name))
