"""Server-side apply: ownership, conflicts, and what disappears with its last owner."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actions.sandbox.apiserver.storage.codec import clone
from actions.sandbox.apiserver.storage.errors import StatusError
from actions.sandbox.apiserver.storage.resources import builtin_types
from actions.sandbox.apiserver.writes.apply import apply_object
from actions.sandbox.apiserver.writes.managed_fields import (
    APPLY,
    Manager,
    decode_fields,
    describe,
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


def test_a_field_of_another_manager_is_a_conflict_that_names_both() -> None:
    body = new({"spec": {"replicas": 2}})
    with pytest.raises(StatusError) as refusal:
        applied(body, {"spec": {"replicas": 3}}, by="b")
    assert refusal.value.code == 409
    assert refusal.value.message == 'Apply failed with 1 conflict: conflict with "a": .spec.replicas'
    assert [(one.reason, one.field) for one in refusal.value.causes] == [("FieldManagerConflict", ".spec.replicas")]


def test_the_same_value_is_owned_together_and_force_takes_it() -> None:
    body = new({"spec": {"replicas": 2, "paused": True}})
    shared = applied(body, {"spec": {"replicas": 2}}, by="b")
    assert owners(shared)["b"] == {"f:spec": {"f:replicas": {}}}
    taken = applied(shared, {"spec": {"replicas": 5}}, by="b", force=True)
    assert taken["spec"] == {"replicas": 5, "paused": True}
    assert owners(taken)["a"] == {"f:spec": {"f:paused": {}}}


def test_kubectl_changes_what_it_applied_before_by_the_clients_way() -> None:
    before = {"metadata": {"name": "x"}, "spec": {"replicas": 2}}
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": msgspec.json.encode(before).decode()}
    body = new(before | {"metadata": {"name": "x", "annotations": annotations}}, by="kubectl-client-side-apply")
    changed = applied(body, {"spec": {"replicas": 3}}, by="kubectl")
    assert changed["spec"] == {"replicas": 3}
    told = changed["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert msgspec.json.decode(told)["spec"] == {"replicas": 3}
    with pytest.raises(StatusError):
        applied(body, {"spec": {"replicas": 3}}, by="somebody-else")
    moved = applied(body, {"spec": {"replicas": 5}}, by="autoscaler", force=True)
    with pytest.raises(StatusError):
        applied(moved, {"spec": {"replicas": 3}}, by="kubectl")


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


def test_applying_does_not_change_the_stored_object() -> None:
    body = new({"spec": {"replicas": 2, "template": {"metadata": {"labels": {"a": "1", "b": "2"}}}}})
    before = clone(body)
    applied(clone(body), {"spec": {"template": {"metadata": {"labels": {"a": "1"}}}}})
    assert body == before


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


def test_a_path_reads_as_kubectl_prints_it() -> None:
    ports = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert describe(("f:spec", "f:ports", ports, "f:name")) == '.spec.ports[containerPort=80,protocol="TCP"].name'
    assert describe(("f:metadata", "f:finalizers", 'v:"a"')) == '.metadata.finalizers[="a"]'
