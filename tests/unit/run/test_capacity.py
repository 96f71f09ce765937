"""The choice of a zone and what is known of a reservation, from EC2's answers; nothing is asked here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.errors import AccessError, ConfigError
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Reservation, Zone
from actions.run.checks.capacity import (
    CapacityRequest,
    check_reservation,
    choose_zone,
    describe_time,
    find_capacity,
    require_reservation,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ZONES = [
    Zone(f"us-east-1{letter}", f"use1-az{number}") for letter, number in zip("abcde", (4, 6, 1, 2, 3), strict=True)
]
EVERYWHERE = frozenset(zone.id for zone in ZONES)
REQUEST = CapacityRequest(region="us-east-1", instance_type="p5.48xlarge", count=2)
RESERVATION = Reservation("cr-1", "active", "p5.48xlarge", "us-east-1c", 2, 2, zone_id="use1-az1")


def chosen(zone: str, offering: frozenset[str] = EVERYWHERE, reservation: Reservation | None = None) -> str:
    return choose_zone(replace(REQUEST, zone=zone), ZONES, offering, reservation).name


@pytest.mark.parametrize("auto", ["auto", ""])
def test_auto_takes_the_first_zone_that_offers_the_type(auto: str) -> None:
    assert chosen(auto) == "us-east-1a"
    assert chosen(auto, frozenset({"use1-az6", "use1-az2"})) == "us-east-1b"


def test_auto_takes_the_zone_of_the_reservation() -> None:
    assert chosen("auto", reservation=RESERVATION) == "us-east-1c"


@pytest.mark.parametrize("text", ["us-east-1d", "use1-az2"])
def test_a_zone_is_named_by_name_or_by_id(text: str) -> None:
    assert chosen(text) == "us-east-1d"


def test_a_zone_in_which_eks_takes_no_subnets_is_never_chosen() -> None:
    assert chosen("auto", frozenset({"use1-az3", "use1-az2"})) == "us-east-1d"
    with pytest.raises(ConfigError, match=r"EKS takes no subnets in us-east-1e \(use1-az3\).*us-east-1a \(use1-az4\)"):
        chosen("use1-az3")
    with pytest.raises(ConfigError, match="No zone of us-east-1 that EKS can use offers"):
        chosen("auto", frozenset({"use1-az3"}))


def test_a_zone_without_the_type_is_refused_with_those_that_have_it() -> None:
    with pytest.raises(ConfigError) as refused:
        chosen("us-east-1a", frozenset({"use1-az6", "use1-az1"}))
    assert refused.value.message == (
        "us-east-1a (use1-az4) does not offer p5.48xlarge: "
        "it is offered in us-east-1b (use1-az6), us-east-1c (use1-az1)."
    )


def test_a_zone_of_another_region_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"us-east-1 has no zone us-west-2a; .* offered in us-east-1a"):
        chosen("us-west-2a")


def test_a_zone_that_is_not_the_reservations_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cr-1 is in us-east-1c \(use1-az1\), not in us-east-1a \(use1-az4\)"):
        chosen("us-east-1a", reservation=RESERVATION)


def test_a_reservation_in_a_zone_that_eks_cannot_use_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"EKS takes no subnets in us-east-1e"):
        chosen("auto", reservation=replace(RESERVATION, zone="us-east-1e", zone_id="use1-az3"))


def test_a_reservation_that_has_not_begun_fits_by_its_places_and_tells_its_times() -> None:
    begin, end = NOW + timedelta(days=5), NOW + timedelta(days=6)
    block = replace(RESERVATION, state="scheduled", available=0, starts_at=begin.timestamp(), ends_at=end.timestamp())
    check_reservation(block, REQUEST, now=NOW)
    assert describe_time(block, now=NOW) == (
        "It begins on 2026-11-27 12:00 UTC, in 5d. "
        "EC2 ends its instances from 2026-11-28 11:30 UTC on, in 5d23h: save checkpoints before."
    )
    assert describe_time(RESERVATION, now=NOW) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"state": "expired"}, "is expired"),
        ({"instance_type": "p4de.24xlarge"}, "is for p4de.24xlarge, not p5.48xlarge"),
        ({"available": 1}, "has 1 of 2 left, 2 required"),
        ({"state": "scheduled", "total": 1}, "has 1 of 1 left, 2 required"),
        ({"ends_at": NOW.timestamp() + 1000}, "has ended: EC2 has been terminating"),
    ],
)
def test_a_reservation_that_does_not_fit_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_reservation(replace(RESERVATION, **changed), REQUEST, now=NOW)


def test_a_capacity_block_needs_its_reservation() -> None:
    with pytest.raises(ConfigError, match="needs the id"):
        require_reservation(replace(REQUEST, capacity_type="CAPACITY_BLOCK"))


class Forbidding(AwsSession):
    """EC2 that shows reservations and nothing else."""

    async def call(self, service: str, operation: str, *, region: str = "", **parameters: object) -> dict[str, Any]:
        if operation != "describe_capacity_reservations":
            raise AccessError(f"AWS refused ec2:{operation}.", hint="Ask for it.")
        entry = {"CapacityReservationId": "cr-1", "State": "active", "InstanceType": "p5.48xlarge"}
        group = "arn:aws:ec2:us-east-1:111122223333:placement-group/close"
        place = {"AvailabilityZone": "us-east-1c", "TotalInstanceCount": 2, "AvailableInstanceCount": 2}
        return {"CapacityReservations": [{**entry, **place, "PlacementGroupArn": group}]}


async def test_without_the_right_to_ask_a_zone_must_be_known() -> None:
    session = Forbidding(region="us-east-1")
    with pytest.raises(AccessError, match=r"cannot be chosen.*") as refused:
        await find_capacity(session, REQUEST, now=NOW)
    assert "zone=us-east-1a" in refused.value.hint
    given = await find_capacity(session, replace(REQUEST, zone="us-east-1b"), now=NOW)
    assert given.zone is not None
    assert (given.zone.name, given.placement_group, given.unknown) != ("", "", "")
    reserved = await find_capacity(session, replace(REQUEST, reservation="cr-1"), now=NOW)
    assert reserved.zone is not None
    assert (reserved.zone.name, reserved.placement_group) == ("us-east-1c", "close")
    assert "AWS refused" in reserved.unknown
