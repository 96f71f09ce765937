"""One life of a run under a schedule: launched, carried out, torn down, with an operator who recovers what fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from actions.base.errors import JournalError, RefusedError
from actions.base.process import is_alive
from actions.run.client import RunReader
from actions.run.journal.folder import terraform_path
from actions.run.output.segments import StreamReader
from actions.run.output.streams import LINES, stream_path
from actions.run.state.planner import Finish, next_step
from actions.run.state.records import OPERATOR, JournalRecord, RequestKind, RunRequest
from actions.run.state.view import Goal, RunState, RunView, StageState
from actions.terraform.working_directory import VARIABLES_FILE
from tests.schedules.audited import length_of_log
from tests.schedules.inject import Elsewhere, Foreign, Injector
from tests.schedules.machine import Machine
from tests.schedules.moving import Move, Moved, is_at_work, lock_to_remove, rows_in_store
from tests.schedules.schedule import MOVES, ONLY_WITH_TERRAFORM, Fault, FaultKind, Moment, Schedule

LIMIT_SECONDS = 240.0
"""A longer life is given up, once it has been looked at so often, too, or has taken so many times as long:"""
_LEAST_LOOKS = 4000
"""On a machine that others keep busy the looks become as rare as the acts of the programs become slow."""
_LATEST = 4
MOST_RETRIES = 8
_MOST_LATE = 3
_LOOK_SECONDS = 0.03
_ACT_SECONDS = 0.5
_ORPHAN_SECONDS = 3.0
_TO_RECOVER = frozenset({RunState.FAILED, RunState.CANCELLED, RunState.PARKED})
_TERRAFORM_DIES = ONLY_WITH_TERRAFORM | {FaultKind.TAKE_OVER_LOST}
_MOVING = frozenset({*MOVES, FaultKind.TAKE_OVER_CUT_OFF})
_MISSED = "its moment never came"


class Injected(msgspec.Struct):
    """A fault of the schedule, and what came of it."""

    fault: Fault
    number: int
    begun_at: float = 0.0
    """Seconds since the epoch; 0 if its moment has not come."""
    ended_at: float = 0.0
    told: str = _MISSED

    @property
    def is_open(self) -> bool:
        """It is on."""
        return bool(self.begun_at) and not self.ended_at


class Story(msgspec.Struct):
    """All that happened in one life."""

    schedule: Schedule
    folder: Path
    view: RunView | None
    records: tuple[JournalRecord, ...]
    injected: list[Injected]
    foreign: list[Foreign]
    steps: list[str]
    """The operator's acts and the faults that were injected, with seconds."""
    seen_at: dict[int, float]
    """By record: when it was seen first, seconds since the epoch by the machine's own clock."""
    is_over: bool
    """It came to its end within its limit."""
    moves: list[Moved] = msgspec.field(default_factory=list)
    elsewhere: list[Elsewhere] = msgspec.field(default_factory=list)


