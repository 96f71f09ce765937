"""What an account holds with a tag, as the resource groups tagging API lists it."""

from __future__ import annotations

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
