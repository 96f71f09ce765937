"""The fence of a runner: it changes something only while it is certain that the run is its own.

A run has one runner on its machine by the lease in its journal. Which *machine* carries it out is kept where other
machines can see it: in the run's store, and in a ConfigMap of its cluster. Each of these arbiters has the run's epoch,
which grows by one with every takeover. A runner whose epoch is no longer the newest is fenced for good.

An answer counts for `TRUST_SECONDS` from the moment at which it was asked for, by the clock that goes on while the
machine sleeps or this process is stopped, or by the wall clock if more time has passed on that. Whoever takes a run
over from a runner that may be alive waits longer than that before anything is changed.

A process that has run all the time goes on if no arbiter answers: a store that is away must not stop a healthy run. But
if the cluster does not answer either, it asks before each change outside of its machine: it may have been cut off, and
taken over, until a moment ago. Then it sends nothing to either, where it would arrive once the network is back, in
whoever's time that is. One that has just begun, and one that was away itself, stopped or asleep, waits for an answer of
an arbiter that has answered before: by another one no machine can have taken the run over. A cluster that the run's own
teardown destroys is not waited for. A cluster that answers again, and has no lease yet, does not speak for a store that
had one: that is waited for a moment, as places come back one by one. What this leaves open is in docs/takeover.md.

At the same epoch an arbiter may name another machine: this one before its restart, or one that has a copy of the run's
folder (`actions.run.journal.machine`). If that gives another sign, it lives and has the run, and this runner ends. If
it gives none for `SILENT_COPY_SECONDS`, the run is this machine's. Until then nothing is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from actions.base.clock import Clock, boot_seconds
from actions.base.errors import ConsoleError, UnreachableError
from actions.base.guard import FencedError, guarded_by
from actions.base.untrusted import one_line
from actions.base.wording import listed
from actions.cluster.http.errors import ApiError
from actions.run.journal.elsewhere import FenceState, deed_of, read_elsewhere, read_fence, write_fence
from actions.run.journal.machine import SILENT_COPY_SECONDS, is_same_machine
from actions.run.state.records import Operator
from actions.run.state.view import RunView

CLUSTER_ARBITER = "the run's cluster"
STORE_ARBITER = "the run's store"
TRUST_SECONDS = 10.0
"""Time for which the answer of an arbiter counts."""
GRACE_SECONDS = 15.0
"""Time between a takeover and the first change by the new machine, if the old one may be alive."""
_ASK_AGAIN_SECONDS = TRUST_SECONDS / 2
_TICK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
"""Limit of one question to all arbiters."""
_RETRY_SECONDS = 2.0
_UNANSWERED_SECONDS = 30.0
"""Time after a question without an answer in which a change may be made without the next one."""
_RETURNED_SECONDS = 15.0
"""Time since a cluster without a lease answers again in which a store that had one is waited for."""

Log = Callable[[str], None]


class SeenLease(msgspec.Struct, frozen=True):
    """The lease of a run as an arbiter has it."""

    epoch: int
    owner: Operator | None = None
    machine: str = ""
    """See `actions.run.journal.machine`."""
    sign: str = ""
    """Changes with each sign of that machine."""
    is_old: bool = False
    """The last sign is minutes old."""


class Arbiter(Protocol):
    """A place that other machines can see, too, and that names the epoch of a run."""

    name: str
    """For sentences: `the run's store`."""

    async def read(self) -> SeenLease | None:
        """Return the newest lease; `None` if the place has none of this run. Changes nothing.

        Raises:
            ConsoleError: There is no answer, which means nothing.
        """
        ...

    def may_be_gone(self) -> bool:
        """Return whether this run itself removes the place, so that no answer may ever come."""
        ...


class ReadingArbiter:
    """An arbiter that is one function.

    Args:
        name: See `Arbiter`.
        read: See `Arbiter.read`.
        may_be_gone: See `Arbiter.may_be_gone`.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[SeenLease | None]],
        may_be_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self._read = read
        self._may_be_gone = may_be_gone

    async def read(self) -> SeenLease | None:
        return await self._read()

    def may_be_gone(self) -> bool:
        return self._may_be_gone()


