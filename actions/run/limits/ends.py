"""The ends that limits refer to: of the AWS credentials of this process, and of a run's capacity block."""

from __future__ import annotations

import asyncio

from actions.base.errors import ConsoleError, MissingError
from actions.cloud.account import fetch_end
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import fetch_reservation
from actions.run.state.records import EndsKnown, Limits

FETCH_SECONDS = 30.0
"""The longest time for both."""
UNNAMED_CREDENTIALS = "The end of the AWS credentials is not known: a program may renew them."
NO_RESERVATION = "The run names no capacity reservation, so no end of a capacity block is known."


async def fetch_ends(
    limits: Limits, known: EndsKnown, *, region: str, reservation: str, has_account: bool = False
) -> EndsKnown:
    """Return the ends that the limits of a run refer to. An end that cannot be fetched now stays as it was known.

    Args:
        limits: Only what these refer to is fetched, and said to be missing.
        known: As found before.
        region: Of the run.
        reservation: Id of the run's capacity reservation; empty for none.
        has_account: The run works in an account: the end of its credentials is an alarm, too.
    """
    missing: list[str] = []
    credentials = capacity = None
    session = AwsSession(region=region, threads=1)
    try:
        if limits.credentials_end or has_account:
            unsaid = missing if limits.credentials_end else []
            credentials = await _credentials_end(session, known.credentials_end, unsaid)
        if limits.capacity_end:
            capacity = await _capacity_end(session, reservation, known.capacity_end, missing)
    finally:
        session.close()
    return EndsKnown(credentials, capacity, tuple(missing))


async def _credentials_end(session: AwsSession, known: float | None, missing: list[str]) -> float | None:
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            end = await fetch_end(session)
    except (ConsoleError, TimeoutError) as error:
        if known is None:
            missing.append(f"The end of the AWS credentials could not be read: {_reason(error)}")
        return known
    if end is None:
        missing.append(UNNAMED_CREDENTIALS)
        return None
    return end.timestamp()


async def _capacity_end(session: AwsSession, reservation: str, known: float | None, missing: list[str]) -> float | None:
    if not reservation:
        missing.append(NO_RESERVATION)
        return None
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            found = await fetch_reservation(session, reservation)
    except MissingError as error:
        missing.append(error.message)
        return known
    except (ConsoleError, TimeoutError) as error:
        if known is None:
            missing.append(f"The reservation {reservation} could not be looked up: {_reason(error)}")
        return known
    if found.ends_at is None:
        missing.append(f"The reservation {reservation} is not a capacity block: its instances outlive it.")
    return found.ends_at


def _reason(error: ConsoleError | TimeoutError) -> str:
    return error.message if isinstance(error, ConsoleError) else f"no answer within {FETCH_SECONDS:.0f} s."
