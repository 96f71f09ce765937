"""The contents of a run's namespaces and definitions, and the reasons not to delete them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.decoding import convert
from actions.base.errors import FormatError
from actions.base.wording import listed
from actions.cluster.objects.client import ApiResource
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import TEARDOWN, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.objects.ownership import HARMLESS, RUNS, ClassifiedObject, Inventory, Ownership, classify
from actions.run.objects.survey import (
    ObjectListing,
    Unanswered,
    fetch_kinds,
    is_contents,
    survey,
    survey_path,
    with_owners,
)

SETTLE_SECONDS = 60.0
"""Time for the garbage collector, or an API that is down, to catch up."""
_LOOK_SECONDS = 0.5
_NAMED = 3


class Contents(msgspec.Struct, frozen=True):
    """The objects in a namespace, or of a kind."""

    judged: tuple[ClassifiedObject, ...] = ()
    unasked: tuple[Unanswered, ...] = ()

    @property
    def foreign(self) -> tuple[ClassifiedObject, ...]:
        """The objects that keep the whole from being deleted."""
        return tuple(one for one in self.judged if one.standing not in HARMLESS)

    @property
    def may_settle(self) -> bool:
        """True if there are reasons to refuse, and all of them may be gone a moment later."""
        passing = all(one.standing is Ownership.ORPHAN for one in self.foreign) and all(
            one.may_pass for one in self.unasked
        )
        return passing and bool(self.foreign or self.unasked)


class DeletionGuard:
    """The check of the run's namespaces and definitions against its inventory before they are deleted.

    An object once found to be the run's stays so for this guard, as owners go before their dependents.

    Args:
        context: The stage that is undone.
        connection: The run's cluster.
        inventory: What the run has made.
    """

    def __init__(self, context: StageContext, connection: ClusterConnection, inventory: Inventory) -> None:
        self.inventory = inventory
        self._context = context
        self._connection = connection

    async def refusal_of_namespace(self, name: str) -> str:
        """Return why a namespace of the run must stay; empty if it may be deleted.

        Raises:
            ConsoleError: The cluster cannot be reached, or accepts no credentials.
        """

        async def look() -> ObjectListing:
            known = await fetch_kinds(self._connection)
            kinds = [kind for kind in known.kinds if is_contents(kind)]
            seen = await survey(self._connection, kinds, namespace=name)
            return ObjectListing(seen.entries, (*known.unasked, *seen.unasked))

        return self._refusal(await self._settled(look), "it holds {}")

    async def refusal_of_definition(self, definition: Mapping[str, Any]) -> str:
        """Return why a CustomResourceDefinition of the run must stay; empty if it may be deleted.

        Raises:
            ConsoleError: The cluster cannot be reached, or accepts no credentials.
        """
        kind = kind_of_definition(definition)

        async def look() -> ObjectListing:
            return await survey_path(self._connection, kind)

        return self._refusal(await self._settled(look), "there is {} of its kind")

    async def judged(self, seen: ObjectListing) -> Contents:
        """Classify the objects that were listed, with their owners wherever they are.

        Raises:
            ConsoleError: The cluster cannot be reached, or accepts no credentials.
        """
        owners = await with_owners(self._connection, seen.entries, self.inventory)
        judged = classify(seen.entries, self.inventory, owners=owners.entries)
        return Contents(tuple(judged), (*seen.unasked, *owners.unasked))

    async def _settled(self, look: Callable[[], Awaitable[ObjectListing]]) -> Contents:
        clock, note = self._context.clock, self._context.journal.note
        deadline = clock.monotonic() + SETTLE_SECONDS

        async def ask() -> Contents:
            return await self.judged(await look())

        while True:
            contents = await retry_unreachable(ask, clock=clock, note=note, policy=TEARDOWN)
            if not contents.may_settle or clock.monotonic() >= deadline:
                self._accept(contents)
                return contents
            await clock.sleep(_LOOK_SECONDS)

    def _accept(self, contents: Contents) -> None:
        ours = {one.entry.uid for one in contents.judged if one.standing in RUNS}
        self.inventory = replace(self.inventory, uids=self.inventory.uids | ours)

    def _refusal(self, contents: Contents, holds: str) -> str:
        """Return a clause: foreign objects first, then objects of other stages, then what could not be searched."""
        clauses = []
        if contents.foreign:
            names = [_named(one, self.inventory.run_id) for one in contents.foreign]
            clauses.append(f"{holds.format(listed(names, _NAMED))}, not the run's")
        clauses += self._of_other_stages(contents)
        if contents.unasked:
            unasked = [item.clause() for item in contents.unasked]
            clauses.append(f"it may hold more, as this user {listed(unasked, _NAMED)}")
        return " and ".join(clauses)

    def _of_other_stages(self, contents: Contents) -> list[str]:
        """Return clauses about objects of stages that are not undone, such as those that hold data."""
        live = {
            item.uid: item.stage
            for item in self._context.view.owned
            if item.uid and not item.is_deleted and not item.existed and item.stage not in ("", self._context.stage.id)
        }
        held = [one.entry for one in contents.judged if one.entry.uid in live and not one.entry.is_going]
        names = [f"{entry.kind} {entry.name} of the stage {live[entry.uid]}" for entry in held]
        return [f"it holds {listed(names, _NAMED)}, which is not undone"] if names else []


def kind_of_definition(definition: Mapping[str, Any]) -> ApiResource:
    """Return the API resource of a CustomResourceDefinition, in a served version.

    Raises:
        FormatError: The document is not a CustomResourceDefinition.
    """
    try:
        spec = convert(definition, _Definition).spec
    except msgspec.ValidationError as error:
        raise FormatError(f"This is not a CustomResourceDefinition: {error}.") from error
    served = sorted((one for one in spec.versions if one.served), key=lambda one: not one.storage)
    version = (served or spec.versions)[0].name
    return ApiResource(f"{spec.group}/{version}", spec.names.kind, spec.names.plural, spec.scope == "Namespaced")


def _named(one: ClassifiedObject, run_id: str) -> str:
    entry = one.entry
    name = f"{entry.kind} {entry.name}"
    if entry.run == run_id:
        return f"{name} (it carries the run's label, but the run never recorded making it)"
    return f"{name} (of the run {entry.run})" if entry.run else name


class _Names(msgspec.Struct):
    kind: str
    plural: str


class _DefinitionVersion(msgspec.Struct):
    name: str
    served: bool = False
    storage: bool = False


class _Spec(msgspec.Struct):
    group: str
    names: _Names
    versions: list[_DefinitionVersion]
    scope: str = "Namespaced"


class _Definition(msgspec.Struct):
    spec: _Spec