class Life:
    """Plays a schedule.

    Args:
        schedule: What is injected.
        machine: On which.
        limit_seconds: For all of it.
    """

    def __init__(self, schedule: Schedule, machine: Machine, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._schedule = schedule
        self._machine = machine
        self._folder = machine.launch(auto_approve=not schedule.is_approved_by_hand)
        self._injector = Injector(machine, self._folder)
        self._injected = [Injected(fault, number) for number, fault in enumerate(schedule.faults)]
        self._reader = RunReader(self._folder)
        self._view = self._reader.poll()
        self._began = time.monotonic()
        self._limit_seconds = limit_seconds
        self._looks = 0
        self._steps: list[str] = []
        self._seen_at: dict[int, float] = {}
        self._next_act = 0.0
        self._alone_since = 0.0
        self._retries = 0
        self._move: Move | None = None
        self._moves: list[Moved] = []
        self._late_runs = 0
        self._wants_teardown = False
        """It was asked for on a machine that has lost the run since."""

    def play(self) -> Story:
        """From the launch to the end of the teardown."""
        is_over = False
        try:
            while self._has_time() and self._retries <= MOST_RETRIES:
                self._look()
                is_over = self._is_over()
                if is_over:
                    break
                self._inject()
                self._operate()
                time.sleep(_LOOK_SECONDS)
        finally:
            for injected in self._injected:
                self._end(injected)
            self._look()
        if is_over:
            self._machine.history.catch_up()
        return Story(
            schedule=self._schedule,
            folder=self._folder,
            view=self._view,
            records=self._reader.records(),
            injected=self._injected,
            foreign=self._injector.foreign,
            steps=self._steps,
            seen_at=self._seen_at,
            is_over=is_over,
            moves=self._moves,
            elsewhere=self._injector.elsewhere,
        )

    def _has_time(self) -> bool:
        self._looks += 1
        spent = time.monotonic() - self._began
        is_early = spent < self._limit_seconds or self._looks < _LEAST_LOOKS
        return is_early and spent < self._limit_seconds * _LATEST

    def _look(self) -> None:
        try:
            self._view = self._reader.poll() or self._view
            self._injector.runner = self._reader.holder or self._injector.runner
            for record in self._reader.records()[len(self._seen_at) :]:
                self._seen_at[record.seq] = time.time()
        except JournalError as error:
            self._tell(f"cannot look: {error.message}")

    def _is_over(self) -> bool:
        view = self._view
        if view is None or view.state is not RunState.TORN_DOWN or self._reader.runner_alive:
            return False
        if self._move is not None or any(map(is_at_work, self._moves)):
            return False
        is_quiet = not any(injected.is_open for injected in self._injected)
        if not is_quiet or (is_something_left(view) and self._retries != MOST_RETRIES):
            return False
        return self._is_home_complete()

    def _is_home_complete(self) -> bool:
        """Return whether the home has all; else let a runner bring it up to date, as an operator would who looks."""
        if not self._machine.has_store or self._late_runs == _MOST_LATE:
            return True
        if self._injector.runner is not None and is_alive(self._injector.runner):
            return False  # it gives the rest to the home
        if len(rows_in_store(self._machine.account, self._folder.name)) >= len(self._reader.records()):
            return True
        self._late_runs += 1
        self._tell("the home lacks records")
        self._command("resume")
        return False

    def _inject(self) -> None:
        now = time.time()
        for injected in self._injected:
            if not injected.begun_at and self._holds(injected.fault):
                injected.begun_at = now
                injected.told = self._injector.begin(injected.fault, injected.number)
                self._tell(f"{injected.fault}: {injected.told}")
                if injected.fault.kind in _MOVING and self._move is None:
                    self._move = Move(
                        self._machine,
                        self._injector.other,
                        self._folder.name,
                        is_gone=injected.fault.kind is FaultKind.TAKE_OVER_LOST,
                        has_own_way=self._schedule.has_own_ways,
                    )
                if not injected.fault.seconds:
                    injected.ended_at = time.time()
            elif injected.is_open and now >= injected.begun_at + injected.fault.seconds:
                is_awaited = injected.fault.kind is FaultKind.TAKE_OVER_CUT_OFF and self._move is not None
                if not is_awaited:  # the machine is there again when the other one has the run
                    self._end(injected)

    def _end(self, injected: Injected) -> None:
        if injected.is_open:
            self._injector.end(injected.fault, injected.number)
            self._look()  # what it has made fail is seen before its end, however long what follows keeps this loop
            injected.ended_at = time.time()
            self._tell(f"{injected.fault}: ended")

    def _holds(self, fault: Fault) -> bool:
        view, moment = self._view, fault.moment
        if view is None or not _has_come(view, moment, self._lines):
            return False
        return fault.kind not in ONLY_WITH_TERRAFORM or self._injector.terraform() is not None

    def _lines(self, stage: str) -> int:
        try:
            parts = StreamReader(stream_path(self._folder, stage, LINES)).stretches(0)
            return sum(part.data.count(b"\n") for part in parts if part.data)
        except OSError:
            return 0

    def _operate(self) -> None:
        """Do what an operator would do now."""
        if self._move is not None:
            self._go_on_moving(self._move)
            return
        now = time.monotonic()
        if self._reader.runner_alive:
            self._alone_since = now
        if self._view is None or now < self._next_act:
            return
        deed = self._deed(self._view, now - self._alone_since)
        if deed is not None:
            deed()
            self._next_act = time.monotonic() + _ACT_SECONDS

    def _go_on_moving(self, move: Move) -> None:
        if self._is_terraform_fresh_dead():
            return
        told = move.go_on()
        if told:
            self._tell(told)
        if move.is_done:
            self._arrive(move)
        if move.is_done or move.is_given_up:
            self._move = None

    def _arrive(self, move: Move) -> None:
        """Go on at the other machine."""
        before, injector = self._reader.records(), self._injector
        written = sum(record.writer != OPERATOR for record in before)
        self._moves.append(
            Moved(
                began_at=move.began_at,
                at=time.time(),
                origin=injector.host,
                folder=self._folder,
                runner=injector.runner,
                records=written,
                target=move.target,
                began_line=move.began_line,
                line=length_of_log(self._machine),
                was_cut_off=injector.is_cut_off,
            )
        )
        injector.host, injector.runner = move.target, None
        self._folder = injector.folder = move.target.folder(self._folder.name)
        self._reader = RunReader(self._folder)
        self._view = self._reader.poll()
        pairs = zip(before, self._reader.records(), strict=False)
        self._wants_teardown = self._wants_teardown or any(map(_asks_for_teardown, before))
        common = {ours.seq for ours, theirs in pairs if ours == theirs}
        self._seen_at = {seq: at for seq, at in self._seen_at.items() if seq in common}
        self._look()

    def _deed(self, view: RunView, alone_seconds: float) -> Callable[[], object] | None:
        is_alone = not self._reader.runner_alive and alone_seconds >= self._schedule.absence_seconds
        waiting = [stage for stage in view.stages if stage.state is StageState.AWAITING_APPROVAL]
        if view.is_paused:
            return self._unpause
        if self._moves and not any(map(is_at_work, self._moves)) and not self._is_terraform_fresh_dead():
            lock = lock_to_remove(view, [self._folder, *(moved.folder for moved in self._moves)])
            if lock:
                return lambda: self._unlock(lock)
        if view.goal is Goal.FORWARD and waiting and not waiting[0].is_approval_wished and not view.auto_approve:
            return lambda: self._command("approve")
        is_lost = self._wants_teardown and view.goal is not Goal.TEARDOWN  # this machine was never asked for it
        if view.state is RunState.SUCCEEDED or is_lost:
            return lambda: self._command("teardown", "--confirm", "bionemo-on-eks")
        if view.state is RunState.STALLED and self._reader.holder is not None:
            pid = self._reader.holder.pid
            return lambda: self._command("resume", "--takeover", str(pid))
        if not is_alone:
            return None
        if self._is_terraform_fresh_dead():
            return None
        if view.state in _TO_RECOVER or (view.state is RunState.TORN_DOWN and is_something_left(view)):
            return None if any(injected.is_open for injected in self._injected) else self._recover
        return None if isinstance(next_step(view), Finish) and view.last_seq > 1 else lambda: self._command("resume")

    def _is_terraform_fresh_dead(self) -> bool:
        """It was killed so lately that what it had started may still be making something."""
        return any(
            time.time() < item.begun_at + _ORPHAN_SECONDS
            for item in self._injected
            if item.fault.kind in _TERRAFORM_DIES
        )

    def _recover(self) -> None:
        view = self._view
        assert view is not None
        failed = [f"{step.id}: {step.message}" for step in (*view.stages, *view.ending.values()) if _is_failed(step)]
        self._tell(f"{view.state.value}: {'; '.join(failed)}")
        self._answer_for_terraform(view)
        if view.goal is Goal.TEARDOWN:
            removed = self._injector.withdraw()
            self._tell(f"somebody removes {', '.join(removed)}") if removed else None
        self._retries += 1
        if view.state is RunState.TORN_DOWN:
            self._command("teardown", "--confirm", "bionemo-on-eks")
        else:
            self._command("resume", "--yes")

    def _answer_for_terraform(self, view: RunView) -> None:
        """Look into the world for what Terraform may have made, and say what is there and what is not."""
        there = made_by_terraform(self._machine.ledger)
        for stage in view.stages:
            for item in (item for item in stage.terraform.pending if item.how is None):
                if there[item.address.rpartition(".")[2]]:
                    self._import(stage.id, item.address)
                else:
                    self._command("waive", item.address, "--confirm", item.address)

    def _import(self, stage: str, address: str) -> None:
        """Take a resource into the state, as its hint tells people to."""
        work, options = terraform_path(self._folder, stage), f"-var-file={VARIABLES_FILE}"
        done = self._injector.host.terraform(work, "import", options, address, f"found-{address}")
        self._tell(f"operator: import: {done.returncode} {' '.join((done.stdout + done.stderr).split())}")

    def _unpause(self) -> None:
        self._tell("operator unpauses")
        try:
            self._injector.unpause()
        except (JournalError, RefusedError) as error:  # it may have gone on, or come to its end, since it was looked at
            self._tell(error.sentence())

    def _unlock(self, lock: str) -> None:
        """Remove the lock that Terraform has left which died on the other machine, as its hint tells people to."""
        done = self._injector.host.terraform(terraform_path(self._folder, "network"), "force-unlock", "-force", lock)
        self._tell(f"operator: force-unlock: {done.returncode} {' '.join((done.stdout + done.stderr).split())}")

    def _command(self, verb: str, *options: str) -> None:
        done = self._injector.host.command("runs", verb, self._folder.name, *options)
        self._tell(f"operator: {verb}: {done.returncode} {' '.join((done.stdout + done.stderr).split())}")

    def _tell(self, text: str) -> None:
        if not self._steps or not self._steps[-1].endswith(text):
            self._steps.append(f"{time.monotonic() - self._began:6.2f} {text}")


def made_by_terraform(ledger: Path) -> Counter[str]:
    """Return the number of each resource that is there, as their provisioners wrote it down."""
    there: Counter[str] = Counter()
    for line in ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else ():
        verb, _, name = line.partition(" ")
        there[name] = there[name] + 1 if verb == "made" else 0  # a destroy that was killed is done again
    return there


def is_something_left(view: RunView) -> bool:
    """The audit found something, or could not ask for something."""
    audit = view.audit
    return audit is not None and bool(audit.leftovers or getattr(audit, "unknown", ()))


def _asks_for_teardown(record: JournalRecord) -> bool:
    return isinstance(record.body, RunRequest) and record.body.request is RequestKind.TEARDOWN


def _is_failed(step: object) -> bool:
    return getattr(step, "state", None) is StageState.FAILED


def _has_come(view: RunView, moment: Moment, lines: Callable[[str], int]) -> bool:
    if moment.record:
        return view.last_seq >= moment.record
    if moment.undo:
        return any(step.id == moment.undo and step.state is StageState.RUNNING for step in view.teardown)
    stage = view.stage(moment.stage)
    has_begun = stage.state in (StageState.RUNNING, StageState.UNKNOWN)
    return has_begun and (not moment.lines or lines(moment.stage) >= moment.lines)
