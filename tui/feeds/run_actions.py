"""The operator's requests to runs, written into their journals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.backoff import Backoff
from actions.base.clock import Clock
from actions.base.errors import RefusedError
from actions.base.executors import NamedExecutor
from actions.run.client import (
    load_run,
    resume_interrupted,
    resume_run,
    send_request,
    set_limits,
    start_runner,
)
from actions.run.state.records import Limits, RequestKind
from actions.run.state.view import RunView
from tui.feeds.runs import RunFeed, waiting_stage
from tui.settings.settings import ConsoleSettings

LOOK_SECONDS = 2.0
"""Pause between two checks for dead runners."""
LONGEST_PAUSE_SECONDS = 16.0
"""Maximum pause between two attempts to start runners that could not be started."""
_WAYS = ("AWS:", "Cluster:")
"""Beginnings of the sentences on the ways by which a run is reached from here."""

if TYPE_CHECKING:
    from actions.run.launch import LaunchOrder
    from actions.run.limits.options import LimitTexts


class RunActions:
    """Launches and requests. Runners act on them by themselves; the result is read back from the journal.

    Args:
        settings: Target and environment of runs.
        runs: The feed that shows them.
        clock: Stamps records.
    """

    def __init__(self, settings: ConsoleSettings, runs: RunFeed, clock: Clock) -> None:
        self._settings = settings
        self._runs = runs
        self._clock = clock
        self._disk = NamedExecutor("wishes")

    async def launch(self, order: LaunchOrder, *, say: Callable[[str], None], waived: Sequence[str] = ()) -> Path:
        """Make the checks of a launch, create its run, start its runner, and put it on screen.

        Args:
            order: The run.
            say: See `launch_run`.
            waived: Names of checks that may fail.

        Raises:
            RefusedError: Another run is in its place, or another check refuses it.
            ConsoleError: The run cannot be created or its runner cannot be started.
        """
        from actions.run.doctor.examine import planned
        from actions.run.doctor.names import require_no_other_run
        from actions.run.launch import launch_run

        await self._require_passed(order, waived=waived)
        launch = planned(order.blueprint, order.binding, order.target)
        folder = await launch_run(order, require=partial(require_no_other_run, launch, waived=waived), say=say)
        await self._disk.call(start_runner, folder, environment=order.environment)
        await self._runs.refresh_list()
        self._runs.choose(folder)
        return folder

    async def _require_passed(self, order: LaunchOrder, *, waived: Sequence[str]) -> None:
        """Make the doctor's checks, as a form does, which may have been open for an hour, or was not there at all."""
        if not self._settings.checks_launches:
            return
        from actions.run.checks.external import SessionPool
        from actions.run.doctor.report import require_passed
        from actions.run.doctor.survey import LAUNCH_SECONDS, LaunchSurvey

        pool = SessionPool()
        try:
            survey = LaunchSurvey(
                order.target,
                order.blueprint,
                order.binding,
                clock=self._clock,
                pool=pool,
                is_simulated=self._settings.demo is not None,
                store=order.store_url,
                has_budget=bool(order.limits.budget_usd),
            )
            await survey.run(seconds=LAUNCH_SECONDS)
        finally:
            pool.close()
        require_passed(survey.lines, waived=waived, waiver=lambda names: f"waive={names}")

    async def approve(self, run_id: str, stage_id: str) -> str:
        """Approve the plan that a stage is waiting with, as shown on screen.

        Returns:
            The obstacle to the request being followed, in one sentence; empty if there is none.

        Raises:
            RefusedError: No stage of that run is waiting.
        """
        view = self._view_of(run_id)
        stage = waiting_stage(view, stage_id)
        plan_hash = stage.plan.plan_hash if stage.plan else ""
        return await self._write(run_id, lambda folder: self._wish(folder, RequestKind.APPROVE, plan_hash=plan_hash))

    async def teardown(self, run_id: str, *, confirm: str, deletes_data: bool, even_if_shared: bool = False) -> str:
        """Request the removal of everything that the run made.

        Returns:
            See `approve`.

        Raises:
            RefusedError: `confirm` is not the name of the run's cluster; or others use what would be removed.
        """
        name = self._view_of(run_id).cluster.name
        if confirm != name:
            raise RefusedError(
                f"The teardown was not confirmed with the cluster's name, {name}.",
                hint="Another run is named by run=ID; `:teardown` alone asks for the name.",
            )
        return await self._write(
            run_id,
            lambda folder: self._wish(
                folder, RequestKind.TEARDOWN, deletes_data=deletes_data, even_if_shared=even_if_shared
            ),
        )

    async def ask_for(self, run_id: str, kind: RequestKind) -> str:
        """Send any request without arguments.

        Returns:
            See `approve`.

        Raises:
            RefusedError: The run's state does not allow it.
        """
        self._view_of(run_id)  # shows it
        return await self._write(run_id, lambda folder: self._wish(folder, kind))

    async def limit(self, run_id: str, texts: LimitTexts, *, is_none: bool = False) -> str:
        """Change the limits of a run: what the texts do not state stays.

        Args:
            run_id: The run.
            texts: As typed.
            is_none: Take all limits away first.

        Returns:
            The limits in a sentence, with one that is reached already.

        Raises:
            UsageError: One of the texts cannot be read.
            RefusedError: The run is torn down.
        """
        from actions.run.limits.options import limits_of, limits_text, reach_text, require_limit

        view = self._view_of(run_id)
        known = limits_of(texts, now=self._clock.now(), known=Limits() if is_none else view.limits)
        require_limit(texts, known)
        environment = self._settings.run_environment
        warning = await self._write(
            run_id, lambda folder: set_limits(folder, known, clock=self._clock, environment=environment)
        )
        return " ".join(part for part in (f"Limits: {limits_text(known)}.", warning or reach_text(known)) if part)

    async def take_over(
        self, run_id: str, *, source: str, confirm: str, is_machine_gone: bool, say: Callable[[str], None]
    ) -> str:
        """Carry out a run of another machine on this one.

        Args:
            run_id: Its whole id.
            source: See `source_for`.
            confirm: Its id again, as typed.
            is_machine_gone: The other machine no longer exists.
            say: Takes a sentence on each step, at once: one of them waits for a quarter of a minute.

        Returns:
            The result, in a sentence.

        Raises:
            ConsoleError: See `take_over_run`.
        """
        from actions.run.takeover.origin import source_for, take_over_from

        said: list[str] = []

        def tell(text: str) -> None:
            if text.startswith(_WAYS):
                said.append(text)  # of the result, which comes soon
            else:
                say(text)

        target = self._settings.target
        if self._settings.contexts:  # none of them is chosen for this run
            target = replace(target, context="")
        done = await take_over_from(
            source_for(run_id, source, self._settings.store),
            run_id,
            target,
            self._clock,
            is_chosen=bool(target.context),
            confirm=confirm,
            is_machine_gone=is_machine_gone,
            environment=self._settings.run_environment,
            say=tell,
        )
        left_out = [f"Left alone: {line.rstrip('.')}." for line in done.left_out]
        first = f"This machine carries out {done.folder.name} (epoch {done.epoch})."
        return " ".join([first, *said, *done.sentences, *left_out])

    async def resume(self, run_id: str, *, stage: str = "", takeover: int = 0) -> str:
        """Have a run go on; see `resume_run`."""
        self._view_of(run_id)  # shows it
        resume = partial(
            resume_run,
            stage=stage,
            takeover=takeover,
            clock=self._clock,
            environment=self._settings.run_environment,
        )
        return await self._write(run_id, resume)

    async def terraform(self, run_id: str) -> str:
        """Report what Terraform holds and left open in a run, as text."""

        def read(folder: Path) -> str:
            from actions.run.terraform_changes import terraform_report, terraform_table

            return terraform_table(terraform_report(folder, load_run(folder)), folder.name)

        return await self._disk.call(read, self._runs.find(run_id).folder)

    async def waive(self, run_id: str, address: str, *, confirm: str, stage: str) -> str:
        """Record that such a resource does not exist.

        Returns:
            Its stage.

        Raises:
            ConfigError: It was not confirmed.
            MissingError: The resource is not open.
        """
        from actions.run.terraform_changes import waive

        self._runs.require_here(run_id)
        folder = self._runs.find(run_id).folder
        return (await self._disk.call(waive, folder, address, confirm=confirm, stage=stage, clock=self._clock)).stage

    def close(self) -> None:
        """Accept no more requests."""
        self._disk.close()

    def _view_of(self, run_id: str) -> RunView:
        self._runs.require_here(run_id)
        summary = self._runs.find(run_id)
        if self._runs.view is None or self._runs.view.id != summary.id:
            self._runs.choose(summary.folder)
        view = self._runs.view
        if view is None:
            raise RefusedError(f"Run {summary.id} cannot be read.")
        return view

    async def _write(self, run_id: str, write: Callable[[Path], str]) -> str:
        return await self._disk.call(write, self._runs.find(run_id).folder)

    def _wish(
        self,
        folder: Path,
        kind: RequestKind,
        *,
        plan_hash: str = "",
        deletes_data: bool = False,
        even_if_shared: bool = False,
    ) -> str:
        environment = self._settings.run_environment
        return send_request(
            folder,
            kind,
            plan_hash=plan_hash,
            delete_data=deletes_data,
            even_if_shared=even_if_shared,
            clock=self._clock,
            environment=environment,
        )

    async def keep_runners(self, say: Callable[[str], None]) -> None:
        """Restart runners that have died, for as long as the console is open.

        Args:
            say: Called with a sentence for each.
        """
        backoff = Backoff(self._clock, first_seconds=LOOK_SECONDS, longest_seconds=LONGEST_PAUSE_SECONDS)
        while True:
            told = await self.resume_interrupted()
            for sentence in told:
                say(sentence)
            if told:
                await self._runs.refresh_list()
                backoff.reset()
            await backoff.wait()  # some cannot be started here
            while not (
                self._runs.is_interrupted
                or any(run.is_interrupted or run.is_store_behind or run.has_alarms_left for run in self._runs.summaries)
            ):
                await self._clock.sleep(LOOK_SECONDS)

    async def resume_interrupted(self) -> list[str]:
        """Restart the runner of every run whose own was killed or lost in a reboot; return a sentence about each."""
        return await self._disk.call(resume_interrupted, environment=self._settings.run_environment)
