"""Rights in an account, as IAM simulates them: the policies that ship with the program, statement by statement.

A simulation covers the policies of a user or role, its boundary and those of the organization, but neither policies of
a session nor of resources.

Source: IAM API reference, `SimulatePrincipalPolicy`; IAM user guide, "IAM identifiers" and "Policy variables".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.errors import AccessError, ConfigError, MissingError
from actions.base.files import asset, read_file
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession, pages

_CAPITAL = re.compile(r"(?<![A-Za-z])[A-Z]{4,}(?:_[A-Z]+)*(?![A-Za-z])")
"""The words of a shipped policy that stand for names: `REGION`, `ACCOUNT`, `CLUSTER`…"""
_OF_LOGINS = "AWSReservedSSO_"
"""Roles of IAM Identity Center: their path, which holds a region, does not follow from the name."""


class Statement(msgspec.Struct, frozen=True):
    """A statement of a shipped policy."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    """ARNs with the policy's capital words, or `*`."""
    context: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The keys that its condition is about, with values for which it holds."""

    def filled(self, names: Mapping[str, str]) -> Statement:
        """Return the statement with its capital words replaced, without resources whose names are not known.

        Args:
            names: Values by capital word; `PARTITION` stands for the `aws` of the ARNs.
        """
        known = [one for one in self.resources if set(_CAPITAL.findall(one)) <= names.keys()]
        partition = f"arn:{names.get('PARTITION', 'aws')}:"
        texts = [_CAPITAL.sub(lambda match: names[match[0]], one).replace("arn:aws:", partition, 1) for one in known]
        return Statement(self.actions, tuple(texts), self.context)


@cache
def statements_of(policy: str) -> tuple[Statement, ...]:
    """Return the statements of a policy that ships with the program: `view`, `launch` or `teardown`."""
    document = msgspec.json.decode(read_file(asset(f"iam/{policy}.json")))
    return tuple(
        Statement(tuple(one["Action"]), tuple(one["Resource"]), tuple(_context_of(one.get("Condition") or {})))
        for one in document["Statement"]
    )


def _context_of(condition: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the keys of a condition, each with values for which it holds. `Null` is about a key that must be there."""
    for operator, keys in condition.items():
        for key, wanted in keys.items():
            values = ("RUN",) if operator == "Null" else tuple([wanted] if isinstance(wanted, str) else wanted)
            yield key, values


async def fetch_principal(session: AwsSession, arn: str) -> str:
    """Return the ARN of the user or role behind a caller; empty for the account's root user.

    Args:
        session: Of the caller.
        arn: As STS gives it: that of an assumed role names the role without its path.

    Raises:
        ConfigError: A federated user has no policies that IAM can simulate.
        AccessError: The path of the role is not known, and may not be asked.
    """
    partition, account, name = arn.split(":")[1], arn.split(":")[4], arn.split(":", 5)[5]
    kind, _, rest = name.partition("/")
    if name == "root":
        return ""
    if kind == "federated-user":
        raise ConfigError(f"IAM cannot simulate the rights of a federated user ({rest}).")
    if kind != "assumed-role":
        return arn
    role = rest.partition("/")[0]
    try:
        answer = await session.call("iam", "get_role", RoleName=role)
        return str(answer["Role"]["Arn"])
    except (AccessError, MissingError):
        if role.startswith(_OF_LOGINS):
            raise
        return f"arn:{partition}:iam::{account}:role/{role}"


class PolicySimulation(msgspec.Struct, frozen=True):
    """The result for one policy."""

    denied: tuple[str, ...]
    """Actions, sorted; those that the organization denies with the word for it."""
    asked: int
    """The number of actions that were simulated."""
    unasked: tuple[str, ...]
    """Actions on resources whose names are not known yet, sorted."""


async def simulate(
    session: AwsSession,
    principal: str,
    policy: str,
    names: Mapping[str, str],
    *,
    without: frozenset[str] = frozenset(),
) -> PolicySimulation:
    """Simulate all actions of a shipped policy, each on the resources that the policy has for it.

    Args:
        session: Of a caller with the right for `iam:SimulatePrincipalPolicy`.
        principal: ARN of a user or role.
        policy: `view`, `launch` or `teardown`.
        names: Values for the policy's capital words.
        without: Services that are not needed: `ecr`.

    Raises:
        AccessError: No right to simulate.
        MissingError: There is no such user or role.
        ConsoleError: IAM does not answer, or not to this call.
    """
    parts = [part for statement in statements_of(policy) for part in _by_service(statement.filled(names), without)]
    known = _merged(part for part in parts if part.resources)
    answers = await asyncio.gather(*(_simulated(session, principal, part) for part in known))
    asked = {action for part in known for action in part.actions}
    unasked = {action for part in parts for action in part.actions} - asked
    return PolicySimulation(
        tuple(sorted({text for one in answers for text in one})), len(asked), tuple(sorted(unasked))
    )


def _by_service(statement: Statement, without: frozenset[str]) -> Iterator[Statement]:
    """Yield a statement in parts in which every action can be about every resource: those of one service."""
    for service in dict.fromkeys(action.partition(":")[0] for action in statement.actions):
        if service not in without:
            actions = tuple(action for action in statement.actions if action.startswith(f"{service}:"))
            resources = tuple(one for one in statement.resources if one == "*" or one.split(":")[2] == service)
            yield Statement(actions, resources, statement.context)


def _merged(parts: Iterable[Statement]) -> list[Statement]:
    """Return parts with the same resources and context as one, since each costs a request."""
    found: dict[tuple[object, ...], Statement] = {}
    for part in parts:
        key = (part.resources, part.context)
        before = found[key].actions if key in found else ()
        found[key] = replace(part, actions=tuple(dict.fromkeys((*before, *part.actions))))
    return list(found.values())


async def _simulated(session: AwsSession, principal: str, part: Statement) -> list[str]:
    """Return the actions that are denied on any of the part's resources."""
    context = [
        {"ContextKeyName": key, "ContextKeyValues": list(values), "ContextKeyType": "string"}
        for key, values in part.context
    ]
    denied: list[str] = []
    async for answer in pages(
        session,
        "iam",
        "simulate_principal_policy",
        PolicySourceArn=principal,
        ActionNames=list(part.actions),
        ResourceArns=list(part.resources),
        ContextEntries=context,
    ):
        denied += _denied(answer.get("EvaluationResults") or ())
    return denied


def _denied(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for result in results:
        each: Sequence[Mapping[str, Any]] = result.get("ResourceSpecificResults") or ()
        decisions = {str(one.get("EvalResourceDecision")) for one in each} or {str(result.get("EvalDecision"))}
        action = one_line(str(result.get("EvalActionName", "")))
        if (result.get("OrganizationsDecisionDetail") or {}).get("AllowedByOrganizations") is False:
            yield f"{action} (denied by the organization)"
        elif decisions != {"allowed"}:
            yield action
