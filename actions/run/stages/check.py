"""The check stage: looks at what must be true before anything expensive starts, and changes nothing."""

from __future__ import annotations

from actions.base.errors import AccessError, MissingError
from actions.blueprint.checks import AnyCheck
from actions.blueprint.parameters import holds
from actions.blueprint.stages import CheckStage
from actions.run.access import Connection
from actions.run.checks.asking import ask
from actions.run.checks.commands import command_of
from actions.run.checks.seen import Seen, failed, unknown
from actions.run.handler import Performed, StageFailedError
from actions.run.patience import patiently
from actions.run.records import CheckResult, Finding
from actions.run.work import StageWork

PATIENCE_SECONDS = 60.0
"""What was just installed gets so long to become healthy."""
_LOOK_SECONDS = 1.0


class CheckHandler:
    """Looks until all required checks pass or it has been patient enough."""

    def __init__(self, work: StageWork) -> None:
        self._work = work
        stage = work.blueprint.stage(work.stage.id)
        checks = stage.checks if isinstance(stage, CheckStage) else ()
        self._checks: tuple[AnyCheck, ...] = tuple(check for check in checks if holds(check.when, work.binding))

    def describe(self) -> list[str]:
        return [f"# {check.title}: {command_of(check, self._work.namespace)}" for check in self._checks]

    async def probe(self) -> Performed | None:
        return None

    async def perform(self) -> Performed:
        connection = await self._work.connect()
        deadline = self._work.clock.monotonic() + PATIENCE_SECONDS
        done: dict[int, Finding] = {}
        while True:
            await self._look(connection, done)
            findings = tuple(done[index] for index in range(len(self._checks)))
            required = [
                finding
                for finding, check in zip(findings, self._checks, strict=True)
                if finding.result is CheckResult.FAILED and check.is_required
            ]
            if not required:
                return Performed(_summary(findings), findings=findings)
            if self._work.clock.monotonic() >= deadline:
                worst = required[0]
                raise StageFailedError(f"{worst.subject}: {worst.detail}", findings=findings, hint=worst.fix)
            self._work.journal.note(f"{required[0].subject}: {required[0].detail}")
            await self._work.clock.sleep(_LOOK_SECONDS)

    async def undo(self) -> str:
        return "It changed nothing."

    async def _look(self, connection: Connection, done: dict[int, Finding]) -> None:
        """Ask for everything that has not been answered well: what passed or is unknown is not asked for again."""
        for index, check in enumerate(self._checks):
            known = done.get(index)
            if known is None or (known.result is CheckResult.FAILED and check.is_required):
                seen = await self._seen(connection, check)
                fix = "" if seen.result is CheckResult.PASSED else check.hint
                done[index] = Finding(seen.result, check.title, seen.detail, fix)

    async def _seen(self, connection: Connection, check: AnyCheck) -> Seen:
        async def look() -> Seen:
            try:
                return await ask(self._work, connection, check)
            except AccessError as error:
                return unknown(error.message)
            except MissingError as error:
                return failed(error.message)

        return await patiently(look, clock=self._work.clock, note=self._work.journal.note)


def _summary(findings: tuple[Finding, ...]) -> str:
    passed = sum(finding.result is CheckResult.PASSED for finding in findings)
    others = [finding.subject for finding in findings if finding.result is not CheckResult.PASSED]
    return f"{passed} of {len(findings)} checks passed" + (f"; not: {', '.join(others)}." if others else ".")
