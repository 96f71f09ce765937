"""Playing a script: one step after the other, each within its time, then `always`; conditions read run and console."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConsoleError
from actions.base.patterns import Pattern
from actions.base.untrusted import one_line, redact
from actions.cluster.diagnose.codes import Finding
from actions.cluster.state.cluster_state import ClusterSnapshot
from actions.command.verbs import ApproveArguments, Call, ScreenshotArguments
from actions.fleet.cost import CostModel
from actions.run.journal.reader import RunReader
from actions.run.spool.reader import SpoolReader
from actions.run.state.view import RunState, RunView, StageState
from actions.script.artifacts import Artifacts
from actions.script.conditions import ConditionContext, Evaluation, evaluate
from actions.script.driver import ConsoleDriver
from actions.script.model import Conditions, Press, Script, ScriptStep
from actions.script.report import (
    SCHEMA,
    Report,
    StepReport,
    StepResult,
    exit_code_of,
    result_of,
    run_report,
    without_secrets,
)
from actions.telemetry.points import Point

Section = Literal["steps", "always"]
PrintLine = Callable[[str], None]

EXPECT_SECONDS = 2.0
"""How long an expectation looks: what has happened may still be on its way to us."""

_ENDS = {
    "teardown": (RunState.TORN_DOWN,),
    "park": (RunState.PARKED,),
    "cancel": (RunState.CANCELLED,),
}
"""Where a run has to be before the step is done."""


class StepFailed(Exception):
    """A step did not do what it says. The message says what was there instead."""


class Player:
    """Plays one script once.

    Args:
        script: What to play.
        host: Who carries it out.
        world: What conditions look at.
        clock: For time limits.
        tell: Gets one line for each step and each change of a stage.
        artifacts: Where screenshots go, and what is saved when a step fails.
    """

    def __init__(
        self,
        script: Script,
        host: ConsoleDriver,
        world: ConditionContext,
        *,
        clock: Clock,
        tell: PrintLine,
        artifacts: Artifacts,
    ) -> None:
        self._script = script
        self._host = host
        self._world = world
        self._clock = clock
        self._out = tell
        self._artifacts = artifacts
        self._done: list[StepReport] = []
        self._files: list[str] = []
        self._told: dict[str, str] = {}

    async def play(self) -> Report:
        """Play it. Cancelling the task breaks the steps off; `always` is still played, and the report says so."""
        started_at, began = self._clock.now(), self._clock.monotonic()
        is_interrupted = False
        try:
            await self._play_steps(began + self._script.deadline_seconds)
        except asyncio.CancelledError:
            is_interrupted = True
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        for step in self._script.always:
            await self._play(step, "always", self._clock.monotonic() + step.within_seconds)
        view = self._world.run()
        run = run_report(view) if view else None
        steps = tuple(self._done)
        code = exit_code_of(steps, run, is_interrupted=is_interrupted)
        report = Report(
            schema=SCHEMA,
            script=self._script.file,
            result=result_of(code),
            exit_code=code,
            started_at=format_rfc3339(started_at),
            seconds=round(self._clock.monotonic() - began, 3),
            steps=steps,
            run=run,
            artifacts=tuple(self._files),
        )
        return without_secrets(report)

    def _tell(self, line: str) -> None:
        self._out(redact(line))

    async def _play_steps(self, deadline: float) -> None:
        failed = False
        for step in self._script.steps:
            if failed:
                self._note(step, "steps", StepResult.SKIPPED, 0.0, "a step before it failed")
                continue
            until = min(self._clock.monotonic() + step.within_seconds, deadline)
            failed = not await self._play(step, "steps", until)

    async def _play(self, step: ScriptStep, section: Section, until: float) -> bool:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(max(until - began, 0.0) + 5.0):  # a host that hangs does not hang the script
                seen = await self._carry_out(step, until)
        except (StepFailed, ConsoleError, TimeoutError) as error:
            reason = error.sentence() if isinstance(error, ConsoleError) else str(error) or "it took too long"
            self._note(step, section, StepResult.FAILED, self._clock.monotonic() - began, reason)
            self._save_failure(step)
            return False
        self._note(step, section, StepResult.PASSED, self._clock.monotonic() - began, seen)
        return True

    async def _carry_out(self, step: ScriptStep, until: float) -> str:
        match step.action:
            case Press(keys=keys):
                await self._host.press(keys.split())
                return ""
            case Conditions() as conditions:
                return await self._conditions(conditions, step, until)
            case Call(arguments=ScreenshotArguments(file=file)):
                await self._host.settle()
                return self._save(Path(file))
            case Call() as call:
                return await self._command(call, until)

    async def _conditions(self, conditions: Conditions, step: ScriptStep, until: float) -> str:
        async def judged() -> list[Evaluation]:
            if conditions.why is not None:
                await self._world.ask_why(conditions.why.of)
            return evaluate(conditions, self._world)

        if step.verb == "wait":
            return await self._wait(judged, until)
        return await self._wait(judged, min(until, self._clock.monotonic() + EXPECT_SECONDS), give_up="")

    async def _command(self, call: Call, until: float) -> str:
        if call.command.id in _ENDS and self._has_launched_nothing(call):
            return "nothing was launched"
        if isinstance(call.arguments, ApproveArguments):
            stage = call.arguments.stage
            await self._wait_for(lambda: self._awaiting(stage), until)
        await self._host.execute(call)
        await self._host.settle()
        if call.command.id == "launch":
            return await self._wait_for(self._launched, until)
        if call.command.id in _ENDS:
            return await self._wait_for(lambda: self._ended(_ENDS[call.command.id]), until)
        return ""

    def _has_launched_nothing(self, call: Call) -> bool:
        """Whether a verb that ends a run has nothing to do: the launch that the script has did not make one.

        In a script that launches nothing the run that is meant is missing, which is a failure.
        """
        actions = [step.action for step in (*self._script.steps, *self._script.always)]
        may_launch = any(isinstance(action, Call) and action.command.id == "launch" for action in actions)
        return may_launch and self._world.run() is None and not getattr(call.arguments, "run", "")

    def _launched(self) -> Evaluation:
        run = self._world.run()
        return Evaluation(run is not None, f"run {run.id}" if run else "the run has not been created")

    def _ended(self, states: tuple[RunState, ...]) -> Evaluation:
        run = self._world.run()
        state = run.state if run else None
        left = run is not None and run.audit is not None and not run.audit.is_clean
        return Evaluation(state in states, f"the run is {state.value if state else 'unknown'}", cannot_pass=left)

    def _awaiting(self, stage_id: str) -> Evaluation:
        run = self._world.run()
        waiting = [stage for stage in run.stages if stage.state is StageState.AWAITING_APPROVAL] if run else []
        found = any(not stage_id or stage.id == stage_id for stage in waiting)
        ended = run is not None and run.state in (RunState.FAILED, RunState.CANCELLED)
        return Evaluation(found, "no plan waits for an approval" + self._where(run), cannot_pass=ended)

    def _where(self, run: RunView | None) -> str:
        return f": the run is {run.state.value}" if run else ": there is no run"

    async def _wait_for(self, look: Callable[[], Evaluation], until: float) -> str:
        async def judged() -> list[Evaluation]:
            return [look()]

        return await self._wait(judged, until)

    async def _wait(
        self, look: Callable[[], Awaitable[list[Evaluation]]], until: float, *, give_up: str = "time is up: "
    ) -> str:
        """Look after every frame until all conditions hold.

        Raises:
            StepFailed: Time is up, or waiting cannot help.
        """
        while True:
            self._tell_stages()
            seen = await look()
            text = "; ".join(one.text for one in seen)
            if all(one.holds for one in seen):
                return text
            if any(one.cannot_pass for one in seen if not one.holds):
                raise StepFailed(text)
            if self._clock.monotonic() >= until:
                raise StepFailed(f"{give_up}{text}")
            await self._host.frame()

    def _tell_stages(self) -> None:
        """One line for each stage, or step of a teardown, that is in another state than when it was last told."""
        run = self._world.run()
        if run is None:
            return
        # what a teardown does to a stage is told as its own step
        told = [(stage.id, stage) for stage in run.stages if stage.state is not StageState.UNDONE]
        told += [(f"teardown of {stage.id}", stage) for stage in run.teardown]
        for name, stage in told:
            if stage.state is StageState.PENDING or self._told.get(name) == stage.state.value:
                continue
            self._told[name] = stage.state.value
            message = f": {stage.message}" if stage.message and stage.state is not StageState.RUNNING else ""
            self._tell(f"          {name} {stage.state.value}{message}")

    def _note(self, step: ScriptStep, section: Section, result: StepResult, seconds: float, seen: str) -> None:
        text = one_line(redact(seen))
        self._tell_stages()
        self._done.append(StepReport(section, step.verb, step.text, step.line, result, round(seconds, 3), text))
        detail = f"  [{text}]" if text else ""
        self._tell(f"{result.value:<8} {seconds:6.1f} s  {step.text}{detail}")

    def _save(self, file: Path) -> str:
        path = self._artifacts.place(file)
        self._host.save_screen(path)
        self._files.append(str(path))
        return str(path)

    def _save_failure(self, step: ScriptStep) -> None:
        try:
            for suffix in (".txt", ".svg"):
                self._save(Path(f"failed-line-{step.line}{suffix}"))
        except ConsoleError as error:
            self._tell(f"          {error.sentence()}")


Play = Callable[[ConsoleDriver], Awaitable[Report]]
"""How the console is asked to play a script: it hands itself over as host."""


WHY_SECONDS = 1.0
"""Between two diagnoses of a stage: each asks the cluster for everything."""


class _StageSpool:
    """What has been read of one stage so far, and what a pattern has already been looked for in."""

    def __init__(self, folder: Path, stage: str) -> None:
        self._reader = SpoolReader(folder, stage)
        self._points_offset = 0
        self._searched: dict[str, int] = {}
        self._found: set[str] = set()
        self.points: dict[str, list[Point]] = defaultdict(list)

    def read_points(self) -> None:
        while True:
            findings, offset = self._reader.findings(self._points_offset)
            for item in findings:
                if isinstance(item.finding, Point):
                    self.points[item.finding.metric].append(item.finding)
            if offset == self._points_offset:
                return
            self._points_offset = offset

    def has_line(self, pattern: Pattern) -> bool:
        """Whether a line matches; each line is looked at once per pattern."""
        while pattern.pattern not in self._found:
            start = self._searched.get(pattern.pattern, 0)
            lines, end = self._reader.lines(start)
            if any(not line.is_marker and pattern.search(line.text) for line in lines):
                self._found.add(pattern.pattern)
            if end == start:
                break
            self._searched[pattern.pattern] = end
        return pattern.pattern in self._found


class DriverContext:
    """See `actions.script.conditions.World`. Closed by its maker."""

    def __init__(self, host: ConsoleDriver, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._findings: dict[str, Sequence[Finding]] = {}
        self._asked_at: dict[str, float] = {}
        self._costs: CostModel | None = None
        self._folder: Path | None = None
        self._reader: RunReader | None = None
        self._view: RunView | None = None
        self._spools: dict[str, _StageSpool] = {}

    def run(self) -> RunView | None:
        folder = self._host.run_folder()
        if folder != self._folder:
            self.close()
            self._folder, self._view, self._spools = folder, None, {}
        if folder is not None and self._reader is None:
            self._reader = RunReader(folder)
        if self._reader is not None:
            self._view = self._reader.poll() or self._view
        return self._view

    def points(self, metric: str, stage: str) -> Sequence[Point]:
        found: list[Point] = []
        for spool in self._stages(stage):
            spool.read_points()
            found += spool.points.get(metric, [])
        return found

    def has_line(self, pattern: Pattern, stage: str) -> bool:
        return any(spool.has_line(pattern) for spool in self._stages(stage))

    def findings(self, stage: str) -> Sequence[Finding] | None:
        return self._findings.get(stage)

    async def ask_why(self, stage: str) -> None:
        now = self._clock.monotonic()
        if now - self._asked_at.get(stage, -WHY_SECONDS) < WHY_SECONDS:
            return
        self._asked_at[stage] = now
        self._findings[stage] = await self._host.explain(stage)

    def snapshot(self) -> ClusterSnapshot | None:
        return self._host.snapshot()

    def costs(self) -> CostModel:
        if self._costs is None:
            self._costs = CostModel.load(region=self.identity().get("region", ""))
        return self._costs

    def screen_text(self) -> str:
        return self._host.screen_text()

    def identity(self) -> dict[str, str]:
        return self._host.identity()

    def close(self) -> None:
        """Close the run's journal."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _stages(self, stage: str) -> Iterator[_StageSpool]:
        view = self.run()
        if view is None or self._folder is None:
            return
        for known in view.stages:
            if not stage or known.id == stage:
                yield self._spools.setdefault(known.id, _StageSpool(self._folder, known.id))


def player_of(script: Script, host: ConsoleDriver, *, clock: Clock, tell: PrintLine, artifacts: Artifacts) -> Player:
    """A player whose conditions look at what `host` shows."""
    return Player(script, host, DriverContext(host, clock), clock=clock, tell=tell, artifacts=artifacts)
