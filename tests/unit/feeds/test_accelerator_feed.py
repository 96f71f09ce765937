"""A sample that the run took a moment ago is not asked for again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.spool.format import AcceleratorSample
from actions.run.spool.writer import SpoolWriter
from tests.support.builders import NOW, StillClock, a_pod
from tui.feeds.accelerators import FRESH_SECONDS, AcceleratorFeed, Sampled, WorkerReading
from tui.feeds.cluster import ClusterFeed

ROW = "0, NVIDIA A10G, 97, 3032, 23028, 33, 112.10, 300.00, P0"


async def read(folder: Path, *, age_seconds: float) -> WorkerReading:
    """One round for one pod, of a cluster that nobody is connected to."""
    writer = SpoolWriter(folder, "train")
    writer.write_sample("worker-0", AcceleratorSample(NOW.timestamp() - age_seconds, ROW))
    writer.close()
    clock = StillClock()
    cluster = ClusterFeed(ClusterTarget(kubeconfig=Path("none")), readonly=True, clock=clock, changed=lambda: None)
    feed = AcceleratorFeed(cluster, clock, lambda: None)
    kept = feed._samples(Sampled(folder, "train"))
    return await feed._read(asyncio.Semaphore(1), a_pod("worker-0", gpu=1), kept)


async def test_a_fresh_sample_of_the_run_is_the_answer(tmp_path: Path) -> None:
    (device,) = (await read(tmp_path, age_seconds=3)).reading.devices
    assert (device.model, device.load_pct) == ("NVIDIA A10G", 97)


async def test_an_old_sample_is_asked_for_again(tmp_path: Path) -> None:
    worker = await read(tmp_path, age_seconds=FRESH_SECONDS + 1)
    assert "not connected" in worker.reading.error
