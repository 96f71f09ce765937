"""The guard of what this process changes, consulted immediately before each change.

A run's runner sets it: once another machine has its run, it may change nothing more. It is consulted at the place of
each change (requests to a cluster, calls to AWS, processes of Terraform and docker, records of a journal), below all
stages. Without a guard every change may be made. It holds for tasks that are begun while it is set, and for no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from actions.base.errors import ConflictError


class FencedError(ConflictError):
    """This process may change nothing more: another one has taken its place."""


class ChangeGuard(Protocol):
    """The guard of one process' changes."""

    async def require(
        self, deed: str, *, stays_here: bool = False, in_cluster: bool = False, in_store: bool = False
    ) -> None:
        """Return once the change may be made; nothing may be waited for between this and the change.

        Args:
            deed: The change, as the subject of a sentence: `POST /api/v1/namespaces`.
            stays_here: It changes nothing but this machine's own disk.
            in_cluster: It is a request to the cluster.
            in_store: It is one to the store of the run.

        Raises:
            FencedError: It may not, and neither may any later one.
            UnreachableError: That does not answer, so that the request could arrive much later.
        """
        ...


_guard: ContextVar[ChangeGuard | None] = ContextVar("guard", default=None)


@contextmanager
def guarded_by(guard: ChangeGuard | None) -> Iterator[None]:
    """Set the guard for the code inside, and for tasks that it begins; `None` for no guard."""
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


async def require_guard(
    deed: str, *, stays_here: bool = False, in_cluster: bool = False, in_store: bool = False
) -> None:
    """Require that this process may make a change now.

    Args:
        deed: See `ChangeGuard.require`.
        stays_here: As well.
        in_cluster: As well.
        in_store: As well.

    Raises:
        FencedError: It may not.
        UnreachableError: See `ChangeGuard.require`.
    """
    guard = _guard.get()
    if guard is not None:
        await guard.require(deed, stays_here=stays_here, in_cluster=in_cluster, in_store=in_store)
