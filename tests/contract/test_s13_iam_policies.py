"""S13: the IAM policies that we recommend allow what the code calls, and nothing else."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from tests.support.sources import ROOT, modules_of

POLICIES = ROOT / "assets" / "iam"

PREFIXES = {"resourcegroupstaggingapi": "tag", "service-quotas": "servicequotas"}
"""IAM's name of a service where it is not boto3's."""
OTHERWISE = {"s3:ListObjectVersions": "s3:ListBucketVersions"}
"""IAM's name of an action where it is not the operation's."""
WITHOUT_PERMISSION = frozenset({"sts:GetCallerIdentity"})
"""Every principal may call it."""
OF_THE_STORE = {
    "delete_object": "s3:DeleteObject",
    "get_object": "s3:GetObject",
    "list_objects_v2": "s3:ListBucket",
    "put_object": "s3:PutObject",
}
"""IAM's action of each call of `actions.cloud.s3`, whose client is one of its own: bodies are read in its threads."""
OF_TAGS_AND_DOCKER = frozenset(
    {
        "ec2:CreateTags",
        "ecr:BatchCheckLayerAvailability",
        "ecr:CompleteLayerUpload",
        "ecr:InitiateLayerUpload",
        "ecr:PutImage",
        "ecr:UploadLayerPart",
    }
)
"""Authorised besides the calls: tags of rules that are made, and what `docker push` does with our login."""
WITHOUT_RESOURCE = frozenset(
    {
        "ec2:DescribeAddresses",
        "ec2:DescribeAvailabilityZones",
        "ec2:DescribeCapacityReservations",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeInstances",
        "ec2:DescribeLaunchTemplates",
        "ec2:DescribeNatGateways",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeSecurityGroupRules",
        "ec2:DescribeSpotPriceHistory",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeTags",
        "ec2:DescribeVolumes",
        "ec2:DescribeVpcEndpoints",
        "ec2:DescribeVpcs",
        "ecr:GetAuthorizationToken",
        "iam:ListInstanceProfiles",
        "iam:ListOpenIDConnectProviders",
        "iam:ListPolicies",
        "iam:ListRoles",
        "pricing:GetProducts",
        "servicequotas:GetServiceQuota",
        "servicequotas:ListAWSDefaultServiceQuotas",
        "servicequotas:ListServiceQuotas",
        "tag:GetResources",
    }
)
"""The actions that can be allowed for `*` only."""
DIRECTIONS = ("ingress", "egress")
UNDOING = ("Revoke", "Delete", "BatchDelete", "Terminate")
MAKING = ("Authorize", "Create", "Put", "Complete", "Initiate", "Upload")


def statements(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((POLICIES / f"{name}.json").read_text(encoding="utf-8"))["Statement"]
    return found


def actions(name: str) -> set[str]:
    return {action for statement in statements(name) for action in statement["Action"]}


def called() -> set[str]:
    """Return the actions that `AwsSession.call` and `pages` are called with, as IAM names them."""
    by_service: defaultdict[str, set[str]] = defaultdict(set)
    for service, operation in calls():
        by_service[service].add(operation)
    session = botocore.session.get_session()
    found = set()
    for service, operations in by_service.items():
        by_method = {xform_name(name): name for name in session.get_service_model(service).operation_names}
        assert operations <= by_method.keys(), f"{service} has no {operations - by_method.keys()}"
        found |= {f"{PREFIXES.get(service, service)}:{by_method[operation]}" for operation in operations}
    return found


def calls() -> Iterator[tuple[str, str]]:
    for module in modules_of("actions"):
        if "sandbox" not in module.path.parts and (".call(" in module.text or "pages(" in module.text):
            for function in module.nodes(ast.FunctionDef):
                yield from calls_in(function)
            for task in module.nodes(ast.AsyncFunctionDef):
                yield from calls_in(task)


def calls_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    assigned = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        asked = node.args if isinstance(node, ast.Call) and is_named(node.func, "call") else []
        if isinstance(node, ast.Call) and is_named(node.func, "pages"):
            asked = node.args[1:]
        if len(asked) < 2:
            continue
        service, operation = asked[:2]
        if isinstance(service, ast.Constant) and isinstance(service.value, str) and service.value.islower():
            named = assigned[operation.id] if isinstance(operation, ast.Name) else operation
            yield from ((service.value, name) for name in names_of(named))


def is_named(function: ast.expr, name: str) -> bool:
    return (isinstance(function, ast.Attribute) and function.attr == name) or (
        isinstance(function, ast.Name) and function.id == name
    )


def names_of(operation: ast.expr) -> Iterator[str]:
    if isinstance(operation, ast.Constant):
        yield str(operation.value)
        return
    assert isinstance(operation, ast.JoinedStr), ast.dump(operation)
    (stem,) = [str(part.value) for part in operation.values if isinstance(part, ast.Constant)]
    yield from (f"{stem}{direction}" for direction in DIRECTIONS)


def test_s13_every_call_of_the_code_is_allowed_and_nothing_else() -> None:
    everything = actions("view") | actions("launch") | actions("teardown")
    made = {OTHERWISE.get(action, action) for action in called()}
    assert everything == (made | OF_TAGS_AND_DOCKER) - WITHOUT_PERMISSION
    assert len(made) > 12


def test_s13_the_store_is_allowed_what_its_client_calls_and_nothing_else() -> None:
    (module,) = (module for module in modules_of("actions") if str(module.path) == "actions/cloud/s3.py")
    made = {
        node.func.attr
        for node in module.nodes(ast.Call)
        if isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Call)
        and isinstance(node.func.value.func, ast.Attribute)
        and node.func.value.func.attr == "_client"
    }
    assert made == OF_THE_STORE.keys()
    assert actions("store") == set(OF_THE_STORE.values())
    assert not [resource for statement in statements("store") for resource in statement["Resource"] if resource == "*"]


def test_s13_boto3_is_used_in_one_place_only() -> None:
    users = {str(module.path) for module in modules_of("actions") if "import boto3" in module.text}
    assert users == {"actions/cloud/aws_session.py"}


@pytest.mark.parametrize("name", ["view", "launch", "teardown"])
def test_s13_no_policy_is_broader_than_it_has_to_be(name: str) -> None:
    for statement in statements(name):
        assert statement["Effect"] == "Allow"
        assert not [action for action in statement["Action"] if "*" in action]
        if "*" in statement["Resource"]:
            assert set(statement["Action"]) <= WITHOUT_RESOURCE
        elif any(resource.endswith("*") for resource in statement["Resource"]) and not only_looks(statement):
            assert statement["Condition"]["Null"] in (
                {"aws:RequestTag/eksml-run": "false"},
                {"aws:ResourceTag/eksml-run": "false"},
            )


def only_looks(statement: dict[str, Any]) -> bool:
    """Return whether a statement allows only questions, and no secret: it may be about names that are not known yet."""
    verbs = [action.partition(":")[2] for action in statement["Action"]]
    return all(verb.startswith(("Describe", "List", "GetInstanceProfile", "GetRole")) for verb in verbs)


def test_s13_looking_changes_nothing_launching_undoes_nothing_and_a_teardown_makes_nothing() -> None:
    def verbs(name: str) -> set[str]:
        return {action.partition(":")[2] for action in actions(name)}

    assert not [verb for verb in verbs("view") if not verb.startswith(("Describe", "Get", "List"))]
    assert not [verb for verb in verbs("launch") if verb.startswith(UNDOING)]
    assert not [verb for verb in verbs("teardown") if verb.startswith(MAKING)]