def fence_sentence(run_id: str, state: FenceState) -> str:
    """Return a sentence on the machine that has taken a run over."""
    deed = deed_of(state.taken_by, state.epoch, is_copy=state.is_copy)
    return f"Run {run_id} {deed}: this machine no longer changes anything of it."


class ArbiterAnswer(msgspec.Struct, frozen=True):
    """The answer of an arbiter to one question, or none."""

    name: str
    seen: SeenLease | None = None
    is_silent: bool = False
    """It did not answer."""
    is_unreached: bool = False
    """No connection to it came about."""


class OtherMachines:
    """Machines that arbiters name at a runner's own epoch: this one before a restart, or one with a copy of the run.

    Args:
        machine: The identity of this machine's copy.
    """

    def __init__(self, machine: str) -> None:
        self.held: dict[str, SeenLease] = {}
        """By the name of the arbiter: the first answer on a machine of which it is not known whether it lives."""
        self._machine = machine
        self._since: dict[str, float] = {}
        self._gone: set[str] = set()
        """The last signs of machines that have given no other one."""

    def take(self, name: str, seen: SeenLease, epoch: int, now: float) -> bool:
        """Take the answer of an arbiter. Returns whether the machine that it names lives.

        Args:
            name: Of the arbiter.
            seen: Its answer.
            epoch: Of this runner.
            now: Seconds since the machine's start.
        """
        is_own = seen.epoch < epoch or is_same_machine(self._machine, seen.machine)
        if is_own or seen.is_old or seen.sign in self._gone:
            self.held.pop(name, None)
            return False
        if name not in self.held:
            self.held[name], self._since[name] = seen, now
        if seen.sign != self.held[name].sign:
            return True
        if now - self._since[name] > SILENT_COPY_SECONDS:
            self._gone.add(seen.sign)
            del self.held[name]
        return False

    def sentence(self) -> str:
        """Return why nothing is changed, as a sentence."""
        owner = next(iter(self.held.values())).owner
        who = one_line(str(owner)) if owner else "another machine"
        return (
            f"{listed(list(self.held), 3)} has a lease of {who}: this machine before its restart, or another one with "
            "a copy of the run's folder. Without a sign of that the run goes on here after "
            f"{SILENT_COPY_SECONDS:.0f} s."
        )


