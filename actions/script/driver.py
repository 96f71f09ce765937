"""What a script needs of the program that plays it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from actions.cluster.diagnose.codes import Finding
from actions.cluster.state.cluster_state import ClusterSnapshot
from actions.command.verbs import Call


class ConsoleDriver(Protocol):
    """The console, as a script sees it. All calls happen on its event loop."""

    async def execute(self, call: Call) -> None:
        """Carry a command out as if its key had been pressed, without asking: the script has said it all.

        Raises:
            ConsoleError: It cannot be done.
        """
        ...

    async def press(self, keys: Sequence[str]) -> None:
        """Press keys one after the other, by Textual's names, each settled before the next."""
        ...

    async def settle(self) -> None:
        """Return when all that was asked for has been drawn."""
        ...

    async def frame(self) -> None:
        """Return when something may have changed: after the next frame, or 100 ms at the latest."""
        ...

    def run_folder(self) -> Path | None:
        """The folder of the run that is on screen, or `None`."""
        ...

    def snapshot(self) -> ClusterSnapshot | None:
        """The newest picture of the cluster; `None` before the first."""
        ...

    async def explain(self, stage: str) -> Sequence[Finding]:
        """The diagnosis of a stage of the run on screen, causes first.

        Raises:
            ConsoleError: There is no run, or it has no such stage.
        """
        ...

    def identity(self) -> dict[str, str]:
        """What the header shows: `cluster`, `region`, `account`; empty where nobody knows."""
        ...

    def screen_text(self) -> str:
        """The screen as lines of text."""
        ...

    def save_screen(self, file: Path) -> None:
        """Write the settled screen, as SVG or, for a name ending in `.txt`, as text; secrets on it are hidden.

        Raises:
            ConfigError: The file cannot be written, or not by a script.
        """
        ...
