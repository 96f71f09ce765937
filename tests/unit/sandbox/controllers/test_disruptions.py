"""Disruption budgets: how many healthy pods they demand, and which pods they select."""

from __future__ import annotations

from typing import Any

import pytest

from actions.sandbox.controllers.core.disruptions import WantedPods, selects_pod, wanted_pods


@pytest.mark.parametrize(
    ("spec", "scale", "wanted"),
    [
        ({"minAvailable": 3}, None, WantedPods(expected=4, healthy=3)),
        ({"minAvailable": "50%"}, 5, WantedPods(expected=5, healthy=3)),
        ({"maxUnavailable": 1}, 5, WantedPods(expected=5, healthy=4)),
        ({"maxUnavailable": "30%"}, 5, WantedPods(expected=5, healthy=3)),
        ({"maxUnavailable": 9}, 5, WantedPods(expected=5, healthy=0)),
        ({}, None, WantedPods(expected=4, healthy=0)),
        ({"minAvailable": "50%"}, None, None),
        ({"maxUnavailable": 1}, None, None),
    ],
)
def test_a_share_is_of_the_replicas_and_rounded_up(
    spec: dict[str, Any], scale: int | None, wanted: WantedPods | None
) -> None:
    assert wanted_pods(spec, 4, scale) == wanted


def a_pod(**labels: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "work", "labels": labels}, "status": {"phase": "Running"}}


def a_budget(selector: dict[str, Any] | None) -> dict[str, Any]:
    return {"metadata": {"namespace": "work"}, "spec": {"selector": selector}}


def test_a_budget_selects_living_pods_of_its_namespace_and_without_a_selector_none() -> None:
    web = a_pod(app="web")
    expression = {"key": "app", "operator": "In", "values": ["web"]}
    assert selects_pod(a_budget({"matchLabels": {"app": "web"}, "matchExpressions": [expression]}), web)
    assert selects_pod(a_budget({}), web)
    assert not selects_pod(a_budget({"matchLabels": {"app": "api"}}), web)
    assert not selects_pod(a_budget(None), web)
    assert not selects_pod(a_budget({}), web | {"status": {"phase": "Succeeded"}})
    assert not selects_pod(a_budget({}), web | {"metadata": {"namespace": "other", "labels": {}}})
