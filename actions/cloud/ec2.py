"""EC2: zones and what they offer, capacity reservations, and the security group rule that EFA needs.

That rule opens a group to itself, both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from actions.base.errors import ConflictError, MissingError
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession, pages


class Reservation(msgspec.Struct, frozen=True):
    """A capacity reservation or capacity block. Times are seconds since the epoch."""

    id: str
    state: str
    """`active`, `scheduled`, `expired`, `cancelled`, `pending`, `failed`…"""
    instance_type: str
    zone: str
    total: int
    available: int
    ends_at: float | None = None
    """The end of a capacity block. `None` for others: their instances outlive them."""
    zone_id: str = ""
    """`usw2-az4`: the same place in every account, which a zone's name is not."""
    starts_at: float | None = None
    """The begin of a capacity block, and of a reservation for a date. `None` for one that began when it was made."""
    placement_group: str = ""
    """Name of the cluster placement group that it was made in; empty for none."""


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
            zone_id=one_line(str(entry.get("AvailabilityZoneId") or "")),
            starts_at=_time(entry.get("StartDate")),
            placement_group=one_line(str(entry.get("PlacementGroupArn") or "")).rpartition("/")[2],
        )
    raise MissingError(f"There is no capacity reservation {reservation_id}.")


def _end_of_block(entry: Mapping[str, object]) -> float | None:
    return _time(entry.get("EndDate")) if entry.get("ReservationType") == "capacity-block" else None


def _time(value: object) -> float | None:
    return value.timestamp() if isinstance(value, datetime) else None


class Zone(msgspec.Struct, frozen=True):
    """An availability zone of a region: no local zone, no Wavelength zone."""

    name: str
    """`us-west-2d`: another place in another account."""
    id: str
    """`usw2-az4`: the same place in every account."""

    def describe(self) -> str:
        """Return name and id, as `us-west-2d (usw2-az4)`."""
        return f"{self.name} ({self.id})" if self.id else self.name


async def fetch_zones(session: AwsSession) -> list[Zone]:
    """The region's zones that the account can use, by name.

    Raises:
        AccessError: No right for `ec2:DescribeAvailabilityZones`.
        UnreachableError: No answer.
    """
    filters = [
        {"Name": "state", "Values": ["available"]},
        {"Name": "opt-in-status", "Values": ["opt-in-not-required"]},
    ]
    answer = await session.call("ec2", "describe_availability_zones", Filters=filters)
    zones = [
        Zone(one_line(str(entry.get("ZoneName", ""))), one_line(str(entry.get("ZoneId", ""))))
        for entry in answer.get("AvailabilityZones") or ()
    ]
    return sorted(zones, key=lambda zone: zone.name)


async def fetch_offering_zones(session: AwsSession, instance_type: str) -> frozenset[str]:
    """The ids of the zones that offer an instance type. What is free there is not known.

    Raises:
        AccessError: No right for `ec2:DescribeInstanceTypeOfferings`.
        UnreachableError: No answer.
    """
    found: set[str] = set()
    async for answer in pages(
        session,
        "ec2",
        "describe_instance_type_offerings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    ):
        found |= {str(entry.get("Location", "")) for entry in answer.get("InstanceTypeOfferings") or ()}
    return frozenset(found)


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
    of_group = [{"Name": "group-id", "Values": [group]}]
    async for answer in pages(session, "ec2", "describe_security_group_rules", Filters=of_group):
        found += [_rule(entry) for entry in answer.get("SecurityGroupRules") or () if _is_self_rule(entry, group)]
    return found


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
