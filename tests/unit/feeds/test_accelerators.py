"""A sample that the run took a moment ago is not asked for again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from actions.base.errors import AccessError, ConsoleError, UnreachableError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote import exec as remote
from actions.cluster.remote.exec import ExecResult
from actions.run.output.streams import AcceleratorSample
from actions.run.output.writer import OutputWriter
from actions.telemetry.tools.device_history import Extent, Quantity
from tests.support.builders import NOW, StillClock, a_pod
from tui.feeds.accelerators import FRESH_SECONDS, AcceleratorFeed, Sampled, WorkerReading
from tui.feeds.cluster import ClusterFeed
from tui.panes.accelerators import COLUMNS
from tui.present.accelerators import device_rows, summary
from tui.present.cells import text_of

ROW = "0, NVIDIA A10G, 97, 3032, 23028, 33, 112.10, 300.00, P0"


def stored(folder: Path, *ages_seconds: float) -> Sampled:
    writer = OutputWriter(folder, "train")
    for age in ages_seconds:
        writer.write_sample("worker-0", AcceleratorSample(NOW.timestamp() - age, ROW, "node-1"))
    writer.close()
    return Sampled(folder, "train")


def a_feed() -> AcceleratorFeed:
    """A feed of a cluster that nobody is connected to."""
    clock = StillClock()
    cluster = ClusterFeed(ClusterTarget(kubeconfig=Path("none")), readonly=True, clock=clock, changed=lambda: None)
    return AcceleratorFeed(lambda: cluster.session, clock, lambda: None)


async def read(folder: Path, *, age_seconds: float) -> WorkerReading:
    """One round for one pod."""
    stored(folder, age_seconds)
    feed = a_feed()
    kept = feed._samples(Sampled(folder, "train"))
    return await feed._read(asyncio.Semaphore(1), a_pod("worker-0", gpu=1), kept)


async def test_a_fresh_sample_of_the_run_is_the_answer(tmp_path: Path) -> None:
    (device,) = (await read(tmp_path, age_seconds=3)).reading.devices
    assert (device.model, device.load_pct) == ("NVIDIA A10G", 97)


async def test_an_old_sample_is_asked_for_again(tmp_path: Path) -> None:
    worker = await read(tmp_path, age_seconds=FRESH_SECONDS + 1)
    assert "not connected" in worker.reading.error


async def test_a_history_begins_with_the_last_minutes_of_the_run_and_counts_no_sample_twice(tmp_path: Path) -> None:
    feed, place, pod = a_feed(), stored(tmp_path, 4000, 30, 10, 4), a_pod("worker-0", gpu=1)
    await feed._show_present([pod], place)
    history = feed.histories[pod.key, "0"]
    assert history.revision == 2  # of the last minutes alone
    await feed._show_present([pod], place)
    assert feed.histories[pod.key, "0"].revision == 2
    stored(tmp_path, 1)
    await feed._show_present([pod], place)
    assert feed.histories[pod.key, "0"].revision == 3
    await feed._show_present([], place)
    assert not feed.histories


async def test_the_past_is_read_once_until_it_grows(tmp_path: Path) -> None:
    feed, place = a_feed(), stored(tmp_path, 4000, 30, 10, 4)
    await feed._show_past(place)
    past, revision = feed.past, feed.revision
    assert past is not None
    (worker,) = past.readings
    assert (worker.pod.name, worker.pod.node) == ("worker-0", "node-1")
    assert worker.reading.devices[0].power_w == pytest.approx(112.1)
    assert past.ended_at - past.began_at == 3996
    await feed._show_past(place)
    assert feed.revision == revision
    stored(tmp_path, 1)
    await feed._show_past(place)
    assert feed.past is not None
    assert feed.past.ended_at == NOW.timestamp() - 1
    await feed._show_present([], None)
    assert feed.past is None


def _loads(folder: Path, pod: str, *samples: tuple[float, int]) -> None:
    writer = OutputWriter(folder, "train")
    for at, load in samples:
        writer.write_sample(pod, AcceleratorSample(at, ROW.replace(" 97,", f" {load},"), "node-1"))
    writer.close()


async def test_means_of_the_past_are_over_the_time_in_which_all_were_sampled(tmp_path: Path) -> None:
    """Two workers that were sampled later stood with 95 % beside six with 71 %: their first samples were of no work."""
    _loads(tmp_path, "worker-0", (1000, 0), (1100, 0), (1200, 90), (1300, 90))
    _loads(tmp_path, "worker-1", (1200, 94), (1300, 96))
    feed = a_feed()
    await feed._show_past(Sampled(tmp_path, "train"))
    assert feed.past is not None
    assert [worker.reading.devices[0].load_pct for worker in feed.past.readings] == [90, 95]
    assert (feed.past.began_at, feed.past.ended_at, feed.past.is_common) == (1200, 1300, True)


async def test_means_without_a_common_time_are_called_so(tmp_path: Path) -> None:
    _loads(tmp_path, "worker-0", (1000, 80), (1100, 80))
    _loads(tmp_path, "worker-0b", (1200, 94), (1300, 96))
    feed = a_feed()
    await feed._show_past(Sampled(tmp_path, "train"))
    assert feed.past is not None
    assert [worker.reading.devices[0].load_pct for worker in feed.past.readings] == [80, 95]
    assert (feed.past.began_at, feed.past.ended_at, feed.past.is_common) == (1000, 1300, False)


class Asked:
    """A session whose pods have a sidecar first, and `run_in_pod` for them."""

    def __init__(self, error: ConsoleError | None = None) -> None:
        self.read, self.containers = list[str](), list[str]()
        self._error = error

    async def get(self, path: str) -> dict[str, Any]:
        self.read.append(path)
        if self._error is not None:
            raise self._error
        trainer = {"name": "trainer", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
        return {"spec": {"containers": [{"name": "proxy"}, trainer]}}

    async def run_in_pod(
        self, _session: object, _namespace: str, _pod: str, container: str, *_: object, **_m: Any
    ) -> ExecResult:
        self.containers.append(container)
        return ExecResult(ROW.encode(), b"", 0)


@pytest.mark.parametrize(("error", "container"), [(None, "trainer"), (AccessError("pods is forbidden"), "proxy")])
async def test_the_container_with_the_accelerators_is_asked_and_looked_for_once(
    error: ConsoleError | None, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, feed = Asked(error), a_feed()
    monkeypatch.setattr(remote, "run_in_pod", asked.run_in_pod)
    pod = replace(a_pod("worker-0", gpu=1), containers=("proxy", "trainer"))
    for _ in range(2):
        assert await feed._ask(cast(KubeSession, asked), pod) == ROW
    assert asked.containers == [container, container]
    assert asked.read == ["/api/v1/namespaces/default/pods/worker-0"]
    await feed._ask(cast(KubeSession, asked), a_pod("worker-1", gpu=1))
    assert len(asked.read) == 1  # with one container there is nothing to look for


async def test_no_container_is_kept_while_the_cluster_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, pod = a_feed(), replace(a_pod("worker-0", gpu=1), containers=("proxy", "trainer"))
    silent, asked = Asked(UnreachableError("It does not answer.")), Asked()
    monkeypatch.setattr(remote, "run_in_pod", asked.run_in_pod)
    with pytest.raises(UnreachableError):
        await feed._ask(cast(KubeSession, silent), pod)
    await feed._ask(cast(KubeSession, asked), pod)
    assert asked.containers == ["trainer"]


class Rounds(StillClock):
    """A hundred seconds between two rounds, three of them."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        del seconds
        self.at += 100
        if self.at >= 300:
            raise asyncio.CancelledError


