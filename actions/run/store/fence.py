"""The fence of a runner: it changes something only while it is certain that the run is its own.

An answer of the run's store counts for `TRUST_SECONDS` from the moment at which it was asked for, by the clock that
goes on while the machine sleeps or this process is stopped, or by the wall clock if more time has passed on that.
An answer that no machine has the run is one, too. The rest, and the reasons: docs/decisions/fence.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from actions.base.clock import Clock, boot_seconds
from actions.base.errors import ConsoleError, UnreachableError
from actions.base.guard import FencedError, guarded_by
from actions.base.untrusted import one_line
from actions.cluster.http.errors import ApiError
from actions.run.state.records import Operator
from actions.run.state.view import RunView
from actions.run.store.access import known_store, note_answered
from actions.run.store.elsewhere import deed_of, note_elsewhere
from actions.run.store.objects import DamagedError, StoreLease

TRUST_SECONDS = 10.0
"""Time for which an answer of the store counts."""
GRACE_SECONDS = 15.0
"""Time between a takeover and the first change by the new machine, if the old one may be alive."""
SILENT_SECONDS = 45.0
"""Time without a renewal after which another holder of the same epoch is gone, however its clock goes."""
_ASK_AGAIN_SECONDS = TRUST_SECONDS / 2
_TICK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
"""Limit of one question."""
_RETRY_SECONDS = 2.0
_UNANSWERED_SECONDS = 30.0
"""Time after a question without an answer in which the disk may be changed without the next one."""

Log = Callable[[str], None]
Reader = Callable[[], Awaitable[StoreLease | None]]


class Arbiter(Protocol):
    """The run's store, as the fence asks it."""

    @property
    def name(self) -> str:
        """For sentences, and for the next process: `s3://team/ml`."""
        ...

    @property
    def is_in_cluster(self) -> bool:
        """The store is in the run's cluster."""
        ...

    def exists(self) -> bool:
        """Return whether the run has a store by now."""
        ...

    def may_be_gone(self) -> bool:
        """Return whether the run itself removes the store's place, so that no answer may ever come."""
        ...

    async def read(self) -> StoreLease | None:
        """Return the run's lease; `None` if there certainly is none. Changes nothing.

        Raises:
            ConsoleError: There is no answer, which means nothing.
        """
        ...

    async def read_pointer(self) -> StoreLease | None:
        """Return the lease that the run's cluster shows beside a store elsewhere, as `read`."""
        ...


