"""A runner's access to the store of its run: in S3 from the launch on, else in its cluster, as soon as it has one.

A run with a store in S3 has a lease in its cluster, too: the heartbeat that its watchdog reads, and a pointer to the
store for whoever looks there. It decides nothing while the store answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.decoding import decode_json
from actions.base.errors import AccessError, ConflictError, RefusedError
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import known_cluster_uid
from actions.run.journal.folder import read_block, write_block
from actions.run.objects.inventory import ref_of_owned
from actions.run.state.view import Goal, RunView
from actions.run.store.kubernetes import KubernetesStore, choose_namespace
from actions.run.store.lease_object import NAMESPACE
from actions.run.store.objects import DamagedError, RunStore, StoreLease
from actions.run.store.s3 import open_store

_STORED_KINDS = ("ConfigMap", "Secret", "Lease")
OpenInCluster = Callable[[RunView], Awaitable[RunStore | None]]
"""Connects to the run's cluster and returns the store in it; `None` before the run has one."""


class KnownStore(msgspec.Struct, frozen=True):
    """The facts that this machine has of a run's store, in a block of the run's folder."""

    address: str = ""
    """That of the store that has had the run's lease; empty if none is known to."""
    namespace: str = ""
    """That of the run's objects in its cluster; empty while none has been chosen."""
    is_removed: bool = False
    """This run's own teardown has removed its objects from that, or is about to."""
    is_vouched: bool = False
    """A person has stated that no other machine has the run; holds until the store answers."""


def known_store(folder: Path) -> KnownStore:
    """Return what is known of a run's store."""
    try:
        return decode_json(read_block(_block(folder)), KnownStore)
    except msgspec.MsgspecError:
        return KnownStore()


def note_answered(folder: Path, address: str) -> None:
    """Record that a store has had the run's lease; what a person has stated for want of an answer counts no more."""
    _note(folder, replace(known_store(folder), address=address, is_vouched=False))


def note_removed(folder: Path) -> None:
    """Record that the run's objects are about to be removed from its store: no runner waits for its lease there."""
    _note(folder, replace(known_store(folder), is_removed=True))


def note_vouched(folder: Path) -> None:
    """Record the statement of a person that no other machine has the run."""
    _note(folder, replace(known_store(folder), is_vouched=True))


def _note(folder: Path, known: KnownStore) -> None:
    if known != known_store(folder):
        write_block(_block(folder), msgspec.json.encode(known))  # failure is ignored, as on a full disk


def _block(folder: Path) -> Path:
    return folder / "store"


def store_of(view: RunView) -> RunStore | None:
    """Return the store of a run in S3; `None` if it has none there."""
    return open_store(view.store, region=view.cluster.region) if view.store else None


def cluster_store(connection: ClusterConnection, folder: Path, view: RunView) -> KubernetesStore:
    """Return the store in the cluster of a run; of one whose namespace is not chosen yet, to read in all of them.

    Args:
        connection: To the run's cluster.
        folder: The run's.
        view: The run.
    """
    known = known_store(folder).namespace
    return KubernetesStore(connection.session, *([known] if known else _namespaces(view)))


async def chosen_cluster_store(connection: ClusterConnection, folder: Path, view: RunView) -> KubernetesStore:
    """Return the same to write in: its namespace is chosen once, by where the lease is, else by what is allowed.

    Raises:
        ConsoleError: The cluster does not answer.
    """
    if not known_store(folder).namespace:
        own = view.cluster.namespace
        if own != NAMESPACE and await _has_lease(KubernetesStore(connection.session, own), view.id):
            chosen = own
        elif await _has_lease(KubernetesStore(connection.session, NAMESPACE), view.id):
            chosen = NAMESPACE
        else:
            chosen = await choose_namespace(connection.session, own)
        _note(folder, replace(known_store(folder), namespace=chosen))
    return cluster_store(connection, folder, view)


def _namespaces(view: RunView) -> list[str]:
    return list(dict.fromkeys((NAMESPACE, view.cluster.namespace)))


async def _has_lease(store: KubernetesStore, run_id: str) -> bool:
    try:
        return await store.lease(run_id) is not None
    except DamagedError:
        return True
    except AccessError:
        return False  # `choose_namespace` finds out what is allowed there


