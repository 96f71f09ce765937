"""F30: capacity that is taken away is told with the time that is left, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actions.base.errors import ConfigError
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Zone, fetch_reservation
from actions.run.checks.capacity import CapacityRequest, check_reservation, describe_reservation
from actions.run.state.records import CheckResult
from tests.unit.diagnose.samples import an_event, why

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Answering(AwsSession):
    """EC2 with one reservation."""

    def __init__(self, **entry: object) -> None:
        super().__init__(region="us-west-2")
        self._entry = {
            "CapacityReservationId": "cr-1",
            "State": "active",
            "InstanceType": "p5.48xlarge",
            "AvailabilityZone": "us-west-2b",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2,
            **entry,
        }

    async def call(self, service: str, operation: str, *, region: str = "", **parameters: object) -> dict[str, Any]:
        return {"CapacityReservations": [self._entry]}


async def seen(hours: float, *, kind: str = "capacity-block") -> tuple[CheckResult, str]:
    found = await fetch_reservation(Answering(EndDate=NOW + timedelta(hours=hours), ReservationType=kind), "cr-1")
    request = CapacityRequest(region="us-west-2", instance_type="p5.48xlarge", count=2, reservation="cr-1")
    try:
        check_reservation(found, request, now=NOW)
    except ConfigError as error:
        return CheckResult.FAILED, error.message
    return CheckResult.PASSED, describe_reservation(found, Zone(found.zone, found.zone_id), now=NOW)


async def test_f30_a_capacity_block_says_when_its_instances_end_half_an_hour_before_it_does() -> None:
    result, said = await seen(26.5)
    assert result is CheckResult.PASSED
    assert "from 2026-11-22 14:00 UTC on, in 1d02h: save checkpoints before" in said


@pytest.mark.parametrize("hours", [0.5, 0.1, -3])
async def test_f30_a_block_in_its_last_half_hour_is_none(hours: float) -> None:
    result, said = await seen(hours)
    assert result is CheckResult.FAILED
    assert "EC2 has been terminating its instances since" in said


async def test_f30_instances_of_other_reservations_go_on_after_its_end() -> None:
    result, said = await seen(0.1, kind="default")
    assert (result, "ends its instances" in said) == (CheckResult.PASSED, False)


def test_f30_a_spot_instance_that_is_reclaimed_is_told_with_its_two_minutes_and_what_to_do() -> None:
    event = an_event("SpotInterrupted", "Spot interruption warning was triggered", "n1", kind="Node")
    finding = why({"events": [event]})[0]
    assert finding.code.value == "SPOT_INTERRUPTED"
    assert "two minutes after the warning" in finding.headline
    assert "last checkpoint" in finding.next_step
