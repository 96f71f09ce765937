"""EC2: open capacity reservations, and the security group rule that EFA needs (open to itself, both directions)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from actions.base.errors import ConflictError, MissingError
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession


class Reservation(msgspec.Struct, frozen=True):
    """A capacity reservation or capacity block."""

    id: str
    state: str
    """`active`, `scheduled`, `expired`, `cancelled`, `pending`, `failed`…"""
    instance_type: str
    zone: str
    total: int
    available: int
    ends_at: float | None = None
    """The end of a capacity block, seconds since the epoch. `None` for others: their instances outlive them."""


async def fetch_reservation(session: AwsSession, reservation_id: str) -> Reservation:
    """Fetch the state of a capacity reservation.

    Raises:
        MissingError: There is none of that id.
        AccessError: No right for `ec2:DescribeCapacityReservations`.
        UnreachableError: No answer.
    """
    answer = await session.call("ec2", "describe_capacity_reservations", CapacityReservationIds=[reservation_id])
    for entry in answer.get("CapacityReservations") or ():
        return Reservation(
            id=one_line(str(entry.get("CapacityReservationId", ""))),
            state=one_line(str(entry.get("State", ""))),
            instance_type=one_line(str(entry.get("InstanceType", ""))),
            zone=one_line(str(entry.get("AvailabilityZone", ""))),
            total=int(entry.get("TotalInstanceCount") or 0),
            available=int(entry.get("AvailableInstanceCount") or 0),
            ends_at=_end_of_block(entry),
        )
    raise MissingError(f"There is no capacity reservation {reservation_id}.")


def _end_of_block(entry: Mapping[str, object]) -> float | None:
    end = entry.get("EndDate")
    is_block = entry.get("ReservationType") == "capacity-block"
    return end.timestamp() if is_block and isinstance(end, datetime) else None


ALL_PROTOCOLS = "-1"
DESCRIPTION = "EFA: all protocols between nodes"


class Direction(StrEnum):
    """The direction of the traffic that a rule allows."""

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
