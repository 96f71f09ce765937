"""Who the console is at AWS, and until when."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import msgspec

from actions.base.clock import parse_rfc3339
from actions.base.untrusted import one_line
from actions.cloud.session import AwsSession


class CallerIdentity(msgspec.Struct, frozen=True):
    """The caller as STS knows it."""

    account: str
    """Twelve digits."""
    arn: str
    region: str
    """Empty if none is configured."""
    profile: str
    """Empty if the environment decides."""
    expires_at: datetime | None
    """Aware, UTC; `None` for credentials that do not expire, or do not say."""


async def fetch_identity(session: AwsSession) -> CallerIdentity:
    """Ask STS who we are. The call needs no permission.

    Raises:
        AccessError: There are no valid credentials.
        UnreachableError: Nobody answers.
        ConfigError: No such profile, or no region.
    """
    answer = await session.call("sts", "get_caller_identity")
    expires_at = await session.offload(lambda: _expiry_of(session.raw().get_credentials()), action="credentials")
    return CallerIdentity(
        account=one_line(str(answer.get("Account", ""))),
        arn=one_line(str(answer.get("Arn", ""))),
        region=await session.region(),
        profile=session.profile,
        expires_at=expires_at,
    )


def _expiry_of(credentials: Any) -> datetime | None:
    # botocore keeps the moment in a private field and offers no other way to it; absent, it is unknown.
    moment = getattr(credentials, "_expiry_time", None)
    if isinstance(moment, datetime):
        return moment.astimezone(UTC)
    try:
        return parse_rfc3339(os.environ["AWS_CREDENTIAL_EXPIRATION"])
    except (KeyError, ValueError):
        return None
