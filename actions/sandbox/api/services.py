"""What every endpoint of the server works with."""

from __future__ import annotations

import msgspec

from actions.base.clock import Clock
from actions.sandbox.api.access import Access
from actions.sandbox.api.deletion import Deleter
from actions.sandbox.api.resources import Registry
from actions.sandbox.api.store import Store
from actions.sandbox.api.writes import Writer
from actions.sandbox.faults.seam import NO_FAULTS, Faults
from actions.sandbox.ports import KubeletPort

BOOKMARK_SECONDS = 45.0


class Services(msgspec.Struct, frozen=True):
    """The parts of one server. `bookmark_seconds` is how long a quiet watch stays silent."""

    store: Store
    registry: Registry
    clock: Clock
    writer: Writer
    deleter: Deleter
    kubelet: KubeletPort
    access: Access
    faults: Faults = NO_FAULTS
    bookmark_seconds: float = BOOKMARK_SECONDS
