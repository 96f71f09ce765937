"""Playing a script: one step after the other, each within its time, and `always` whatever happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line, redact
from actions.command.model import Call
from actions.command.registry import Approve, Screenshot
from actions.run.view import RunState, RunView, StageState
from actions.script.artifacts import Artifacts
from actions.script.host import Host
from actions.script.judge import Seen, World, judge
from actions.script.model import Conditions, Press, Script, Step
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

Section = Literal["steps", "always"]
Tell = Callable[[str], None]

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
        self, script: Script, host: Host, world: World, *, clock: Clock, tell: Tell, artifacts: Artifacts
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

    async def _play(self, step: Step, section: Section, until: float) -> bool:
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

    async def _carry_out(self, step: Step, until: float) -> str:
        match step.action:
            case Press(keys=keys):
                await self._host.press(keys.split())
                return ""
            case Conditions() as conditions:
                return await self._conditions(conditions, step, until)
            case Call(arguments=Screenshot(file=file)):
                await self._host.settle()
                return self._save(Path(file))
            case Call() as call:
                return await self._command(call, until)

    async def _conditions(self, conditions: Conditions, step: Step, until: float) -> str:
        async def judged() -> list[Seen]:
            if conditions.why is not None:
                await self._world.ask_why(conditions.why.of)
            return judge(conditions, self._world)

        if step.verb == "wait":
            return await self._wait(judged, until)
        return await self._wait(judged, min(until, self._clock.monotonic() + EXPECT_SECONDS), give_up="")

    async def _command(self, call: Call, until: float) -> str:
        if call.command.id in _ENDS and self._has_launched_nothing(call):
            return "nothing was launched"
        if isinstance(call.arguments, Approve):
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

    def _launched(self) -> Seen:
        run = self._world.run()
        return Seen(run is not None, f"run {run.id}" if run else "the run has not been created")

    def _ended(self, states: tuple[RunState, ...]) -> Seen:
        run = self._world.run()
        state = run.state if run else None
        left = run is not None and run.audit is not None and not run.audit.is_clean
        return Seen(state in states, f"the run is {state.value if state else 'unknown'}", is_hopeless=left)

    def _awaiting(self, stage_id: str) -> Seen:
        run = self._world.run()
        waiting = [stage for stage in run.stages if stage.state is StageState.AWAITING_APPROVAL] if run else []
        found = any(not stage_id or stage.id == stage_id for stage in waiting)
        ended = run is not None and run.state in (RunState.FAILED, RunState.CANCELLED)
        return Seen(found, "no plan waits for an approval" + self._where(run), is_hopeless=ended)

    def _where(self, run: RunView | None) -> str:
        return f": the run is {run.state.value}" if run else ": there is no run"

    async def _wait_for(self, look: Callable[[], Seen], until: float) -> str:
        async def judged() -> list[Seen]:
            return [look()]

        return await self._wait(judged, until)

    async def _wait(
        self, look: Callable[[], Awaitable[list[Seen]]], until: float, *, give_up: str = "time is up: "
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
            if any(one.is_hopeless for one in seen if not one.holds):
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

    def _note(self, step: Step, section: Section, result: StepResult, seconds: float, seen: str) -> None:
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

    def _save_failure(self, step: Step) -> None:
        try:
            for suffix in (".txt", ".svg"):
                self._save(Path(f"failed-line-{step.line}{suffix}"))
        except ConsoleError as error:
            self._tell(f"          {error.sentence()}")


Play = Callable[[Host], Awaitable[Report]]
"""How the console is asked to play a script: it hands itself over as host."""