async def test_the_feed_knows_since_when_a_requested_device_stands_still(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, "train")
    writer.write_sample("worker-0", AcceleratorSample(NOW.timestamp(), ROW.replace("97", "0", 1)))
    writer.write_sample("worker-1", AcceleratorSample(NOW.timestamp(), ROW))
    writer.close()
    clock = Rounds()
    cluster = ClusterFeed(ClusterTarget(kubeconfig=Path("none")), readonly=True, clock=clock, changed=lambda: None)
    feed = AcceleratorFeed(lambda: cluster.session, clock, lambda: None)
    pods = [a_pod("worker-0", gpu=1), a_pod("worker-1", gpu=1)]
    with pytest.raises(asyncio.CancelledError):
        await feed.run(lambda: pods, lambda: None, sampled=lambda: Sampled(tmp_path, "train"))
    assert feed.zero_since == {"uid-worker-0#0": 0.0}
    feed.forget()
    assert feed.zero_since == {}


def with_links(kib: int) -> str:
    return f"{ROW}\nGPU 0: NVIDIA A10G (UUID: GPU-1)\n\t Link 0: Data Tx: {kib} KiB\n"


async def test_traffic_of_links_is_shown_now_and_over_all_time(tmp_path: Path) -> None:
    feed, place, pod = a_feed(), Sampled(tmp_path, "train"), a_pod("worker-0", gpu=1)
    for age, kib in ((8, 0), (6, 2_000), (4, 10_000)):
        writer = OutputWriter(tmp_path, "train")
        writer.write_sample("worker-0", AcceleratorSample(NOW.timestamp() - age, with_links(kib), "node-1"))
        writer.close()
        await feed._show_present([pod], place)
    (device,) = feed.readings[0].reading.devices
    assert device.nvlink_rate == 4_000 * 1024
    await feed._show_present([pod], place)  # the same sample once more
    assert feed.readings[0].reading.devices[0].nvlink_rate == 4_000 * 1024
    assert feed.histories[pod.key, "0"].extent(Quantity.NVLINK) == Extent(1_024_000, 2_560_000, 4_096_000)

    writer = OutputWriter(tmp_path, "later")
    for at, kib in ((100, 0), (102, 2_000), (104, 10_000)):
        writer.write_sample("worker-0", AcceleratorSample(at, with_links(kib), "node-1"))
    writer.close()
    await feed._show_past(Sampled(tmp_path, "later"))
    assert feed.past is not None
    assert feed.past.readings[0].reading.devices[0].nvlink_rate == 2_560_000


