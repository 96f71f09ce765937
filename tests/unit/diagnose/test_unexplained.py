"""No all-clear while something is neither ready nor done, and none about what was not looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from actions.cluster.diagnose.collect import explain
from actions.cluster.diagnose.engine import answer, diagnose
from actions.cluster.diagnose.parse_input import parse_evidence
from actions.cluster.diagnose.select import ObjectSelector, select_evidence
from tests.unit.cluster.servers import session_to
from tests.unit.diagnose.samples import Document, a_container, a_node, a_pod, an_event, why
from tui.cli import main

_NOON = "2026-01-01T12:00:00Z"


def _clock(at: str = _NOON) -> Document:
    """An event that only tells the time."""
    return an_event("NodeReady", "x", "n1", kind="Node", type_="Normal") | {"lastTimestamp": at}


def _running(since: str, *, restarts: int = 0, ready: bool = False) -> Document:
    container = a_container(restarts, ready=ready, running={"startedAt": since})
    return a_pod(phase="Running", node="n1", containerStatuses=[container])


def _told(*documents: Document) -> list[tuple[str, str]]:
    return [(one.code.value, one.severity.value) for one in why([*documents, _clock()])]


@pytest.mark.parametrize(
    ("since", "told"),
    [
        ("2026-01-01T11:59:58Z", []),
        ("2026-01-01T11:55:00Z", [("NOT_READY", "info")]),
        ("2026-01-01T11:00:00Z", [("NOT_READY", "warning")]),
    ],
)
def test_a_pod_that_runs_and_is_not_ready_is_told_as_long_as_it_takes(since: str, told: list[tuple[str, str]]) -> None:
    assert _told(_running(since)) == told


def test_what_is_ready_or_done_is_silent_whatever_was_reported_before() -> None:
    probe = an_event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
    odd = an_event("FailedSomething", "a warning that no rule knows")
    assert _told(_running("2026-01-01T11:59:59Z", ready=True), probe, odd) == []
    assert _told(a_pod(phase="Succeeded", node="n1"), odd) == []


def test_a_container_that_was_killed_by_its_probe_long_ago_is_well_again() -> None:
    kill = an_event("Killing", "Container main failed liveness probe, will be restarted", type_="Normal")
    assert _told(_running("2026-01-01T10:00:00Z", restarts=1, ready=True), kill) == []
    assert _told(_running("2026-01-01T11:50:00Z", restarts=1, ready=True), kill) == [("PROBE_FAILED", "warning")]
    assert _told(_running("2026-01-01T11:59:50Z", restarts=6), kill) == [("PROBE_FAILED", "error")]


def test_a_container_that_has_succeeded_beside_one_that_runs_is_well() -> None:
    done = a_container(terminated={"exitCode": 0, "reason": "Completed"})
    pod = _running("2026-01-01T10:00:00Z", ready=True)
    pod["status"]["containerStatuses"].append(done)
    assert why([pod, _clock()]) == []


def test_only_a_bad_condition_of_a_node_agent_is_told() -> None:
    def node(kind: str, status: str) -> Document:
        found = a_node("n1", "m5.large")
        found["status"]["conditions"].append({"type": kind, "status": status, "reason": "Odd", "message": "odd"})
        return found

    for kind, status, told in (
        ("StorageReady", "False", ["NOT_READY"]),
        ("KernelDeadlock", "True", ["NOT_READY"]),
        ("DriverInstalled", "True", []),
        ("KernelDeadlock", "False", []),
    ):
        assert [one.code.value for one in why([node(kind, status), _clock()])] == told


def test_a_pod_whose_deletion_does_not_end_names_its_finalizers() -> None:
    pod = _running("2026-01-01T10:00:00Z", ready=True)
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T11:00:00Z", "finalizers": ["example.test/hold"]}
    (told,) = why([pod, _clock()])
    assert told.code.value == "NOT_READY"
    assert "for 1h00m and does not go (finalizers: example.test/hold)" in told.headline
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T11:58:00Z"
    assert why([pod, _clock()]) == []


def test_a_job_of_ray_that_no_operator_takes_up_is_told_after_a_while() -> None:
    def job(created: str, **status: object) -> Document:
        metadata = {"name": "data", "namespace": "ml", "creationTimestamp": created}
        return {"kind": "RayJob", "metadata": metadata, "spec": {"clusterSelector": {"a": "b"}}, "status": status}

    (told,) = why([job("2026-01-01T11:00:00Z"), _clock()])
    assert told.headline == "RayJob data is there for 1h00m, and its status is empty: no operator has taken it up"
    assert "KubeRay 1.5" in told.next_step
    assert why([job("2026-01-01T11:59:30Z"), _clock()]) == []
    assert why([job("2026-01-01T11:00:00Z", jobDeploymentStatus="Running", jobStatus="RUNNING"), _clock()]) == []


def test_a_healthy_gang_beside_a_pod_that_is_not_ready_hides_nothing() -> None:
    waiting = a_pod("late-0", containerStatuses=[], conditions=[])
    waiting["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    codes = [one.code.value for one in why({"pods": [waiting, _running("2026-01-01T09:00:00Z")], "events": [_clock()]})]
    assert codes == ["NOT_READY", "QUEUE_WAITING"]


def test_a_pod_is_explained_by_its_podgroup_and_its_job() -> None:
    pod = a_pod("j-worker-0")
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "j-abc"}
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "j-abc", "namespace": "ml"},
        "spec": {"minMember": 2},
        "status": {"phase": "Pending", "conditions": [{"type": "Odd", "status": "True", "message": "no such words"}]},
    }
    case, _ = parse_evidence(json.dumps([pod, group]).encode())
    (told,) = diagnose(select_evidence(case, ObjectSelector("Pod", "j-worker-0", "ml")))
    assert "no such words" in told.headline


def test_without_times_it_is_not_known_whether_a_pod_is_stuck() -> None:
    waiting = a_container(waiting={"reason": "ContainerCreating", "message": ""})
    case, is_one = parse_evidence(json.dumps({"pods": [a_pod(node="n1", containerStatuses=[waiting])]}).encode())
    assert diagnose(case) == []
    assert [one.code.value for one in answer(case, is_one=is_one)] == ["NOT_KNOWN"]


def test_a_pod_that_starts_is_no_fault_and_no_all_clear() -> None:
    case, _ = parse_evidence(json.dumps([_running("2026-01-01T11:59:58Z"), _clock()]).encode())
    assert diagnose(case) == []
    (told,) = answer(case, is_one=True)
    assert (told.code.value, told.severity.value) == ("NOT_READY", "info")
    assert told.headline == "train-0 has been starting for 2s (Running)"


def test_a_young_node_claim_is_no_all_clear_until_it_is_ready() -> None:
    unknown = {"type": "Initialized", "status": "Unknown", "reason": "NodeNotReady", "message": "no kubelet"}
    claim = {
        "kind": "NodeClaim",
        "metadata": {"name": "pool-x7", "creationTimestamp": "2026-01-01T11:59:30Z"},
        "status": {"conditions": [{"type": "Launched", "status": "True"}, unknown]},
    }
    case, _ = parse_evidence(json.dumps([claim, _clock()]).encode())
    (told,) = answer(case, is_one=True)
    assert (told.code.value, told.severity.value) == ("NOT_READY", "info")
    assert told.headline == "NodeClaim pool-x7 has been starting for 30s (Initialized is Unknown)"
    claim["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    case, _ = parse_evidence(json.dumps([claim, _clock()]).encode())
    assert answer(case, is_one=True) == []


def test_the_command_ends_with_1_where_an_all_clear_would_be_a_guess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "captured.json"
    waiting = a_container(waiting={"reason": "ContainerCreating", "message": ""})
    source.write_text(json.dumps({"pods": [a_pod(node="n1", containerStatuses=[waiting])]}))
    assert main(["why", "--from", str(source)]) == 1
    assert "Nothing is wrong" not in capsys.readouterr().out
    source.write_text(json.dumps({"pods": [a_pod(phase="Succeeded")]}))
    assert main(["why", "--from", str(source)]) == 0
    assert capsys.readouterr().out.startswith("Nothing is wrong")


@pytest.mark.parametrize(
    ("refused", "status", "told"),
    [("events", 403, ["NOT_KNOWN"]), ("events", 503, ["NOT_KNOWN"]), ("nodes", 403, []), ("", 0, [])],
)
async def test_who_may_not_read_events_gets_no_all_clear(
    refused: str, status: int, told: list[str], tmp_path: Path
) -> None:
    pod = _running(_NOON, ready=True)

    async def serve(request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if name == refused:
            return web.json_response({"kind": "Status", "code": status, "message": "no"}, status=status)
        if request.path == "/api/v1":
            kinds = {"pods": "Pod", "events": "Event", "nodes": "Node"}
            resources = [{"name": plural, "kind": kind, "namespaced": kind != "Node"} for plural, kind in kinds.items()]
            return web.json_response({"resources": resources})
        if name == "log":
            return web.Response(text="2026-01-01T12:00:00.5Z step 1 loss 2.0\n")
        if name in ("pods", "events", "nodes"):
            return web.json_response({"kind": "List", "metadata": {}, "items": [pod] if name == "pods" else []})
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)

    async with session_to(serve, tmp_path, readonly=True) as session:
        found = await explain(session, None)
    assert [one.code.value for one in found] == told


def test_containers_that_are_ready_prove_nothing_on_a_node_that_does_not_answer() -> None:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-28T12:00:00Z"}
    status = {
        "phase": "Running",
        "conditions": [ready],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}],
    }
    pod = {"kind": "Pod", "metadata": {"name": "worker-0", "namespace": "default"}, "status": status}
    evidence, is_one = parse_evidence(json.dumps(pod).encode(), source="x")
    assert answer(evidence, is_one=is_one), "no all-clear"
    named = {"name": "worker-0", "namespace": "default", "deletionTimestamp": "2026-11-28T12:00:00Z"}
    leaving = {**pod, "metadata": named}
    evidence, is_one = parse_evidence(json.dumps(leaving).encode(), source="x")
    (found,) = answer(evidence, is_one=is_one)
    assert "is being deleted" in found.headline
