"""Failures on a real kubelet, and the words of `why` about them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from actions.base.clock import SystemClock
from actions.base.errors import MissingError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, delete, ref_of
from tests.realnode.failing import CLUSTER_WIDE, Document, Failure, Seen
from tests.realnode.failure_table import FAILURES
from tests.realnode.refusals import refusing_registry
from tests.realnode.running import FOLDER, real_nodes
from tests.support.applying import apply_all
from tui.cli import main

_LONGEST_SECONDS = 240.0
_LISTED = {
    "pods": "/api/v1/pods",
    "events": "/api/v1/events",
    "jobs": "/apis/batch/v1/jobs",
    "quotas": "/api/v1/resourcequotas",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seconds_until_failed() -> AsyncIterator[dict[str, float]]:
    """After how many seconds each failure came about, by its name, all at the same time; without those that did not."""
    nodes = real_nodes()
    session = await KubeSession.connect(ClusterTarget(Path(nodes.kubeconfig)))
    try:
        async with refusing_registry(map(Path, nodes.nodes.values()), Path(FOLDER)):
            await apply_all(session, Discovery(session), _all_objects(FAILURES))
            yield await _come_about(session, FAILURES)
    finally:
        await _clear(session, FAILURES)
        await session.aclose()


async def _clear(session: KubeSession, failures: Iterable[Failure]) -> None:
    """Begin the deletion of everything: the cluster has other tests."""
    discovery = Discovery(session)
    for one in _all_objects(failures):
        if one["kind"] in {"Namespace", *CLUSTER_WIDE}:
            await delete(session, discovery, ref_of(one))
    unheld = b'{"metadata":{"finalizers":null}}'
    path = "/api/v1/namespaces/f-held/pods/p"
    with suppress(MissingError):  # it was never made
        await session.request("PATCH", path, body=unheld, content_type="application/merge-patch+json")


def _all_objects(failures: Iterable[Failure]) -> list[Document]:
    namespaces = [_object("Namespace", _namespace(one), {"realnode/as-written": "", **one.labels}) for one in failures]
    accounts = [_in(one, _object("ServiceAccount", "default", {})) for one in failures]
    return [*namespaces, *accounts, *(_in(one, thing) for one in failures for thing in one.objects)]


def _object(kind: str, name: str, labels: dict[str, str]) -> Document:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}}


def _in(failure: Failure, thing: Document) -> Document:
    if thing["kind"] in CLUSTER_WIDE:
        return thing
    return {**thing, "metadata": {**thing["metadata"], "namespace": _namespace(failure)}}


def _namespace(failure: Failure) -> str:
    return f"f-{failure.name}"


async def _come_about(session: KubeSession, failures: Iterable[Failure]) -> dict[str, float]:
    """Wait until all have; return when each has, without those that have not in time."""
    clock, seconds = SystemClock(), {}
    began = clock.monotonic()
    left = {_namespace(one): one for one in failures}
    open_deeds = {_namespace(one): one.begins for one in failures if one.begins is not None}
    while left and clock.monotonic() - began < _LONGEST_SECONDS:
        lists: dict[str, list[Document]] = {}
        for name, path in _LISTED.items():
            lists[name] = (await session.get(path))["items"]
        for namespace, failure in list(left.items()):
            seen = Seen(
                **{
                    name: [one for one in items if one["metadata"]["namespace"] == namespace]
                    for name, items in lists.items()
                }
            )
            deed = open_deeds.get(namespace)
            if deed is not None and deed[0](seen):
                await deed[1](session, namespace)
                del open_deeds[namespace]
            elif deed is None and failure.has_failed(seen):
                seconds[failure.name] = clock.monotonic() - began
                del left[namespace]
        await asyncio.sleep(0.5)
    return seconds


def _why(failure: Failure, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    kind, _, name = failure.about.partition("/")
    kubeconfig = real_nodes().kubeconfig
    assert main(["why", f"{kind}/{_namespace(failure)}/{name}", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("failure", FAILURES, ids=[one.name for one in FAILURES])
def test_why_names_what_has_failed(
    failure: Failure, seconds_until_failed: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure.name in seconds_until_failed, "it has not failed in time"
    found = _why(failure, capsys)
    assert [one["code"] for one in found] == [failure.code], found
    said = "\n".join([found[0]["headline"], *found[0]["evidence"], found[0]["next_step"]])
    assert [words for words in failure.words if words not in said] == [], said
