"""EC2 capacity reservations: whether one is open for so many instances of a type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from actions.base.errors import MissingError
from actions.base.untrusted import one_line
from actions.cloud.session import AwsSession


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
    """Of a capacity block: seconds since the epoch. `None` for others, whose instances go on after their end."""


async def fetch_reservation(session: AwsSession, reservation_id: str) -> Reservation:
    """What EC2 says of a reservation.

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
