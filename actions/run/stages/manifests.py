"""Stages that apply objects and wait until they are ready: manifests, storage, pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from actions.base.errors import AccessError, MissingError, RefusedError
from actions.base.untrusted import one_line
from actions.base.wording import counted, listed
from actions.blueprint.parts import ObjectName
from actions.blueprint.stages import AnyStage, ManifestsStage, PodStage, StorageStage
from actions.cluster.objects.client import ref_of
from actions.run.checks.cluster import operator_refusal
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import Performed
from actions.run.context.retry import TEARDOWN, RetryPolicy, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.objects.contents import kind_of_definition
from actions.run.objects.inventory import is_of_run, owned_of, ref_of_name, wait_command
from actions.run.objects.undo import delete_objects
from actions.run.objects.writes import apply_objects, seen, wait_ready
from actions.run.output.last_lines import read_last_lines
from actions.run.state.records import CheckResult, StageFinding
from actions.run.state.view import OwnedObject

READY_SECONDS = 900.0
OUT_OF_REACH = "This user may neither read nor make it: it is taken for there."
_NAMED = 3


class ManifestsHandler:
    """The stages that apply objects. An operator that is installed already is used as it is."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declaration

    def describe(self) -> list[str]:
        lines = [f"kubectl apply --server-side -f {file}" for file in self._stage.files]
        if isinstance(self._stage, ManifestsStage) and self._stage.source:
            source = self._stage.source
            lines.append(f"kubectl apply --server-side -f {source.name}-{source.version}.yaml")
        refs = [ref_of_name(name, self._context.namespace) for name in ready_of(self._stage)]
        return [*lines, *map(wait_command, refs)]

    async def probe(self) -> Performed | None:
        return None  # applying again changes nothing that is already right

    async def perform(self) -> Performed:
        connection = await self._context.connect(RetryPolicy(self._deadline(), waits_for_login=True))
        try:
            found = await self._detected(connection)
        except AccessError as error:
            kinds = defined_kinds(self._context.manifests())
            if kinds:
                return await self._served_already(connection, kinds, error)
            found = None  # an object that is out of reach is taken for there
        if found is not None:
            installed = await self._installed(connection)
            self._require_usable(installed)
            await self._context.journal.own(found)
            await self._wait(connection)
            return Performed(f"{found.kind} {found.name} was there already{self._version(installed)}: used as it is.")
        manifests = [*await self._context.secrets(), *self._context.manifests()]
        unserved = await self._unserved(connection, manifests)
        manifests = [manifest for manifest in manifests if manifest["kind"] not in unserved]
        refs = await apply_objects(self._context, connection, manifests)
        await self._wait(connection)
        left_out = f" The cluster does not serve {', '.join(unserved)}: left out." if unserved else ""
        findings = tuple(
            StageFinding(CheckResult.UNKNOWN, ref.describe(), OUT_OF_REACH)
            for ref in map(ref_of, manifests)
            if ref not in refs
        )
        unseen = f" Taken for there: {listed([one.subject for one in findings], _NAMED)}." if findings else ""
        return Performed(f"{counted(len(refs), 'object')} applied.{left_out}{unseen}", findings=findings)

    async def undo(self) -> str:
        connection = await self._context.connect(TEARDOWN)
        losses = await read_last_lines(self._context)
        return f"{await delete_objects(self._context, connection)} {losses}".strip()

    def _deadline(self) -> float:
        return float(self._stage.deadline_seconds or READY_SECONDS)

    async def _unserved(self, connection: ClusterConnection, manifests: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the kinds that the stage may leave out and the cluster does not serve."""
        optional = self._stage.where_served if isinstance(self._stage, ManifestsStage) else ()
        kinds = {str(each["kind"]): str(each["apiVersion"]) for each in manifests if each["kind"] in optional}
        unserved = []
        for kind, api_version in kinds.items():
            ask = partial(connection.discovery.resolve, api_version, kind)
            try:
                await retry_unreachable(ask, clock=self._context.clock, note=self._context.journal.note)
            except MissingError:
                unserved.append(kind)
        return unserved

    async def _detected(self, connection: ClusterConnection) -> OwnedObject | None:
        """Return the operator that the stage would install, if it is older than the run."""
        if not isinstance(self._stage, ManifestsStage) or self._stage.detect is None:
            return None
        ref = ref_of_name(self._stage.detect, self._context.namespace)

        async def look() -> OwnedObject | None:
            found = await seen(connection, ref)
            if found is None or is_of_run(self._context, found, ref):
                return None
            return owned_of(self._context, ref, uid=found.uid, existed=True)

        return await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note)

    async def _served_already(
        self, connection: ClusterConnection, kinds: Sequence[tuple[str, str]], refusal: AccessError
    ) -> Performed:
        """Use an operator that this user may not look at, if the cluster serves every kind that it defines.

        Raises:
            AccessError: The cluster lacks one.
        """

        async def look() -> bool:
            return await all_served(connection, kinds)

        if not await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note):
            raise refusal
        return Performed(f"The cluster serves {listed([kind for _, kind in kinds], _NAMED)}: used as it is, unseen.")

    async def _installed(self, connection: ClusterConnection) -> dict[str, Any]:
        """Return the object by which the operator was detected; empty if it has gone since."""
        if not isinstance(self._stage, ManifestsStage) or self._stage.detect is None:
            return {}
        ref = ref_of_name(self._stage.detect, self._context.namespace)

        async def look() -> dict[str, Any]:
            return await connection.find(ref) or {}

        return await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note)

    def _require_usable(self, installed: dict[str, Any]) -> None:
        """Raise RefusedError for an operator that the stages after this one cannot work with."""
        refusal = operator_refusal(installed, self._stage.refuses) if isinstance(self._stage, ManifestsStage) else None
        if refusal is not None:
            raise RefusedError(f"{refusal.reason}{self._version(installed)}.", hint=refusal.hint)

    def _version(self, installed: dict[str, Any]) -> str:
        """Return the images of the installed operator, with the pinned version; empty if it has none."""
        template = ((installed.get("spec") or {}).get("template") or {}).get("spec") or {}
        images = ", ".join(one_line(str(each.get("image") or "?")) for each in template.get("containers") or ())
        source = self._stage.source if isinstance(self._stage, ManifestsStage) else None
        if not images:
            return ""
        return f" ({images}; {source.version} is not installed over it)" if source else f" ({images})"

    async def _wait(self, connection: ClusterConnection) -> None:
        refs = [ref_of_name(name, self._context.namespace) for name in ready_of(self._stage)]
        await wait_ready(self._context, connection, refs, deadline_seconds=self._deadline())


def defined_kinds(manifests: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return version and name of the kinds that CustomResourceDefinitions among some objects define."""
    found = [kind_of_definition(one) for one in manifests if one["kind"] == "CustomResourceDefinition"]
    return [(kind.api_version, kind.kind) for kind in found]


async def all_served(connection: ClusterConnection, kinds: Sequence[tuple[str, str]]) -> bool:
    """Return whether a cluster serves all of some kinds; False for none of them.

    Raises:
        ConsoleError: It does not answer.
    """
    try:
        for api_version, kind in kinds:
            await connection.discovery.find(api_version, kind)
    except MissingError:
        return False
    return bool(kinds)


def ready_of(stage: AnyStage) -> tuple[ObjectName, ...]:
    """Return the objects that have to be ready before the stage succeeds."""
    match stage:
        case ManifestsStage():
            return stage.ready
        case StorageStage():
            return stage.claims
        case PodStage():
            return (stage.target,)
    return ()
