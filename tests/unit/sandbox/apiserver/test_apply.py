"""Server-side apply: ownership, conflicts, and what disappears with its last owner."""

from __future__ import annotations

from typing import Any

from actions.sandbox.apiserver.storage.codec import clone
from actions.sandbox.apiserver.storage.resources import builtin_types
from actions.sandbox.apiserver.writes.apply import apply_object
from actions.sandbox.apiserver.writes.managed_fields import (
    APPLY,
    Manager,
    decode_fields,
    encode_fields,
    leaves_of,
    track_update,
)
from actions.sandbox.apiserver.writes.merge_keys import BuiltinMergeSchema, CustomResourceMergeSchema, MergeSchema

NOW = "2026-11-21T10:00:00Z"
DEPLOYMENT = next(one for one in builtin_types() if one.plural == "deployments")


def applied(
    live: dict[str, Any],
    wanted: dict[str, Any],
    *,
    by: str = "a",
    force: bool = False,
    shape: MergeSchema | None = None,
) -> dict[str, Any]:
    wanted = {"metadata": {"name": "x"}, **wanted}
    manager = Manager(by, APPLY, "apps/v1")
    return apply_object(live, wanted, shape or BuiltinMergeSchema(), manager, resource=DEPLOYMENT, force=force, now=NOW)


def new(wanted: dict[str, Any], *, by: str = "a", shape: MergeSchema | None = None) -> dict[str, Any]:
    return applied({"metadata": {}}, wanted, by=by, shape=shape)


def owners(body: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in body["metadata"]["managedFields"]}


def test_the_applier_owns_what_it_sent() -> None:
    body = new({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}})
    container: dict[str, Any] = {".": {}, "f:name": {}, "f:image": {}}
    assert owners(body)["a"] == {
        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {'k:{"name":"m"}': container}}}}
    }


def test_a_field_that_is_no_longer_applied_goes_unless_another_manager_owns_it() -> None:
    body = new({"spec": {"replicas": 2, "paused": True, "minReadySeconds": 1}})
    shared = applied(body, {"spec": {"paused": True}}, by="b")
    after = applied(shared, {"spec": {"replicas": 2}})
    assert after["spec"] == {"replicas": 2, "paused": True}


def test_an_item_of_a_keyed_list_goes_with_its_applier_and_others_stay() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
    body = new({"spec": {"volumes": volumes}})
    both = applied(body, {"spec": {"volumes": [{"name": "c", "emptyDir": {}}]}}, by="b")
    after = applied(both, {"spec": {"volumes": volumes[:1]}})
    assert [one["name"] for one in after["spec"]["volumes"]] == ["a", "c"]


def test_an_update_takes_the_fields_that_it_changed() -> None:
    before = new({"spec": {"replicas": 2, "paused": True}})
    after = clone(before)
    after["spec"]["replicas"] = 7
    track_update(before, after, BuiltinMergeSchema(), Manager("kubectl", "Update", "apps/v1"), now=NOW)
    assert owners(after) == {"a": {"f:spec": {"f:paused": {}}}, "kubectl": {"f:spec": {"f:replicas": {}}}}


def test_a_list_of_a_custom_resource_is_atomic_unless_its_schema_says_more() -> None:
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    spec = {"type": "object", "properties": {"plain": {"type": "array"}, "keyed": keyed}}
    shape = CustomResourceMergeSchema({"type": "object", "properties": {"spec": spec}})
    body = new({"spec": {"plain": [{"id": 1}], "keyed": [{"id": 1, "x": 1}]}}, shape=shape)
    assert set(leaves_of(body, shape)) == {
        ("f:spec", "f:plain"),
        ("f:spec", "f:keyed", 'k:{"id":1}'),
        ("f:spec", "f:keyed", 'k:{"id":1}', "f:id"),
        ("f:spec", "f:keyed", 'k:{"id":1}', "f:x"),
    }
    after = applied(body, {"spec": {"keyed": [{"id": 2}]}}, by="b", shape=shape)
    assert [one["id"] for one in after["spec"]["keyed"]] == [1, 2]


def test_field_sets_survive_being_written() -> None:
    paths = {("f:a",), ("f:l", 'k:{"name":"x"}'), ("f:l", 'k:{"name":"x"}', "f:y"), ("f:s", 'v:"z"')}
    assert decode_fields(encode_fields(paths)) == paths
