"""An operator's presence: its controllers act only while its Deployment has a ready pod."""

from __future__ import annotations

from collections.abc import Callable

from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.kinds import DEPLOYMENTS, Document, key_of


class KubernetesOperator:
    """An operator, by the key of its Deployment.

    Args:
        caches: That of Deployments among them.
        deployment: `namespace/name`.
    """

    def __init__(self, caches: Caches, deployment: str) -> None:
        self._caches = caches
        self._deployment = deployment

    @property
    def is_ready(self) -> bool:
        """True while the operator's Deployment has a ready pod."""
        deployment = self._caches[DEPLOYMENTS].get(self._deployment)
        return deployment is not None and bool((deployment.get("status") or {}).get("readyReplicas"))

    def on_change(self, wake: Callable[[], object]) -> None:
        """Call `wake` whenever it may have come or gone."""

        def look(deployment: Document) -> None:
            if key_of(deployment) == self._deployment:
                wake()

        self._caches[DEPLOYMENTS].listen(look)