HEADS = (
    "index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], clocks.current.sm [MHz],"
    " clocks.max.sm [MHz], clocks_event_reasons.active, ecc.errors.corrected.volatile.total,"
    " ecc.errors.uncorrected.volatile.total\n"
)


def with_clock(load: int, memory: int, mhz: int, mask: str, ecc: int) -> str:
    return (
        f"{HEADS}0, NVIDIA H100 80GB HBM3, {load} %, {memory} MiB, 81559 MiB, {mhz} MHz, 1980 MHz, {mask}, {ecc}, 0\n"
    )


async def test_clocks_reasons_and_errors_are_there_when_the_job_is_over(tmp_path: Path) -> None:
    feed, writer = a_feed(), OutputWriter(tmp_path, "train")
    power_cap, hot = "0x0000000000000004", "0x0000000000000040"
    for age, mhz, mask in ((500, 1980, power_cap), (400, 1980, power_cap), (300, 1380, hot), (200, 1980, power_cap)):
        sample = AcceleratorSample(NOW.timestamp() - age, with_clock(98, 40_000, mhz, mask, 500 - age), "node-1")
        writer.write_sample("worker-0", sample)
    writer.write_sample(
        "worker-0", AcceleratorSample(NOW.timestamp() - 195, with_clock(0, 4, 345, "0x1", 300), "node-1")
    )
    writer.close()
    await feed._show_past(Sampled(tmp_path, "train"))
    assert feed.past is not None
    assert feed.past.ended_at == NOW.timestamp() - 200
    (row,) = device_rows(feed.past.readings, feed.histories, is_past=True)
    cells = {
        column.id: text_of(column.cell(row))
        for column in COLUMNS
        if column.id in ("load", "power", "clock", "clocks", "throttle", "ecc")
    }
    assert cells["load"].endswith(" 98%")
    assert cells | {"load": ""} == {
        "load": "",
        "power": "-",
        "clock": "1830/1980",
        "clocks": "1380–1980",
        "throttle": "power cap 75%, hot 25%",
        "ecc": "300/0",
    }
    assert "is throttled (hot in 25% of the time)" in text_of(summary([row], feed.past)[1])
