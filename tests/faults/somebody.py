"""Somebody else who uses the cluster of a run."""

from __future__ import annotations

from typing import Any

from actions.base.errors import MissingError
from actions.cluster.apply import apply
from actions.cluster.objects import Discovery, ObjectRef, delete, fetch
from actions.cluster.session import KubeSession
from tests.support.polling import until


class Somebody:
    """The sandbox in the hands of somebody who has nothing to do with the run."""

    def __init__(self, session: KubeSession) -> None:
        self._session = session
        self._discovery = Discovery(session)

    async def put(self, manifest: dict[str, Any]) -> None:
        await apply(self._session, self._discovery, manifest, manager="somebody-else")

    async def get(self, ref: ObjectRef) -> dict[str, Any] | None:
        try:
            return await fetch(self._session, self._discovery, ref)
        except MissingError:
            return None

    async def remove(self, ref: ObjectRef) -> None:
        await delete(self._session, self._discovery, ref)

        async def is_gone() -> bool:
            return await self.get(ref) is None

        await until(is_gone, f"the end of {ref.describe()}")
