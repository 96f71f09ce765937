"""Parts of a lost Terraform state: ids of what the account has, matched with the addresses of a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from actions.run.takeover.imports import (
    IMPORTED,
    MADE_ANEW,
    FoundResource,
    PlannedResource,
    choose_ids,
    found_resource,
    import_blocks,
    not_rebuilt,
    read_planned,
)

ROOT = Path(__file__).parents[3]
EC2 = "arn:aws:ec2:us-west-2:111122223333:"
EKS = "arn:aws:eks:us-west-2:111122223333:"


def made(address: str, **after: Any) -> PlannedResource:
    kind = re.sub(r"\[.*?\]", "", address).split(".")[-2]
    return PlannedResource(address, kind, ("create",), after)


def found(arn: str, name: str = "", **facts: Any) -> FoundResource:
    one = found_resource(arn, {"Name": name} if name else {}, facts)
    assert one is not None
    return one


def test_each_type_of_the_shared_roots_has_a_rule() -> None:
    planned = json.loads((ROOT / "tests/fixtures/terraform/planned.json").read_text())
    kinds = {re.sub(r"\[.*?\]", "", address).split(".")[-2] for root in planned.values() for address in root}
    for file in (ROOT / "blueprints/common/terraform").glob("*/*.tf"):
        kinds |= set(re.findall(r'^resource "(\w+)"', file.read_text(), re.MULTILINE))
    assert kinds - IMPORTED - MADE_ANEW == set()


@pytest.mark.parametrize(
    ("arn", "facts", "kind", "import_id"),
    [
        (f"{EC2}vpc/vpc-1", {}, "aws_vpc", "vpc-1"),
        (f"{EC2}elastic-ip/eipalloc-1", {}, "aws_eip", "eipalloc-1"),
        (f"{EC2}security-group-rule/sgr-1", {"is_egress": True}, "aws_vpc_security_group_egress_rule", "sgr-1"),
        (f"{EC2}placement-group/pg-1", {"name": "nemo-gpu"}, "aws_placement_group", "nemo-gpu"),
        (f"{EKS}cluster/nemo", {}, "aws_eks_cluster", "nemo"),
        (f"{EKS}nodegroup/nemo/gpu/0-1", {}, "aws_eks_node_group", "nemo:gpu"),
        (f"{EKS}addon/nemo/coredns/0-1", {}, "aws_eks_addon", "nemo:coredns"),
        (f"{EKS}podidentityassociation/nemo/a-1", {}, "aws_eks_pod_identity_association", "nemo,a-1"),
        (
            f"{EKS}access-entry/nemo/role/111122223333/dev/0-1",
            {"principal_arn": "arn:aws:iam::111122223333:role/dev"},
            "aws_eks_access_entry",
            "nemo:arn:aws:iam::111122223333:role/dev",
        ),
        ("arn:aws:iam::111122223333:role/path/nemo-node", {}, "aws_iam_role", "nemo-node"),
        ("arn:aws:iam::1:policy/Karpenter-1", {}, "aws_iam_policy", "arn:aws:iam::1:policy/Karpenter-1"),
        ("arn:aws:s3:::nemo-fsx-1", {}, "aws_s3_bucket", "nemo-fsx-1"),
        (
            "arn:aws:sqs:us-west-2:111122223333:Karpenter-nemo",
            {},
            "aws_sqs_queue",
            "https://sqs.us-west-2.amazonaws.com/111122223333/Karpenter-nemo",
        ),
        (
            "arn:aws:logs:us-west-2:1:log-group:/aws/vpc-flow-log/vpc-1",
            {},
            "aws_cloudwatch_log_group",
            "/aws/vpc-flow-log/vpc-1",
        ),
        ("arn:aws:fsx:us-west-2:1:association/fs-1/dra-1", {}, "aws_fsx_data_repository_association", "dra-1"),
    ],
)
def test_the_id_of_an_import_follows_from_the_arn(arn: str, facts: dict[str, Any], kind: str, import_id: str) -> None:
    one = found_resource(arn, {}, facts)
    assert one is not None
    assert (one.kind, one.import_id) == (kind, import_id)


def test_a_kind_that_no_root_makes_is_not_imported() -> None:
    assert found_resource(f"{EC2}instance/i-1", {}) is None
    assert found_resource(f"{EC2}placement-group/pg-1", {}) is None


def test_names_and_tags_tell_objects_of_a_kind_apart() -> None:
    plan = [
        made("module.vpc.aws_subnet.private[0]", tags={"Name": "nemo-private-a"}),
        made("module.vpc.aws_subnet.private[1]", tags={"Name": "nemo-private-b"}),
        made("aws_iam_role.cluster[0]", name_prefix="nemo-cluster-"),
        made("aws_iam_role.node[0]", name="nemo-node"),
        made("module.eks.aws_security_group.node[0]", tags={"Name": "nemo-node"}),
        made("aws_security_group.fsx", name_prefix="nemo-fsx-"),
    ]
    account = [
        found(f"{EC2}subnet/subnet-2", "nemo-private-b"),
        found(f"{EC2}subnet/subnet-1", "nemo-private-a"),
        found("arn:aws:iam::1:role/nemo-node"),
        found("arn:aws:iam::1:role/nemo-cluster-2026"),
        found(f"{EC2}security-group/sg-1", "nemo-node"),
        found(f"{EC2}security-group/sg-2"),
    ]
    assert choose_ids(plan, account) == {
        "module.vpc.aws_subnet.private[0]": "subnet-1",
        "module.vpc.aws_subnet.private[1]": "subnet-2",
        "aws_iam_role.cluster[0]": "nemo-cluster-2026",
        "aws_iam_role.node[0]": "nemo-node",
        "module.eks.aws_security_group.node[0]": "sg-1",
        "aws_security_group.fsx": "sg-2",
    }


def test_a_prefix_may_begin_with_another() -> None:
    plan = [made("aws_iam_policy.custom", name_prefix="nemo-"), made("aws_iam_policy.keys", name_prefix="nemo-Keys")]
    names = ["nemo-20261123183000123400000001", "nemo-Keys20261123183000123400000002"]
    account = [found(f"arn:aws:iam::1:policy/{name}") for name in names]
    assert choose_ids(plan, account) == {
        "aws_iam_policy.custom": f"arn:aws:iam::1:policy/{names[0]}",
        "aws_iam_policy.keys": f"arn:aws:iam::1:policy/{names[1]}",
    }


def test_what_may_be_two_things_is_left_out() -> None:
    plan = [made("aws_vpc_endpoint.a"), made("aws_vpc_endpoint.b")]
    assert choose_ids(plan, [found(f"{EC2}vpc-endpoint/vpce-1")]) == {}
    assert choose_ids(plan[:1], [found(f"{EC2}vpc-endpoint/vpce-1"), found(f"{EC2}vpc-endpoint/vpce-2")]) == {}


def test_parts_are_imported_once_the_whole_is_known() -> None:
    attachment = made("aws_iam_role_policy_attachment.this", role="nemo-node", policy_arn="arn:aws:iam::aws:policy/P")
    route = made("aws_route.nat", route_table_id="rtb-1", destination_cidr_block="0.0.0.0/0")
    rule = made(
        "aws_security_group_rule.all",
        security_group_id="sg-1",
        type="egress",
        protocol="-1",
        from_port=0,
        to_port=0,
        cidr_blocks=["0.0.0.0/0"],
    )
    account = [
        found("arn:aws:iam::1:role/nemo-node"),
        found(f"{EC2}route-table/rtb-1"),
        found(f"{EC2}security-group/sg-1"),
    ]
    assert choose_ids([attachment, route, rule], account) == {
        "aws_iam_role_policy_attachment.this": "nemo-node/arn:aws:iam::aws:policy/P",
        "aws_route.nat": "rtb-1_0.0.0.0/0",
        "aws_security_group_rule.all": "sg-1_egress_all_0_0_0.0.0.0/0",
    }
    assert choose_ids([attachment, route, rule], []) == {}


def test_a_name_alone_is_no_evidence() -> None:
    plan = [
        made("aws_eks_cluster.this", name="nemo"),
        made("helm_release.karpenter[0]", name="karpenter", namespace="kube-system"),
        made("aws_ecr_lifecycle_policy.this", repository="nemo"),
        made("aws_kms_alias.this", name="alias/eks/nemo"),
    ]
    assert choose_ids(plan, []) == {}
    imported = PlannedResource(
        "aws_eks_cluster.this", "aws_eks_cluster", ("no-op",), {"name": "nemo"}, is_imported=True
    )
    ours = [found(f"{EKS}cluster/nemo")]
    assert choose_ids([imported, *plan[1:]], ours) == {"helm_release.karpenter[0]": "kube-system/karpenter"}


def test_blocks_hold_no_template_whatever_an_id_is() -> None:
    text = import_blocks({'module.a.aws_vpc.b["k"]': '"${file("/etc/passwd")}"%{if x}'})
    assert text == (
        'import {\n  to = module.a.aws_vpc.b["k"]\n  id = "\\"$${file(\\"/etc/passwd\\")}\\"%%{if x}"\n}\n\n'
    )


def test_a_plan_that_makes_something_real_is_named() -> None:
    shown = {
        "resource_changes": [
            {"address": "time_sleep.a", "type": "time_sleep", "mode": "managed", "change": {"actions": ["create"]}},
            {"address": "aws_vpc.a", "type": "aws_vpc", "mode": "managed", "change": {"actions": ["create"]}},
            {"address": "aws_eip.a", "type": "aws_eip", "mode": "managed", "change": {"actions": ["delete", "create"]}},
            {"address": "aws_subnet.a", "type": "aws_subnet", "mode": "managed", "change": {"actions": ["update"]}},
            {"address": "data.aws_vpc.a", "type": "aws_vpc", "mode": "data", "change": {"actions": ["read"]}},
        ]
    }
    planned = read_planned(json.dumps(shown).encode())
    assert [item.address for item in not_rebuilt(planned)] == ["aws_vpc.a", "aws_eip.a"]