class Fence:
    """The fence of one runner: a guard of its changes, and a companion that keeps its answers fresh.

    Args:
        folder: The run's.
        view: The run as it is at the runner's start.
        arbiters: May be empty: then the lease in the journal is all there is.
        require_lease: Requires the lease in the journal; raises `ConflictError`.
        clock: For pauses and wall time.
        log: The runner's log.
        note: Shows what the runner waits for; empty for nothing.
        machine: The identity of this machine's copy of the run; empty if it has none.
        boot: The clock that counts time in which this process was stopped.
    """

    name = "fence"

    def __init__(
        self,
        folder: Path,
        view: RunView,
        arbiters: Sequence[Arbiter],
        *,
        require_lease: Callable[[], None],
        clock: Clock,
        log: Log,
        note: Callable[[str], None] = lambda _: None,
        machine: str = "",
        boot: Callable[[], float] = boot_seconds,
    ) -> None:
        self._folder = folder
        self._run_id = view.id
        self._epoch = view.epoch
        self._arbiters = list(arbiters)
        self._require_lease = require_lease
        self._clock = clock
        self._log = log
        self._note = note
        self._others = OtherMachines(machine)
        self._boot = boot
        self._lock = asyncio.Lock()
        self._lost = asyncio.Event()
        self._taken = FenceState()
        now = self._now()
        self._verified: tuple[float, float] | None = None
        self._alive = now
        self._was_away = True  # whoever has carried the run out before this process
        self._known_to = set(read_fence(folder).known_to)
        self._written: tuple[str, ...] | None = None
        self._silent: set[str] = set()
        """The arbiters that did not answer when they were asked last."""
        self._unanswered: set[str] = set()
        """Those of them with which no connection came about."""
        self._is_unsure = False
        self._returned_at = float("-inf")
        """The last time at which the cluster answered after it had not, without a lease of the run."""
        self._asked = now
        self._asked_since = float("-inf")

    async def require(
        self, deed: str, *, stays_here: bool = False, in_cluster: bool = False, in_store: bool = False
    ) -> None:
        """Return once this process may change something. See `ChangeGuard.require`."""
        self._refuse_if_lost(deed)
        self._require_lease()
        self._look_for_absence()
        if self._arbiters and not self._is_fresh() and not self._goes_on_unsure(stays_here=stays_here):
            with guarded_by(None):
                await self._verify(deed)
            place = CLUSTER_ARBITER if in_cluster else STORE_ARBITER if in_store else ""
            if place in self._unanswered and not self._is_fresh():
                raise UnreachableError(f"{place.capitalize()} does not answer. Not sent: {deed}.")
        self._refuse_if_lost(deed)

    async def accompany(self) -> None:
        """Keep the answers fresh, so that a change finds one, and notice when this process was away.

        Raises:
            FencedError: Another machine carries out the run.
        """
        asked = self._boot()
        while not self._lost.is_set():
            self._look_for_absence()
            now = self._boot()
            if self._arbiters and now - asked >= _ASK_AGAIN_SECONDS:
                asked = now
                with guarded_by(None):
                    await self._ask()
            if not self._lost.is_set():
                self._write_known()
            await self._pause()
        self._refuse_if_lost("the run")

    def dismiss(self, place: str) -> None:
        """Stop waiting for an arbiter from which this runner itself has removed the run's lease."""
        self._known_to.discard(place)
        self._silent.discard(place)
        self._unanswered.discard(place)
        self._arbiters = [arbiter for arbiter in self._arbiters if arbiter.name != place]

    async def finish(self, view: RunView) -> None:
        """Do nothing: a run that is over needs no fence."""
        del view

    async def _pause(self) -> None:
        """Wait a moment, or until the run is known to be taken over."""
        lost = asyncio.ensure_future(self._lost.wait())
        tick = asyncio.ensure_future(self._clock.sleep(_TICK_SECONDS))
        try:
            await asyncio.wait({lost, tick}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            tick.cancel()

    async def _verify(self, deed: str) -> None:
        """Ask the arbiters until one answers, or none has to answer. One that another change has begun since counts."""
        came = self._boot()
        async with self._lock:
            if self._asked_since >= came and not self._waits_for() and not self._others.held:
                return
            try:
                while not self._lost.is_set() and not self._is_fresh():
                    await self._ask()
                    self._look_for_absence()
                    if self._is_fresh() or self._lost.is_set():
                        return
                    if not self._waits_for() and not self._others.held:
                        self._was_away = False
                        return
                    self._note(f"Waiting before {deed}: {self._obstacle()}")
                    await self._clock.sleep(_RETRY_SECONDS)
            finally:
                self._note("")

    async def _ask(self) -> None:
        """Ask all arbiters at once. Any that names a later epoch fences; any other answer counts.

        The answers count together, once all are there: a cluster that answers again must not let a change pass while
        the store, which may name another machine, is still being asked.
        """
        began, was_silent = self._now(), CLUSTER_ARBITER in self._silent
        answers = await asyncio.gather(*map(_answer_of, self._arbiters))
        self._asked, self._asked_since = self._now(), max(began[0], self._asked_since)
        self._keep_silence(answers)
        if self._is_lost_by(answers, began[0]):
            return
        vouching = {one.name for one in answers if one.seen is not None}
        if vouching:
            self._known_to |= vouching
            self._vouched(began)
            return
        if was_silent and CLUSTER_ARBITER not in self._silent:
            self._returned_at = self._boot()
        if not self._is_unsure:
            asked = [one.name for one in answers]
            self._log(f"fence: no answer from {listed(asked, 3)} on whether the run was taken over")
        self._is_unsure = True

    def _is_lost_by(self, answers: Sequence[ArbiterAnswer], at: float) -> bool:
        """Return whether an answer names a machine that has the run; then it is lost."""
        known = [(one.name, one.seen) for one in answers if one.seen is not None]
        for _, seen in known:
            if seen.epoch > self._epoch:
                self._lose(FenceState(taken_by=seen.owner, epoch=seen.epoch))
                return True
        for name, seen in known:
            if self._others.take(name, seen, self._epoch, at):
                self._lose(FenceState(taken_by=seen.owner, epoch=seen.epoch, is_copy=True))
                return True
        return False

    def _keep_silence(self, answers: Sequence[ArbiterAnswer]) -> None:
        present = {arbiter.name for arbiter in self._arbiters}  # one may have been dismissed while it was asked
        asked = {one.name for one in answers}
        self._silent = self._silent - asked | {one.name for one in answers if one.is_silent} & present
        self._unanswered = self._unanswered - asked | {one.name for one in answers if one.is_unreached} & present

    def _obstacle(self) -> str:
        """Return why a change has to wait, as a sentence."""
        if self._others.held:
            return self._others.sentence()
        what = "has just begun, or was stopped or asleep" if self._was_away else "was cut off"
        return (
            f"this process {what}, and {listed(self._waits_for(), 3)} did not answer whether another "
            "machine has taken the run over meanwhile."
        )

    def _vouched(self, at: tuple[float, float]) -> None:
        if self._others.held:
            self._verified = None  # the answers of before count no more either
            return
        if self._verified is None or at > self._verified:
            self._verified = at
        if self._is_fresh():
            self._was_away = self._is_unsure = False
            self._returned_at = float("-inf")

    def _lose(self, taken: FenceState) -> None:
        self._taken = taken
        write_fence(self._folder, self._taken)
        self._lost.set()

    def _refuse_if_lost(self, deed: str) -> None:
        if self._lost.is_set():
            raise FencedError(f"{fence_sentence(self._run_id, self._taken)} Not done: {deed}.")

    def _look_for_absence(self) -> None:
        now = self._now()
        if _elapsed(self._alive, now) > TRUST_SECONDS:
            self._was_away = True
        self._alive = now

    def _waits_for(self) -> list[str]:
        """Return the names of the arbiters one of which has to answer before the next change; none if it may be made
        without."""
        known = [each for each in self._arbiters if each.name in self._known_to]
        if self._was_away:
            return [each.name for each in known if not each.may_be_gone()]
        has_returned = self._boot() - self._returned_at <= _RETURNED_SECONDS
        return [each.name for each in known if each.name in self._silent] if has_returned else []

    def _goes_on_unsure(self, *, stays_here: bool) -> bool:
        """Return whether a change need not wait for another question: none was answered a moment ago.

        What leaves this machine does wait if the cluster did not answer, too: this machine was cut off, and whatever is
        there again may know what another one has done meanwhile.
        """
        if not stays_here and CLUSTER_ARBITER in self._silent:
            return False
        return (
            self._is_unsure
            and not self._was_away
            and not self._waits_for()
            and not self._others.held
            and _elapsed(self._asked, self._now()) <= _UNANSWERED_SECONDS
        )

    def _is_fresh(self) -> bool:
        return self._verified is not None and _elapsed(self._verified, self._now()) <= TRUST_SECONDS

    def _now(self) -> tuple[float, float]:
        """Return the time since the machine's start, and the wall time, in seconds."""
        return self._boot(), self._clock.now().timestamp()

    def _write_known(self) -> None:
        """Keep which arbiters have answered for the next process; not over the note of another companion."""
        known = tuple(sorted(self._known_to))
        if known != self._written and read_elsewhere(self._folder, self._epoch) is None:
            write_fence(self._folder, FenceState(known_to=known))
            self._written = known


async def _answer_of(arbiter: Arbiter) -> ArbiterAnswer:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return ArbiterAnswer(arbiter.name, await arbiter.read())
    except (ConsoleError, TimeoutError, OSError) as error:
        is_refused = isinstance(error, ApiError) or not isinstance(error, UnreachableError | TimeoutError | OSError)
        return ArbiterAnswer(arbiter.name, is_silent=True, is_unreached=not is_refused)


def _elapsed(since: tuple[float, float], now: tuple[float, float]) -> float:
    """Return the greater of the times that have passed on both clocks: a paused machine sets its wall clock later."""
    return max(now[0] - since[0], now[1] - since[1])
