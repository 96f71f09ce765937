"""The accelerators pane: load, memory, power and temperature of devices, sampled while the pane is visible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult

from actions.base.clock import time_of_day
from actions.cluster.job_pods import role_of
from actions.fleet.facts import UNCOUNTED, PodFacts, WorkloadFacts
from tui.feeds.accelerators import AcceleratorFeed, Sampled, WorkerReading
from tui.feeds.cluster import leaves_out_claims
from tui.feeds.gpu_history import GpuHistoryFeed, fleet_readings, histories_of, with_gpus
from tui.feeds.output import AT_WORK, place_of, sampled_stage, watched_stage
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.base import TablePane, bindings_of
from tui.present import accelerators
from tui.present.accelerators import DeviceRow
from tui.present.cells import Cells, Span, Tone, width_of, wrapped
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.run.state.view import RunView
    from tui.feeds.job import JobFeed

_GIB = 1 << 30
_WORK = "accelerators"
_HISTORY = "history of accelerators"
_ALL = "all"
"""The word after `open accelerators` for those of the whole cluster, whatever is on screen."""
_SHARE = 5
"""The part of a pane's height that the lines above its table may take: a fifth, and two rows a line at least."""
_MARGINS = 4
"""Terminal columns of the border and of the padding of the lines above the table."""

_NONE = "No running pod requests an accelerator."
_HEAD: tuple[Column[DeviceRow], ...] = (
    Column(
        "worker",
        "WORKER",
        lambda row: row.worker or Span("no pod", Tone.MUTED),
        width=10,
        flex=1,
        limit=30,
        keeps_ends=True,
    ),
    Column("gpu", "DEV", accelerators.index_cell, width=4, align="right", sort_key=lambda row: row.key),
    Column(
        "load",
        "BUSY",
        accelerators.load_cell,
        width=13,
        least=9,
        flex=2,
        limit=45,
        sort_key=accelerators.load_key,
        sized=accelerators.load_cell,
    ),
)
_TREND: Column[DeviceRow] = Column(
    "trend", "TREND", accelerators.trend_cell, width=8, flex=3, limit=60, drop=3, sized=accelerators.trend_cell
)
_RANGE: Column[DeviceRow] = Column("range", "MIN–MAX", accelerators.load_range_cell, width=8, align="right", drop=6)
_MEMORY: Column[DeviceRow] = Column(
    "memory",
    "MEMORY",
    accelerators.memory_cell,
    width=16,
    least=11,
    flex=1,
    limit=40,
    sort_key=lambda row: (row.device.mem_used_bytes or 0) if row.device is not None else -1,
    sized=accelerators.memory_cell,
)
_TAIL: tuple[Column[DeviceRow], ...] = (
    Column("ecc", "ECC C/U", accelerators.ecc_cell, width=7, align="right", drop=8),
    Column("processes", "PROC", accelerators.processes_cell, width=4, align="right", drop=11),
    Column("peak", "PEAK", accelerators.memory_peak_cell, width=7, align="right", drop=10),
    Column("node", "NODE", accelerators.node_cell, width=13, flex=1, limit=20, drop=9, keeps_ends=True),
    Column("name", "MODEL", accelerators.name_cell, width=8, flex=2, limit=40, drop=4),
)
COLUMNS: tuple[Column[DeviceRow], ...] = (
    *_HEAD,
    _TREND,
    _RANGE,
    _MEMORY,
    Column("power", "POWER", accelerators.power_cell, width=9, align="right", drop=2),
    Column("watts", "WATTS", accelerators.power_range_cell, width=8, align="right", drop=12),
    Column("temperature", "TEMP", accelerators.temperature_cell, width=6, align="right", drop=1),
    Column("degrees", "TEMP MIN–MAX", accelerators.temperature_range_cell, width=12, align="right", drop=13),
    Column("clock", "CLOCK MHZ", accelerators.clock_cell, width=9, align="right", drop=7),
    Column("clocks", "MHZ MIN–MAX", accelerators.clock_range_cell, width=11, align="right", drop=14),
    Column("throttle", "THROTTLE", accelerators.throttle_cell, width=9, flex=1, limit=28, drop=5),
    *_TAIL,
)
NEURON_COLUMNS: tuple[Column[DeviceRow], ...] = (
    *_HEAD,
    Column("cores", "CORES", accelerators.cores_cell, width=10, flex=3, limit=60, sized=accelerators.cores_cell),
    _TREND,
    _RANGE,
    _MEMORY,
    Column("kinds", "MEMORY BY KIND", accelerators.memory_kinds_cell, width=24, flex=2, limit=70, drop=5),
    *_TAIL,
)
"""neuron-monitor shows neither power nor temperature nor clocks."""

