"""The accelerators' part of an object's page: how they are connected, from one call in a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line
from actions.fleet.facts import PodFacts
from tui.feeds.accelerators import container_to_ask
from tui.present.describe import neuron_section, topology_section

if TYPE_CHECKING:
    from tui.feeds.cluster import ClusterFeed
    from tui.present.subject import Subject

_DEADLINE_SECONDS = 8.0
_NEURON = ("neuron-ls", "--json-output")


class DeviceDetails:
    """The connections of accelerators. They do not change while a pod lives: its answer is kept."""

    def __init__(self) -> None:
        self._known: dict[str, Sequence[str]] = {}
        """Sections by the uid of the pod that was asked."""

    async def section(self, cluster: ClusterFeed, subject: Subject) -> Sequence[str]:
        """Return the section of a pod, or of a node by a pod on it; empty if it runs none with accelerators."""
        pod = _asked(cluster, subject)
        if pod is None:
            return ()
        if pod.uid not in self._known:
            try:
                self._known[pod.uid] = await _read(cluster, pod)
            except ConsoleError as error:  # the page is worth showing without it
                return ["Device topology", f"  {one_line(error.sentence())}"]
        return self._known[pod.uid]


def _asked(cluster: ClusterFeed, subject: Subject) -> PodFacts | None:
    """Return the running pod to ask: of a node, the one with the most accelerators."""
    snapshot = cluster.snapshot()
    if snapshot is None:
        return None
    if subject.kind == "Pod":
        one = snapshot.pods.get(f"{subject.namespace}/{subject.name}")
        found = [one] if one is not None else []
    elif subject.kind == "Node":
        found = [pod for pod in snapshot.pods.values() if pod.node == subject.name]
    else:
        return None
    able = [pod for pod in found if pod.phase == "Running" and pod.requests.accelerators]
    return max(able, key=lambda pod: pod.requests.accelerators, default=None)


async def _read(cluster: ClusterFeed, pod: PodFacts) -> Sequence[str]:
    """Ask a pod.

    Raises:
        ConsoleError: It may not be asked, or does not answer.
    """
    from actions.cluster.remote.exec import run_in_pod
    from actions.telemetry.tools.neuron import read_neuron_ls
    from actions.telemetry.tools.topology import TOPOLOGY_COMMAND, read_topology
    from actions.telemetry.tools.traffic import read_traffic

    command = TOPOLOGY_COMMAND if pod.requests.gpu else _NEURON
    session = cluster.session
    container = await container_to_ask(session, pod)
    answer = await run_in_pod(session, pod.namespace, pod.name, container, command, deadline_seconds=_DEADLINE_SECONDS)
    text = answer.text
    if pod.requests.gpu:
        return topology_section(read_topology(text), read_traffic(text), seen_by=pod.name)
    return neuron_section(read_neuron_ls(text), seen_by=pod.name)
