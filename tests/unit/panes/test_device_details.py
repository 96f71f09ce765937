"""The accelerators' part of a described pod or node: asked once, and left out where there is nothing to ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.cluster.remote import exec as remote
from actions.cluster.remote.exec import ExecResult
from actions.cluster.state.pod_requests import resources_of
from actions.fleet.facts import PodFacts
from tests.support.builders import ShownCluster, a_node, a_pod, a_snapshot, console_services
from tests.unit.telemetry.test_topology import EIGHT
from tui.commands.accelerators import DeviceDetails
from tui.present.subject import Subject


class Asked:
    """`run_in_pod` of a cluster whose pods answer with one text."""

    def __init__(self, answer: bytes = EIGHT.encode(), error: RefusedError | None = None) -> None:
        self.pods: list[str] = []
        self._answer = answer
        self._error = error

    async def __call__(self, _session: object, _namespace: str, pod: str, *_: object, **_more: Any) -> ExecResult:
        self.pods.append(pod)
        if self._error is not None:
            raise self._error
        return ExecResult(self._answer, b"", 0)


def details(*pods: PodFacts, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> DeviceDetails:
    """The details of a cluster's pods."""
    monkeypatch.setattr(remote, "run_in_pod", asked)
    monkeypatch.setattr(ShownCluster, "session", property(lambda _: None))
    return DeviceDetails(console_services(a_snapshot(nodes=[a_node()], pods=list(pods))))


async def test_a_pod_is_asked_once_and_its_node_by_the_pod_with_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    pods = a_pod("one", gpu=1), a_pod("four", gpu=4), a_pod("none", gpu=0)
    found = details(*pods, monkeypatch=monkeypatch, asked=asked)
    section = await found.section(Subject("Node", "node-1"))
    assert "as four sees it" in section[0]
    assert await found.section(Subject("Pod", "four", "default")) == section
    assert asked.pods == ["four"]
    assert "as one sees it" in (await found.section(Subject("Pod", "one", "default")))[0]
    for other in (Subject("Pod", "none", "default"), Subject("Pod", "gone", "default"), Subject("Service", "four")):
        assert not await found.section(other)
    assert asked.pods == ["four", "one"]


async def test_a_refusal_is_one_line_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(error=RefusedError("The console is read-only."))
    found = details(a_pod("one", gpu=1), monkeypatch=monkeypatch, asked=asked)
    for _ in range(2):
        section = await found.section(Subject("Pod", "one", "default"))
        assert "read-only" in section[1]
    assert asked.pods == ["one", "one"]


async def test_neuron_devices_have_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = {"neuron_device": 0, "bdf": "00:1e.0", "connected_to": [1], "nc_count": 2, "neuron_processes": []}
    pod = replace(a_pod("trn"), requests=resources_of({"aws.amazon.com/neuroncore": "1"}))
    found = details(pod, monkeypatch=monkeypatch, asked=Asked(json.dumps([chip]).encode()))
    section = "\n".join(await found.section(Subject("Pod", "trn", "default")))
    assert "ND0" in section
    assert "ND1" in section
