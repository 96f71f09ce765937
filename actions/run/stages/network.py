"""The network stage: the rule of a security group to itself that EFA needs, both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.blueprint.render import RUN_TAG
from actions.blueprint.stages import NetworkStage
from actions.cloud.aws_session import AwsSession, retry_not_found
from actions.cloud.ec2 import Direction, SelfRule, add_self_rule, fetch_self_rules, remove_rules
from actions.run.context.protocols import Performed
from actions.run.context.retry import retry_unreachable
from actions.run.context.run_account import require_account
from actions.run.context.stage_context import StageContext
from actions.run.state.view import OwnedObject

API = "ec2.amazonaws.com"
KIND = "SecurityGroupRule"


class NetworkHandler:
    """The network stage: adds missing rules, tagged with the run; undo removes recorded ones and nothing else."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declared(NetworkStage)

    def describe(self) -> list[str]:
        group = self._stage.security_group or "GROUP"
        pair = f"IpProtocol=-1,UserIdGroupPairs=[{{GroupId={group}}}]"
        return [
            f"aws ec2 authorize-security-group-{direction.value} --group-id {group} --ip-permissions '{pair}'"
            for direction in Direction
        ]

    async def probe(self) -> Performed | None:
        return None  # perform reads the rules first, which is cheap

    async def perform(self) -> Performed:
        await require_account(self._context)
        async with self._session() as session:
            group = await self._group(session)
            self._context.journal.note(f"Reading the rules of {group}.")
            rules = await self._rules(session, group)
            added = [
                direction.value
                for direction in Direction
                if not await self._is_there(group, rules, direction) and await self._add(session, group, direction)
            ]
        if not added:
            return Performed(f"{group} is open to itself both ways already.")
        return Performed(f"{group} is open to itself for all protocols; added: {' and '.join(added)}.")

    async def undo(self) -> str:
        groups = dict.fromkeys(item.namespace for item in self._context.journal.owned() if not item.existed)
        if groups:
            await require_account(self._context)
        async with self._session() as session:
            removed = 0
            for group in groups:
                removed += await self._remove(session, group)
        for item in self._context.journal.owned():
            if not item.existed:
                await self._context.journal.deleted(replace(item, is_deleted=True))
        return f"{removed} rules removed." if removed else "No rule of the run is left."

    async def _remove(self, session: AwsSession, group: str) -> int:
        try:
            rules = await self._rules(session, group)
        except MissingError:
            return 0  # the group went with the cluster, and its rules with it
        mine = {rule.id: rule.direction for rule in rules if self._is_ours(group, rule)}
        removed = 0
        for rule_id, direction in (self._made(group) | mine).items():
            try:
                await self._revoke(session, group, direction, rule_id)
            except MissingError:
                continue  # it is gone already
            removed += 1
        return removed

    def _made(self, group: str) -> dict[str, Direction]:
        """Return the rules in the journal, as one that was just added may not be listed yet."""
        owned = [item for item in self._context.journal.owned() if item.namespace == group]
        return {item.uid: Direction(item.name) for item in owned if item.uid and not (item.existed or item.is_deleted)}

    async def _revoke(self, session: AwsSession, group: str, direction: Direction, rule_id: str) -> None:
        async def revoke() -> None:
            await remove_rules(session, group, direction, [rule_id])

        async def again() -> None:
            await retry_not_found(revoke, clock=self._context.clock)

        await retry_unreachable(again, clock=self._context.clock, note=self._context.journal.note)

    async def _is_there(self, group: str, rules: list[SelfRule], direction: Direction) -> bool:
        """Return whether a rule exists, and record it; one that is not the run's will not be removed."""
        found = [rule for rule in rules if rule.direction is direction]
        for rule in found[:1]:
            await self._own(group, rule.id, direction, existed=not self._is_ours(group, rule))
        return bool(found)

    def _is_ours(self, group: str, rule: SelfRule) -> bool:
        """Return whether the stage has recorded the rule, or has announced it and it has the run's tag."""
        is_tagged = rule.tags.get(RUN_TAG) == self._context.view.id
        return any(
            item.uid == rule.id or (bool(item.intended_at) and is_tagged)
            for item in self._context.journal.owned()
            if (item.namespace, item.name) == (group, rule.direction.value) and not item.existed
        )

    async def _add(self, session: AwsSession, group: str, direction: Direction) -> bool:
        await self._own(group, "", direction)

        async def add() -> str:
            return await add_self_rule(session, group, direction, {RUN_TAG: self._context.view.id})

        made = await retry_unreachable(add, clock=self._context.clock, note=self._context.journal.note)
        await self._own(group, made, direction)
        return True

    async def _rules(self, session: AwsSession, group: str) -> list[SelfRule]:
        async def look() -> list[SelfRule]:
            return await fetch_self_rules(session, group)

        return await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note)

    async def _group(self, session: AwsSession) -> str:
        given = self._context.text(self._stage.security_group)
        if given:
            return given
        name = self._context.view.cluster.name

        async def ask() -> str:
            answer = await session.call("eks", "describe_cluster", name=name)
            return str(answer["cluster"]["resourcesVpcConfig"].get("clusterSecurityGroupId") or "")

        found = await retry_unreachable(ask, clock=self._context.clock, note=self._context.journal.note)
        if not found:
            raise MissingError(f"EKS names no security group of {name}.", hint="Name one in the stage.")
        return found

    async def _own(self, group: str, rule_id: str, direction: Direction, *, existed: bool = False) -> None:
        await self._context.journal.own(
            OwnedObject(
                self._context.stage.id, API, KIND, group, direction.value, rule_id, existed=existed, is_deleted=False
            )
        )

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[AwsSession]:
        session = AwsSession(region=self._context.view.cluster.region, threads=1)
        try:
            yield session
        finally:
            session.close()