async def require_traces(connection: ClusterConnection, folder: Path, view: RunView) -> None:
    """Require that a run whose lease is gone from its cluster has left anything else there, if it had made something.

    A teardown by a machine that has taken the run over leaves neither lease nor record. What others delete in the
    store, a ConfigMap or a Lease, is not a sign of one. A person may state that there was none (`note_vouched`).

    Raises:
        RefusedError: Nothing is left: the run may have been torn down.
        ConsoleError: The cluster does not answer.
    """
    known = known_store(folder)
    if view.goal is Goal.TEARDOWN or not known.address or known.is_vouched or known.is_removed:
        return
    made = [item for item in view.owned if item.uid and not (item.existed or item.is_deleted)]
    made = [item for item in made if item.kind not in _STORED_KINDS]
    for item in made:
        found = await connection.find(ref_of_owned(item))
        if found is not None and found["metadata"].get("uid") == item.uid:
            return
    if made:
        raise RefusedError("Its lease and all that it had made in its cluster are gone: it may have been torn down.")


async def _nothing(view: RunView) -> None:
    del view


class StoreAccess:
    """The store of one run, and what is beside it in its cluster; implements `Arbiter`.

    Args:
        current: Returns the run, without waiting.
        store: The one in S3; `None` for a run that has none there.
        open_in_cluster: Opens the one in the run's cluster.
        disconnect: Ends that connection; the next one has the kubeconfig and the credentials of then.
        removes_cluster: Returns whether a step of the run's teardown that has begun removes the cluster.
        require_traces: See `require_traces`.
    """

    def __init__(
        self,
        current: Callable[[], RunView],
        store: RunStore | None,
        open_in_cluster: OpenInCluster,
        *,
        disconnect: Callable[[], Awaitable[None]] | None = None,
        removes_cluster: Callable[[RunView], bool] = lambda _: False,
        require_traces: Callable[[RunView], Awaitable[None]] = _nothing,
    ) -> None:
        self._current = current
        self._store = store
        self._open_in_cluster = open_in_cluster
        self._disconnect = disconnect
        self._removes_cluster = removes_cluster
        self._require_traces = require_traces

    @property
    def name(self) -> str:
        """For sentences: `s3://team/ml`."""
        return self._store.address if self._store is not None else "the run's cluster"

    @property
    def is_in_cluster(self) -> bool:
        """The store is in the run's cluster."""
        return self._store is None

    def has_cluster(self) -> bool:
        """Return whether the run has a cluster by now."""
        return bool(known_cluster_uid(self._current()))

    def exists(self) -> bool:
        """Return whether the run has a store by now."""
        return self._store is not None or self.has_cluster()

    def removes_cluster(self) -> bool:
        """Return whether the run's teardown removes its cluster."""
        return self._removes_cluster(self._current())

    def may_be_gone(self) -> bool:
        """Return whether the run itself removes the store's place."""
        return self.is_in_cluster and self.removes_cluster()

    async def open(self) -> RunStore:
        """Return the store.

        Raises:
            ConsoleError: The cluster does not answer, or the run has none yet.
        """
        return self._store if self._store is not None else await self.open_cluster()

    async def open_cluster(self) -> RunStore:
        """Return the store in the run's cluster.

        Raises:
            ConsoleError: It does not answer, or the run has none yet; never a `ConflictError`, which ends a runner.
        """
        view = self._current()
        try:
            store = await self._open_in_cluster(view)
        except ConflictError as error:
            raise RefusedError(error.message, hint=error.hint) from error
        if store is None:
            raise RefusedError(f"Run {view.id} has no cluster yet.")
        return store

    async def read(self) -> StoreLease | None:
        """Return the run's lease; `None` if there certainly is none.

        Raises:
            ConsoleError: There is no answer, which means nothing; or all that the run has made is gone with its lease.
        """
        view = self._current()
        lease = await (await self.open()).lease(view.id)
        if lease is None and self.is_in_cluster:
            await self._require_traces(view)
        return lease

    async def read_pointer(self) -> StoreLease | None:
        """Return the lease in the run's cluster, as `read`; `None` before the run has a cluster."""
        return await (await self.open_cluster()).lease(self._current().id) if self.has_cluster() else None

    async def reconnect(self) -> None:
        """Have the next call connect to the cluster anew."""
        if self._disconnect is not None:
            await self._disconnect()

    async def aclose(self) -> None:
        """Take no more calls."""
        await self.reconnect()
        if self._store is not None:
            self._store.close()
