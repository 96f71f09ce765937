"""Objects over HTTP: what is filled in, what is refused, what goes with what."""

from __future__ import annotations

from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.sandbox.faults.fault import Fault, FaultKind
from actions.sandbox.faults.middleware import FaultMiddleware
from actions.sandbox.faults.panel import FaultPanel
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


async def test_a_new_object_gets_what_only_the_server_can_give() -> None:
    async with an_api() as client:
        made = await create(
            client, CONFIG_MAPS, {"metadata": {"generateName": "c-", "uid": "mine"}, "data": {"a": "1"}}
        )
    metadata = made["metadata"]
    assert metadata["name"].startswith("c-")
    assert len(metadata["name"]) == 7
    assert metadata["uid"] != "mine"
    assert {"creationTimestamp", "resourceVersion", "managedFields"} <= metadata.keys()
    assert (made["kind"], made["apiVersion"], metadata["namespace"]) == ("ConfigMap", "v1", "default")


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


async def test_a_name_can_be_taken_once_and_an_unknown_namespace_not_at_all() -> None:
    async with an_api() as client:
        await create(client, PODS, a_pod())
        again = await client.post(PODS, json=a_pod())
        nowhere = await client.post("/api/v1/namespaces/nowhere/pods", json=a_pod())
        assert (again.status, (await again.json())["reason"]) == (409, "AlreadyExists")
        assert (nowhere.status, (await nowhere.json())["message"]) == (404, 'namespaces "nowhere" not found')


async def test_a_replace_of_an_old_version_is_a_conflict() -> None:
    async with an_api() as client:
        made = await create(client, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        path = f"{CONFIG_MAPS}/c"
        first = await client.put(path, json={**made, "data": {"a": "2"}})
        second = await client.put(path, json={**made, "data": {"a": "3"}})
        assert (first.status, second.status) == (200, 409)


async def test_a_write_that_changes_nothing_makes_no_new_version() -> None:
    async with an_api() as client:
        made = await create(client, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        _, same = await patch(client, f"{CONFIG_MAPS}/c", {"data": {"a": "1"}}, kind="merge")
        _, other = await patch(client, f"{CONFIG_MAPS}/c", {"data": {"a": "2"}}, kind="merge")
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert other["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


async def test_a_dry_run_answers_and_stores_nothing() -> None:
    async with an_api() as client:
        answer = await client.post(CONFIG_MAPS, params={"dryRun": "All"}, json={"metadata": {"name": "c"}})
        assert answer.status == 201
        assert await status_of(client, f"{CONFIG_MAPS}/c") == 404


async def test_status_and_spec_are_written_through_their_own_paths() -> None:
    async with an_api() as client:
        await create(client, JOBS, a_job())
        _, by_main = await patch(
            client, f"{JOBS}/j", {"status": {"active": 1}, "spec": {"suspend": True}}, kind="merge"
        )
        _, by_status = await patch(
            client, f"{JOBS}/j/status", {"status": {"active": 1}, "spec": {"suspend": False}}, kind="merge"
        )
    assert "status" not in by_main
    assert (by_status["status"], by_status["spec"]["suspend"]) == ({"active": 1}, True)
    assert (by_main["metadata"]["generation"], by_status["metadata"]["generation"]) == (2, 2)


async def test_the_template_of_a_job_and_the_spec_of_a_pod_are_immutable() -> None:
    async with an_api() as client:
        await create(client, JOBS, a_job())
        await create(client, PODS, a_pod())
        template = {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
        job = await patch(client, f"{JOBS}/j", template, kind="strategic")
        pod = await patch(client, f"{PODS}/web", {"spec": {"nodeName": "n"}}, kind="merge")
    assert (job[0], pod[0]) == (422, 422)


async def test_apply_creates_then_merges_and_names_the_owner_in_a_conflict() -> None:
    def wanted(value: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": value}}

    path = f"{CONFIG_MAPS}/c"
    async with an_api() as client:
        assert (await patch(client, path, wanted("1"), kind="apply", fieldManager="one"))[0] == 201
        code, status = await patch(client, path, wanted("2"), kind="apply", fieldManager="two")
        assert (code, status["details"]["causes"][0]["field"]) == (409, ".data.a")
        code, body = await patch(client, path, wanted("2"), kind="apply", fieldManager="two", force="true")
        assert (code, body["data"]) == (200, {"a": "2"})
        assert (await patch(client, path, wanted("2"), kind="apply"))[0] == 400


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


async def test_a_misspelt_field_and_a_value_of_the_wrong_type_are_refused() -> None:
    misspelt = a_job(backofLimit=1)
    env = [{"name": "WORKERS", "value": 2}]
    number = a_pod(containers=[{"name": "m", "image": "i", "env": env}])
    async with an_api() as client:
        strict = await client.post(JOBS, params={"fieldValidation": "Strict"}, json=misspelt)
        assert 'strict decoding error: unknown field "spec.backofLimit"' in (await strict.json())["message"]
        loose = await client.post(JOBS, json=misspelt)
        assert (loose.status, "backofLimit" in (await loose.json())["spec"]) == (201, False)
        wrong = await client.post(PODS, json=number)
        assert wrong.status == 400
        assert (await wrong.json())["message"].endswith("type string: spec.containers[0].env[0].value")


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
        await patch(client, f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": None}}, kind="merge")
        assert await status_of(client, f"{CONFIG_MAPS}/c") == 404


async def test_a_running_pod_stays_until_its_kubelet_lets_it_go() -> None:
    async with an_api() as client:
        await create(client, PODS, a_pod())
        bound = await client.post(f"{PODS}/web/binding", json={"target": {"name": "n1"}})
        assert bound.status == 201
        leaving = await (await client.delete(f"{PODS}/web", params={"gracePeriodSeconds": "7"})).json()
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == 7
        await patch(client, f"{PODS}/web/status", {"status": {"phase": "Failed"}}, kind="merge")
        assert await status_of(client, f"{PODS}/web") == 200
        await client.delete(f"{PODS}/web", params={"gracePeriodSeconds": "0"})
        assert await status_of(client, f"{PODS}/web") == 404


async def test_a_namespace_takes_its_contents_with_it() -> None:
    async with an_api() as client:
        await create(client, "/api/v1/namespaces", {"metadata": {"name": "n"}})
        await create(client, "/api/v1/namespaces/n/configmaps", {"metadata": {"name": "c"}})
        await client.delete("/api/v1/namespaces/n")
        refused = await client.post("/api/v1/namespaces/n/configmaps", json={"metadata": {"name": "d"}})
        assert refused.status in (403, 404)

        async def is_gone() -> bool:
            return await status_of(client, "/api/v1/namespaces/n") == 404

        await until(is_gone, "its end")


async def test_a_precondition_protects_the_successor_of_the_same_name() -> None:
    async with an_api() as client:
        await create(client, CONFIG_MAPS, {"metadata": {"name": "c"}})
        answer = await client.delete(f"{CONFIG_MAPS}/c", json={"preconditions": {"uid": "another"}})
        assert answer.status == 409


async def test_a_fault_takes_the_place_of_the_answer() -> None:
    overloaded = FaultMiddleware(FaultPanel(SystemClock()))
    overloaded.add(Fault(FaultKind.THROTTLED, resources=("pods",), retry_after_seconds=3))
    async with an_api(faults=overloaded) as client:
        answer = await client.get(PODS)
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
        assert await status_of(client, CONFIG_MAPS) == 200
