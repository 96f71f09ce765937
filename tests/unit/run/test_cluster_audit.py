"""The audit of a cluster: whose things are named, and in which words."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from actions.blueprint.render import RUN_TAG
from actions.run.cluster_audit import ClusterAudit, FoundThing, audit_json, audit_text, runs_of_cluster

EKS = "arn:aws:eks:us-west-2:111122223333"
EC2 = "arn:aws:ec2:us-west-2:111122223333"


def tagged(run: str, **tags: str) -> dict[str, str]:
    return {RUN_TAG: run, **tags}


def test_runs_are_of_a_cluster_by_its_parts_its_tag_or_its_name() -> None:
    found = runs_of_cluster(
        {
            f"{EKS}:cluster/ml": tagged("maker-1121-aa"),
            f"{EKS}:nodegroup/ml/a/1": tagged("nodes-1121-aa"),
            f"{EC2}:subnet/subnet-1": {RUN_TAG: "subnet-1121-aa", "kubernetes.io/cluster/ml": "owned"},
            f"{EC2}:vpc/vpc-1": tagged("network-1121-aa", Name="ml-vpc"),
            f"{EC2}:vpc/vpc-2": tagged("other-1121-aa", Name="mlops"),
            f"{EC2}:vpc/vpc-3": tagged("untidy 1121", Name="ml"),
        },
        "ml",
    )
    assert found == {"maker-1121-aa": True, "nodes-1121-aa": True, "subnet-1121-aa": True, "network-1121-aa": False}


def test_a_cluster_whose_name_begins_alike_is_another_one() -> None:
    things = {f"{EKS}:cluster/ml-2": tagged("two-1121-aa"), f"{EC2}:vpc/vpc-1": tagged("two-1121-aa", Name="ml-2-vpc")}
    assert runs_of_cluster(things, "ml") == {}
    assert runs_of_cluster(things, "ml-2") == {"two-1121-aa": True}


THING = FoundThing("lost-1121-aa", "AWS arn:x: tagged; $0.05/h; remove: aws x", Decimal("0.045"))


def test_each_thing_is_a_line_with_its_price_and_the_command_that_removes_it() -> None:
    lines = audit_text(ClusterAudit("ml", (THING,), ("kept-1121-aa",))).splitlines()
    assert lines[0] == "With a journal or a store: kept-1121-aa. See: eksml-tui runs list --cluster"
    assert lines[1] == "1 thing of 1 run without a journal or a store, at least $0.045/h:"
    assert lines[2] == f"  {THING.line}"
    document = msgspec.json.decode(audit_json(ClusterAudit("ml", (THING,))))
    assert document["things"] == [{"run": THING.run, "line": THING.line, "usd_per_hour": "0.045"}]


def test_nothing_found_and_not_all_asked_is_no_all_clear() -> None:
    assert audit_text(ClusterAudit("ml")) == "Nothing else of a run is left in ml.\n"
    text = audit_text(ClusterAudit("ml", unknown=("AWS could not be searched: no credentials.",)))
    assert text == (
        "Nothing else of a run is left in ml, as far as it could be searched.\n"
        "Unknown: AWS could not be searched: no credentials.\n"
    )
