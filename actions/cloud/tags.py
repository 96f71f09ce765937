"""What an account holds with a tag, as the resource groups tagging API lists it."""

from __future__ import annotations

from actions.base.errors import MissingError
from actions.base.untrusted import one_line
from actions.cloud.session import AwsSession


async def fetch_tagged(session: AwsSession, key: str, value: str) -> tuple[str, ...]:
    """ARNs of everything in the session's region that carries the tag, sorted.

    The API forgets what was deleted only after a while, and does not know of every kind of resource.

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
    """Whether a resource that the tagging API lists is more than a memory of one.

    EC2 shows terminated instances and deleted NAT gateways for an hour, KMS keys wait for days to be deleted. Other
    kinds are believed.

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
