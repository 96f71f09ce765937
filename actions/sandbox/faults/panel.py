"""The fault panel: the faults that are on, the requests they have hit, and the clock that they may set wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import InputError
from actions.sandbox.apiserver.requests.request_info import RequestInfo
from actions.sandbox.faults.fault import Fault, FaultKind


class SkewedClock:
    """`base` with its wall time `offset_seconds` ahead; durations are not touched."""

    def __init__(self, base: Clock) -> None:
        self._base = base
        self.offset_seconds = 0.0

    def now(self) -> datetime:
        return self._base.now() + timedelta(seconds=self.offset_seconds)

    def monotonic(self) -> float:
        return self._base.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._base.sleep(seconds)


class ActiveFault(msgspec.Struct, eq=False):
    """A fault that is on. `hits` counts requests and open streams; `ends_at` is monotonic."""

    fault: Fault
    ends_at: float
    hits: int = 0
    lifted: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    @property
    def is_spent(self) -> bool:
        """True if it has hit as often as its count; a connection that it holds stays held until the fault is lifted."""
        return bool(self.fault.count) and self.hits >= self.fault.count


class FaultPanel:
    """Faults, turned on and off while the server runs.

    Args:
        clock: The machine's. The panel's own `clock` is the cluster's, which a fault may set wrong.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = SkewedClock(clock)
        self._active: dict[str, ActiveFault] = {}

    def add(self, fault: Fault) -> ActiveFault:
        """Turn a fault on, in the place of one of the same name.

        Raises:
            InputError: Its numbers make no sense.
        """
        if min(fault.count, fault.seconds, fault.after_bytes, fault.delay_seconds, fault.retry_after_seconds) < 0:
            raise InputError("count, seconds, after-bytes, delay-seconds and retry-after-seconds are at least 0.")
        name = fault.name or fault.kind.value
        self.lift(name)
        ends_at = self.clock.monotonic() + fault.seconds if fault.seconds else float("inf")
        active = self._active[name] = ActiveFault(replace(fault, name=name), ends_at)
        self._set_clock()
        return active

    def lift(self, name: str) -> bool:
        """Turn a fault off and let go of what it holds. Return whether it was on."""
        active = self._active.pop(name, None)
        if active is None:
            return False
        active.lifted.set()
        self._set_clock()
        return True

    def clear(self) -> None:
        """Turn every fault off."""
        for name in list(self._active):
            self.lift(name)

    def active(self) -> list[ActiveFault]:
        """The faults that are on, oldest first; spent ones are among them until they are lifted or their time is up."""
        if self._active:
            now = self.clock.monotonic()
            for name in [name for name, active in self._active.items() if active.ends_at <= now]:
                self.lift(name)
        return list(self._active.values())

    def hit(self, info: RequestInfo, kinds: Container[FaultKind], *, in_stream: bool = False) -> ActiveFault | None:
        """The first fault of these kinds that hits a request, counted; `None` if the request is spared."""
        for active in self.active():
            fault = active.fault
            if fault.kind in kinds and fault.in_stream is in_stream and not active.is_spent and fault.matches(info):
                active.hits += 1
                return active
        return None

    async def hold(self, active: ActiveFault, seconds: float = float("inf")) -> None:
        """Wait for this long, but not longer than the fault is on."""
        left = min(seconds, active.ends_at - self.clock.monotonic())
        try:
            async with asyncio.timeout(left if left != float("inf") else None):
                await active.lifted.wait()
        except TimeoutError:
            return

    def _set_clock(self) -> None:
        offsets = [one.fault.offset_seconds for one in self._active.values() if one.fault.kind is FaultKind.SKEW]
        self.clock.offset_seconds = sum(offsets)