_NVLINK: tuple[Column[DeviceRow], ...] = (
    Column(
        "nvlink",
        "NVLINK TX+RX",
        accelerators.nvlink_cell,
        width=12,
        flex=2,
        limit=40,
        drop=5,
        sized=accelerators.nvlink_cell,
    ),
    Column("nvlink-range", "NVLINK MIN–MAX", accelerators.nvlink_range_cell, width=17, align="right", drop=11),
    Column("nvlink-errors", "LINK ERR", accelerators.link_errors_cell, width=8, align="right", drop=8),
)
_EFA: tuple[Column[DeviceRow], ...] = (
    Column(
        "efa", "EFA OF NODE", accelerators.efa_cell, width=11, flex=2, limit=40, drop=5, sized=accelerators.efa_cell
    ),
    Column("efa-range", "EFA MIN–MAX", accelerators.efa_range_cell, width=17, align="right", drop=11),
)


@cache
def columns_for(*, is_neuron: bool, has_nvlink: bool, has_efa: bool) -> tuple[Column[DeviceRow], ...]:
    """Return the columns for devices of one kind: those of links only where they are counted."""
    base = NEURON_COLUMNS if is_neuron else COLUMNS
    links = (*(_NVLINK if has_nvlink else ()), *(_EFA if has_efa else ()))
    before = len(base) - len(_TAIL)
    return (*base[:before], *links, *base[before:]) if links else base