class Fence:
    """The fence of one runner: a guard of its changes, and a companion that keeps its answers fresh.

    Args:
        folder: The run's.
        view: The run as it is at the runner's start.
        arbiter: The run's store.
        require_lease: Requires the lease in the journal; raises `ConflictError`.
        clock: For pauses and wall time.
        log: The runner's log.
        note: Shows what the runner waits for; empty for nothing.
        holder: This machine, as its leases name it; empty to take every machine of this epoch for this one.
        boot: The clock that counts time in which this process was stopped.
    """

    name = "fence"

    def __init__(
        self,
        folder: Path,
        view: RunView,
        arbiter: Arbiter,
        *,
        require_lease: Callable[[], None],
        clock: Clock,
        log: Log,
        note: Callable[[str], None] = lambda _: None,
        holder: str = "",
        boot: Callable[[], float] = boot_seconds,
    ) -> None:
        self._folder = folder
        self._run_id = view.id
        self._epoch = view.epoch
        self._source = view.store
        self._arbiter = arbiter
        self._require_lease = require_lease
        self._clock = clock
        self._log = log
        self._note = note
        self._holder = holder
        self._boot = boot
        self._lock = asyncio.Lock()
        self._lost = asyncio.Event()
        self._deed = ""
        """The deed by which another machine has the run, as the middle of a sentence."""
        self._alive = self._asked = self._now()
        self._asked_since = float("-inf")
        self._was_away = True  # whoever has carried the run out before this process
        self._verified: tuple[float, float] | None = None
        """Moment of the question to which the store gave its newest answer."""
        self._reached: tuple[float, float] | None = None
        """Moment of the question to which the cluster gave its newest answer while the store gave none."""
        self._silence: ConsoleError | None = None
        """The reason why the newest question had no answer; `None` if it had one."""
        self._other: tuple[StoreLease, float] | None = None
        """The lease of another holder at this epoch, and when it was seen first."""
        self._gone = ""
        """The last lease of such a holder that was not renewed."""

    async def require(
        self, deed: str, *, stays_here: bool = False, in_cluster: bool = False, in_store: bool = False
    ) -> None:
        """Return once this process may change something. See `ChangeGuard.require`."""
        self._refuse_if_lost(deed)
        self._require_lease()
        self._look_for_absence()
        if self._arbiter.exists() and not self._is_fresh() and not self._goes_on_unsure(stays_here=stays_here):
            with guarded_by(None):
                await self._verify(deed)
            if self._silence is not None and not self._may_send(in_cluster=in_cluster, in_store=in_store):
                raise UnreachableError(f"{self._silence.message} Not sent: {deed}.")
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
            if self._arbiter.exists() and now - asked >= _ASK_AGAIN_SECONDS:
                asked = now
                with guarded_by(None):
                    await self._ask()
            await self._pause()
        self._refuse_if_lost("the run")

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
        """Ask the store until it answers, or need not. A question that another change has begun since counts."""
        came = self._boot()
        async with self._lock:
            if self._asked_since >= came and not self._has_to_wait():
                return
            try:
                while not self._lost.is_set():
                    await self._ask()
                    self._look_for_absence()
                    if self._is_fresh() or self._lost.is_set():
                        return
                    if not self._has_to_wait():
                        self._was_away = False
                        return
                    self._note(f"Waiting before {deed}: {self._obstacle()}")
                    await self._clock.sleep(_RETRY_SECONDS)
            finally:
                self._note("")

    async def _ask(self) -> None:
        """Ask the store; one that is silent once more behind an answer of the cluster, if that gives one.

        So a network that is back lets no change pass before the store, which may name another machine, could answer.
        """
        began, was_silent = self._now(), self._silence is not None
        is_reached = was_silent and await self._reaches_cluster()
        silence = await self._question(began)
        if silence is not None and not was_silent and await self._reaches_cluster():
            is_reached, silence = True, await self._question(began)
        self._asked, self._asked_since = self._now(), max(began[0], self._asked_since)
        if silence is not None and not was_silent:
            self._log(f"fence: no answer on whether the run was taken over: {silence.message}")
        self._silence, self._reached = silence, began if is_reached else None

    async def _question(self, began: tuple[float, float]) -> ConsoleError | None:
        """Ask the store once, and take its answer; return why there is none."""
        try:
            seen = await self._answered(self._arbiter.read)
        except ConsoleError as error:
            self._look_for_absence()
            return error
        if seen is not None and (seen.epoch > self._epoch or self._is_renewed(seen)):
            self._lose(seen.owner, seen.epoch)
        elif self._other is not None:
            self._verified = None  # the answers of before count no more either
        else:
            self._verified = max(began, self._verified or began)
            self._was_away = self._was_away and not self._is_fresh()
        if seen is not None:
            note_answered(self._folder, self._arbiter.name)
        return None

    async def _reaches_cluster(self) -> bool:
        """Return whether the cluster of a run with a store elsewhere answers; a later epoch there counts, too."""
        if self._arbiter.is_in_cluster:
            return False
        try:
            seen = await self._answered(self._arbiter.read_pointer)
        except ConsoleError as error:
            return _is_refusal(error)
        if seen is not None and seen.epoch > self._epoch:
            self._lose(seen.owner, seen.epoch)
        return True

    async def _answered(self, read: Reader) -> StoreLease | None:
        """Return an answer. A damaged lease is none, but for the later epoch that it may show.

        Raises:
            ConsoleError: There is none in time.
        """
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await read()
        except (TimeoutError, OSError) as error:
            raise UnreachableError(f"No answer within {_ANSWER_SECONDS:.0f} s.") from error
        except DamagedError as error:
            if error.epoch > self._epoch:
                self._lose(None, error.epoch)
            raise

    def _is_renewed(self, seen: StoreLease) -> bool:
        """Return whether another holder of this epoch has renewed its lease; keep one of which that is not known."""
        is_own = seen.epoch < self._epoch or not seen.holder or self._holder in ("", seen.holder)
        if is_own or not seen.is_live or seen.tag == self._gone:
            self._other = None
            return False
        if self._other is None:
            self._other = seen, self._boot()
        if self._boot() - self._other[1] > SILENT_SECONDS and seen.tag == self._other[0].tag:
            self._other, self._gone = None, seen.tag
            return False
        return seen.tag != self._other[0].tag

    def _has_to_wait(self) -> bool:
        """Return whether no change may be made before the store has answered, or a person has vouched."""
        if self._other is not None and self._silence is None:
            return True  # the store says so itself
        known = known_store(self._folder)
        is_released = known.is_removed or known.is_vouched or self._arbiter.may_be_gone()
        return (self._other is not None or (self._was_away and bool(known.address))) and not is_released

    def _obstacle(self) -> str:
        """Return why a change has to wait, as a sentence."""
        way_out = f"If none has: eksml-tui runs resume {self._run_id} --without-store."
        why = self._silence.message if self._silence else ""
        if self._other is None:
            begun = "this process has just begun, or was stopped or asleep, and another machine may have taken the run"
            return f"{begun} over. {way_out} {why}"
        holder = f"{one_line(str(self._other[0].owner))}: this machine before its restart, or another one"
        if self._silence is None:
            going_on = f"Without a renewal the run goes on here after {SILENT_SECONDS:.0f} s."
            return f"{self._arbiter.name} has a lease of {holder} with a copy of the run's folder. {going_on}"
        silent = f"{self._arbiter.name} does not answer, and had a lease of {holder}, which may have the run."
        return f"{silent} {way_out} {why}"

    def _lose(self, owner: Operator | None, epoch: int) -> None:
        is_copy = epoch == self._epoch
        self._deed = deed_of(owner, epoch, is_copy=is_copy)
        note_elsewhere(self._folder, owner, epoch, self._source, is_copy=is_copy)
        self._lost.set()

    def _refuse_if_lost(self, deed: str) -> None:
        if self._lost.is_set():
            raise FencedError(
                f"Run {self._run_id} {self._deed}: this machine no longer changes anything of it. Not done: {deed}."
            )

    def _look_for_absence(self) -> None:
        now = self._now()
        if _elapsed(self._alive, now) > TRUST_SECONDS:
            self._was_away = True
        self._alive = now

    def _goes_on_unsure(self, *, stays_here: bool) -> bool:
        """Return whether a change need not wait for another question: none was answered a moment ago.

        What leaves this machine waits for one unless the cluster has answered lately: this machine may have been cut
        off, and whatever is there again may know what another one has done meanwhile.
        """
        if self._silence is None or self._has_to_wait():
            return False
        if stays_here:
            return not self._was_away and _elapsed(self._asked, self._now()) <= _UNANSWERED_SECONDS
        return self._is_reached()

    def _may_send(self, *, in_cluster: bool, in_store: bool) -> bool:
        """Return whether a request to the cluster or the store arrives now, if at all."""
        if in_store or (in_cluster and self._arbiter.is_in_cluster):
            return _is_refusal(self._silence)
        return not in_cluster or self._reached is not None

    def _is_reached(self) -> bool:
        return self._reached is not None and _elapsed(self._reached, self._now()) <= TRUST_SECONDS

    def _is_fresh(self) -> bool:
        return self._verified is not None and _elapsed(self._verified, self._now()) <= TRUST_SECONDS

    def _now(self) -> tuple[float, float]:
        """Return the time since the machine's start, and the wall time, in seconds."""
        return self._boot(), self._clock.now().timestamp()


def _is_refusal(error: ConsoleError | None) -> bool:
    """Return whether an answer came, though not the one that was asked for: a connection came about."""
    return isinstance(error, ApiError) or not isinstance(error, UnreachableError)


def _elapsed(since: tuple[float, float], now: tuple[float, float]) -> float:
    """Return the greater of the times that have passed on both clocks: a paused machine sets its wall clock later."""
    return max(now[0] - since[0], now[1] - since[1])
