"""The states that look like trouble in a cluster where all is well: no word about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.cluster.diagnose.engine import diagnose, diagnose_each
from actions.cluster.diagnose.parse_input import parse_evidence
from actions.cluster.diagnose.select import ObjectSelector, select_evidence
from tests.unit.diagnose.samples import Document, a_node, why

_FILE = Path(__file__).parents[2] / "fixtures" / "diagnose" / "healthy.jsonl"
HEALTHY: dict[str, Document] = {
    told["name"]: told["document"] for told in map(json.loads, _FILE.read_text(encoding="utf-8").splitlines())
}


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_what_is_well(name: str) -> None:
    document = HEALTHY[name]
    if "items" in document:
        case, _ = parse_evidence(json.dumps(document).encode())
        assert diagnose_each(case) == []
    else:
        assert why(document) == []


def test_a_node_that_stays_unready_is_told() -> None:
    document = HEALTHY["young node"]
    document = json.loads(json.dumps(document).replace("2026-01-01T11:59:00Z", "2026-01-01T10:00:00Z"))
    assert [one.code.value for one in why(document)] == ["NO_POD_IP"]


def test_a_young_node_that_was_ready_is_lost() -> None:
    since, said = "2026-01-01T11:59:30Z", "container runtime is down"
    node = a_node("n1", "m5.large", status="False", reason="KubeletNotReady", message=said, lastTransitionTime=since)
    node["metadata"]["creationTimestamp"] = "2026-01-01T11:55:00Z"
    case, _ = parse_evidence(json.dumps({"nodes": [node]}).encode())
    at = case.nodes[0].created_at
    assert [one.code.value for one in diagnose(replace(case, taken_at=at + 300))] == ["NODE_LOST"]
    assert diagnose(replace(case, nodes=(replace(case.nodes[0], created_at=at + 269),), taken_at=at + 300)) == []


def test_a_young_node_that_somebody_asks_about_is_said_to_be_notready() -> None:
    case, _ = parse_evidence(json.dumps(HEALTHY["young node"]).encode())
    (told,) = diagnose(
        select_evidence(replace(case, taken_at=case.nodes[0].created_at + 200), ObjectSelector("Node", "n1"))
    )
    assert (told.code.value, told.severity.value) == ("WAITING_FOR_NODE", "info")
    assert told.headline == "Node n1 is NotReady for 3 minutes; it joined the cluster 3 minutes ago"
    assert "cni plugin not initialized" in told.evidence[0]


@pytest.mark.parametrize(
    ("instance_type", "driver"),
    [("p5.48xlarge", "gpu.nvidia.com"), ("trn2.48xlarge", "neuron.aws.com"), ("g4ad.xlarge", "gpu.amd.com")],
)
def test_devices_that_a_driver_offers_in_slices_need_no_device_plugin(instance_type: str, driver: str) -> None:
    nodes = [a_node(name, instance_type) for name in ("n1", "n2")]
    slices = [
        {
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}"},
            "spec": {"nodeName": node, "driver": driver},
        }
        for node in ("n1", "n2")
    ]
    assert why({"nodes": nodes, "resourceslices": slices}) == []
    assert why({"kind": "List", "items": [*nodes, *slices]}) == []
    (told,) = why({"nodes": nodes, "resourceslices": slices[:1]})
    assert (told.code.value, "n2" in told.evidence, "n1" in told.evidence) == ("DEVICE_PLUGIN_MISSING", True, False)


def test_a_program_that_ended_there_or_says_no_more_is_told() -> None:
    document = HEALTHY["c10d retry"]
    last = {**document, "logs": str(document["logs"]).splitlines()[0]}
    assert [one.code.value for one in why(last)] == ["RENDEZVOUS"]
    failed = json.loads(json.dumps(HEALTHY["oom retry"]).replace('"Succeeded"', '"Failed"').replace(": 0,", ": 1,"))
    assert "GPU_OOM" in [one.code.value for one in why(failed)]


@pytest.mark.parametrize(("started", "codes"), [("2026-01-01T11:30:00Z", ["OOM_KILLED"]), ("2026-01-01T09:00:00Z", [])])
def test_a_container_that_runs_well_again_for_an_hour_is_well(started: str, codes: list[str]) -> None:
    container = {
        "name": "main",
        "ready": True,
        "restartCount": 1,
        "state": {"running": {"startedAt": started}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": "Running", "containerStatuses": [container]}}
    event = {"kind": "Event", "reason": "Pulled", "lastTimestamp": "2026-01-01T12:00:00Z", "involvedObject": {}}
    assert [one.code.value for one in why({"pods": [pod], "events": [event]})] == codes
