"""The player of a script: one step after the other, each within its time, then `always`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConsoleError, describe_bug
from actions.base.untrusted import one_line, redact
from actions.command.arguments import (
    ApproveArguments,
    ScreenshotArguments,
)
from actions.command.verbs import Call
from actions.run.state.view import RunState, RunView, StageState, StageView
from actions.script.artifacts import Artifacts
from actions.script.conditions import Evaluation, evaluate
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
from actions.script.run_observer import RunObserver

Section = Literal["steps", "always"]
PrintLine = Callable[[str], None]

SHOW_SECONDS = 1.0
"""For the newest data to come on screen before a failure is saved."""
EXPECT_SECONDS = 2.0
"""An expectation is evaluated for this long: an event may not have reached the console yet."""

_ENDS = {
    "teardown": (RunState.TORN_DOWN,),
    "park": (RunState.PARKED,),
    "cancel": (RunState.CANCELLED,),
}
"""States of the run that end the step of a command."""
_STOPPED = (StageState.FAILED, StageState.CANCELLED, StageState.UNDONE)
"""States of a stage that a resume begins again."""


class StepFailed(Exception):
    """A step has failed. The message is the state that was found instead."""


class Player:
    """The player of a script. Plays it once.

    Args:
        script: The script.
        driver: The console that it is played on.
        run: The run on that console's screen.
        clock: For time limits.
        print_line: Called with one line for each step and each change of a stage.
        artifacts: The files of screenshots, and of the screen when a step fails.
        passed: Called with each step that has passed.
    """

    def __init__(
        self,
        script: Script,
        driver: ConsoleDriver,
        run: RunObserver,
        *,
        clock: Clock,
        print_line: PrintLine,
        artifacts: Artifacts,
        passed: Callable[[ScriptStep], None] = lambda _: None,
    ) -> None:
        self._passed = passed
        self._script = script
        self._driver = driver
        self._run = run
        self._clock = clock
        self._print_line = print_line
        self._artifacts = artifacts
        self._reports: list[StepReport] = []
        self._files: list[str] = []
        self._stage_states: dict[str, str] = {}
        """As printed last, by stage or step of a teardown."""

    async def play(self) -> Report:
        """Play all steps, then `always`. Cancelling the task ends the steps; `always` still runs. Return the report."""
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
        view = self._run.view()
        run = run_report(view) if view else None
        steps = tuple(self._reports)
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

    def _print(self, line: str) -> None:
        self._print_line(redact(line))

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
            async with asyncio.timeout(max(until - began, 0.0) + 5.0):  # a console that hangs does not hang the script
                seen = await self._perform(step, until)
        except Exception as error:  # noqa: BLE001 - `always` is played whatever a step raises: it tears the run down
            self._note(step, section, StepResult.FAILED, self._clock.monotonic() - began, _reason_of(error))
            await self._save_failure(step)
            return False
        self._note(step, section, StepResult.PASSED, self._clock.monotonic() - began, seen)
        self._passed(step)
        return True

    async def _perform(self, step: ScriptStep, until: float) -> str:
        match step.action:
            case Press(keys=keys):
                await self._driver.press(keys.split())
                return ""
            case Conditions() as conditions:
                return await self._conditions(conditions, step, until)
            case Call(arguments=ScreenshotArguments(file=file)):
                await self._driver.show()
                return self._save(Path(file))
            case Call() as call:
                return await self._command(call, until)

    async def _conditions(self, conditions: Conditions, step: ScriptStep, until: float) -> str:
        async def evaluated() -> list[Evaluation]:
            if conditions.why is not None:
                await self._run.diagnose(conditions.why.of)
            return evaluate(conditions, self._driver, self._run)

        if conditions.text:
            await self._driver.show()
        if step.verb == "wait":
            return await self._wait(evaluated, until)
        return await self._wait(evaluated, min(until, self._clock.monotonic() + EXPECT_SECONDS), give_up="")

    async def _command(self, call: Call, until: float) -> str:
        if call.command.id in _ENDS and self._has_launched_nothing(call):
            return "nothing was launched"
        if isinstance(call.arguments, ApproveArguments):
            stage = call.arguments.stage
            await self._wait_for(lambda: self._awaiting(stage), until)
        stopped = self._stopped() if call.command.id == "resume" else {}
        await self._driver.execute(call)
        await self._driver.settle()
        if call.command.id == "launch":
            return await self._wait_for(self._launched, until)
        if stopped:
            return await self._wait_for(lambda: self._goes_on(stopped), until)
        if call.command.id in _ENDS:
            return await self._wait_for(lambda: self._ended(_ENDS[call.command.id]), until)
        return ""

    def _has_launched_nothing(self, call: Call) -> bool:
        """Return whether a command that ends a run has nothing to do, since the script's launch made no run.

        In a script without a launch the run is missing instead, which is a failure.
        """
        actions = [step.action for step in (*self._script.steps, *self._script.always)]
        may_launch = any(isinstance(action, Call) and action.command.id == "launch" for action in actions)
        return may_launch and self._run.view() is None and not getattr(call.arguments, "run", "")

    def _launched(self) -> Evaluation:
        run = self._run.newest
        return Evaluation(run is not None, f"run {run.id}" if run else "the run has not been created")

    def _stopped(self) -> dict[str, StageView]:
        """Return the stages that have stopped, by id."""
        run = self._run.view()
        return {stage.id: stage for stage in run.stages if stage.state in _STOPPED} if run else {}

    def _goes_on(self, stopped: Mapping[str, StageView]) -> Evaluation:
        """Return whether one of the stages that had stopped has been begun again: a wait may count on it."""
        run = self._run.newest
        again = [
            stage.id
            for stage in (run.stages if run else ())
            if (was := stopped.get(stage.id)) and (was.state, was.attempt) != (stage.state, stage.attempt)
        ]
        text = f"{', '.join(again)} begun again" if again else f"no stage has been begun again{self._where(run)}"
        return Evaluation(bool(again), text)

    def _ended(self, states: tuple[RunState, ...]) -> Evaluation:
        run = self._run.newest
        state = run.state if run else None
        left = run is not None and run.audit is not None and not run.audit.is_clean
        return Evaluation(state in states, f"the run is {state.value if state else 'unknown'}", cannot_pass=left)

    def _awaiting(self, stage_id: str) -> Evaluation:
        run = self._run.newest
        waiting = [stage for stage in run.stages if stage.state is StageState.AWAITING_APPROVAL] if run else []
        found = any(not stage_id or stage.id == stage_id for stage in waiting)
        ended = run is not None and run.state in (RunState.FAILED, RunState.CANCELLED)
        return Evaluation(found, "no plan waits for an approval" + self._where(run), cannot_pass=ended)

    def _where(self, run: RunView | None) -> str:
        return f": the run is {run.state.value}" if run else ": there is no run"

    async def _wait_for(self, evaluate_one: Callable[[], Evaluation], until: float) -> str:
        async def evaluated() -> list[Evaluation]:
            return [evaluate_one()]

        return await self._wait(evaluated, until)

    async def _wait(
        self, evaluated: Callable[[], Awaitable[list[Evaluation]]], until: float, *, give_up: str = "time is up: "
    ) -> str:
        """Evaluate after every frame until all conditions hold. Each time the journal is read once, and first.

        Raises:
            StepFailed: Time is up, or waiting cannot help.
        """
        while True:
            self._print_stages()
            evaluations = await evaluated()
            text = "; ".join(evaluation.text for evaluation in evaluations)
            if all(evaluation.holds for evaluation in evaluations):
                return text
            if any(evaluation.cannot_pass for evaluation in evaluations if not evaluation.holds):
                raise StepFailed(text)
            if self._clock.monotonic() >= until:
                raise StepFailed(f"{give_up}{text}")
            await self._driver.frame()

    def _print_stages(self) -> None:
        """Print a line for each stage, or step of a teardown, whose state differs from the one printed last."""
        run = self._run.view()
        if run is None:
            return
        # a teardown's effect on a stage is printed as a step of its own
        stages = [(stage.id, stage) for stage in run.stages if stage.state is not StageState.UNDONE]
        stages += [(f"teardown of {stage.id}", stage) for stage in run.teardown]
        for name, stage in stages:
            if stage.state is StageState.PENDING or self._stage_states.get(name) == stage.state.value:
                continue
            self._stage_states[name] = stage.state.value
            message = f": {stage.message}" if stage.message and stage.state is not StageState.RUNNING else ""
            self._print(f"          {name} {stage.state.value}{message}")

    def _note(self, step: ScriptStep, section: Section, result: StepResult, seconds: float, seen: str) -> None:
        text = one_line(redact(seen))
        self._print_stages()
        self._reports.append(StepReport(section, step.verb, step.text, step.line, result, round(seconds, 3), text))
        detail = f"  [{text}]" if text else ""
        self._print(f"{result.value:<8} {seconds:6.1f} s  {step.text}{detail}")

    def _save(self, file: Path) -> str:
        path = self._artifacts.place(file)
        self._driver.save_screen(path)
        self._files.append(str(path))
        return str(path)

    async def _save_failure(self, step: ScriptStep) -> None:
        try:
            with suppress(TimeoutError):  # a console that hangs shows what it showed last
                async with asyncio.timeout(SHOW_SECONDS):
                    await self._driver.show()
            for suffix in (".txt", ".svg"):
                self._save(Path(f"failed-line-{step.line}{suffix}"))
        except ConsoleError as error:
            self._print(f"          {error.sentence()}")


def _reason_of(error: Exception) -> str:
    if isinstance(error, ConsoleError):
        return error.sentence()
    if isinstance(error, StepFailed | TimeoutError):
        return str(error) or "it took too long"
    return f"{describe_bug(error)}."
