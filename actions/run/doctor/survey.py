"""The doctor's checks for plan and form: all at once, within seconds, each line as soon as it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import count
from pathlib import Path
from typing import Any

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConsoleError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.objects.client import Discovery
from actions.run.capacity_survey import has_credentials
from actions.run.checks.external import SessionPool, pooled
from actions.run.checks.observation import Observation, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.account import LOG_IN, Caller, credential_lines, fetch_caller
from actions.run.doctor.cluster import cluster_questions, reach, reach_lines
from actions.run.doctor.examine import planned, questions_in_account
from actions.run.doctor.names import run_questions
from actions.run.doctor.programs import program_questions
from actions.run.doctor.report import DoctorLine, Question, line_of
from actions.run.doctor.rights import policy_questions
from actions.run.doctor.room import Room
from actions.run.doctor.sources import image_questions, module_questions, operator_questions
from actions.run.state.records import CheckResult

SURVEY_SECONDS = 3.0
"""For all checks of one launch together: what has not answered by then is unknown."""


LAUNCH_SECONDS = 30.0
"""For the checks of a launch itself: what refuses it is worth more than a plan's three seconds."""


class _Part(IntEnum):
    """The order of the lines."""

    PROGRAMS = 0
    CREDENTIALS = 1
    CLUSTER = 2
    CLUSTER_QUESTIONS = 3
    BUDGET = 4
    RIGHTS = 5
    MODULES = 6
    OPERATORS = 7
    ACCOUNT = 8
    RUNS = 9


