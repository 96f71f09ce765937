"""Forty finished logs at once, through our follower and through a bare client, one after the other.

    python -m tests.bench.logs ours|bare KUBECONFIG

`ours` reads, cleans, stores what it reads with the curves in it, and reads the output back merged by time.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from operator import le
from pathlib import Path

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession, RequestClass
from actions.cluster.logs.batch import LogBatch, stamp_in
from actions.cluster.logs.follow import ContainerLog, LogFollower
from actions.run.output.writer import OutputSource, OutputWriter
from tests.bench.loglines import LINES, NAMESPACE, PODS
from tests.bench.others import measure_stern
from tests.bench.server import log_server
from tui.feeds.output import OutputLogFeed

_ROOT = Path(__file__).parents[2]
_STAGE = "train"
_TAKEN = 5_000


class Stored:
    """Lines of all pods as a run keeps them: filtered, written to disk with what is read in them, read back."""

    def __init__(self, folder: Path) -> None:
        self.lines = 0
        self._folder = folder
        self._writer = OutputWriter(folder, _STAGE)

    def source(self, pod: str) -> OutputSource:
        """Return the source of the output that one pod's lines go to."""
        return self._writer.source(NAMESPACE, pod, "main", pod)

    def take(self, source: OutputSource, batch: LogBatch) -> None:
        """Write a batch."""
        self.lines += len(batch)
        self._writer.write(source, batch)

    def read_back(self) -> int:
        """Return the number of lines that the output gives, in the order of time.

        Raises:
            RuntimeError: They are not in that order.
        """
        feed, count, latest = OutputLogFeed(self._folder, _STAGE), 0, b""
        while feed.has_more:
            records = feed.take(_TAKEN)
            stamps = list(map(stamp_in, records))
            if not all(map(le, [latest, *stamps], stamps)):
                raise RuntimeError("the lines are not in the order of time")
            count, latest = count + len(records), stamps[-1] if stamps else latest
        return count


async def _ours(session: KubeSession, output: Stored, pod: str) -> None:
    source = output.source(pod)
    follower = LogFollower(
        session, ContainerLog(NAMESPACE, pod, "main"), on_lines=lambda batch: output.take(source, batch)
    )
    await follower.run()


async def _bare(session: KubeSession, output: Stored, pod: str) -> None:
    query = {"container": "main", "timestamps": "true"}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/log"
    rest = b""
    async with session.stream(path, query=query, accept="*/*", request_class=RequestClass.LOGS) as stream:
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            output.lines += len([line.partition(b" ") for line in lines])


async def main(way: str, kubeconfig: Path) -> None:
    """Read every log to its end."""
    session = await KubeSession.connect(ClusterTarget(kubeconfig=kubeconfig))
    with tempfile.TemporaryDirectory(prefix="eksml-bench-output-") as folder:
        output = Stored(Path(folder))
        read = _ours if way == "ours" else _bare
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(read(session, output, f"pod-{index}") for index in range(PODS)))
        if way == "ours" and output.read_back() != output.lines:
            raise RuntimeError("the output does not give what was written")
        took, used = time.perf_counter() - began, time.process_time() - cpu
    await session.aclose()
    told = {
        "lines": output.lines,
        "seconds": round(took, 2),
        "cpu_us_per_line": round(used / output.lines * 1e6, 2),
        "rss_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    sys.stdout.write(json.dumps(told) + "\n")


def measure_logs(kind: str, folder: Path) -> dict[str, object]:
    """Both ways on one server, and stern where it is on PATH.

    Args:
        kind: Of server: `real` or `synthetic`.
        folder: For its files.
    """
    with log_server(kind, folder) as target:
        ours, bare = _read("ours", target.kubeconfig), _read("bare", target.kubeconfig)
        found: dict[str, object] = {"server": target.server, "console": ours, "reference": bare}
        found["stern"] = measure_stern(target.kubeconfig, lines=PODS * LINES)
    found["ratios"] = {name: round(ours[name] / bare[name], 2) for name in ("seconds", "cpu_us_per_line")}
    return found


def _read(way: str, kubeconfig: str) -> dict[str, float]:
    argv = [sys.executable, "-m", "tests.bench.logs", way, kubeconfig]
    done = subprocess.run(argv, cwd=_ROOT, check=True, stdout=subprocess.PIPE)
    told: dict[str, float] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
