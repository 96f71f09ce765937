"""The runner: carries out a run, one announced step at a time."""

from __future__ import annotations

import asyncio
import errno
import traceback
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConflictError, ConsoleError
from actions.base.guard import FencedError
from actions.base.untrusted import one_line, redact
from actions.run.context.protocols import (
    Performed,
    Preparable,
    RunBackend,
    StageFailedError,
    StageHandler,
    Stoppable,
)
from actions.run.journal.runner_journal import RunnerJournal, StageRecorder
from actions.run.state.planner import ApprovePlan, Begin, Finish, Reconcile, Wait, next_step
from actions.run.state.records import (
    Action,
    Approval,
    Intent,
    Operator,
    Outcome,
    Output,
    RequestKind,
    Result,
    StageFinding,
)
from actions.run.state.view import Goal, RunView, StageState, StageView
from actions.run.teardown.sharing import SHARING_HINT, sharing_sentence

POLL_SECONDS = 0.2
"""Interval at which the runner looks for requests."""
ROOM_SECONDS = 2.0
"""Pause before a stage is repeated that could not write a file on a full disk."""
ORDERLY_SECONDS = 12.0
"""Time for the end of a stage's work when this machine has lost the run; a program has ten seconds of it."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

T = TypeVar("T")
Log = Callable[[str], None]


class _Failure(msgspec.Struct, frozen=True):
    message: str
    findings: tuple[StageFinding, ...] = ()

    def outcome(self, action: Action) -> Outcome:
        return Outcome(action, Result.FAILED, one_line(redact(self.message)), findings=self.findings)


class Runner:
    """The runner of one run, which works until nothing is left to do without a new request.

    Args:
        runner_journal: The run's journal, under a lease that this process holds.
        backend: Everything that is done outside of the journal.
        clock: For waiting.
        log: Takes one line at a time, for the runner's log.
        is_behind: Returns true while something beside the work is to be done before the process ends: a copy of the run
            in its store, an alarm.
    """

    def __init__(
        self,
        runner_journal: RunnerJournal,
        backend: RunBackend,
        clock: Clock,
        log: Log,
        *,
        is_behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_behind = is_behind
        self._journal = runner_journal
        self._backend = backend
        self._clock = clock
        self._log = log

    async def run(self) -> RunView:
        """Work until the end; returns with the lease released.

        Raises:
            JournalError: The journal is damaged.
            ConflictError: Another runner took over.
        """
        while True:
            view = await self._journal.view()
            match next_step(view):
                case Begin(action=Action.PERFORM, stage=stage):
                    await self._perform(view, view.stage(stage))
                case Begin(action=Action.UNDO, stage=stage):
                    await self._undo(view, view.stage(stage))
                case Begin(action=action):
                    await self._end(view, action)
                case Reconcile(stage=stage):
                    await self._reconcile(view, view.stage(stage))
                case ApprovePlan(stage=stage, plan_hash=plan_hash, is_automatic=is_automatic):
                    by = None if is_automatic else _approver(view)
                    approval = Approval(plan_hash=plan_hash, is_automatic=is_automatic, by=by)
                    await self._journal.write(approval, stage=stage)
                case Wait():
                    await self._wait_for_news()
                case Finish():
                    await self._wait_for_news(self._is_behind)
                    if not self._is_behind() and await self._journal.release(view.last_seq):
                        return view

    async def _perform(self, view: RunView, stage: StageView) -> None:
        if not self._journal.may_begin():  # the disk is full: read the goal again, too
            await self._clock.sleep(POLL_SECONDS)
            return
        continues = stage.state is StageState.AWAITING_APPROVAL
        attempt = stage.attempt if continues else stage.attempt + 1
        await self._journal.write(Intent(action=Action.PERFORM), stage=stage.id, attempt=attempt)
        self._log(f"{stage.id}: begun, attempt {attempt}")

        async def work() -> Performed:
            handler = self._handler(view, stage, attempt)
            await _prepare(handler)
            async with self._backend.watching(view, stage, StageRecorder(self._journal, stage.id, attempt)):
                done = await handler.perform()
            return await self._backend.with_warnings(stage, done)

        await self._close(stage, attempt, work)

    async def _reconcile(self, view: RunView, stage: StageView) -> None:
        """Probe a stage during which an earlier runner died, and perform it again only if it was not done."""
        self._log(f"{stage.id}: was under way when its runner died; finding out how far it got")
        if view.goal is not Goal.FORWARD:
            await self._reconcile_cancelled(view, stage)
            return
        await self._journal.write(Intent(action=Action.PERFORM), stage=stage.id, attempt=stage.attempt)

        async def work() -> Performed:
            handler = self._handler(view, stage, stage.attempt)
            await _prepare(handler)
            async with self._backend.watching(view, stage, StageRecorder(self._journal, stage.id, stage.attempt)):
                done = await handler.probe() or await handler.perform()
            return await self._backend.with_warnings(stage, done)

        await self._close(stage, stage.attempt, work)

    async def _reconcile_cancelled(self, view: RunView, stage: StageView) -> None:
        """Stop the process of a stage that outlived its runner, as the stage is cancelled."""

        async def work() -> None:
            handler = self._handler(view, stage, stage.attempt)
            if isinstance(handler, Stoppable):
                await self._journal.write(Intent(action=Action.PERFORM), stage=stage.id, attempt=stage.attempt)
                await handler.stop()

        stopped = await self._guarded(self._attended(work))
        cancelled = Outcome(Action.PERFORM, Result.CANCELLED, "Interrupted.")
        outcome = stopped.outcome(Action.PERFORM) if isinstance(stopped, _Failure) else cancelled
        await self._write_end(stage, stage.attempt, outcome)

    async def _close(self, stage: StageView, attempt: int, work: Callable[[], Awaitable[Performed]]) -> None:
        """Run `work`, interrupted if the goal changes, and write how it ended."""
        done = await self._guarded(self._interruptible(self._with_room(stage.id, work)))
        if isinstance(done, _Failure):
            await self._write_end(stage, attempt, done.outcome(Action.PERFORM))
            return
        if done is None:
            await self._write_end(stage, attempt, Outcome(Action.PERFORM, Result.CANCELLED, "Interrupted."))
            return
        if done.outputs:
            await self._journal.write(Output(values=dict(done.outputs)), stage=stage.id, attempt=attempt)
        result = Result.DONE if done.plan is None else Result.AWAITING_APPROVAL
        outcome = Outcome(Action.PERFORM, result, one_line(done.message), plan=done.plan, findings=done.findings)
        await self._write_end(stage, attempt, outcome)

    async def _undo(self, view: RunView, stage: StageView) -> None:
        attempt = stage.attempt
        await self._journal.write(Intent(action=Action.UNDO), stage=stage.id, attempt=attempt)
        self._log(f"{stage.id}: undoing")

        async def work() -> str:
            await self._refuse_shared(view)
            return await self._handler(view, stage, attempt).undo()

        message = await self._guarded(self._attended(self._with_room(stage.id, work)))
        if isinstance(message, _Failure):
            outcome = message.outcome(Action.UNDO)
        else:
            outcome = Outcome(Action.UNDO, Result.DONE, one_line(message))
        await self._write_end(stage, attempt, outcome)

    async def _end(self, view: RunView, action: Action) -> None:
        """Carry out a step that belongs to no stage: drain or audit."""
        await self._journal.write(Intent(action=action))
        self._log(f"{action.value}: begun")

        async def work() -> Outcome:
            if action is Action.DRAIN:
                await self._refuse_shared(view)
                message = await self._backend.drain(view, StageRecorder(self._journal, "", 0))
                return Outcome(action, Result.DONE, one_line(message))
            report = await self._backend.audit(view, StageRecorder(self._journal, "", 0))
            return Outcome(
                action,
                Result.DONE,
                one_line(report.sentence()),
                leftovers=report.leftovers,
                retained=report.retained,
                unknown=report.unknown,
            )

        outcome = await self._guarded(self._attended(work))
        ended = outcome.outcome(action) if isinstance(outcome, _Failure) else outcome
        self._journal.note("", "")
        await self._journal.write(ended)
        self._log(f"{action.value}: {ended.result.value} {ended.message}")

    async def _refuse_shared(self, view: RunView) -> None:
        """Refuse the first step of a teardown of what others use.

        Raises:
            StageFailedError: With the others, and what they use.
        """
        has_begun = any(step.state is StageState.SUCCEEDED for step in view.ending.values())
        if view.goal is not Goal.TEARDOWN or view.even_if_shared or has_begun:
            return
        users = await self._backend.others_using(view, StageRecorder(self._journal, "", 0))
        if users:
            raise StageFailedError(sharing_sentence(view, users), hint=SHARING_HINT)

    def _handler(self, view: RunView, stage: StageView, attempt: int) -> StageHandler:
        return self._backend.handler(view, stage, StageRecorder(self._journal, stage.id, attempt))

    async def _write_end(self, stage: StageView, attempt: int, outcome: Outcome) -> None:
        self._journal.note(stage.id, "")
        self._journal.warn(stage.id, "")
        self._journal.trouble(stage.id, "")
        await self._journal.write(outcome, stage=stage.id, attempt=attempt)
        self._journal.flush_notes()
        self._log(f"{stage.id}: {outcome.action.value} {outcome.result.value} {outcome.message}")

    def _with_room(self, stage: str, work: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """Return `work`, repeated while the disk is full, as an unwritten file is not a failure of the stage."""

        async def done() -> T:
            while True:
                try:
                    return await work()
                except OSError as error:
                    if error.errno not in _NO_ROOM:
                        raise
                    self._journal.note(stage, f"Waiting for disk space: {error}.")
                await self._clock.sleep(ROOM_SECONDS)

        return done

    async def _guarded(self, work: Awaitable[T]) -> T | _Failure:
        """Return the result of `work`, or its failure. Cancellation passes, and the end of a fenced runner."""
        try:
            return await work
        except FencedError:
            raise
        except StageFailedError as error:
            return _Failure(error.sentence(), error.findings)
        except ConsoleError as error:
            return _Failure(error.sentence())
        except Exception as error:  # noqa: BLE001 - the boundary of everything that a handler may do
            self._log(traceback.format_exc())
            return _Failure(f"Unexpected {type(error).__name__}: {error}. The run's runner.log has more.")

    async def _interruptible(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of `work`; `None` if the goal of the run changed and it was cancelled."""
        task = asyncio.ensure_future(work())
        is_cancelled = False  # once: the next request must not interrupt its orderly end
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=POLL_SECONDS)
                self._journal.flush_notes()
                if (
                    not is_cancelled
                    and self._journal.has_news()
                    and self._journal.view_if_readable().goal is not Goal.FORWARD
                ):
                    is_cancelled = task.cancel()
            return None if task.cancelled() else task.result()
        finally:
            await self._stop(task)

    async def _attended(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`, with messages written meanwhile. Requests wait until it is done."""
        task = asyncio.ensure_future(work())
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=POLL_SECONDS)
                self._journal.flush_notes()
            return task.result()
        finally:
            await self._stop(task)

    async def _stop(self, task: asyncio.Task[T]) -> None:
        """Cancel a task, and give it, and a program that it runs, time for an orderly end: the loop ends after this."""
        if not task.cancel():
            return
        await asyncio.wait({task}, timeout=ORDERLY_SECONDS)
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None and not isinstance(error, ConflictError):  # which is told as the reason of the end
            self._log(f"{type(error).__name__} at the end of the work: {error}")

    async def _wait_for_news(self, is_waiting: Callable[[], bool] = lambda: True) -> None:
        """Wait for a request or another record, for as long as `is_waiting` returns true."""
        while is_waiting() and not self._journal.has_news():
            await self._clock.sleep(POLL_SECONDS)


async def _prepare(handler: StageHandler) -> None:
    if isinstance(handler, Preparable):
        await handler.prepare()


def _approver(view: RunView) -> Operator | None:
    """Return who has approved the plan that waits: the newest request to approve is that for it."""
    asked = [request for request in view.requests if request.kind is RequestKind.APPROVE]
    return asked[-1].by if asked else None
