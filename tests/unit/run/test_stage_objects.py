"""Objects that a stage finds where it wants to apply its own: on their way out, or an operator of others."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from actions.base.errors import RefusedError
from actions.blueprint.parts import Expectation, ObjectName
from actions.blueprint.stages import ManifestsStage, OperatorRefusal
from actions.cluster.objects.client import Discovery, ObjectRef
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.objects.writes import settled
from actions.run.stages.manifests import ManifestsHandler
from actions.run.state.view import OwnedObject
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.servers import session_to

_KINDS = {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}
_REF = ObjectRef("v1", "ConfigMap", "work", "held")


class Api:
    """One ConfigMap that is being deleted, and is gone after some looks at it."""

    def __init__(self, looks: float) -> None:
        self.looks = looks

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path == "/api/v1":
            return web.json_response(_KINDS)
        self.looks -= 1
        if self.looks < 0:
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        metadata = {
            "name": "held",
            "uid": "u",
            "deletionTimestamp": "2026-11-21T10:00:00Z",
            "finalizers": ["acme.io/slow"],
        }
        return web.Response(text=json.dumps({"metadata": metadata}), content_type="application/json")


async def test_what_is_being_deleted_is_waited_for_before_it_is_applied_anew(tmp_path: Path) -> None:
    notes: list[str] = []
    async with session_to(Api(3), tmp_path) as session:
        connection = ClusterConnection(session, Discovery(session))
        assert await settled(connection, _REF, clock=HastyClock(), note=notes.append) is None
    assert notes == ["ConfigMap work/held is being deleted, held by acme.io/slow."] * 3


class LeapingClock(HastyClock):
    """Every wait is a long one."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(max(seconds, 200.0))


async def test_what_never_goes_is_said_with_what_holds_it(tmp_path: Path) -> None:
    async with session_to(Api(float("inf")), tmp_path) as session:
        connection = ClusterConnection(session, Discovery(session))
        with pytest.raises(StageFailedError, match=r"After 600 s .* is being deleted, held by acme\.io/slow\."):
            await settled(connection, _REF, clock=LeapingClock(), note=lambda _: None)


_OPERATOR = ObjectName(api_version="apps/v1", kind="Deployment", namespace="ops", name="operator")
_TOO_NEW = OperatorRefusal(since="1.5", arguments=("--gangs",), reason="From 1.5 on it does not", hint="Install 1.4.")


def _deployment(image: str, *arguments: str) -> dict[str, Any]:
    containers = [{"name": "operator", "image": image, "args": list(arguments)}]
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "status": status,
        "metadata": {"name": "operator", "namespace": "ops", "uid": "u", "generation": 1},
        "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}},
    }  # fmt: skip


class OperatorApi:
    """A cluster with one Deployment, that of an operator."""

    def __init__(self, deployment: dict[str, Any]) -> None:
        self._deployment = deployment

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path == "/apis/apps/v1":
            return web.json_response({"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]})
        return web.json_response(self._deployment)


async def _install(deployment: dict[str, Any], tmp_path: Path, owned: list[OwnedObject]) -> Performed:
    """Perform a stage that detects this Deployment."""
    stage = ManifestsStage(
        id="ops", title="Ops", expect=Expectation(1, 2), detect=_OPERATOR, ready=(_OPERATOR,), refuses=(_TOO_NEW,)
    )

    async def own(found: OwnedObject) -> None:
        owned.append(found)

    async with session_to(OperatorApi(deployment), tmp_path) as session:

        async def connect(_: object) -> ClusterConnection:
            return ClusterConnection(session, Discovery(session))

        journal = SimpleNamespace(owned=lambda: (), own=own, note=lambda _: None, progress=lambda *_: None)
        context: Any = SimpleNamespace(
            declaration=stage, connect=connect, journal=journal, namespace="default", clock=HastyClock(),
            view=SimpleNamespace(owned=(), id="r", stages=(), made_uids=frozenset()),
            blueprint=SimpleNamespace(stages=()), stage=SimpleNamespace(id="ops"),
        )  # fmt: skip
        return await ManifestsHandler(context).perform()


async def test_an_operator_that_later_stages_cannot_work_with_fails_its_stage(tmp_path: Path) -> None:
    owned: list[OwnedObject] = []
    with pytest.raises(
        RefusedError, match=r"From 1\.5 on it does not \(acme\.io:5000/operator:v1\.10\.2\)\."
    ) as caught:
        await _install(_deployment("acme.io:5000/operator:v1.10.2", "--gangs"), tmp_path, owned)
    assert (caught.value.hint, owned) == ("Install 1.4.", [])


@pytest.mark.parametrize(
    "deployment",
    [
        _deployment("acme.io/operator:v1.4.9", "--gangs"),
        _deployment("acme.io/operator:1.5.0", "--gangs=false"),
        _deployment("acme.io:1.6/operator@sha256:0", "--gangs"),
    ],
    ids=["older", "without the argument", "of no known version"],
)
async def test_an_operator_of_others_is_used_as_it_is(deployment: dict[str, Any], tmp_path: Path) -> None:
    owned: list[OwnedObject] = []
    done = await _install(deployment, tmp_path, owned)
    assert "Deployment operator was there already" in done.message
    assert [each.existed for each in owned] == [True]
