"""A fleet that can be measured on: how its server is reached, and its churn."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import msgspec

DESCRIPTION = "target.json"


class Target(msgspec.Struct, frozen=True):
    """A cluster to measure on."""

    server: str
    """The name of its server, for readers of the figures."""
    kubeconfig: str
    nodes: int
    """The number of its nodes; not zero."""
    pods: int = 0
    """The number of its pods; zero is unknown."""
    control: str = ""
    """The address at which its churn is set; empty for a cluster that is not ours."""

    events: int = 0
    """The number of events that it keeps."""

    def churn(self, pods_a_second: float, nodes_a_second: float, *, events_a_second: float = 0) -> None:
        """Have so many objects changed, and so many events happen, a second from here on."""
        query = f"pods={pods_a_second}&nodes={nodes_a_second}&events={events_a_second}"
        with urllib.request.urlopen(f"{self.control}/bench/churn?{query}") as answer:
            answer.read()

    def write(self, folder: Path) -> None:
        """Tell that it can be used. The file appears whole."""
        scratch = folder / "target.new"
        scratch.write_bytes(msgspec.json.encode(self))
        scratch.rename(folder / DESCRIPTION)

    @classmethod
    def read(cls, folder: Path) -> Target:
        """The one that is served in a folder."""
        return msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=cls)
