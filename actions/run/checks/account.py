"""Checks of the AWS account: quotas, capacity reservations, images in ECR."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from actions.base.errors import ConsoleError, MissingError
from actions.blueprint.checks import QuotaCheck
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Reservation, fetch_reservation
from actions.cloud.ecr import Repository, fetch_digest
from actions.run.checks.seen import Seen, failed, passed, unknown

CAPACITY_BLOCK = "CAPACITY_BLOCK"
BLOCK_ENDS_EARLY = timedelta(minutes=30)
"""Source: EC2 user guide, Capacity Blocks for ML: instances are terminated from 30 minutes before the end on."""


@asynccontextmanager
async def aws_session(region: str) -> AsyncIterator[AwsSession]:
    """A session for a few calls."""
    session = AwsSession(region=region, threads=1)
    try:
        yield session
    finally:
        session.close()


async def see_quota(check: QuotaCheck, *, region: str, wanted: float) -> Seen:
    """Whether a service quota is at least `wanted`."""
    async with aws_session(region) as session:
        try:
            answer = await session.call(
                "service-quotas", "get_service_quota", ServiceCode=check.service, QuotaCode=check.code
            )
            found = float(answer["Quota"]["Value"])
        except (ConsoleError, KeyError) as error:
            return unknown(f"The quota {check.code} cannot be looked up: {error}")
    said = f"The quota is {found:g}, {wanted:g} wanted."
    return passed(said) if found >= wanted else failed(said)


async def see_capacity(
    *, region: str, capacity_type: str, reservation_id: str, instance_type: str, count: int, now: datetime
) -> Seen:
    """Whether the reservation that is named has room, and whether one is named where it must be."""
    if not reservation_id:
        if capacity_type == CAPACITY_BLOCK:
            return failed("A capacity block needs the id of its reservation.")
        return passed(f"{capacity_type}, without a reservation.")
    async with aws_session(region) as session:
        try:
            found = await fetch_reservation(session, reservation_id)
        except MissingError as error:
            return failed(error.message)
        except ConsoleError as error:
            return unknown(f"The reservation {reservation_id} cannot be looked up: {error.message}")
    return reservation_seen(found, instance_type=instance_type, count=count, now=now)


def reservation_seen(found: Reservation, *, instance_type: str, count: int, now: datetime) -> Seen:
    """The verdict on a reservation. The instances of a capacity block end half an hour before it does."""
    if found.state != "active":
        return failed(f"The reservation {found.id} is {found.state}.")
    if found.instance_type != instance_type:
        return failed(f"The reservation {found.id} is for {found.instance_type}, not {instance_type}.")
    if found.available < count:
        return failed(f"The reservation {found.id} has {found.available} of {found.total} left, {count} wanted.")
    said = f"The reservation {found.id} has {found.available} × {instance_type} in {found.zone}"
    if found.ends_at is None:
        return passed(f"{said}.")
    last = datetime.fromtimestamp(found.ends_at, UTC) - BLOCK_ENDS_EARLY
    if last <= now:
        return failed(f"The reservation {found.id} is over: EC2 ends its instances since {last:%Y-%m-%d %H:%M} UTC.")
    hours, minutes = divmod(int((last - now).total_seconds()) // 60, 60)
    return passed(
        f"{said}. EC2 ends its instances from {last:%Y-%m-%d %H:%M} UTC on, in {hours} h {minutes} min:"
        " save checkpoints before."
    )


async def see_ecr_image(repository: Repository, reference: str) -> Seen:
    """Whether an image, by its tag or digest, is in ECR."""
    async with aws_session(repository.region) as session:
        try:
            digest = await fetch_digest(session, repository, reference)
        except ConsoleError as error:
            return unknown(f"ECR cannot be asked: {error.message}")
    if digest is None:
        return failed(f"{repository.url} has no image {reference}.")
    if digest == reference:
        return passed(f"{repository.name} has {digest[:19]}….")
    return passed(f"{repository.name}:{reference} is {digest[:19]}….")
