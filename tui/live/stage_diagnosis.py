"""The diagnosis of a stage of the run on screen, asked once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actions.base.errors import MissingError, UnreachableError
from tui.live.desk import Desk

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.diagnose.codes import Finding


async def explain_stage(desk: Desk, stage: str) -> list[Finding]:
    """What is the matter with a stage, causes first; without a cluster, from what the run has kept on disk.

    Raises:
        MissingError: No run is on screen, or it has no such stage.
    """
    from actions.run import diagnosis  # heavy: it knows every rule

    view, folder = desk.runs.view, desk.runs.folder
    if view is None or folder is None:
        raise MissingError("No run is on screen.", hint="Launch a blueprint, or open runs.")
    return await diagnosis.explain_stage(_session_of(desk), view, folder, stage, clock=desk.clock)


def _session_of(desk: Desk) -> KubeSession | None:
    try:
        return desk.cluster.session
    except UnreachableError:
        return None
