"""Somebody else who uses the cluster of a run."""

from __future__ import annotations

from typing import Any

import yaml

from actions.base.errors import MissingError
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, ObjectRef, delete, fetch_object
from tests.support.applying import apply_all
from tests.support.polling import until


class Somebody:
    """The sandbox in the hands of somebody who has nothing to do with the run."""

    def __init__(self, session: KubeSession) -> None:
        self._session = session
        self._discovery = Discovery(session)

    async def put(self, manifest: dict[str, Any]) -> str:
        """Apply it. Returns its uid."""
        made = await apply(self._session, self._discovery, manifest, manager="somebody-else")
        return str(made["metadata"]["uid"])

    async def put_yaml(self, text: str) -> None:
        """Apply the manifests of a file; definitions are served at the end."""
        await apply_all(self._session, self._discovery, yaml.safe_load_all(text))

    async def get(self, ref: ObjectRef) -> dict[str, Any] | None:
        try:
            return await fetch_object(self._session, self._discovery, ref)
        except MissingError:
            return None

    async def remove(self, ref: ObjectRef) -> None:
        await delete(self._session, self._discovery, ref)

        async def is_gone() -> bool:
            return await self.get(ref) is None

        await until(is_gone, f"the end of {ref.describe()}")
