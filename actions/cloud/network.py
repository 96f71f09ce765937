"""The rule that EFA needs: a security group open to itself, for all protocols, in both directions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from actions.base.errors import ConflictError
from actions.cloud.session import AwsSession

ALL_PROTOCOLS = "-1"
DESCRIPTION = "EFA: all protocols between nodes"


class Direction(StrEnum):
    """Which way a rule lets traffic."""

    INGRESS = "ingress"
    EGRESS = "egress"


class SelfRule(msgspec.Struct, frozen=True):
    """A rule of a security group to itself for all protocols."""

    id: str
    """`sgr-…`."""
    direction: Direction
    tags: dict[str, str]


async def fetch_self_rules(session: AwsSession, group: str) -> list[SelfRule]:
    """The all-protocol rules of a group to itself.

    Raises:
        MissingError: There is no such group.
        AccessError: No right for `ec2:DescribeSecurityGroupRules`.
        UnreachableError: No answer.
    """
    found: list[SelfRule] = []
    token: dict[str, str] = {}
    while True:
        answer = await session.call(
            "ec2", "describe_security_group_rules", Filters=[{"Name": "group-id", "Values": [group]}], **token
        )
        found += [_rule(entry) for entry in answer.get("SecurityGroupRules") or () if _is_self_rule(entry, group)]
        if not answer.get("NextToken"):
            return found
        token = {"NextToken": str(answer["NextToken"])}


async def add_self_rule(session: AwsSession, group: str, direction: Direction, tags: dict[str, str]) -> str:
    """Open the group to itself one way. Returns the rule's id; empty if it was there already.

    Raises:
        MissingError: There is no such group.
        AccessError: No right to change it.
        UnreachableError: No answer.
    """
    permission = {
        "IpProtocol": ALL_PROTOCOLS,
        "UserIdGroupPairs": [{"GroupId": group, "Description": DESCRIPTION}],
    }
    labels = [{"Key": key, "Value": value} for key, value in tags.items()]
    try:
        answer = await session.call(
            "ec2",
            f"authorize_security_group_{direction.value}",
            GroupId=group,
            IpPermissions=[permission],
            TagSpecifications=[{"ResourceType": "security-group-rule", "Tags": labels}],
        )
    except ConflictError:
        return ""
    rules = answer.get("SecurityGroupRules") or [{}]
    return str(rules[0].get("SecurityGroupRuleId") or "")


async def remove_rules(session: AwsSession, group: str, direction: Direction, rule_ids: list[str]) -> None:
    """Take rules away.

    Raises:
        MissingError: The group, or one of the rules, is not there.
        AccessError: No right to change it.
        UnreachableError: No answer.
    """
    operation = f"revoke_security_group_{direction.value}"
    await session.call("ec2", operation, GroupId=group, SecurityGroupRuleIds=rule_ids)


def _is_self_rule(entry: dict[str, Any], group: str) -> bool:
    peer = (entry.get("ReferencedGroupInfo") or {}).get("GroupId")
    return str(entry.get("IpProtocol")) == ALL_PROTOCOLS and peer == group


def _rule(entry: dict[str, Any]) -> SelfRule:
    direction = Direction.EGRESS if entry.get("IsEgress") else Direction.INGRESS
    tags = {str(tag.get("Key")): str(tag.get("Value")) for tag in entry.get("Tags") or ()}
    return SelfRule(str(entry.get("SecurityGroupRuleId")), direction, tags)
