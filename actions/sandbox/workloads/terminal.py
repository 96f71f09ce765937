"""A running container as somebody inside it sees it: what commands may ask besides the container's own facts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actions.sandbox.workloads.program import Container, Load


class Inside(msgspec.Struct):
    """The surroundings of a command.

    `folder` and `variables` change as a shell runs; the rest is fixed.
    """

    container: Container
    load: Callable[[], Load]
    now: Callable[[], float]
    """Seconds since the epoch."""
    folder: str = "/"
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    last_code: int = 0

    def value(self, name: str) -> str:
        """A variable of the shell or its environment; empty if unset."""
        special = {"?": str(self.last_code), "PWD": self.folder, "HOSTNAME": self.container.pod}
        if name in special:
            return special[name]
        return self.variables.get(name, self.container.environment.get(name, ""))
