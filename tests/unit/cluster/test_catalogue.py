"""Kinds by all their names, from both forms of discovery."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import FormatError, MissingError
from actions.cluster.objects.catalogue import KindCatalogue, ServedKind, load_catalogue
from tests.unit.cluster.servers import session_to

VERBS = ("get", "list", "watch")
KINDS = (
    ServedKind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=VERBS),
    ServedKind("batch.volcano.sh", "v1alpha1", "jobs", "Job", "job", ("vcjob", "vj"), verbs=VERBS),
    ServedKind("", "v1", "pods", "Pod", "pod", ("po",), verbs=VERBS),
    ServedKind("", "v1", "bindings", "Binding", verbs=("create",)),
    ServedKind("batch", "v1", "jobs", "Job", "job", verbs=VERBS),
    ServedKind(
        "scheduling.volcano.sh", "v1beta1", "queues", "Queue", "queue", ("q",), is_namespaced=False, verbs=VERBS
    ),
)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("pods", "pods"),
        ("po", "pods"),
        ("Pod", "pods"),
        ("jobs", "jobs.batch"),
        ("jobs.batch.volcano.sh", "jobs.batch.volcano.sh"),
        ("jobs.v1.batch", "jobs.batch"),
        ("vj", "jobs.batch.volcano.sh"),
        ("queue", "queues.scheduling.volcano.sh"),
        ("queues.scheduling.volcano.sh", "queues.scheduling.volcano.sh"),
        ("pods.metrics.k8s.io", "pods.metrics.k8s.io"),
        ("podmetrics", "pods.metrics.k8s.io"),
    ],
)
def test_a_kind_is_found_by_each_of_its_names(word: str, found: str) -> None:
    assert KindCatalogue(KINDS).find(word).qualified == found


def test_an_unknown_kind_names_the_nearest_and_what_cannot_be_listed_is_none() -> None:
    catalogue = KindCatalogue(KINDS)
    with pytest.raises(MissingError, match="no kind 'quees'") as refused:
        catalogue.find("quees")
    assert "queues" in refused.value.hint
    with pytest.raises(MissingError):
        catalogue.find("bindings")
    assert catalogue.words() == ("jobs", "jobs.batch.volcano.sh", "pods", "pods.metrics.k8s.io", "queues")


AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "kubeflow.org"},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        {
                            "resource": "mpijobs",
                            "responseKind": {"kind": "MPIJob"},
                            "scope": "Namespaced",
                            "verbs": ["list", "watch"],
                            "subresources": [{"subresource": "scale"}],
                        }
                    ],
                }
                for version in ("v2beta1", "v1")
            ],
        }
    ],
}


async def test_the_first_version_of_aggregated_discovery_is_the_preferred_one(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert "APIGroupDiscoveryList" in request.headers["Accept"]
        return web.json_response(AGGREGATED if request.path == "/apis" else AGGREGATED | {"items": []})

    async with session_to(answer, tmp_path) as session:
        found = (await load_catalogue(session)).find("mpijob")
    assert (found.api_version, found.subresources, found.is_namespaced) == ("kubeflow.org/v2beta1", ("scale",), True)


async def test_a_server_without_aggregated_discovery_is_named(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "APIGroupList", "groups": []})

    async with session_to(answer, tmp_path) as session:
        with pytest.raises(FormatError, match="has no aggregated discovery"):
            await load_catalogue(session)
