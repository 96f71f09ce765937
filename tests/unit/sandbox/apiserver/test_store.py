"""The store remembers the recent past and nothing more."""

from __future__ import annotations

from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.apiserver.storage.store import EventType, Store, Stored

PODS = GroupResource("", "pods")


def put(store: Store, name: str, namespace: str = "a", **metadata: object) -> Stored:
    body = {"metadata": {"name": name, "uid": f"uid-{name}", **metadata}}
    return store.put(PODS, namespace, name, body)


def test_every_change_has_a_version_of_its_own_also_a_removal() -> None:
    store = Store()
    first, second = put(store, "x"), put(store, "x")
    last = store.remove(second)
    events = store.collection(PODS).since(0)
    assert [event.change for event in events] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    assert [event.version for event in events] == [first.version, second.version, last.version]
    assert last.body["metadata"]["resourceVersion"] == str(store.version)


def test_only_changes_after_a_version_are_told() -> None:
    store = Store()
    seen = put(store, "x")
    later = put(store, "y")
    assert [event.after for event in store.collection(PODS).since(seen.version)] == [later]


def test_forgotten_changes_raise_the_floor() -> None:
    store = Store(kept=2)
    written = [put(store, "x") for _ in range(5)]
    collection = store.collection(PODS)
    assert collection.floor == written[2].version
    assert [event.after for event in collection.since(collection.floor)] == written[3:]


def test_objects_come_by_namespace_and_name() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y"), ("ab", "w")):
        put(store, name, namespace)
    collection = store.collection(PODS)
    assert [one.name for one in collection.ordered()] == ["y", "z", "w", "x"]
    assert [one.name for one in collection.ordered("a")] == ["y", "z"]


def test_dependents_are_found_by_the_uid_of_their_owner() -> None:
    store = Store()
    owner = put(store, "owner")
    child = put(store, "child", ownerReferences=[{"uid": owner.uid}])
    assert store.dependents(owner.uid) == [child]
    store.remove(child)
    assert store.dependents(owner.uid) == []
