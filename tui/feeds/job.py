"""The feed of a watched job without a run: its logs, curves and pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.cluster.logs.batch import line_in, marker_of, tagged_lines
from actions.telemetry.curves import Curves
from actions.telemetry.points import Point, TrainingProgress
from tui.feeds.cluster import ClusterFeed
from tui.feeds.logs import SourceNames, TimeOrder

if TYPE_CHECKING:
    from actions.cluster.job_pods import JobPod, JobRef
    from actions.cluster.jobs import JobOutcome, JobWatch
    from actions.cluster.logs.batch import LogBatch
    from actions.fleet.facts import JobReport
    from actions.telemetry.log_reader import LogReader
    from actions.telemetry.outlines import LinePrefilter

MOST_LINES = 200_000
"""Maximum number of lines kept for a hidden log pane."""
QUIET_SECONDS = 1.0
_WHOLE_LOGS = 8
"""So many pods are read from their first line on, for complete curves; the others from near their end."""
_TAIL_LINES = 2_000
_STEPS = ("global_step", "step", "current_step", "epoch")
_BEHIND_ALL = 1 << 30
"""The rank of a job's status: that of a pod is less, and its points count."""


class JobFeed:
    """The data of one job for the log, accelerator and chart panes. `run` is work for the supervisor.

    It keeps reading while no pane is visible, so that curves have no gap. Used on the loop only.

    Args:
        job: The job.
        cluster: The job's cluster.
        clock: Time.
        changed: Called for new data.
    """

    def __init__(self, job: JobRef, cluster: ClusterFeed, *, clock: Clock, changed: Callable[[], None]) -> None:
        self._job = job
        self.title = job.key
        self.curves = Curves()
        self.progress: dict[tuple[str, str], TrainingProgress] = {}
        """Newest state by pod and label; the one that moved last is at the end."""
        self.revision = 0
        self.end: JobOutcome | None = None
        """The outcome; `None` before the end."""
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self.has_more = True
        """More lines can be taken at once."""
        self._order = TimeOrder(MOST_LINES)
        self._arrived_at = 0.0
        self._names = SourceNames()
        self._readers: dict[tuple[str, str], LogReader] = {}
        self._prefilter: LinePrefilter | None = None
        self._watch: JobWatch | None = None

    @property
    def job(self) -> JobRef:
        """The job, with the details known so far."""
        return self._watch.job if self._watch is not None else self._job

    @property
    def members(self) -> Sequence[JobPod]:
        """The job's pods, the one that reports on the whole job first."""
        return self._watch.members if self._watch is not None else ()

    @property
    def holds_back(self) -> bool:
        """True if the newest lines wait for older ones."""
        return len(self._order) > 0

    def take(self, limit: int) -> list[bytes]:
        """Return the next lines in order."""
        is_quiet = self._clock.monotonic() - self._arrived_at >= QUIET_SECONDS
        taken = self._order.take(limit, is_quiet=is_quiet)
        self.has_more = len(taken) == limit
        if taken and self._order.dropped:
            said = f"{self._order.dropped:,} lines before this one were not kept"
            self._order.dropped = 0
            taken.insert(0, marker_of(said, self._names.number_of(""), line_in(taken[0]).at_ns))
        return taken

    def source_of(self, number: int) -> str:
        """Return the pod, and its container if it has several; empty for markers about all of them."""
        return self._names.name_of(number)

    def read_on(self) -> bool:
        """Return false: curves grow as lines arrive, so nothing is waiting."""
        return False

    async def require(self) -> None:
        """Check that the job exists.

        Raises:
            ConsoleError: There is none, or it cannot be read.
        """
        await self._followed().require()

    async def run(self, live: Callable[[], None]) -> None:
        """Follow the job until it has ended or is gone.

        Args:
            live: Called when the job has been found.

        Raises:
            ConsoleError: It cannot be followed.
        """
        watch = self._followed()
        await watch.require()
        live()
        self.end = await watch.run()
        words = {"finished": "has finished", "failed": "has failed"}.get(self.end.state, "is gone")
        remark = marker_of(f"{self.title} {words}", self._names.number_of(""), self._order.newest_ns)
        self._order.put([remark])
        self._changed()

    def _followed(self) -> JobWatch:
        if self._watch is None:
            from actions.cluster.jobs import JobWatch  # imports the API client: after the first frame

            self._watch = JobWatch(
                self._job,
                session=lambda: self._cluster.session,
                look=self._cluster.snapshot,
                on_lines=self._take_lines,
                tail_lines=lambda member: None if member.rank < _WHOLE_LOGS else _TAIL_LINES,
                on_report=self._take_report,
                clock=self._clock,
            )
        return self._watch

    def _take_lines(self, member: JobPod, container: str, batch: LogBatch) -> None:
        source = member.pod.name if len(member.pod.containers) < 2 else f"{member.pod.name}/{container}"
        self._order.put(tagged_lines(batch, self._names.number_of(source)))
        if not batch.is_marker:
            self._read(member, container, batch)
        self._arrived_at = self._clock.monotonic()
        self._changed()

    def _take_report(self, report: JobReport) -> None:
        """Take what the job's status has; its points count only where no log has any of the metric."""
        from actions.telemetry.dialects.named import report_of
        from actions.telemetry.log_records import LogRecord

        values = dict(report.metrics)
        counted = next((values[name] for name in _STEPS if name in values), None)
        for found in report_of(LogRecord("", _BEHIND_ALL, report.at or None, ""), values, counted):
            if isinstance(found, Point) and found.key not in _STEPS:
                self.curves.add(found)
        if report.percent is not None:
            left = None if report.remaining_seconds is None else float(report.remaining_seconds)
            self.progress[self.title, ""] = TrainingProgress(self.title, report.percent, 100, remaining_seconds=left)
        self._order.put([marker_of(report.words(), self._names.number_of(""), int(report.at * 1e9))])
        self.revision += 1
        self._changed()

    def _read(self, member: JobPod, container: str, batch: LogBatch) -> None:
        from actions.telemetry.log_reader import LogReader, log_prefilter, read_batch

        key = (member.pod.uid, container)
        if key not in self._readers:
            self._readers[key] = LogReader(rank=member.rank)
        self._prefilter = self._prefilter or log_prefilter()
        for finding in read_batch(self._readers[key], self._prefilter, batch):
            self.revision += 1
            if isinstance(finding, Point):
                self.curves.add(finding)
                continue
            name = member.pod.name, finding.label
            self.progress.pop(name, None)
            self.progress[name] = finding
