"""Tables say what `kubectl get` says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from actions.sandbox.apiserver.printing.cells import human_duration
from actions.sandbox.apiserver.printing.table import find, table_of
from actions.sandbox.apiserver.storage.resources import ServedResource, builtin_types

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)


def cells(plural: str, body: dict[str, Any]) -> dict[str, Any]:
    resource = next(one for one in builtin_types() if one.plural == plural)
    return row_of(resource, body)


def row_of(resource: ServedResource, body: dict[str, Any]) -> dict[str, Any]:
    body["metadata"] = {"name": "x", "creationTimestamp": "2026-11-21T10:00:00Z"} | body.get("metadata", {})
    table = table_of(resource, [body], now=NOW, include="None", metadata={})
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def a_status(**state: Any) -> dict[str, Any]:
    return {"name": "m", "ready": "running" in state, "restartCount": 2, "state": state}


@pytest.mark.parametrize(
    ("phase", "status", "shown"),
    [
        ("Pending", a_status(waiting={"reason": "ImagePullBackOff"}), "ImagePullBackOff"),
        ("Running", a_status(running={}), "Running"),
        ("Running", a_status(waiting={"reason": "CrashLoopBackOff"}), "CrashLoopBackOff"),
        ("Succeeded", a_status(terminated={"reason": "Completed", "exitCode": 0}), "Completed"),
        ("Failed", a_status(terminated={"exitCode": 3}), "ExitCode:3"),
        ("Failed", a_status(terminated={"reason": "OOMKilled", "exitCode": 137}), "OOMKilled"),
    ],
)
def test_the_status_of_a_pod_is_the_reason_of_its_container(phase: str, status: dict[str, Any], shown: str) -> None:
    row = cells("pods", {"spec": {"containers": [{}]}, "status": {"phase": phase, "containerStatuses": [status]}})
    assert row["Status"] == shown
    assert row["Ready"] == ("1/1" if status["ready"] else "0/1")
    assert (row["Restarts"], row["Age"]) == ("2", "5m")


def test_a_pod_on_its_way_out_is_terminating_and_one_in_init_says_how_far() -> None:
    leaving = {"metadata": {"deletionTimestamp": "x"}, "spec": {}, "status": {"phase": "Running"}}
    assert cells("pods", leaving)["Status"] == "Terminating"
    inits = [a_status(terminated={"exitCode": 0}), a_status(running={})]
    spec: dict[str, Any] = {"containers": [{}], "initContainers": [{}, {}]}
    starting = {"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": inits}}
    assert cells("pods", starting)["Status"] == "Init:1/2"


def test_a_custom_resource_has_the_columns_of_its_definition() -> None:
    columns = (
        {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Missing", "type": "integer", "jsonPath": ".spec.nothing"},
    )
    resource = ServedResource("g", "v1", "things", "Thing", is_custom=True, columns=columns)
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Running", "status": "True"}]
    row = row_of(resource, {"status": {"conditions": conditions}})
    assert row == {"Name": "x", "State": "Running", "Ready": "False", "Age": "5m", "Missing": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.items[*].name", ["a", "b"]),
        (".spec.items[0].name", ["a"]),
        (".spec.items[9].name", []),
        (r".metadata.labels.app\.kubernetes\.io/name", ["n"]),
        (".metadata.labels['app.kubernetes.io/name']", ["n"]),
        ("{.broken", []),
    ],
)
def test_json_paths_find(path: str, found: list[str]) -> None:
    body = {"metadata": {"labels": {"app.kubernetes.io/name": "n"}}, "spec": {"items": [{"name": "a"}, {"name": "b"}]}}
    assert find(body, path) == found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (3599, "59m"), (3 * 3600 + 60, "3h1m"), (86_400, "24h"),
     (3 * 86_400 + 7200, "3d2h"), (400 * 86_400, "400d"), (900 * 86_400, "2y170d"), (-5, "<invalid>")],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def test_rarer_types_have_the_columns_of_kubectl_too() -> None:
    schedule = cells("cronjobs", {"spec": {"schedule": "0 0 * * *", "suspend": False}})
    assert (schedule["Schedule"], schedule["Suspend"], schedule["Last Schedule"]) == ("0 0 * * *", "False", "<none>")
    budget = cells("poddisruptionbudgets", {"spec": {"minAvailable": 1}})
    assert (budget["Min Available"], budget["Max Unavailable"]) == (1, "N/A")
    default = {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
    assert cells("storageclasses", default)["Name"] == "x (default)"
    selecting = {"spec": {"template": {"spec": {"nodeSelector": {"b": "2", "a": "1"}}}}}
    assert cells("daemonsets", selecting)["Node Selector"] == "a=1,b=2"


def test_cells_of_kinds_that_bind() -> None:
    binding = cells(
        "clusterrolebindings",
        {
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "ada"},
                {"kind": "ServiceAccount", "namespace": "work", "name": "run"},
            ],
        },
    )
    assert (binding["Role"], binding["Users"], binding["ServiceAccounts"]) == ("ClusterRole/view", "ada", "work/run")
