"""Stages that apply objects and wait until they are ready: manifests, storage, pod."""

from __future__ import annotations

from typing import Any

from actions.base.untrusted import one_line
from actions.base.wording import counted
from actions.blueprint.parts import ObjectName
from actions.blueprint.stages import AnyStage, ManifestsStage, PodStage, StorageStage
from actions.run.context.access import Connection
from actions.run.context.protocols import Performed
from actions.run.context.retry import TEARDOWN, Patience, patiently
from actions.run.context.stage_context import StageWork
from actions.run.objects.inventory import is_runs, owned_of, ref_of_name, wait_command
from actions.run.objects.undo import delete_objects
from actions.run.objects.writes import apply_objects, seen, wait_ready
from actions.run.state.view import OwnedObject

READY_SECONDS = 900.0


class ManifestsHandler:
    """Applies a stage's objects. An operator that is there already is used as it is."""

    def __init__(self, work: StageWork) -> None:
        self._work = work
        self._stage = work.blueprint.stage(work.stage.id)

    def describe(self) -> list[str]:
        lines = [f"kubectl apply --server-side -f {file}" for file in self._stage.files]
        if isinstance(self._stage, ManifestsStage) and self._stage.source:
            source = self._stage.source
            lines.append(f"kubectl apply --server-side -f {source.name}-{source.version}.yaml")
        refs = [ref_of_name(name, self._work.namespace) for name in ready_of(self._stage)]
        return [*lines, *map(wait_command, refs)]

    async def probe(self) -> Performed | None:
        return None  # applying again changes nothing that is as it should be

    async def perform(self) -> Performed:
        connection = await self._work.connect(Patience(self._deadline(), waits_for_login=True))
        found = await self._detected(connection)
        if found is not None:
            await self._work.journal.own(found)
            await self._wait(connection)
            return Performed(
                f"{found.kind} {found.name} was there already{await self._version(connection)}: used as it is."
            )
        manifests = [*await self._work.secrets(), *self._work.manifests()]
        refs = await apply_objects(self._work, connection, manifests)
        await self._wait(connection)
        return Performed(f"{counted(len(refs), 'object')} applied.")

    async def undo(self) -> str:
        return await delete_objects(self._work, await self._work.connect(TEARDOWN))

    def _deadline(self) -> float:
        return float(self._stage.deadline_seconds or READY_SECONDS)

    async def _detected(self, connection: Connection) -> OwnedObject | None:
        """What the stage would bring, if it was there before the run."""
        if not isinstance(self._stage, ManifestsStage) or self._stage.detect is None:
            return None
        ref = ref_of_name(self._stage.detect, self._work.namespace)

        async def look() -> OwnedObject | None:
            found = await seen(connection, ref)
            if found is None or is_runs(self._work, found, ref):
                return None
            return owned_of(self._work, ref, uid=found.uid, existed=True)

        return await patiently(look, clock=self._work.clock, note=self._work.journal.note)

    async def _version(self, connection: Connection) -> str:
        """Which one was there, as its images tell, beside the one that is pinned; empty where nothing tells."""
        if not isinstance(self._stage, ManifestsStage) or self._stage.detect is None:
            return ""
        ref = ref_of_name(self._stage.detect, self._work.namespace)

        async def look() -> dict[str, Any]:
            return await connection.find(ref) or {}

        found = await patiently(look, clock=self._work.clock, note=self._work.journal.note)
        template = ((found.get("spec") or {}).get("template") or {}).get("spec") or {}
        images = ", ".join(one_line(str(each.get("image") or "?")) for each in template.get("containers") or ())
        pinned = self._stage.source.version if self._stage.source else ""
        if not images:
            return ""
        return f" ({images}; {pinned} is not installed over it)" if pinned else f" ({images})"

    async def _wait(self, connection: Connection) -> None:
        refs = [ref_of_name(name, self._work.namespace) for name in ready_of(self._stage)]
        await wait_ready(self._work, connection, refs, deadline_seconds=self._deadline())


def ready_of(stage: AnyStage) -> tuple[ObjectName, ...]:
    """What has to be ready before the stage has succeeded."""
    match stage:
        case ManifestsStage():
            return stage.ready
        case StorageStage():
            return stage.claims
        case PodStage():
            return (stage.target,)
    return ()
