"""The removal of a stage's objects: all of them are checked before the first is deleted."""

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
from actions.run.objects.ownership import Entry, doubt_about, group_of
from actions.run.objects.ray_jobs import stop_ray_job
from actions.run.objects.survey import Unanswered, look, resource_name
from actions.run.objects.writes import rank_of, remove
from actions.run.state.records import NODE_CLAIM
from actions.run.state.view import OwnedObject

_HINT = (
    "Move out what is not the run's, or delete the whole yourself, and retry. "
    "Missing rights are listed by `eksml-tui print rbac`."
)


async def delete_objects(context: StageContext, connection: ClusterConnection) -> str:
    """Delete the stage's objects, last applied first, and wait until they are gone.

    Returns:
        The result, in one line.

    Raises:
        StageFailedError: Something must stay, or cannot be checked; then nothing was deleted.
    """
    undo = StageUndo(context, connection)
    await undo.plan()
    return await undo.carry_out()


class StageUndo:
    """The undo of one stage's objects, by the run's inventory.

    Args:
        context: The stage.
        connection: The run's cluster.
        release: Namespace and name of the stage's Helm release, whose objects do not count as foreign while it is
            installed.
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
        self._unknown: dict[str, None] = {}
        """Sentences about what may go on without its object."""

    async def plan(self) -> None:
        """Check all objects. Those that are gone or were replaced by others are recorded as deleted.

        Raises:
            StageFailedError: Something must stay, or cannot be checked.
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
        """Delete what was planned. Returns the result in one line.

        Raises:
            StageFailedError: An object does not go, or holds something new that is not the run's.
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
        removed = " ".join((f"{counted(len(self._items), 'object')} removed.", *self._unknown))
        return f"{removed} Left alone: {'; '.join(self._left)}." if self._left else removed

    async def _take(self, item: OwnedObject) -> None:
        """Plan the removal of one object, by what has its name now."""
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
        """Adopt an object that a runner died before recording, if there is evidence; leave any other."""
        run_id = self._context.view.id
        doubt = doubt_about(found, item, run_id)
        if not doubt:
            adopted = replace(item, uid=found.uid, is_adopted=True)
            await self._context.journal.own(adopted)
            known = self._judge.inventory
            self._judge.inventory = replace(known, uids=known.uids | {found.uid})
            self._items.append(adopted)
        elif item.intended_at and found.run == run_id:
            self._left.append(f"{found.describe()}, as the run has no record of making it, and {doubt}")
        else:
            self._left.append(f"{found.describe()}, which is not the run's")
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
        """Find missing rights to delete before the first object is deleted."""
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
        """Return what comes just before the deletion.

        The contents of a namespace or definition may have changed during the removal; a RayJob's work is stopped.
        """

        async def guard() -> None:
            if item.kind == "RayJob":
                unknown = await stop_ray_job(self._connection, ref_of_owned(item))
                if unknown:
                    self._unknown[unknown] = None
                    self._context.journal.warn(unknown)  # also where a retry goes on
            refusal = await self._refusal_of(item)
            if refusal:
                raise _refused(item, refusal)

        return guard


def _is_applied(item: OwnedObject) -> bool:
    """Return whether an object is deleted here: not NodeClaims, which the drain deletes, nor Helm releases."""
    return item.kind != NODE_CLAIM and item.api_version != RELEASE_VERSION


def _refused(item: OwnedObject, refusal: str) -> ConsoleError:
    return StageFailedError(f"{ref_of_owned(item).describe()} was not removed: {refusal}.", hint=_HINT)
