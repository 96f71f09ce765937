"""What the panes get of a job that is watched."""

from __future__ import annotations

from pathlib import Path

from actions.cluster.kubeconfig import ClusterTarget
from actions.cluster.loglines import LogLine
from actions.cluster.members import JobRef, Member
from tests.support.builders import StillClock, a_pod
from tui.live.cluster_feed import ClusterFeed
from tui.live.job_feed import JobFeed
from tui.live.log_feeds import Gathered
from tui.live.time_order import TimeOrder

SECOND = 1_000_000_000
BAR = "Epoch 0:  10%|█ | {0}/100 [00:10<01:30, 1.00it/s, reduced_train_loss={1}, global_step={0}.0]"


class Clock(StillClock):
    """Monotonic time that the test moves."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def a_feed(clock: Clock) -> JobFeed:
    cluster = ClusterFeed(ClusterTarget(kubeconfig=Path("none")), readonly=True, clock=clock, changed=lambda: None)
    return JobFeed(JobRef("PyTorchJob", "default", "train"), cluster, clock=clock, changed=lambda: None)


def test_lines_of_many_pods_stand_in_the_order_of_time_and_make_one_curve() -> None:
    clock = Clock()
    feed = a_feed(clock)
    first, second = (Member(a_pod(f"train-worker-{rank}"), "worker", rank) for rank in (0, 1))
    feed._take_lines(second, "main", [LogLine(2 * SECOND, BAR.format(1, "9.5"))])
    feed._take_lines(first, "main", [LogLine(1 * SECOND, BAR.format(1, "9.0")), LogLine(3 * SECOND, "done")])
    assert [(line.source, line.at_ns // SECOND) for line in feed.take(10)] == [("train-worker-0", 1)]
    clock.seconds = 2.0
    assert [(line.source, line.at_ns // SECOND) for line in feed.take(10)] == [
        ("train-worker-1", 2),
        ("train-worker-0", 3),
    ]
    series = feed.curves.series("train_loss")
    assert series is not None
    assert [(sample.x, sample.y) for sample in series.samples()] == [(1.0, 9.0)]
    assert list(feed.progress) == [("train-worker-1", "Epoch 0"), ("train-worker-0", "Epoch 0")]


def test_what_is_not_kept_is_counted() -> None:
    order = TimeOrder(capacity=2)
    for at in (3, 1, 2):
        order.put(Gathered(str(at), "pod", at * SECOND))
    assert order.dropped == 1
    assert [line.text for line in order.take(10, is_quiet=True)] == ["2", "3"]


def test_the_newest_second_waits_for_what_may_still_come() -> None:
    order = TimeOrder()
    for at in (10, 11, 30):
        order.put(Gathered(str(at), "pod", at * SECOND // 10))
    assert [line.text for line in order.take(10, is_quiet=False)] == ["10", "11"]
    assert len(order) == 1
