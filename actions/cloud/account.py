"""One AWS account: the caller's identity, secret texts, and resources that carry a tag."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import msgspec

from actions.base.clock import parse_rfc3339
from actions.base.errors import FormatError, MissingError
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession


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


async def fetch_tagged(session: AwsSession, key: str, value: str) -> tuple[str, ...]:
    """Fetch the ARNs of everything in the session's region that carries the tag, sorted.

    The API lists deleted resources for a while, and does not cover every kind of resource.

    Raises:
        AccessError: No right for `tag:GetResources`.
        UnreachableError: No answer.
    """
    found: set[str] = set()
    token = ""
    while True:
        answer = await session.call(
            "resourcegroupstaggingapi",
            "get_resources",
            TagFilters=[{"Key": key, "Values": [value]}],
            PaginationToken=token,
        )
        entries = answer.get("ResourceTagMappingList") or ()
        found |= {one_line(str(entry.get("ResourceARN", ""))) for entry in entries}
        token = str(answer.get("PaginationToken") or "")
        if not token:
            return tuple(sorted(found))


async def is_still_there(session: AwsSession, arn: str) -> bool:
    """Return whether a resource that the tagging API lists still exists.

    EC2 shows terminated instances and deleted NAT gateways for an hour, KMS keys wait for days to be deleted. Other
    kinds count as existing.

    Raises:
        AccessError: No right to describe it.
        UnreachableError: No answer.
    """
    kind, _, name = arn.rpartition(":")[2].partition("/")
    try:
        if kind == "instance":
            answer = await session.call("ec2", "describe_instances", InstanceIds=[name])
            found = [item for group in answer.get("Reservations") or () for item in group.get("Instances") or ()]
            return any((item.get("State") or {}).get("Name") != "terminated" for item in found)
        if kind == "natgateway":
            answer = await session.call("ec2", "describe_nat_gateways", NatGatewayIds=[name])
            return any(item.get("State") != "deleted" for item in answer.get("NatGateways") or ())
        if kind == "key":
            answer = await session.call("kms", "describe_key", KeyId=arn)
            return (answer.get("KeyMetadata") or {}).get("KeyState") != "PendingDeletion"
    except MissingError:
        return False
    return True
