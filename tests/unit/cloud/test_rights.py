"""The shipped IAM policies, simulated: as plain data, then by the sandbox's account, each action taken away in turn."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import AccessError, ConfigError
from actions.base.files import asset
from actions.cloud import rights
from actions.cloud.aws_session import AwsSession, MissingPermissionError
from actions.cloud.rights import Statement, fetch_principal, simulate, statements_of
from tests.support.sandboxes import account_of
from tests.unit.sandbox.controllers.server import FAST, cloud_alone

ROLE = "eksml-sandbox"
PRINCIPAL = f"arn:aws:iam::{FAST.account}:role/{ROLE}"
NAMES = {
    "REGION": FAST.region,
    "ACCOUNT": FAST.account,
    "PARTITION": "aws",
    "PRINCIPAL": f"role/{ROLE}",
    "CLUSTER": "trainer",
    "REPOSITORY": "nemo-aws",
}
UNKNOWN = {"SECURITY_GROUP", "SECRET"}
"""The words whose names no launch knows before it begins."""


def document_of(policy: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asset(f"iam/{policy}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("policy", ["view", "launch", "teardown"])
def test_the_words_of_the_policies_are_those_that_are_filled_in(policy: str) -> None:
    words = {word for one in statements_of(policy) for text in one.resources for word in rights._CAPITAL.findall(text)}
    assert words <= NAMES.keys() | UNKNOWN
    actions = {action for one in document_of(policy)["Statement"] for action in one["Action"]}
    assert {action for one in statements_of(policy) for action in one.actions} == actions


def test_a_statement_keeps_the_resources_whose_names_are_known() -> None:
    statement = Statement(("ecr:PutImage", "iam:GetRole"), ("arn:aws:ecr:REGION:ACCOUNT:repository/REPOSITORY", "*"))
    known = {"REGION": "cn-north-1", "ACCOUNT": "1", "PARTITION": "aws-cn", "REPOSITORY": "r"}
    assert statement.filled(known).resources == ("arn:aws-cn:ecr:cn-north-1:1:repository/r", "*")
    assert statement.filled({"REGION": "us-west-2"}).resources == ("*",)


def test_a_condition_becomes_keys_for_which_it_holds() -> None:
    (tagging,) = (one for one in statements_of("launch") if one.actions == ("ec2:CreateTags",))
    assert dict(tagging.context) == {
        "ec2:CreateAction": ("AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress"),
        "aws:RequestTag/eksml-run": ("RUN",),
    }


class Answering:
    """An account that answers for one role."""

    def __init__(self, answer: dict[str, Any] | AccessError) -> None:
        self._answer = answer

    async def call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        assert (service, operation, *parameters) == ("iam", "get_role", "RoleName")
        if isinstance(self._answer, AccessError):
            raise self._answer
        return self._answer


async def test_an_assumed_role_is_its_role_with_the_path() -> None:
    denied = MissingPermissionError("No.", "iam:GetRole")
    path = "arn:aws:iam::1:role/ci/trainer"
    known: Any = Answering({"Role": {"Arn": path}})
    unknown: Any = Answering(denied)
    assert await fetch_principal(known, "arn:aws:sts::1:assumed-role/trainer/ada") == path
    assert await fetch_principal(unknown, "arn:aws-cn:sts::1:assumed-role/t/ada") == "arn:aws-cn:iam::1:role/t"
    assert await fetch_principal(unknown, "arn:aws:iam::1:user/team/ada") == "arn:aws:iam::1:user/team/ada"
    assert await fetch_principal(unknown, "arn:aws:iam::1:root") == ""
    with pytest.raises(ConfigError, match="federated user"):
        await fetch_principal(unknown, "arn:aws:sts::1:federated-user/ada")
    # the path of a role of IAM Identity Center holds a region, which does not stand in the session's ARN
    with pytest.raises(MissingPermissionError):
        await fetch_principal(unknown, "arn:aws:sts::1:assumed-role/AWSReservedSSO_Admin_1/ada")


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AwsSession]:
    async with cloud_alone(tmp_path):
        for name, value in account_of(tmp_path).items():
            monkeypatch.setenv(name, value)
        made = AwsSession(region=FAST.region, threads=4)
        yield made
        made.close()


def filled(policy: str) -> dict[str, Any]:
    """The policy as an operator attaches it."""
    text = json.dumps(document_of(policy))
    for word, name in {**NAMES, "SECURITY_GROUP": "sg-1", "SECRET": "s"}.items():
        text = text.replace(word, name)
    found: dict[str, Any] = json.loads(text)
    return found


async def attach(session: AwsSession, document: dict[str, Any]) -> None:
    text = json.dumps(document)
    await session.call("iam", "put_role_policy", RoleName=ROLE, PolicyName="p", PolicyDocument=text)


@pytest.mark.parametrize("policy", ["launch", "teardown"])
async def test_each_action_that_is_taken_from_a_policy_is_named(session: AwsSession, policy: str) -> None:
    document = filled(policy)
    await attach(session, document)
    found = await simulate(session, PRINCIPAL, policy, NAMES)
    assert found.denied == ()
    assert set(found.unasked) <= {
        "ec2:AuthorizeSecurityGroupEgress",
        "ec2:AuthorizeSecurityGroupIngress",
        "ec2:RevokeSecurityGroupEgress",
        "ec2:RevokeSecurityGroupIngress",
        "secretsmanager:GetSecretValue",
    }
    for number, statement in enumerate(document["Statement"]):
        for action in set(statement["Action"]) - set(found.unasked):
            fewer = copy.deepcopy(document)
            fewer["Statement"][number]["Action"].remove(action)
            await attach(session, fewer)
            assert (await simulate(session, PRINCIPAL, policy, NAMES)).denied == (action,)


async def test_a_denial_counts_before_any_permission(session: AwsSession) -> None:
    document = filled("launch")
    document["Statement"].append({"Effect": "Deny", "Action": "ec2:Describe*", "Resource": "*"})
    await attach(session, document)
    denied = (await simulate(session, PRINCIPAL, "launch", NAMES)).denied
    assert "ec2:DescribeInstances" in denied
    assert all(action.startswith("ec2:Describe") for action in denied)
    without = await simulate(session, PRINCIPAL, "launch", NAMES, without=frozenset({"ec2"}))
    assert without.denied == ()


def test_an_organizations_denial_is_named_as_such() -> None:
    result = {
        "EvalActionName": "eks:DescribeCluster",
        "EvalDecision": "allowed",
        "OrganizationsDecisionDetail": {"AllowedByOrganizations": False},
    }
    assert list(rights._denied([result])) == ["eks:DescribeCluster (denied by the organization)"]
