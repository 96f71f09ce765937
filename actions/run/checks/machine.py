"""Checks of the machine that the runner works on."""

from __future__ import annotations

import shutil

from actions.run.checks.seen import Seen, failed, passed


def see_tool(program: str) -> Seen:
    """Whether a program is on PATH."""
    found = shutil.which(program)
    return passed(f"{program} is {found}.") if found else failed(f"{program} is not on PATH.")
