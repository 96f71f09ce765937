"""Objects over HTTP: what is filled in, what is refused, what goes with what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.polling import until
from tests.unit.sandbox.apiserver.server import CONFIG_MAPS, PODS, Client, a_pod, an_api, create, patch

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.org/v1/namespaces/default/things"


def a_job(name: str = "j", **spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i:1"}]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}}


def a_definition() -> dict[str, Any]:
    replicas = {"type": "integer", "minimum": 1, "default": 1}
    spec = {"type": "object", "required": ["size"], "properties": {"size": {"type": "string"}, "replicas": replicas}}
    open_map = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": open_map}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


async def status_of(client: Client, path: str) -> int:
    async with client.get(path) as answer:
        return answer.status


async def test_a_pod_gets_its_defaults_and_tolerates_the_taint_of_its_accelerator() -> None:
    resources = {"limits": {"nvidia.com/gpu": 4}}
    pod = a_pod(containers=[{"name": "m", "image": "i", "resources": resources}])
    async with an_api() as client:
        made = await create(client, PODS, pod)
    container = made["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "4"}}
    assert container["imagePullPolicy"] == "Always"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in made["spec"]["tolerations"]
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (PODS, a_pod("Bad_Name"), "metadata.name"),
        (PODS, {"metadata": {"name": "x"}, "spec": {}}, "spec.containers"),
        (PODS, a_pod(containers=[{"name": "m"}]), "spec.containers[0].image"),
        (PODS, a_pod(labels={"a": "not ok"}), "metadata.labels"),
        (JOBS, {"metadata": {"name": "x"}, "spec": {}}, "spec.template"),
        (JOBS, a_job(backoffLimit=-1), "spec.backoffLimit"),
    ],
)
async def test_a_wrong_object_is_refused_with_the_field(path: str, body: dict[str, Any], field: str) -> None:
    async with an_api() as client:
        answer = await client.post(path, json=body)
        status = await answer.json()
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


async def test_a_replace_of_an_old_version_is_a_conflict() -> None:
    async with an_api() as client:
        made = await create(client, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        path = f"{CONFIG_MAPS}/c"
        first = await client.put(path, json={**made, "data": {"a": "2"}})
        second = await client.put(path, json={**made, "data": {"a": "3"}})
        assert (first.status, second.status) == (200, 409)


async def test_status_and_spec_are_written_through_their_own_paths() -> None:
    async with an_api() as client:
        await create(client, JOBS, a_job())
        _, by_main = await patch(client, f"{JOBS}/j", {"status": {"active": 1}, "spec": {"suspend": True}})
        _, by_status = await patch(client, f"{JOBS}/j/status", {"status": {"active": 1}, "spec": {"suspend": False}})
    assert "status" not in by_main
    assert (by_status["status"], by_status["spec"]["suspend"]) == ({"active": 1}, True)
    assert (by_main["metadata"]["generation"], by_status["metadata"]["generation"]) == (2, 2)


async def test_the_template_of_a_job_and_the_spec_of_a_pod_are_immutable() -> None:
    async with an_api() as client:
        await create(client, JOBS, a_job())
        await create(client, PODS, a_pod())
        template = {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
        job = await patch(client, f"{JOBS}/j", template, kind="strategic")
        pod = await patch(client, f"{PODS}/web", {"spec": {"nodeName": "n"}})
    assert (job[0], pod[0]) == (422, 422)


async def test_a_definition_serves_its_type_until_it_is_deleted() -> None:
    async with an_api() as client:
        made = await create(client, CRDS, a_definition())
        conditions = {one["type"]: one["status"] for one in made["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        thing = await create(client, THINGS, {"metadata": {"name": "t"}, "spec": {"size": "big"}})
        assert thing["spec"]["replicas"] == 1
        await client.delete(f"{CRDS}/things.example.org")

        async def is_gone() -> bool:
            return await status_of(client, f"{CRDS}/things.example.org") == 404

        await until(is_gone, "its end")
        assert await status_of(client, THINGS) == 404


async def test_a_custom_resource_is_held_to_its_schema() -> None:
    async with an_api() as client:
        await create(client, CRDS, a_definition())
        body = {"metadata": {"name": "t"}, "spec": {"size": "s", "colour": "red"}}
        strict = await client.post(THINGS, params={"fieldValidation": "Strict"}, json=body)
        assert strict.status == 400
        assert 'unknown field "spec.colour"' in (await strict.json())["message"]
        wrong = await client.post(THINGS, json={"metadata": {"name": "t"}, "spec": {"replicas": 0}})
        assert [cause["field"] for cause in (await wrong.json())["details"]["causes"]] == ["spec.size", "spec.replicas"]
        warned = await client.post(THINGS, json=body)
        assert warned.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'
        assert (await warned.json())["spec"] == {"size": "s", "replicas": 1}


def owned_by(owner: dict[str, Any], name: str) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


@pytest.mark.parametrize(("policy", "survives"), [("Background", False), ("Foreground", False), ("Orphan", True)])
async def test_dependents_share_the_fate_that_the_policy_gives_them(policy: str, survives: bool) -> None:
    async with an_api() as client:
        owner = await create(client, CONFIG_MAPS, {"metadata": {"name": "owner"}})
        await create(client, CONFIG_MAPS, owned_by(owner, "child"))
        await client.delete(f"{CONFIG_MAPS}/owner", params={"propagationPolicy": policy})

        async def is_settled() -> bool:
            is_owner_gone = await status_of(client, f"{CONFIG_MAPS}/owner") == 404
            return is_owner_gone and (survives or await status_of(client, f"{CONFIG_MAPS}/child") == 404)

        await until(is_settled, "what the policy says")
        if survives:
            child = await (await client.get(f"{CONFIG_MAPS}/child")).json()
            assert "ownerReferences" not in child["metadata"]


async def test_a_finalizer_holds_a_deleted_object_until_it_is_removed() -> None:
    async with an_api() as client:
        await create(client, CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": ["a.b/c"]}})
        held = await (await client.delete(f"{CONFIG_MAPS}/c")).json()
        assert held["metadata"]["deletionTimestamp"]
        await patch(client, f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": None}})
        assert await status_of(client, f"{CONFIG_MAPS}/c") == 404


async def test_a_running_pod_stays_until_its_kubelet_lets_it_go() -> None:
    async with an_api() as client:
        await create(client, PODS, a_pod())
        bound = await client.post(f"{PODS}/web/binding", json={"target": {"name": "n1"}})
        assert bound.status == 201
        leaving = await (await client.delete(f"{PODS}/web", params={"gracePeriodSeconds": "7"})).json()
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == 7
        await patch(client, f"{PODS}/web/status", {"status": {"phase": "Failed"}})
        assert await status_of(client, f"{PODS}/web") == 200
        await client.delete(f"{PODS}/web", params={"gracePeriodSeconds": "0"})
        assert await status_of(client, f"{PODS}/web") == 404


async def test_a_precondition_protects_the_successor_of_the_same_name() -> None:
    async with an_api() as client:
        await create(client, CONFIG_MAPS, {"metadata": {"name": "c"}})
        answer = await client.delete(f"{CONFIG_MAPS}/c", json={"preconditions": {"uid": "another"}})
        assert answer.status == 409
