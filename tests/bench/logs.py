"""Many logs at once through our follower, or through a bare client: `python -m tests.bench.logs ours|bare KUBECONFIG`.

It prints how many lines came, in how many seconds, for how much of a processor.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from actions.cluster.kubeconfig import ClusterTarget
from actions.cluster.loglines import LogLine
from actions.cluster.logs import LogFollower, LogSource
from actions.cluster.session import KubeSession, Lane
from tests.bench.apiserver import LOG_PODS


class Counter:
    """Takes lines, keeps none."""

    def __init__(self) -> None:
        self.lines = 0

    def take(self, lines: list[LogLine]) -> None:
        """Count a batch."""
        self.lines += len(lines)


async def _ours(session: KubeSession, counter: Counter, pod: str) -> None:
    await LogFollower(session, LogSource("logs", pod, "main"), on_lines=counter.take).run()


async def _bare(session: KubeSession, counter: Counter, pod: str) -> None:
    query = {"container": "main", "follow": "true", "timestamps": "true"}
    path = f"/api/v1/namespaces/logs/pods/{pod}/log"
    rest = b""
    async with session.stream(path, query=query, accept="*/*", lane=Lane.LOGS) as stream:
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            counter.lines += len([line.partition(b" ") for line in lines])


async def main(way: str, kubeconfig: Path) -> None:
    """Read every log to its end."""
    session = await KubeSession.connect(ClusterTarget(kubeconfig=kubeconfig))
    counter = Counter()
    read = _ours if way == "ours" else _bare
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(read(session, counter, f"pod-{index}") for index in range(LOG_PODS)))
    took, used = time.perf_counter() - began, time.process_time() - cpu
    await session.aclose()
    told = {
        "lines": counter.lines,
        "lines_per_second": round(counter.lines / took),
        "cpu_us_per_line": round(used / counter.lines * 1e6, 2),
        "rss_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
