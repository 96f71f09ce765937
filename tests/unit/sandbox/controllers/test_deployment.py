"""Rolling updates: never too many pods, never too few, and always an end."""

from __future__ import annotations

from typing import Any

import pytest

from actions.sandbox.controllers.core.deployments import ReplicaSetSize, limits_of, next_sizes
from actions.sandbox.controllers.core.pods import template_hash


def a_deployment(replicas: int, **spec: Any) -> dict[str, Any]:
    return {"spec": {"replicas": replicas, **spec}}


def rolling(surge: int | str, missing: int | str) -> dict[str, Any]:
    return {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}}


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 10])
@pytest.mark.parametrize(("surge", "missing"), [("25%", "25%"), (1, 0), (0, 1), (0, 0), (3, 2), ("100%", 0)])
def test_an_update_stays_within_its_limits_and_ends(replicas: int, surge: int | str, missing: int | str) -> None:
    deployment = a_deployment(replicas, **rolling(surge, missing))
    most, fewest = limits_of(deployment["spec"]["strategy"]["rollingUpdate"], replicas)
    new, old = ReplicaSetSize(0), ReplicaSetSize(replicas, replicas, replicas)
    for _ in range(100):
        grown, (shrunk,) = next_sizes(deployment, new, [old])
        assert grown + shrunk <= replicas + most
        ready = min(new.ready, grown) + min(old.ready, shrunk)
        assert ready >= replicas - fewest
        was = (new, old)
        new = ReplicaSetSize(grown, grown, min(grown, new.ready + 1))
        old = ReplicaSetSize(shrunk, shrunk, min(shrunk, old.ready))
        if (new, old) == was:
            break
    assert (new.ready, old.wanted) == (replicas, 0)


def test_old_pods_that_are_not_ready_go_first() -> None:
    deployment = a_deployment(4, **rolling(0, 1))
    assert next_sizes(deployment, ReplicaSetSize(0), [ReplicaSetSize(2, 2, 0), ReplicaSetSize(2, 2, 2)])[1] == [1, 2]


def test_recreate_waits_for_the_last_old_pod() -> None:
    deployment = a_deployment(3, strategy={"type": "Recreate"})
    assert next_sizes(deployment, ReplicaSetSize(0), [ReplicaSetSize(3, 3, 3)]) == (0, [0])
    assert next_sizes(deployment, ReplicaSetSize(0), [ReplicaSetSize(0, 1, 0)]) == (0, [0])
    assert next_sizes(deployment, ReplicaSetSize(0), [ReplicaSetSize(0)]) == (3, [0])


def test_a_paused_update_stays_where_it_is() -> None:
    assert next_sizes(a_deployment(3, paused=True), ReplicaSetSize(1), [ReplicaSetSize(2, 2, 2)]) == (1, [2])


def test_a_template_has_the_same_name_with_and_without_empty_fields() -> None:
    assert template_hash({"metadata": {"creationTimestamp": None}, "spec": {}}) == template_hash(
        {"metadata": {}, "spec": {}}
    )