class AcceleratorsPane(TablePane[DeviceRow]):
    """The accelerators of running pods: of the watched job, else of the run on screen, else of all pods."""

    DEFAULT_CSS = "AcceleratorsPane > .totals { height: auto; min-height: 2; max-height: 6; }"
    ONLY = "only"
    CONTEXT = KeyContext.ACCELERATORS
    BINDINGS: ClassVar = bindings_of(KeyContext.ACCELERATORS)
    NOUN = "accelerators"
    SORT = "gpu"
    EMPTY = _NONE
    READING = "Reading the pods."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, COLUMNS, key=lambda row: row.key, search=accelerators.search_text)
        self._summary = Lines(classes="totals")
        self._feed = AcceleratorFeed(lambda: services.cluster.session, services.clock, services.ticker.request_paint)
        self._history = GpuHistoryFeed(
            lambda: services.cluster, services.clock, services.ticker.request_paint, services.settings.prometheus
        )
        self._is_all = False
        """The accelerators of the whole cluster are wanted."""
        self._chosen: list[PodFacts] = []
        """The pods that were asked last."""
        self._shown: tuple[object, ...] = ()
        self._scope: tuple[str, str, str, bool] | None = None
        """The watched job and run that are sampled, the cluster, whether all of it is; `None` before the first look."""
        self._is_one_job = False
        """The chosen pods are those of one job or run."""
        self._looked: tuple[object, float, bool] = (None, float("-inf"), False)
        """The last look at all pods, of which there may be 50,000: for what, when, and that none has accelerators."""
        self._is_without_workers = False
        """A job is watched, and none of its running pods requests an accelerator."""

    def compose(self) -> ComposeResult:
        """Yield mean and slowest device above the table."""
        yield self._summary
        yield self.table

    def on_show(self) -> None:
        """Start sampling."""
        supervisor = self.services.supervisor
        supervisor.keep(
            _WORK,
            lambda: self._feed.run(
                self._workers, lambda: supervisor.mark_live(_WORK), sampled=self._sampled, past=self._past
            ),
        )
        supervisor.keep(_HISTORY, lambda: self._history.run(self._remembered, lambda: supervisor.mark_live(_HISTORY)))

    def on_hide(self) -> None:
        """Stop sampling: a hidden pane must not load the workers."""
        self.services.supervisor.drop(_WORK)
        self.services.supervisor.drop(_HISTORY)

    def show_target(self, of: str) -> None:
        """Show those of the job or run (empty), or of the whole cluster (`all`), and back.

        Raises:
            RefusedError: It is something else.
        """
        if of not in ("", _ALL):
            super().show_target(of)
        self._is_all = of == _ALL and not self._is_all
        self._follow_scope()

    def leave(self) -> bool:
        """Go back from the whole cluster; return whether it was shown."""
        was, self._is_all = self._is_all, False
        if was:
            self._follow_scope()
        return was

    def refresh_data(self) -> None:
        """Show the newest samples."""
        self._follow_scope()
        self.show_health(self._health())
        past = self._feed.past
        readings = self._readings()
        cost = self.services.followed.on_screen.cost()
        uncounted = f" {UNCOUNTED}." if leaves_out_claims(self.services.cluster.snapshot()) else ""
        if not readings and cost is not None:
            requested, watched = cost.accelerators - cost.idle_accelerators, self.services.watched
            if watched is not None and self._is_without_workers:
                self.table.empty = f"No running pod of {watched.title} requests an accelerator."
            elif requested:
                self.table.empty = f"Asking the pods that request the {requested} accelerators in use."
            elif cost.idle_accelerators:
                self.table.empty = f"{_NONE} {cost.idle_text}.{uncounted}"
            elif uncounted:
                self.table.empty = f"{_NONE}{uncounted}"
        if readings:  # without a row, their one reason stands above the table
            self.table.empty = ""
        has_ended = past is not None and self._has_ended(past.place)
        shown = self._feed.revision, self._history.revision, len(readings), has_ended, self.size
        if self._shown == shown:
            return
        self._shown = shown
        kept = histories_of(readings, self._history.gpus) if past is None else {}
        rows = accelerators.device_rows(readings, self._feed.histories, is_past=past is not None, kept=kept)
        self._use_columns_of(rows)
        monotonic = self.services.clock.monotonic()
        zeros = [monotonic - since for since in self._feed.zero_since.values()]
        lines = accelerators.summary(
            rows, past, has_ended=has_ended, zeros=zeros, is_one_job=past is not None or self._is_one_job
        )
        room = self.size.width - _MARGINS
        if lines:
            totals = (*lines[0], *_totals_of(rows))
            lines[0] = (*(totals if width_of(totals) <= room else lines[0]), *_words_of(self._history))
        most = max(2, self.size.height // _SHARE // max(1, len(lines)))
        self._summary.styles.min_height = 2 if lines else 0
        self._summary.show([part for line in lines for part in wrapped(line, room)[:most]])
        self.show_rows(accelerators.answered(rows))

    def _readings(self) -> list[WorkerReading]:
        """Return what is shown: of a stage's time, of all nodes by a Prometheus, or of the pods that were asked."""
        past, gpus, now = self._feed.past, self._history.gpus, self.services.clock.now().timestamp()
        if past is not None:
            return list(past.readings)
        if self._is_all and gpus:
            return fleet_readings(gpus, now)
        asked = [reading for reading in self._feed.readings if self._still_runs(reading)]
        return with_gpus(asked, gpus, now)

    def has_nothing(self) -> bool:
        """Return whether no pod of the watched job, or of the run, has accelerators now, and none is kept of before."""
        run, watched, snapshot = self.services.runs.view, self.services.watched, self.services.cluster.snapshot()
        if (run is None and watched is None) or self._is_all or self._past_stage():
            return False
        now = self.services.clock.monotonic()
        if snapshot is not None and (self._looked[0] != (run and run.id, watched) or now - self._looked[1] >= 1.0):
            asking = (pod for pod in snapshot.pods.values() if pod.requests.accelerators and pod.phase == "Running")
            has_some = any(_is_of(pod, run, watched, snapshot.workloads) for pod in asking)
            self._looked = (run and run.id, watched), now, not has_some
        return snapshot is not None and self._looked[2]

    def on_resize(self) -> None:
        """Lay the lines above the table out for the new width."""
        self.services.ticker.request_paint()

    def _health(self) -> FeedHealth:
        """Return the health of the samples; before the pods are known, that of their list: there is nothing to ask."""
        is_known = self.services.cluster.snapshot() is not None or self._feed.readings or self._feed.past
        health = self.services.supervisor.health(_WORK) if is_known else self.services.health("pods")
        is_asked = bool(self._feed.readings) and health.state is FeedState.STARTING
        return FeedHealth(FeedState.ENDED, "no answer") if is_asked else health

    def _use_columns_of(self, rows: Sequence[DeviceRow]) -> None:
        """Use the columns of the devices that are shown, unless the operator has chosen some."""
        columns = columns_for(
            is_neuron=any(row.noun.startswith("Neuron") for row in rows),
            has_nvlink=accelerators.has_nvlink(rows),
            has_efa=accelerators.has_efa(rows),
        )
        if columns is self._all_columns:
            return
        is_chosen = self._columns is not self._all_columns
        self._all_columns = columns
        if not is_chosen:
            self._columns = columns
            column_id, is_reversed = self.table.sort_state
            self.table.sort_by(column_id, reverse=is_reversed, columns=columns)

    def subject(self) -> Subject | None:
        """Return the worker under the cursor; its pod may be gone, which is an answer, too."""
        row = self.table.selected_row
        if row is None:
            return None
        namespace, _, name = row.pod.partition("/")
        return Subject("Pod", name, namespace) if row.pod else Subject("Node", row.node)

    def subject_in_sight(self) -> Subject | None:
        """Return the worker; the run, whose log has its lines, if its pod is gone."""
        run = self.services.runs.view
        if self._feed.past is not None and run is not None and self.services.watched is None:
            return Subject("Run", run.id)
        return self.subject()

    def line_of(self, row: DeviceRow) -> str:
        """Return the command that opens the worker's log; of a pod that is gone, the log of its stage."""
        if not row.pod:
            return f"open pods of={row.node}"
        return f"logs {row.pod}" if self._feed.past is None else "open logs"

    def _follow_scope(self) -> None:
        """Drop the samples of another run or job at once, and sample again."""
        run, watched = self.services.runs.view, self.services.watched
        where = self.services.followed.on_screen.key
        scope = watched.title if watched is not None else "", run.id if run is not None else "", where, self._is_all
        if scope == self._scope:
            return
        is_first, self._scope = self._scope is None, scope
        if not is_first:
            self._feed.forget()
            self._history.forget()
            self.entitle(self.CONTEXT.value)
            if self.services.supervisor.health(_WORK).state is not FeedState.ENDED:
                self.on_show()

    def _still_runs(self, reading: WorkerReading) -> bool:
        snapshot = self.services.cluster.snapshot()
        pod = snapshot.pods.get(reading.pod.key) if snapshot is not None else reading.pod
        return pod is not None and pod.uid == reading.pod.uid and pod.phase == "Running"

    def _workers(self) -> Iterable[PodFacts]:
        """Choose the pods to sample, and name them in the title."""
        self._chosen = list(self._choice())
        return self._chosen

    def _remembered(self) -> Sequence[PodFacts] | None:
        """Return the pods whose history is wanted; none of them for that of all nodes."""
        return () if self._is_all else self._chosen or None

    def _choice(self) -> Iterable[PodFacts]:
        snapshot = self.services.cluster.snapshot()
        if snapshot is None:
            return []
        run, watched = self.services.runs.view, self.services.watched
        self._is_one_job = watched is not None
        busy = [pod for pod in snapshot.pods.values() if pod.requests.accelerators and pod.phase == "Running"]
        if self._is_all:
            self._is_one_job = False
            self.entitle("accelerators of the cluster")
            return [] if self._history.gpus or not self._history.is_known else busy  # without exec, where that can be
        if watched is not None:
            self.entitle(f"accelerators of {watched.title}")
            workers = [pod for pod in busy if role_of(watched.job, pod, snapshot.workloads)]
            self._is_without_workers = not workers
            return workers
        own = [pod for pod in busy if run is not None and pod.run == run.id]
        if run is not None and own:
            stages = {pod.stage for pod in own}
            self._is_one_job = len(stages) == 1
            place = place_of(run, own[0].stage) if len(stages) == 1 else run.id
            self.entitle(f"accelerators of {place}")
            return own
        stage = self._past_stage()
        if run is not None and stage:
            self.entitle(f"accelerators of {place_of(run, stage)}")
            return []
        self.entitle("accelerators of all pods" if run is None else f"all accelerators, none of {run.id}")
        return busy

    def _sampled(self) -> Sampled | None:
        """Return the samples that the runner has taken: they need no second exec, nor the permission for one."""
        view, folder = self.services.runs.view, self.services.runs.folder
        if view is None or folder is None or self.services.watched is not None:
            return None
        stage = watched_stage(view, folder)
        return Sampled(folder, stage) if stage is not None else None

    def _past_stage(self) -> str:
        """Return the last stage of the run whose accelerators were kept; empty if there is none."""
        view, folder = self.services.runs.view, self.services.runs.folder
        if view is None or folder is None or self.services.watched is not None or self._is_all:
            return ""
        return sampled_stage(view, folder) or ""

    def _past(self) -> Sampled | None:
        folder, stage = self.services.runs.folder, self._past_stage()
        return Sampled(folder, stage) if folder is not None and stage else None

    def _has_ended(self, place: Sampled) -> bool:
        view = self.services.runs.view
        stage = next((one for one in view.stages if one.id == place.stage), None) if view is not None else None
        return stage is not None and stage.state not in AT_WORK


def _is_of(pod: PodFacts, run: RunView | None, watched: JobFeed | None, workloads: Mapping[str, WorkloadFacts]) -> bool:
    """Return whether a pod is of the watched job; without one, of the run."""
    if watched is not None:
        return role_of(watched.job, pod, workloads) != ""
    return run is not None and pod.run == run.id


def _totals_of(rows: Iterable[DeviceRow]) -> Cells:
    """Return power and memory of all devices, as far as they are measured."""
    devices = [row.device for row in rows if row.device is not None]
    watts = sum(device.power_w or 0.0 for device in devices)
    used, total = (sum(getattr(one, name) or 0 for one in devices) for name in ("mem_used_bytes", "mem_total_bytes"))
    words = f" · {watts / 1000:.1f} kW" if watts else ""
    words += f" · {used / _GIB:,.0f}/{total / _GIB:,.0f}Gi" if total else ""
    return (Span(words),) if words else ()


def _words_of(feed: GpuHistoryFeed) -> Cells:
    """Return the last XID error; where the history comes from, or why it is not known."""
    spans: list[Span] = []
    broken = [(gpu.xid, gpu) for gpu in feed.gpus if gpu.xid is not None]
    if broken:
        (at, number), gpu = max(broken, key=lambda one: one[0])
        where = f"{gpu.pod.partition('/')[2] or gpu.node} GPU {gpu.device.label}"
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        spans.append(Span(f"   ✗ XID {number}{f' at {time_of_day(at)} UTC' if at else ''}: {where}{more}", Tone.BAD))
    if feed.source:
        spans.append(Span(f" · history by {feed.source}", Tone.MUTED))
    elif feed.reason:
        spans.append(Span(f" · no history: {feed.reason}", Tone.MUTED))
    return tuple(spans)
