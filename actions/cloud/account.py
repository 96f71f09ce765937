"""One AWS account: the caller's identity, secret texts, and resources that carry a tag."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from actions.base.clock import parse_rfc3339
from actions.base.errors import FormatError
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession, pages, profile_chain


class CallerIdentity(msgspec.Struct, frozen=True):
    """The caller's identity, from STS."""

    account: str
    """Twelve digits."""
    arn: str
    region: str
    """Empty if none is configured."""
    profile: str
    """Empty if the environment decides."""
    expires_at: datetime | None
    """Aware, UTC; `None` for credentials that do not expire, or without a known expiry."""
    ends_at: datetime | None = None
    """The expiry of credentials that are not renewed by themselves: a login is needed by then. `None` if unknown."""

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn`, `aws-us-gov`…; empty if STS gave no ARN."""
        return self.arn.split(":")[1] if self.arn.startswith("arn:") else ""


async def fetch_identity(session: AwsSession) -> CallerIdentity:
    """Fetch the caller's identity from STS. The call needs no permission.

    Raises:
        AccessError: There are no valid credentials.
        UnreachableError: No answer.
        ConfigError: No such profile, or no region.
    """
    answer = await session.call("sts", "get_caller_identity")
    expires_at = await session.offload(lambda: _expiry_of(session.raw().get_credentials()), action="credentials")
    ends_at = await session.offload(lambda: _end_of(session), action="credentials")
    return CallerIdentity(
        account=one_line(str(answer.get("Account", ""))),
        arn=one_line(str(answer.get("Arn", ""))),
        region=await session.region(),
        profile=session.profile,
        expires_at=expires_at,
        ends_at=ends_at,
    )


async def fetch_end(session: AwsSession) -> datetime | None:
    """Return the time by which a login is needed, from the environment and files alone; `None` if unknown.

    Raises:
        AccessError: The profile asks for an MFA code, or its login is missing.
        ConfigError: No such profile, or a file that cannot be read.
    """
    return await session.offload(lambda: _end_of(session), action="credentials")


def end_sentence(ends_at: datetime | None, *, seconds: float, now: datetime) -> str:
    """Return the warning that credentials end before a run does; empty if they do not, or if that is unknown.

    Args:
        ends_at: The time by which a login is needed.
        seconds: Longest expected duration of what is left of the run.
        now: Aware.
    """
    if ends_at is None or (ends_at - now).total_seconds() >= seconds:
        return ""
    if ends_at <= now:
        return "The AWS credentials have expired. Log in before the launch."
    return (
        f"The AWS credentials end at {ends_at:%H:%M} UTC, before the run may: stages that need AWS after that fail, "
        "and retry after a login continues them. Log in again first, or use a role that renews itself."
    )


def _end_of(session: AwsSession) -> datetime | None:
    """Return the end of credentials that no program renews: exported ones, and a login without a refresh token.

    Source: AWS SDKs, `AWS_CREDENTIAL_EXPIRATION`; botocore 1.40 `SSOTokenLoader`, whose cache has one file a login.
    """
    session.raw()
    if os.environ.get("AWS_ACCESS_KEY_ID") and not session.profile:
        return _exported_expiry()
    core = session.core()
    chain = profile_chain(core)
    settings = chain[-1][1] if chain else {}
    name = str(settings.get("sso_session") or "")
    login = {**core.full_config.get("sso_sessions", {}).get(name, {}), **settings}
    if not login.get("sso_start_url"):
        return None
    from botocore.utils import JSONFileCache, SSOTokenLoader

    folder = os.path.expanduser(os.path.join("~", ".aws", "sso", "cache"))
    token = SSOTokenLoader(JSONFileCache(folder))(login["sso_start_url"], name or None)
    try:
        return None if token.get("refreshToken") else parse_rfc3339(str(token["expiresAt"]))
    except ValueError:
        return None


def _expiry_of(credentials: Any) -> datetime | None:
    # botocore keeps the moment in a private field and offers no other way to it; absent, it is unknown.
    moment = getattr(credentials, "_expiry_time", None)
    return moment.astimezone(UTC) if isinstance(moment, datetime) else _exported_expiry()


def _exported_expiry() -> datetime | None:
    try:
        return parse_rfc3339(os.environ["AWS_CREDENTIAL_EXPIRATION"])
    except (KeyError, ValueError):
        return None


async def fetch_secret(session: AwsSession, name: str) -> str:
    """The current value of a secret.

    Args:
        session: In the region of the secret.
        name: Its name or ARN.

    Raises:
        MissingError: There is none of that name.
        AccessError: No right for `secretsmanager:GetSecretValue`.
        UnreachableError: No answer.
        FormatError: It holds bytes, not a text.
    """
    answer = await session.call("secretsmanager", "get_secret_value", SecretId=name)
    value = answer.get("SecretString")
    if not isinstance(value, str) or not value.strip():
        raise FormatError(f"The secret {name} holds no text.", hint="Store it as a text in Secrets Manager.")
    return value.strip()


async def fetch_tagged(session: AwsSession, tags: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Fetch the ARNs of everything in the session's region that carries all of some tags, sorted.

    The API lists deleted resources for a while, and does not cover every kind of resource: no IAM role, and nothing
    that was never tagged.

    Args:
        session: In the region.
        tags: The values of each tag, one of which a resource has; none for any value.

    Raises:
        AccessError: No right for `tag:GetResources`.
        UnreachableError: No answer.
    """
    filters = [{"Key": key, "Values": list(values)} for key, values in tags.items()]
    found: set[str] = set()
    async for answer in pages(session, "resourcegroupstaggingapi", "get_resources", TagFilters=filters):
        entries = answer.get("ResourceTagMappingList") or ()
        found |= {one_line(str(entry.get("ResourceARN", ""))) for entry in entries}
    return tuple(sorted(found))
