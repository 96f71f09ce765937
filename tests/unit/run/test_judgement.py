"""The objects that are the run's: documents and an inventory in, ownership out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.base.errors import FormatError
from actions.run.objects.ownership import (
    HARMLESS,
    Entry,
    Expected,
    Inventory,
    ObjectOwner,
    Ownership,
    classify,
    doubt_about,
    entry_of,
)
from actions.run.state.view import OwnedObject

RUN = "small-1122-23b3"
OURS = Inventory(RUN, frozenset({"ours"}))


def thing(uid: str, *owners: str, kind: str = "ConfigMap", name: str = "", group: str = "", **more: Any) -> Entry:
    """An object in the namespace `work`; owners by uid."""
    owned = tuple(ObjectOwner("v1", "ConfigMap", f"name-of-{owner}", owner) for owner in owners)
    return Entry(group, kind, "work", name or f"name-of-{uid}", uid, owners=owned, **more)


def standings(*entries: Entry, inventory: Inventory = OURS, owners: tuple[Entry, ...] = ()) -> list[Ownership]:
    return [one.standing for one in classify(entries, inventory, owners=owners)]


def announced(**more: Any) -> OwnedObject:
    known = {"existed": False, "is_deleted": False, "intended_at": 1000.0, "was_absent": True, **more}
    return OwnedObject("objects", "v1", "ConfigMap", "work", "thing", "", **known)


def test_the_uid_makes_it_the_runs_and_the_label_does_not() -> None:
    assert standings(thing("ours"), thing("copied", run=RUN)) == [Ownership.MADE, Ownership.FOREIGN]


def test_owners_are_followed_to_any_depth_in_any_order() -> None:
    chain = [thing(f"u{depth}", f"u{depth - 1}" if depth else "ours") for depth in range(40)]
    assert set(standings(*reversed(chain))) == {Ownership.DEPENDENT}


def test_an_owner_elsewhere_leads_on() -> None:
    job = thing("job", "ours", kind="Job", group="batch")
    assert standings(thing("pod", "job", kind="Pod"), owners=(job,)) == [Ownership.DEPENDENT]
    assert standings(thing("pod", "job", kind="Pod"), owners=(replace(job, owners=()),)) == [Ownership.FOREIGN]


def test_an_owner_that_is_not_the_runs_excuses_nothing() -> None:
    node = Entry("", "Node", "", "node-1", "node")
    assert standings(thing("claim", "node"), owners=(node,)) == [Ownership.FOREIGN]
    assert standings(thing("claim", "ours", "node"), owners=(node,)) == [Ownership.FOREIGN], "one of two is not enough"
    assert standings(thing("claim", "ours", "gone")) == [Ownership.DEPENDENT], "an owner that is gone holds nothing"


def test_an_owner_of_the_same_name_with_another_uid_is_gone() -> None:
    """The survey finds no object with that uid: the garbage collector deletes what it owned, and nobody else does."""
    assert standings(thing("orphan", "former")) == [Ownership.ORPHAN]
    assert Ownership.ORPHAN not in HARMLESS


def test_what_is_owned_by_something_that_is_going_will_follow() -> None:
    assert standings(thing("owner", is_going=True), thing("owned", "owner")) == [Ownership.GOING, Ownership.ORPHAN]


def test_owners_in_a_circle_are_nobodys() -> None:
    assert standings(thing("a", "b"), thing("b", "a")) == [Ownership.FOREIGN, Ownership.FOREIGN]


def test_kubernetes_own_objects_are_known_by_group_kind_and_name() -> None:
    standard = [
        thing("1", kind="ServiceAccount", name="default"),
        thing("2", kind="ConfigMap", name="kube-root-ca.crt"),
    ]
    assert set(standings(*standard)) == {Ownership.STANDARD}
    others = [
        thing("3", kind="ServiceAccount", name="builder"),
        thing("4", kind="Secret", name="kube-root-ca.crt"),
        thing("5", kind="ServiceAccount", name="default", group="acme.io"),
    ]
    assert set(standings(*others)) == {Ownership.FOREIGN}


def test_a_token_goes_with_its_account() -> None:
    account = thing("sa", kind="ServiceAccount", name="default")
    token = thing("t", kind="Secret", name="default-token-x7f2q", account="sa")
    assert standings(account, token) == [Ownership.STANDARD, Ownership.STANDARD]
    for other in (
        replace(token, name="mine"),
        replace(token, account="another"),
        replace(token, managers=frozenset({"kubectl-create"})),
    ):
        assert standings(account, other)[1] is Ownership.FOREIGN
    assert standings(replace(account, name="builder"), replace(token, name="builder-token-x7f2q")) == [
        Ownership.FOREIGN,
        Ownership.FOREIGN,
    ]


def test_endpoints_go_with_the_service_of_their_name() -> None:
    endpoints = thing("e", kind="Endpoints", name="web")
    service = thing("ours", kind="Service", name="web")
    assert standings(endpoints, service) == [Ownership.DEPENDENT, Ownership.MADE]
    assert standings(endpoints, replace(service, uid="theirs"))[0] is Ownership.FOREIGN
    assert standings(endpoints, replace(service, name="other"))[0] is Ownership.FOREIGN
    slices = thing("s", "ours", kind="EndpointSlice", group="discovery.k8s.io")
    assert standings(slices) == [Ownership.DEPENDENT]


def test_what_an_operator_makes_is_expected_where_the_blueprint_says_so() -> None:
    inventory = replace(OURS, expected=frozenset({Expected("", "Secret", "work", "certificate")}))
    certificate = thing("c", kind="Secret", name="certificate")
    assert standings(certificate, inventory=inventory) == [Ownership.EXPECTED]
    assert standings(replace(certificate, namespace="other"), inventory=inventory) == [Ownership.FOREIGN]
    assert standings(certificate) == [Ownership.FOREIGN]


@pytest.mark.parametrize(
    ("holder", "standing"),
    [
        ("operator-5d8c-x7f2q_2c6c", Ownership.EXPECTED),
        ("operators-5d8c-x7f2q_2c6c", Ownership.FOREIGN),
        ("", Ownership.FOREIGN),
        ("somebody_1", Ownership.FOREIGN),
    ],
)
def test_a_lease_is_the_runs_whose_operator_holds_it(holder: str, standing: Ownership) -> None:
    operator = OwnedObject("ops", "apps/v1", "Deployment", "work", "operator", "d", existed=False, is_deleted=True)
    inventory = replace(OURS, made=(operator,))
    lease = thing("l", kind="Lease", group="coordination.k8s.io", holder=holder)
    assert standings(lease, inventory=inventory) == [standing]
    assert standings(replace(lease, namespace="other"), inventory=inventory) == [Ownership.FOREIGN]


def test_what_stores_the_run_goes_with_its_namespace_and_the_store_of_another_run_stays() -> None:
    ours = thing("a", stored=RUN, managers=frozenset({"eksml-tui"}))
    others = thing("b", stored="other-1122-23b3", managers=ours.managers)
    labelled = thing("c", stored=RUN, managers=frozenset({"kubectl"}))
    assert standings(ours, others, labelled) == [Ownership.EXPECTED, Ownership.FOREIGN, Ownership.FOREIGN]


def test_objects_of_a_release_count_only_while_it_is_installed() -> None:
    chart = thing("c", release=("work", "tool"))
    assert standings(chart, inventory=replace(OURS, release=("work", "tool"))) == [Ownership.EXPECTED]
    assert standings(chart) == [Ownership.FOREIGN]
    assert standings(thing("x"), inventory=replace(OURS, release=("", ""))) == [Ownership.FOREIGN]


MADE = Entry("", "ConfigMap", "work", "thing", "u", created_at=1000.0, run=RUN, managers=frozenset({"eksml-tui"}))


def test_everything_has_to_speak_for_an_adoption() -> None:
    assert doubt_about(MADE, announced(), RUN) == ""
    assert doubt_about(replace(MADE, created_at=950.0), announced(), RUN) == "", "clocks differ"
    for entry, item, doubt in (
        (replace(MADE, run=""), announced(), "does not carry"),
        (replace(MADE, run="another"), announced(), "does not carry"),
        (replace(MADE, managers=frozenset({"kubectl"})), announced(), "field managers"),
        (replace(MADE, created_at=900.0), announced(), "older"),
        (MADE, announced(was_absent=False), "did not check"),
        (MADE, announced(intended_at=0.0), "never announced"),
        (MADE, announced(existed=True), "never announced"),
    ):
        assert doubt in doubt_about(entry, item, RUN)
        assert doubt_about(entry, item, RUN)


def test_a_document_is_read_as_far_as_it_is_judged() -> None:
    document = {
        "kind": "PartialObjectMetadata",
        "metadata": {
            "name": "web",
            "namespace": "work",
            "uid": "u",
            "resourceVersion": "17",
            "creationTimestamp": "2026-11-22T10:00:00Z",
            "deletionTimestamp": "2026-11-22T10:01:00Z",
            "labels": {"eksml.dev/run": RUN},
            "annotations": {"meta.helm.sh/release-name": "tool", "meta.helm.sh/release-namespace": "work"},
            "finalizers": ["acme.io/hold"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n1", "controller": True}],
            "managedFields": [{"manager": "eksml-tui", "operation": "Apply"}, {"manager": "kubelet"}],
        },
    }
    entry = entry_of(document, "", "Service")
    assert (entry.version, entry.run, entry.is_going, entry.created_at) == ("17", RUN, True, 1795341600.0)
    assert (entry.owners, entry.finalizers) == ((ObjectOwner("v1", "Node", "n", "n1"),), ("acme.io/hold",))
    assert (entry.managers, entry.release) == (frozenset({"eksml-tui", "kubelet"}), ("work", "tool"))
    lease = {"metadata": {"name": "l", "uid": "u"}, "spec": {"holderIdentity": "operator-1"}}
    assert entry_of(lease, "coordination.k8s.io", "Lease").holder == "operator-1"


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"name": "x"},
        {"name": "x", "uid": ""},
        {"name": "x", "uid": 5},
        {"name": "x", "uid": "u", "labels": ["a"]},
        {"name": "x", "uid": "u", "ownerReferences": "Node"},
        {"name": "x", "uid": "u", "creationTimestamp": "yesterday"},
    ],
)
def test_a_document_that_is_no_object_is_an_error_and_not_an_empty_one(metadata: Any) -> None:
    with pytest.raises(FormatError):
        entry_of({"metadata": metadata}, "", "ConfigMap")


UIDS = st.sampled_from(["ours", "a", "b", "c", "d", "e"])
GRAPHS = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), st.lists(UIDS, max_size=3), max_size=5)


@given(GRAPHS)
def test_nothing_is_a_dependent_that_does_not_lead_to_the_inventory(graph: dict[str, list[str]]) -> None:
    entries = [thing(uid, *owners) for uid, owners in graph.items()]
    for one in classify(entries, OURS):
        reached, waiting = set(), [one.entry.uid]
        while waiting:
            uid = waiting.pop()
            if uid not in reached:
                reached.add(uid)
                waiting += graph.get(uid, [])
        if one.standing is Ownership.DEPENDENT:
            assert "ours" in reached
        if "ours" not in reached:
            assert one.standing not in HARMLESS
