"""Names that are unique in an account, and taken already: a launch that needs one would fail when it costs already.

Roles are global: a cluster of the same name in another region has them, too. Repositories and log groups are those of
a region. terraform-aws-eks 20.37 gives the role of Karpenter's nodes the fixed name `CLUSTER-node`; the other roles of
the project's roots have prefixes, and are never taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from actions.base.errors import MissingError
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession, MissingPermissionError


class TakenName(msgspec.Struct, frozen=True):
    """A name that something else has."""

    kind: str
    """`IAM role`, `ECR repository` or `log group`."""
    name: str
    run_id: str = ""
    """The run that has made it, by its tag; empty if it has none, or its tags are not known."""

    def sentence(self) -> str:
        """Return it as a sentence, with the run that has made it."""
        owner = f" by run {self.run_id}" if self.run_id else ""
        return f"The {self.kind} {self.name} exists already{', made' if owner else ''}{owner}."


class NameCheck(msgspec.Struct, frozen=True):
    """The names that are taken, and those that could not be asked for: one sentence each, with the missing right."""

    taken: tuple[TakenName, ...] = ()
    unknown: tuple[str, ...] = ()


async def fetch_taken_names(
    session: AwsSession,
    *,
    tag: str,
    roles: Iterable[str] = (),
    repositories: Iterable[str] = (),
    log_groups: Iterable[str] = (),
) -> NameCheck:
    """Look up which of some names are taken. A missing right makes one kind unknown, and no other.

    Args:
        session: In the region of repositories and log groups.
        tag: The key of the tag that names the run of a resource.
        roles: Names of IAM roles.
        repositories: Names of ECR repositories.
        log_groups: Names of log groups.

    Raises:
        AccessError: There are no valid credentials.
        UnreachableError: No answer.
    """

    async def role(name: str) -> TakenName | None:
        found = (await session.call("iam", "get_role", RoleName=name)).get("Role") or {}
        return TakenName("IAM role", name, _run_of(found.get("Tags"), tag))

    async def repository(name: str) -> TakenName | None:
        await session.call("ecr", "describe_repositories", repositoryNames=[name])
        return TakenName("ECR repository", name)

    async def log_group(name: str) -> TakenName | None:
        found = (await session.call("logs", "describe_log_groups", logGroupNamePrefix=name)).get("logGroups") or ()
        return TakenName("log group", name) if any(one.get("logGroupName") == name for one in found) else None

    taken: list[TakenName] = []
    unknown: list[str] = []
    for names, look in ((roles, role), (repositories, repository), (log_groups, log_group)):
        try:
            taken += await _found(names, look)
        except MissingPermissionError as error:
            unknown.append(f"It is unknown whether {', '.join(names)} is taken: {error.message}")
    return NameCheck(tuple(taken), tuple(unknown))


async def _found(names: Iterable[str], look: Callable[[str], Awaitable[TakenName | None]]) -> list[TakenName]:
    found = []
    for name in names:
        try:
            one = await look(name)
        except MissingError:
            continue
        if one is not None:
            found.append(one)
    return found


def _run_of(tags: Iterable[Mapping[str, Any]] | None, key: str) -> str:
    return next((one_line(str(tag.get("Value", ""))) for tag in tags or () if tag.get("Key") == key), "")
