"""Pods whose node is gone: nobody else would ever end them."""

from __future__ import annotations

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.kinds import NODES, PODS, Document, key_of, uid_of
from actions.sandbox.actors.watching import Caches


class PodCollector(Controller):
    """Deletes pods that are bound to a node which does not exist any more."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[NODES].listen(self._on_node)

    def _on_node(self, node: Document) -> None:
        self.wake(node["metadata"]["name"])

    async def reconcile(self, key: str) -> float | None:
        """Look after the pods of a node that may be gone."""
        if self._caches[NODES].get(key) is not None:
            return None
        for pod in list(self._caches[PODS].objects.values()):
            if pod["spec"].get("nodeName") == key:
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod), grace_seconds=0)
        return None
