"""The capacity stage: the zone of the nodes and their reservation, before anything is paid for. Changes nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

from actions.base.errors import ConfigError, MissingError
from actions.blueprint.checks import QuotaCheck
from actions.blueprint.parameters import holds
from actions.blueprint.stages import CapacityStage
from actions.cloud.ec2 import Reservation, fetch_reservation
from actions.run.checks.capacity import (
    Capacity,
    CapacityRequest,
    begins_at,
    check_reservation,
    describe_time,
    find_capacity,
    stage_request,
)
from actions.run.checks.external import aws_session
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.stages.check import run_quota_check, shell_command
from actions.run.state.records import CheckResult, StageFinding

_LOOK_SECONDS = 60.0
"""The longest time between two looks at a reservation that has not begun: it may be cancelled meanwhile."""


class CapacityHandler:
    """The capacity stage: chooses a zone, waits for a reservation that begins late, compares quotas with their use."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declared(CapacityStage)
        self._quotas = [quota for quota in self._stage.quotas if holds(quota.when, context.binding)]

    def describe(self) -> list[str]:
        request = self._request()
        kind = f"Name=instance-type,Values={request.instance_type}"
        lines = [
            f"aws ec2 describe-instance-type-offerings --location-type availability-zone-id --filters {kind}",
            *(shell_command(quota, self._context.namespace) for quota in self._quotas),
        ]
        if request.reservation:
            lines.insert(0, f"aws ec2 describe-capacity-reservations --capacity-reservation-ids {request.reservation}")
        return lines[:1] if self._stage.is_awaited else lines

    async def probe(self) -> Performed | None:
        return None  # asking again is cheap, and the answer may have changed

    async def perform(self) -> Performed:
        try:
            return await (self._awaited() if self._stage.is_awaited else self._chosen())
        except (ConfigError, MissingError) as error:
            raise StageFailedError(error.message, hint=error.hint) from error

    async def undo(self) -> str:
        return "A choice of capacity changes nothing."

    async def _chosen(self) -> Performed:
        request = self._request()
        if request.reservation:
            await self._wait(request, lead=timedelta(hours=self._stage.lead_hours))
        found = await self._find(request)
        findings = (self._place(found), *[await self._compared(quota) for quota in self._quotas])
        for finding, quota in zip(findings[1:], self._quotas, strict=True):
            if finding.result is CheckResult.FAILED and quota.is_required:
                raise StageFailedError(f"{finding.subject}: {finding.detail}", findings=findings, hint=finding.fix)
        zone = found.zone
        known = {
            "zone": zone.name if zone else "",
            "zone_id": zone.id if zone else "",
            "placement_group": found.placement_group,
        }
        outputs = {name: known[name] for name in self._stage.outputs}
        return Performed(_with_warnings(found.detail, findings), outputs=outputs, findings=findings)

    async def _awaited(self) -> Performed:
        request = self._request()
        if not request.reservation:
            return Performed("No reservation is named.")
        found = await self._wait(request, lead=timedelta(0))
        return Performed(f"The reservation {found.id} is active. {describe_time(found, now=self._now())}".rstrip())

    async def _wait(self, request: CapacityRequest, *, lead: timedelta) -> Reservation:
        """Wait until a reservation is active, or begins within `lead`.

        Raises:
            ConfigError: It cannot be used.
            MissingError: It does not exist.
        """
        while True:
            found = await self._reservation(request)
            begin = begins_at(found)
            check_reservation(found, request, now=self._now())
            if found.state == "active" or (lead and begin is not None and begin - lead <= self._now()):
                return found
            if lead and begin is None:
                return found  # it names no begin: the next stage that needs it waits
            until = describe_time(found, now=self._now()) or f"It is {found.state}."
            paid = " Nothing is paid for until then." if lead else ""
            self._context.journal.note(f"Waiting for the reservation {found.id}. {until}{paid}")
            await self._context.clock.sleep(self._pause(begin - lead if begin else None))

    def _pause(self, until: datetime | None) -> float:
        """Return the seconds to the next look: at the moment that is waited for, but within a minute."""
        left = _LOOK_SECONDS if until is None else (until - self._now()).total_seconds() + 1.0
        return min(_LOOK_SECONDS, max(1.0, left))

    async def _reservation(self, request: CapacityRequest) -> Reservation:
        async def ask() -> Reservation:
            async with aws_session(request.region) as session:
                return await fetch_reservation(session, request.reservation)

        return await retry_unreachable(ask, clock=self._context.clock, note=self._context.journal.note)

    async def _find(self, request: CapacityRequest) -> Capacity:
        async def ask() -> Capacity:
            async with aws_session(request.region) as session:
                return await find_capacity(session, request, now=self._now())

        return await retry_unreachable(ask, clock=self._context.clock, note=self._context.journal.note)

    async def _compared(self, quota: QuotaCheck) -> StageFinding:
        found = await run_quota_check(self._context, quota)
        fix = "" if found.result is CheckResult.PASSED else quota.hint
        return StageFinding(found.result, quota.title, found.detail, fix)

    def _place(self, found: Capacity) -> StageFinding:
        result = CheckResult.UNKNOWN if found.unknown else CheckResult.PASSED
        return StageFinding(result, "zone", f"{found.detail} {found.unknown}".rstrip(), "")

    def _request(self) -> CapacityRequest:
        return stage_request(self._stage, self._context.view.cluster.region, self._context.text)

    def _now(self) -> datetime:
        return self._context.clock.now()


def _with_warnings(detail: str, findings: tuple[StageFinding, ...]) -> str:
    others = [finding.subject for finding in findings[1:] if finding.result is not CheckResult.PASSED]
    return f"{detail} Not passed: {', '.join(others)}." if others else detail
