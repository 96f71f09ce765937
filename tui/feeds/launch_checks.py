"""The doctor's checks of the launch that a form shows: made again after each change, lines as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from tui.settings.settings import ConsoleSettings

if TYPE_CHECKING:  # they import what asks AWS, after the form is on screen
    from actions.blueprint.model import Blueprint
    from actions.blueprint.parameters import Binding
    from actions.run.checks.external import SessionPool
    from actions.run.doctor.report import DoctorLine
    from actions.run.doctor.survey import LaunchSurvey

QUIET_SECONDS = 0.7
"""Time without a change of a field before a check begins."""


class LaunchChecks:
    """The checks of one form. A demo asks no account, only this machine and its own cluster. Used on the loop only.

    Args:
        settings: The cluster; whether launches are checked.
        clock: Time.
        changed: Called after each line.
    """

    def __init__(self, settings: ConsoleSettings, clock: Clock, changed: Callable[[], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._survey: LaunchSurvey | None = None
        self._pool: SessionPool | None = None
        self._is_urgent = asyncio.Event()

    @property
    def lines(self) -> Sequence[DoctorLine]:
        """The lines so far."""
        return self._survey.lines if self._survey else ()

    @property
    def waiting(self) -> Sequence[str]:
        """The checks without an answer so far."""
        return self._survey.waiting if self._survey else ()

    @property
    def cost_text(self) -> str:
        """The sentence on the cost in a cluster that is there; empty until it is known."""
        return self._survey.cost_text if self._survey else ""

    async def run(self, blueprint: Blueprint, bound: Binding, *, store: str, has_budget: bool) -> None:
        """Make all checks of a launch, once the fields have been left alone for a while. Cancelled by a change.

        Args:
            blueprint: The blueprint.
            bound: The values of its parameters.
            store: Of the run; empty for none.
            has_budget: The run has one.
        """
        self._survey = None
        if not self._settings.checks_launches:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS):
                await self._is_urgent.wait()
        from actions.run.checks.external import SessionPool
        from actions.run.doctor.survey import LaunchSurvey

        self._pool = self._pool or SessionPool()
        self._survey = LaunchSurvey(
            self._settings.target,
            blueprint,
            bound,
            clock=self._clock,
            pool=self._pool,
            is_simulated=self._settings.demo is not None,
            store=store,
            has_budget=has_budget,
        )
        await self._survey.run(self._changed)

    def check_at_once(self) -> None:
        """Begin checks without a pause: the launch was submitted."""
        self._is_urgent.set()

    def check_after_pauses(self) -> None:
        """Begin each check after a pause without a change, as before."""
        self._is_urgent.clear()

    def close(self) -> None:
        """Ask nothing more."""
        if self._pool is not None:
            self._pool.close()
