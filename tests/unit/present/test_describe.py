"""Objects as pages for reading."""

from __future__ import annotations

from typing import Any

from tests.support.builders import NOW, an_event
from tui.present.describe import object_page, object_yaml

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "worker-0",
        "namespace": "default",
        "labels": {"app": "x"},
        "managedFields": [{"manager": "m"}],
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [
            {"name": "main", "image": "repo/image:1", "env": [{"name": "TOKEN", "value": "AKIA" + "A" * 16}]}
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "not yet"}],
        "containerStatuses": [
            {"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        ],
    },
}


def test_a_page_says_where_it_runs_and_why_it_does_not() -> None:
    page = object_page(POD, [an_event("BackOff", type_="Warning")], now=NOW.timestamp())

    for part in ("node-1", "ContainersNotReady", "waiting: CrashLoopBackOff", "repo/image:1", "BackOff", "1m00s"):
        assert part in page


def test_yaml_is_without_bookkeeping_and_without_secrets() -> None:
    text = object_yaml(POD)

    assert "managedFields" not in text
    assert "AKIA" not in text
    assert "«redacted»" in text


def test_controls_in_foreign_text_do_not_reach_the_page() -> None:
    hostile = {**POD, "status": {"message": "\x1b]52;c;AAAA\x07boom"}}

    assert "\x1b" not in object_page(hostile, [], now=0.0)


def test_a_null_where_a_list_or_a_mapping_is_usual_is_as_good_as_nothing() -> None:
    container = {"name": "main", "resources": None, "command": None, "args": None, "env": None, "volumeMounts": None}
    page = object_page(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1", "labels": None, "finalizers": None, "ownerReferences": None},
            "spec": {"taints": None, "nodeSelector": None, "containers": [container], "initContainers": None},
            "status": None,
        },
        [],
        now=NOW.timestamp(),
    )

    assert "node-1" in page
    assert "Taints" not in page


def test_accelerators_stand_before_the_long_parts_of_a_page() -> None:
    page = object_page(POD, [], now=0.0, devices=["Device topology", "  GPU0  NV18 GPU1"])
    assert page.index("worker-0") < page.index("Device topology") < page.index("Labels")
    assert "Device topology" not in object_page(POD, [], now=0.0)
