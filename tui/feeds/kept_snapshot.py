"""The feed of the last snapshot of a cluster: shown at once at the next start, written while nothing else is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.executors import in_thread

if TYPE_CHECKING:
    from actions.cluster.auth.session import ClusterTarget, KubeSession
    from actions.cluster.state.cluster_state import ClusterState
    from actions.cluster.state.kept import KeptSnapshot
    from actions.cluster.state.snapshot import ClusterSnapshot

FIRST_KEPT_SECONDS = 120.0
"""After the first complete snapshot; by then all work that was deferred until then is done."""
KEPT_SECONDS = 600.0
"""The least time between two that are kept while the console is open."""
_ASK_SECONDS = 5.0


class KeptSnapshotFeed:
    """Loads and writes the kept snapshot of one target. Used on one loop; files are read and written in a thread.

    Args:
        target: The cluster.
        clock: Time.
        looked: Called after a snapshot was taken beside those that are painted, which resets the sign of a change.
    """

    def __init__(self, target: ClusterTarget, clock: Clock, looked: Callable[[], None]) -> None:
        self.target = target
        self.shown: ClusterSnapshot | None = None
        """The snapshot to show until there is a live one; `None` without one, or when it is of another cluster."""
        self.is_loaded = False
        """True once what was kept has been looked for."""
        self._clock = clock
        self._looked = looked
        self._kept: KeptSnapshot | None = None
        self._identity = ""
        self.context = ""
        """The kubeconfig's name of the context; empty before it is read."""
        self._server = ""
        self.uid = ""
        """Of the cluster's `kube-system` namespace; empty while unknown."""
        self._written: tuple[int, object] = (0, None)

    async def load(self) -> None:
        """Load what was kept. A kubeconfig that cannot be used is reported by others."""
        with suppress(ConsoleError):
            found = await in_thread("kept snapshot", _load, self.target, self._clock.now().timestamp())
            self.context, self._server, self._identity, self._kept = found
            self.shown = self._kept.snapshot if self._kept else None
        self.is_loaded = True

    async def confirm(self, session: KubeSession) -> KeptSnapshot | None:
        """Ask the cluster whether it is the one of the kept snapshot; if not, that is no longer shown.

        Returns:
            What was kept, once, for the live state to go on with; `None` if there is nothing, or the cluster does not
            answer or may not be asked: then what is shown stays until the cluster has been listed.
        """
        kept, self._kept = self._kept, None
        if session.server != self._server:
            self._identity, self.shown = "", None
            return None
        if kept is None:
            return None
        await self._ask_uid(session)
        if self.uid and self.uid != kept.uid:
            self.shown = None
        return kept if self.uid and self.uid == kept.uid else None

    async def write(self, state: ClusterState, session: KubeSession, *, may_ask: bool) -> None:
        """Keep a live snapshot, unless the newest one is kept already.

        Args:
            state: The live state.
            session: The session with its cluster.
            may_ask: Ask the cluster for its uid, if it is not known yet.
        """
        if may_ask and not self.uid:
            await self._ask_uid(session)
        snapshot, versions = state.snapshot(), state.versions()
        if not (snapshot.is_complete and self.uid and self._identity) or (snapshot.revision, versions) == self._written:
            return
        self._written = (snapshot.revision, versions)
        from actions.cluster.state.kept import write_kept

        await in_thread(
            "kept snapshot",
            write_kept,
            snapshot,
            self._identity,
            uid=self.uid,
            taken_at=self._clock.now().timestamp(),
            versions=versions,
        )

    async def write_now_and_then(self, state: ClusterState, session: KubeSession) -> None:
        """Write some time after the first complete snapshot, and then after changes, until cancelled."""
        await self._clock.sleep(FIRST_KEPT_SECONDS)
        while True:
            await self.write(state, session, may_ask=True)
            self._looked()
            await self._clock.sleep(KEPT_SECONDS)
            await state.wait_changed()

    async def _ask_uid(self, session: KubeSession) -> None:
        with suppress(ConsoleError, TimeoutError):
            async with asyncio.timeout(_ASK_SECONDS):
                self.uid = await session.cluster_uid()


def _load(target: ClusterTarget, now: float) -> tuple[str, str, str, KeptSnapshot | None]:
    from actions.cluster.auth.kubeconfig import load_context
    from actions.cluster.state.kept import context_digest, load_kept

    chosen = load_context(target)
    identity = context_digest(chosen)
    return chosen.context, chosen.server, identity, load_kept(identity, now=now)