class LaunchSurvey:
    """The checks of one launch. Used on one loop.

    Args:
        target: The present cluster, for a launch into it.
        blueprint: As it was loaded.
        binding: The values of its parameters.
        clock: For the end of credentials and reservations.
        pool: Of AWS sessions, to be closed by its owner.
        with_capacity: With zone, offering and reservation.
        runs: The folder of all runs, if not the usual one.
        is_simulated: Ask neither AWS nor for programs: only for other runs in the way, and the cluster that is there.
        store: Where the run would be replicated to; empty for this machine alone.
        has_budget: The launch has one, which has to be reachable.
    """

    def __init__(
        self,
        target: ClusterTarget,
        blueprint: Blueprint,
        binding: Binding,
        *,
        clock: Clock,
        pool: SessionPool,
        with_capacity: bool = False,
        runs: Path | None = None,
        is_simulated: bool = False,
        store: str = "",
        has_budget: bool = False,
    ) -> None:
        self._target = target
        self._blueprint = blueprint
        self._launch = planned(blueprint, binding, target, store=store)
        self._clock = clock
        self._pool = pool
        self._with_capacity = with_capacity
        self._runs = runs
        self._is_simulated = is_simulated or self._launch.is_cost_simulated
        self._has_budget = has_budget
        self._room: Room | None = None
        self._found: dict[tuple[_Part, int], DoctorLine] = {}
        self._waiting: dict[tuple[_Part, int], Question] = {}
        self._changed: Callable[[], None] = lambda: None

    @property
    def lines(self) -> tuple[DoctorLine, ...]:
        """The lines so far, in the order of the doctor."""
        return tuple(self._found[place] for place in sorted(self._found))

    @property
    def waiting(self) -> tuple[str, ...]:
        """The checks without an answer so far."""
        return tuple(self._waiting[place].check for place in sorted(self._waiting))

    @property
    def cost_text(self) -> str:
        """A sentence on what the pods use of a cluster that is there, and add to it; empty if that is not known."""
        return self._room.cost_text(self._launch.region) if self._room is not None else ""

    async def run(self, changed: Callable[[], None] | None = None, *, seconds: float = SURVEY_SECONDS) -> None:
        """Make all checks.

        Args:
            changed: Called after each line.
            seconds: For all of them together.
        """
        self._changed = changed or self._changed
        try:
            with pooled(self._pool):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                    for part, work in self._parts():
                        tasks.create_task(self._guarded(part, work))
        except TimeoutError:
            found = unknown(f"No answer within {seconds:g} s.")
            hint = f"Run eksml-tui doctor {self._blueprint.id}, which waits longer."
            for place, question in self._waiting.items():
                self._found[place] = question.line(found, hint=hint)
            self._waiting.clear()
            self._changed()

    def _parts(self) -> Iterator[tuple[_Part, Coroutine[Any, Any, None]]]:
        launch = self._launch
        yield _Part.RUNS, self._ask(_Part.RUNS, lambda: run_questions(launch, self._runs))
        if not launch.makes_cluster:
            yield _Part.CLUSTER, self._look_at_cluster()
        if self._is_simulated:
            return
        yield _Part.PROGRAMS, self._ask(_Part.PROGRAMS, lambda: program_questions(launch))
        yield _Part.MODULES, self._ask(_Part.MODULES, lambda: module_questions(launch))
        if launch.makes_cluster:
            yield _Part.OPERATORS, self._ask(_Part.OPERATORS, lambda: operator_questions(launch, None))
        yield _Part.CREDENTIALS, self._look_at_account()

    async def _look_at_cluster(self) -> None:
        """Reach the cluster that the launch goes into, then ask what needs it; close the session at the end."""
        launch = self._launch
        with self._awaited(_Part.CLUSTER, "cluster", is_blocking=True):
            found = await reach(self._target)
        try:
            self._put(_Part.CLUSTER, reach_lines(found, is_needed=True))
            session = found.session
            connection = ClusterConnection(session, Discovery(session)) if session is not None else None
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(
                    self._ask(
                        _Part.CLUSTER_QUESTIONS,
                        lambda: cluster_questions(found, launch, namespace=launch.namespace, seen=self._see),
                    )
                )
                tasks.create_task(self._ask(_Part.OPERATORS, lambda: operator_questions(launch, connection)))
        finally:
            if found.session is not None:
                await found.session.aclose()

    def _see(self, room: Room) -> None:
        self._room = room
        if self._has_budget and room.found.result is not CheckResult.FAILED:
            line = line_of(
                "budget", room.budget_line(), "Limit the time instead, or omit the budget.", is_blocking=True
            )
            self._put(_Part.BUDGET, [line])

    async def _look_at_account(self) -> None:
        """Ask who the caller is, then what the account has. Without credentials the images alone are looked for."""
        launch = self._launch
        if not (launch.works_in_account or questions_in_account(launch, Caller(), self._clock)):
            return
        if not has_credentials():
            none = unknown("Neither environment nor files name credentials, so AWS was not asked.")
            self._put(_Part.CREDENTIALS, [line_of("credentials", none, LOG_IN)])
            no_caller = Caller(refusal=AccessError(none.detail))
            await self._ask(_Part.ACCOUNT, lambda: image_questions(launch, no_caller))
            return
        with self._awaited(_Part.CREDENTIALS, "credentials"):
            caller = await fetch_caller(launch.region)
        lines = credential_lines(
            caller,
            now=self._clock.now(),
            needed_seconds=launch.high_seconds,
            is_needed=launch.works_in_account,
        )
        self._put(_Part.CREDENTIALS, lines)
        if caller.identity is None:
            await self._ask(_Part.ACCOUNT, lambda: image_questions(launch, caller))
            return
        async with asyncio.TaskGroup() as tasks:
            if launch.works_in_account:
                tasks.create_task(self._ask(_Part.RIGHTS, lambda: policy_questions(launch, caller, launch.region)))
            tasks.create_task(
                self._ask(
                    _Part.ACCOUNT,
                    lambda: questions_in_account(launch, caller, self._clock, with_capacity=self._with_capacity),
                )
            )

    async def _ask(self, part: _Part, make: Callable[[], list[Question]]) -> None:
        """Ask the questions of one part at once; if they cannot be made, that is its line, and no other part ends."""
        try:
            questions = make()
        except ConsoleError as error:
            self._put_unknown(part, error)
            return
        async with asyncio.TaskGroup() as tasks:
            for number, question in enumerate(questions):
                self._waiting[part, number] = question
                tasks.create_task(self._answer((part, number), question))

    async def _answer(self, place: tuple[_Part, int], question: Question) -> None:
        line = await question.answer()
        self._found[place] = line
        del self._waiting[place]
        self._changed()

    async def _guarded(self, part: _Part, work: Coroutine[Any, Any, None]) -> None:
        """Carry out a part; what cannot even be asked, as a root cannot be read, is an unknown line at its end."""
        try:
            await work
        except* ConsoleError as group:
            self._put_unknown(part, _first_of(group))

    def _put_unknown(self, part: _Part, error: ConsoleError) -> None:
        """Add the line of what kept a part from being asked, in the place of the check that waits, or at its end."""
        number = next(number for number in count() if (part, number) not in self._found)
        self._waiting.pop((part, number), None)
        hint = error.hint or f"Run eksml-tui validate {self._blueprint.folder}."
        check = part.name.lower().replace("_", " ")
        self._found[part, number] = line_of(check, unknown(error.message), hint)
        self._changed()

    def _put(self, part: _Part, lines: Iterable[DoctorLine]) -> None:
        for number, line in enumerate(lines):
            self._found[part, number] = line
        self._changed()

    @contextmanager
    def _awaited(self, part: _Part, check: str, *, is_blocking: bool = False) -> Iterator[None]:
        """Count a check as waiting for an answer that brings several lines."""
        self._waiting[part, 0] = Question(check, _nothing, "", is_blocking=is_blocking)
        yield  # not after an exception: what was cancelled has no answer
        del self._waiting[part, 0]


def _first_of(group: BaseExceptionGroup[ConsoleError]) -> ConsoleError:
    """Return the first error of a group, whose errors may be groups themselves."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


async def _nothing() -> Observation:
    raise AssertionError("it stands for a check that is made elsewhere")
