"""The interface between a script and the console that it is played on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from actions.cluster.diagnose.codes import Finding
from actions.cluster.state.cluster_state import ClusterSnapshot
from actions.command.verbs import Call


class ConsoleDriver(Protocol):
    """The console of a script. All calls are made on its event loop."""

    async def execute(self, call: Call) -> None:
        """Run a command without a confirmation, and return when its effect is on screen.

        Raises:
            ConsoleError: The command failed.
        """
        ...

    async def press(self, keys: Sequence[str]) -> None:
        """Press keys one after the other, by Textual's names, each settled before the next."""
        ...

    async def settle(self) -> None:
        """Return when all keys and all messages of widgets have been handled, and request a frame."""
        ...

    async def show(self) -> None:
        """Put the newest data on screen, which may be older while nothing reads it."""
        ...

    async def frame(self) -> None:
        """Return after the next frame, or after 100 ms."""
        ...

    def run_folder(self) -> Path | None:
        """Return the folder of the run on screen; `None` if there is no run."""
        ...

    def snapshot(self) -> ClusterSnapshot | None:
        """Return the newest snapshot of the cluster; `None` before the first."""
        ...

    async def explain(self, stage: str) -> Sequence[Finding]:
        """Return the diagnosis of a stage of the run on screen, causes first.

        Raises:
            ConsoleError: There is no run, or it has no such stage.
        """
        ...

    def identity(self) -> dict[str, str]:
        """Return `cluster`, `region` and `account` as the header shows them; empty if unknown."""
        ...

    def screen_text(self) -> str:
        """Return the screen as lines of text."""
        ...

    def save_screen(self, file: Path) -> None:
        """Write the screen, as SVG or, for a name ending in `.txt`, as text. Known secrets on it are hidden.

        Raises:
            ConfigError: The file cannot be written, or not by a script.
        """
        ...
