"""Removing what a stage has made: all of it is judged before the first object is deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from actions.base.errors import ConsoleError, FormatError
from actions.base.wording import counted
from actions.cluster.auth.permissions import is_allowed
from actions.cluster.objects.client import ApiResource
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import StageFailedError
from actions.run.context.retry import TEARDOWN, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.objects.contents import DeletionGuard
from actions.run.objects.inventory import RELEASE_VERSION, inventory_of, ref_of_owned
from actions.run.objects.node_claims import NODE_CLAIM
from actions.run.objects.ownership import Entry, doubt_about, group_of
from actions.run.objects.survey import Unanswered, look, resource_name
from actions.run.objects.writes import rank_of, remove
from actions.run.state.view import OwnedObject

_HINT = (
    "Take out what is not the run's, or delete the whole yourself, and retry. "
    "Rights that are missing are in assets/rbac.yaml."
)


async def delete_objects(context: StageContext, connection: ClusterConnection) -> str:
    """Delete what the stage owns, last applied first, and wait until it is gone.

    Returns:
        What was done, in one line.

    Raises:
        StageFailedError: Something must stay, or cannot be judged; then nothing was deleted.
    """
    undo = StageUndo(context, connection)
    await undo.plan()
    return await undo.carry_out()


class StageUndo:
    """The removal of one stage's objects, by the run's inventory.

    Args:
        context: The stage.
        connection: The run's cluster.
        release: Namespace and name of the stage's Helm release, whose objects do not count as somebody else's as long
            as it is installed.
        revisions: Uids of the Secrets in which Helm keeps it.
    """

    def __init__(
        self,
        context: StageContext,
        connection: ClusterConnection,
        *,
        release: tuple[str, str] = ("", ""),
        revisions: frozenset[str] = frozenset(),
    ) -> None:
        self._context = context
        self._connection = connection
        inventory = inventory_of(context)
        inventory = replace(inventory, release=release, uids=inventory.uids | revisions)
        self._judge = DeletionGuard(context, connection, inventory)
        self._items: list[OwnedObject] = []
        self._problems: list[str] = []
        self._left: list[str] = []

    async def plan(self) -> None:
        """Judge everything. What is gone, and what is another object by now, is recorded as such.

        Raises:
            StageFailedError: Something must stay, or cannot be judged.
        """
        owned = [item for item in reversed(self._context.journal.owned()) if _is_applied(item) and not item.existed]
        for item in sorted(owned, key=lambda item: -rank_of(item.kind)):
            await self._take(item)
        for item in self._items:
            await self._judge_contents(item)
        await self._judge_rights()
        if self._problems:
            raise StageFailedError(f"Nothing was removed. {'; '.join(self._problems)}.", hint=_HINT)

    async def carry_out(self) -> str:
        """Delete what was planned. Returns what was done, in one line.

        Raises:
            StageFailedError: Something does not go, or somebody has put something into it meanwhile.
        """
        for item in self._items:
            ref = ref_of_owned(item)
            self._context.journal.note(f"Removing {ref.describe()}.")
            await remove(
                self._connection,
                ref,
                item.uid,
                clock=self._context.clock,
                note=self._context.journal.note,
                before=self._guard_of(item),
            )
            await self._context.journal.deleted(replace(item, is_deleted=True))
        said = f"{counted(len(self._items), 'object')} removed."
        return f"{said} Left alone: {'; '.join(self._left)}." if self._left else said

    async def _take(self, item: OwnedObject) -> None:
        """Find out what has the name of an object of the stage."""
        ref = ref_of_owned(item)

        async def ask() -> Entry | Unanswered | None:
            return await look(self._connection, ref)

        found = await retry_unreachable(
            ask, clock=self._context.clock, note=self._context.journal.note, policy=TEARDOWN
        )
        match found:
            case Unanswered():
                self._problems.append(f"{ref.describe()}: {found.clause()}")
            case None:
                await self._context.journal.deleted(replace(item, is_deleted=True))
            case Entry() if found.uid in self._judge.inventory.uids:
                self._items.append(replace(item, uid=found.uid))
            case Entry():
                await self._take_unrecorded(item, found)

    async def _take_unrecorded(self, item: OwnedObject, found: Entry) -> None:
        """Adopt what the stage's runner did not live to record, if there is evidence; leave what is somebody else's."""
        run_id = self._context.view.id
        doubt = doubt_about(found, item, run_id)
        if not doubt:
            adopted = replace(item, uid=found.uid, is_adopted=True)
            await self._context.journal.own(adopted)
            known = self._judge.inventory
            self._judge.inventory = replace(known, uids=known.uids | {found.uid})
            self._items.append(adopted)
        elif item.intended_at and found.run == run_id:
            self._left.append(f"{found.describe()}, as the run did not record making it, and {doubt}")
        else:
            self._left.append(f"{found.describe()}, which is another one than the run's")
            await self._context.journal.deleted(replace(item, is_deleted=True))

    async def _judge_contents(self, item: OwnedObject) -> None:
        refusal = await self._refusal_of(item)
        if refusal:
            self._problems.append(f"{ref_of_owned(item).describe()}: {refusal}")

    async def _refusal_of(self, item: OwnedObject) -> str:
        if item.kind == "Namespace":
            return await self._judge.refusal_of_namespace(item.name)
        if item.kind != "CustomResourceDefinition":
            return ""
        definition = await self._connection.find(ref_of_owned(item))
        try:
            return await self._judge.refusal_of_definition(definition) if definition is not None else ""
        except FormatError as error:
            return error.message.rstrip(".")

    async def _judge_rights(self) -> None:
        """A right to delete that is missing is said before the first object is gone."""
        missing: dict[str, None] = {}
        for item in self._items:
            kind = await self._connection.discovery.find(item.api_version, item.kind)
            space = item.name if item.kind == "Namespace" else item.namespace  # as the API server asks its authorizer

            async def ask(kind: ApiResource = kind, space: str = space, name: str = item.name) -> bool | None:
                group = group_of(kind.api_version)
                return await is_allowed(self._connection.session, "delete", group, kind.plural, space, name=name)

            if (
                await retry_unreachable(
                    ask, clock=self._context.clock, note=self._context.journal.note, policy=TEARDOWN
                )
                is False
            ):
                missing[Unanswered("delete", resource_name(kind), item.namespace).clause()] = None
        if missing:
            self._problems.append(f"this user {', '.join(missing)}")

    def _guard_of(self, item: OwnedObject) -> Callable[[], Awaitable[None]]:
        """Judges a container once more: somebody may have put something into it while the stage was removed."""

        async def guard() -> None:
            refusal = await self._refusal_of(item)
            if refusal:
                raise _refused(item, refusal)

        return guard


def _is_applied(item: OwnedObject) -> bool:
    """Return whether an object is deleted by itself: nodes go with their claims, what Helm has made by Helm."""
    return item.kind != NODE_CLAIM and item.api_version != RELEASE_VERSION


def _refused(item: OwnedObject, refusal: str) -> ConsoleError:
    return StageFailedError(f"{ref_of_owned(item).describe()} was not removed: {refusal}.", hint=_HINT)
