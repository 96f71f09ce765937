"""Hollow nodes under constant change: `python -m tests.bench.hollow_churn KUBECONFIG PODS EVENTS KEPT`.

PODS pods change and EVENTS events happen in a second, of which the newest KEPT stay. Ends with its parent's stdin; then
it writes the counts as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from tests.bench.serving import in_background, until_stdin_ends

_PODS = "/api/v1/namespaces/hollow/pods"
_EVENTS = "/api/v1/namespaces/hollow/events"
_TICK_SECONDS = 0.05


class HollowChurn:
    """Changes pods and makes events at steady rates.

    Args:
        session: The sandbox's.
        pods: Changed a second.
        events: Made a second.
        kept: Events that the cluster has at most, the newest ones: servers forget them after an hour.
    """

    def __init__(self, session: KubeSession, *, pods: float, events: float, kept: int) -> None:
        self.pods = self.events = 0
        self._kept = kept
        self._told: deque[str] = deque()
        self._session = session
        self._rates = (pods, events)
        self._dice = random.Random(8)
        self._names: list[str] = []

    async def run(self) -> None:
        """Change for ever."""
        listed = await self._session.get(_PODS)
        self._names = [item["metadata"]["name"] for item in listed["items"]]
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            passed = loop.time() - began
            while self.pods < passed * self._rates[0]:
                await self._change_pod()
            while self.events < passed * self._rates[1]:
                await self._make_event()

    async def _change_pod(self) -> None:
        self.pods += 1
        restarts = {"containerStatuses": [{"name": "main", "ready": True, "restartCount": self.pods, "state": {}}]}
        body = json.dumps({"status": restarts}).encode()
        path = f"{_PODS}/{self._dice.choice(self._names)}/status"
        await self._session.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def _make_event(self) -> None:
        self.events += 1
        pod, now = self._dice.choice(self._names), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod}.{self.events:x}", "namespace": "hollow"},
            "involvedObject": {"kind": "Pod", "namespace": "hollow", "name": pod},
            "reason": self._dice.choice(("Pulled", "Created", "Started", "BackOff")),
            "message": f"Back-off restarting failed container main in pod {pod}, for the {self.events}th time",
            "type": "Normal" if self.events % 4 else "Warning",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._session.request("POST", _EVENTS, body=json.dumps(event).encode())
        self._told.append(f"{pod}.{self.events:x}")
        if len(self._told) > self._kept:
            await self._session.request("DELETE", f"{_EVENTS}/{self._told.popleft()}")


async def main(kubeconfig: Path, pods: float, events: float, kept: int) -> None:
    """Churn until stdin ends."""
    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    churn = HollowChurn(session, pods=pods, events=events, kept=kept)
    try:
        async with in_background(churn.run()):
            await until_stdin_ends()
    finally:
        await session.aclose()
        sys.stdout.write(json.dumps({"pods_changed": churn.pods, "events": churn.events}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
