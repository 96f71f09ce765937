"""The parts of the server that every endpoint works with."""

from __future__ import annotations

import msgspec

from actions.base.clock import Clock
from actions.sandbox.apiserver.requests.access import AccessControl
from actions.sandbox.apiserver.requests.fault_hook import NO_FAULTS, FaultHook
from actions.sandbox.apiserver.storage.resources import Registry
from actions.sandbox.apiserver.storage.store import Store
from actions.sandbox.apiserver.writes.deletion import Deleter
from actions.sandbox.apiserver.writes.writer import Writer
from actions.sandbox.model.kubelet_api import KubeletApi

BOOKMARK_SECONDS = 45.0


class ServerContext(msgspec.Struct, frozen=True):
    """The parts of one server. `bookmark_seconds` is how long a quiet watch stays silent."""

    store: Store
    registry: Registry
    clock: Clock
    writer: Writer
    deleter: Deleter
    kubelet: KubeletApi
    access: AccessControl
    faults: FaultHook = NO_FAULTS
    bookmark_seconds: float = BOOKMARK_SECONDS
