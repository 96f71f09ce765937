"""EC2's answers about capacity: zones, the instance types that they offer, reservations, running instances.

A reservation exists under every id of the right form; its first digit selects the instance type. One whose id ends in
`5c` is scheduled and begins a few seconds after the account, one that ends in `b1` is a capacity block.

Source: botocore's service model `ec2` (2016-11-15); compared by calling it with boto3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from xml.sax.saxutils import escape

from actions.base.clock import Clock
from actions.fleet.instance_types import InstanceTable
from actions.sandbox.model.account import NodeGroups

Form = Mapping[str, str]

_RESERVATION = re.compile(r"^cr-([0-9a-f])[0-9a-f]{16}$")
_RESERVED_TYPES = ("p4de.24xlarge", "p5.48xlarge", "trn1.32xlarge", "g5.8xlarge")
_RESERVED_COUNT = 16
_SCHEDULED_SECONDS = 3.0
_BLOCK = timedelta(days=1)
_ZONES = {"a": 2, "b": 1, "c": 3, "d": 4}
"""Number of the zone's id by the letter of its name: an account has them in an order of its own."""
_WITHOUT_ACCELERATORS = "d"
"""The zone that offers no accelerated type."""


class ApiCallError(Exception):
    """An error answer to the call: a code of EC2 and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


SIGNED_REGION = "signed-region"
"""The key of a form under which the region stands that the request was signed for."""


class AccountCapacity:
    """The capacity of the account, in any region.

    Args:
        groups: The node groups, whose nodes are the account's instances.
        clock: The begin and end of reservations follow from it.
    """

    def __init__(self, groups: NodeGroups, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock
        self._began = clock.now()

    def calls(self) -> Mapping[str, Callable[[Form], str]]:
        """The calls that it answers, by action."""
        return {
            "DescribeAvailabilityZones": self._zones,
            "DescribeInstanceTypeOfferings": self._offerings,
            "DescribeCapacityReservations": self._reservations,
            "DescribeInstances": self._instances,
            "DescribeAddresses": lambda _: "<addressesSet/>",
            "DescribeVpcs": lambda _: "<vpcSet/>",
        }

    def _zones(self, form: Form) -> str:
        region = form[SIGNED_REGION]
        items = "".join(
            f"<item><zoneName>{region}{letter}</zoneName><zoneId>{_zone_id(region, letter)}</zoneId>"
            f"<zoneState>available</zoneState><regionName>{region}</regionName>"
            f"<optInStatus>opt-in-not-required</optInStatus><zoneType>availability-zone</zoneType></item>"
            for letter in _ZONES
        )
        return f"<availabilityZoneInfo>{items}</availabilityZoneInfo>"

    def _offerings(self, form: Form) -> str:
        wanted = [
            name
            for n in numbers_of(form, "Filter")
            if form.get(f"Filter.{n}.Name") == "instance-type"
            for name in values_of(form, f"Filter.{n}.Value")
        ]
        region, by_id = form[SIGNED_REGION], form.get("LocationType") == "availability-zone-id"
        kinds = InstanceTable.load()
        items = "".join(
            f"<item><instanceType>{escape(name)}</instanceType><locationType>{escape(form.get('LocationType', ''))}"
            f"</locationType><location>{_zone_id(region, letter) if by_id else region + letter}</location></item>"
            for name in wanted
            if (kind := kinds.find(name)) is not None
            for letter in _ZONES
            if letter != _WITHOUT_ACCELERATORS or not kind.accelerators
        )
        return f"<instanceTypeOfferingSet>{items}</instanceTypeOfferingSet>"

    def _reservations(self, form: Form) -> str:
        wanted = values_of(form, "CapacityReservationId")
        items = "".join(self._reservation(reservation_id, form[SIGNED_REGION]) for reservation_id in wanted)
        return f"<capacityReservationSet>{items}</capacityReservationSet>"

    def _reservation(self, reservation_id: str, region: str) -> str:
        match = _RESERVATION.match(reservation_id)
        if match is None:
            message = f"The capacity reservation '{reservation_id}' does not exist"
            raise ApiCallError("InvalidCapacityReservationId.NotFound", message)
        name = _RESERVED_TYPES[int(match[1], 16) % len(_RESERVED_TYPES)]
        is_block = reservation_id.endswith("b1")
        begin = self._began + timedelta(seconds=_SCHEDULED_SECONDS if reservation_id.endswith("5c") else 0)
        has_begun = begin <= self._clock.now()
        end = f"<endDate>{_iso(begin + _BLOCK)}</endDate>" if is_block else ""
        kind = "capacity-block" if is_block else "default"
        return (
            f"<item><capacityReservationId>{reservation_id}</capacityReservationId><instanceType>{name}</instanceType>"
            f"<availabilityZone>{region}a</availabilityZone>"
            f"<availabilityZoneId>{_zone_id(region, 'a')}</availabilityZoneId>"
            f"<totalInstanceCount>{_RESERVED_COUNT}</totalInstanceCount>"
            f"<availableInstanceCount>{_RESERVED_COUNT if has_begun else 0}</availableInstanceCount>"
            f"<state>{'active' if has_begun else 'scheduled'}</state><startDate>{_iso(begin)}</startDate>{end}"
            f"<reservationType>{kind}</reservationType></item>"
        )

    def _instances(self, form: Form) -> str:
        """The nodes of the groups. They are in the VPC of the account's cluster, and in none that a run has made."""
        if any(form[f"Filter.{n}.Name"] == "vpc-id" for n in numbers_of(form, "Filter")):
            return "<reservationSet/>"
        items = "".join(
            f"<item><instanceId>{escape(node)}</instanceId><instanceType>{escape(group.instance_type)}</instanceType>"
            f"<instanceState><code>16</code><name>running</name></instanceState>{_lifecycle(group.capacity_type)}</item>"
            for group in self._groups
            for node in group.nodes
        )
        return f"<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>"


def _zone_id(region: str, letter: str) -> str:
    """Return the id of a zone: `usw2-az2` of us-west-2a, `apse2-az2` of ap-southeast-2a."""
    area, *directions, number = region.split("-")
    initials = "".join(word[0] for word in re.findall("north|south|east|west|central|gov", "".join(directions)))
    return f"{area}{initials}{number}-az{_ZONES[letter]}"


def _lifecycle(capacity_type: str) -> str:
    kinds = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
    return f"<instanceLifecycle>{kinds[capacity_type]}</instanceLifecycle>" if capacity_type in kinds else ""


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


def numbers_of(form: Form, prefix: str) -> list[int]:
    """The numbers that members of a list carry: `Filter.1.Name`, `Filter.2.Name`."""
    found = {key[len(prefix) + 1 :].partition(".")[0] for key in form if key.startswith(f"{prefix}.")}
    return sorted(int(number) for number in found if number.isdigit())


def values_of(form: Form, prefix: str) -> list[str]:
    """The texts of a list, in its order."""
    return [form[f"{prefix}.{number}"] for number in numbers_of(form, prefix) if f"{prefix}.{number}" in form]
