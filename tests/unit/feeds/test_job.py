"""The data that the panes get of a job that is watched."""

from __future__ import annotations

from pathlib import Path

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.job_pods import JobPod, JobRef
from actions.cluster.logs.batch import LogBatch, batches_of, line_in, number_in, tag_in, tagged_lines
from actions.cluster.logs.lines import LogLine
from actions.fleet.facts import JobReport
from tests.support.builders import StillClock, a_pod
from tui.feeds.cluster import ClusterFeed
from tui.feeds.job import JobFeed
from tui.feeds.logs import TimeOrder

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


def a_batch(*lines: LogLine) -> LogBatch:
    (batch,) = batches_of(lines)
    return batch


def taken(feed: JobFeed) -> list[tuple[str, int]]:
    """Return the sources of the next lines, and the seconds when they were written."""
    return [(feed.source_of(number_in(tag_in(record))), line_in(record).at_ns // SECOND) for record in feed.take(10)]


def test_lines_of_many_pods_stand_in_the_order_of_time_and_make_one_curve() -> None:
    clock = Clock()
    feed = a_feed(clock)
    first, second = (JobPod(a_pod(f"train-worker-{rank}"), "worker", rank) for rank in (0, 1))
    feed._take_lines(second, "main", a_batch(LogLine(2 * SECOND, BAR.format(1, "9.5"))))
    feed._take_lines(first, "main", a_batch(LogLine(1 * SECOND, BAR.format(1, "9.0")), LogLine(3 * SECOND, "done")))
    assert taken(feed) == [("train-worker-0", 1)]
    clock.seconds = 2.0
    assert taken(feed) == [("train-worker-1", 2), ("train-worker-0", 3)]
    series = feed.curves.series("train_loss")
    assert series is not None
    assert [(sample.x, sample.y) for sample in series.samples()] == [(1.0, 9.0)]
    assert list(feed.progress) == [("train-worker-1", "Epoch 0"), ("train-worker-0", "Epoch 0")]


def test_what_a_train_job_reports_is_its_progress_its_curve_and_a_remark_in_its_log() -> None:
    feed = a_feed(Clock())
    for step, loss in ((10, "2.5"), (20, "1.25")):
        metrics = (("step", str(step)), ("loss", loss), ("eval_accuracy", "NaN"))
        feed._take_report(JobReport(percent=step, remaining_seconds=90, metrics=metrics, at=float(step)))
    series = feed.curves.series("train_loss")
    assert series is not None
    assert [(sample.x, sample.y) for sample in series.samples()] == [(10.0, 2.5), (20.0, 1.25)]
    assert feed.curves.series("step") is None
    (progress,) = feed.progress.values()
    assert (progress.done, progress.total, progress.remaining_seconds) == (20, 100, 90.0)
    remarks = [line_in(record) for record in feed.take(10)]
    assert all(line.is_marker for line in remarks)
    assert remarks[0].text == "10 %, 1m30s left, step 10, loss 2.5, eval_accuracy NaN"


def test_a_report_adds_nothing_to_a_curve_that_a_log_has() -> None:
    feed = a_feed(Clock())
    pod = JobPod(a_pod("train-worker-0"), "worker", 0)
    feed._take_lines(pod, "main", a_batch(LogLine(1 * SECOND, BAR.format(1, "9.0"))))
    feed._take_report(JobReport(metrics=(("loss", "7.0"),), at=2.0))
    series = feed.curves.series("train_loss")
    assert series is not None
    assert [sample.y for sample in series.samples()] == [9.0]
    assert ("train", "") not in feed.progress, "nothing is known of its share"


def put(order: TimeOrder, *tenths: int) -> None:
    """Lines that say in which tenth of a second they were written."""
    order.put([record for at in tenths for record in tagged_lines(a_batch(LogLine(at * SECOND // 10, str(at))), 0)])


def said(records: list[bytes]) -> list[str]:
    return [line_in(record).text for record in records]


def test_what_is_not_kept_is_counted() -> None:
    order = TimeOrder(capacity=2)
    put(order, 30, 10)
    put(order, 20)
    assert order.dropped == 1
    assert said(order.take(10, is_quiet=True)) == ["20", "30"]


def test_the_newest_second_waits_for_what_may_still_come() -> None:
    order = TimeOrder()
    put(order, 10, 11, 30)
    assert said(order.take(10, is_quiet=False)) == ["10", "11"]
    assert len(order) == 1
    put(order, 25, 22)
    put(order, 24, 41)
    assert said(order.take(2, is_quiet=False)) == ["22", "24"]
    assert said(order.take(2, is_quiet=True)) == ["25", "30"]


def test_lines_of_one_moment_stay_in_the_order_in_which_they_came() -> None:
    order = TimeOrder()
    for text in ("a", "b", "c"):
        order.put(tagged_lines(a_batch(LogLine(SECOND, text)), 0))
    assert said(order.take(10, is_quiet=True)) == ["a", "b", "c"]
