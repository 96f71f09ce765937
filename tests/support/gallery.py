"""Every widget with sample data: `python -m tests.support.gallery` in a terminal, `… gallery FOLDER` for SVGs."""

from __future__ import annotations

import asyncio
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.widget import Widget

from actions.blueprint.model import Parameter, ParameterType
from tests.support.waiting import settle
from tui.commands.screenshot import screen_svg
from tui.present.cells import CellValue, Span, Tone, meter
from tui.present.charts.curves import Curve
from tui.present.rail import StageLine, StageLook
from tui.settings.appearance import ControlFilter
from tui.widgets.arrangement import side_by_side, stacked
from tui.widgets.form import ParameterForm
from tui.widgets.log import LogView
from tui.widgets.log_buffer import BufferedLine, LogBuffer
from tui.widgets.plot import PlotView
from tui.widgets.split import Split
from tui.widgets.stage_rail import StageRail
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column
from tui.widgets.terminal import TerminalView

SIZES = ((80, 24), (120, 40), (200, 50))


@dataclass(frozen=True)
class Node:
    name: str
    kind: str
    zone: str
    used: int
    gpus: int
    dollars: float
    is_ready: bool


def _state(node: Node) -> CellValue:
    return Span("● ready", Tone.GOOD) if node.is_ready else Span("✘ not ready", Tone.BAD)


def _gpus(node: Node) -> CellValue:
    if not node.gpus:
        return Span("–", Tone.MUTED)
    return (*meter(node.used, node.gpus), Span(f" {node.used}/{node.gpus}"))


NODE_COLUMNS = [
    Column[Node](id="name", title="NODE", cell=lambda n: n.name, width=18, flex=1, limit=44),
    Column[Node](id="type", title="TYPE", cell=lambda n: n.kind, width=13, drop=2),
    Column[Node](id="zone", title="ZONE", cell=lambda n: Span(n.zone, Tone.MUTED), width=10, drop=4),
    Column[Node](id="gpu", title="GPU", cell=_gpus, width=9, sort_key=lambda n: n.used),
    Column[Node](
        id="usd", title="$/h", cell=lambda n: f"{n.dollars:.3f}", width=8, align="right", sort_key=lambda n: n.dollars
    ),
    Column[Node](id="state", title="STATE", cell=_state, width=11, drop=1),
]


def some_nodes(count: int = 60) -> list[Node]:
    """Nodes of a mixed fleet."""
    kinds = [("g5.12xlarge", 4, 5.672), ("p4d.24xlarge", 8, 32.773), ("m5.xlarge", 0, 0.192)]
    nodes = []
    for number in range(count):
        kind, gpus, dollars = kinds[number % 3]
        used = number * 5 % (gpus + 1)
        nodes.append(
            Node(
                f"ip-10-1-{number // 8}-{17 + number * 3}.us-west-2",
                kind,
                "us-west-2a",
                used,
                gpus,
                dollars,
                number % 11 != 5,
            )
        )
    return nodes


def some_logs() -> LogBuffer:
    """Two ranks that train, with colours, a bar and a marker."""
    buffer, rng = LogBuffer(), random.Random(7)
    pods = ["esm1nv-pretraining-master-0", "esm1nv-pretraining-worker-0", "esm1nv-pretraining-worker-1"]
    for step in range(400):
        pod, at = pods[step % 3], (37_000 + step) * 1_000_000_000
        loss = 9.2 * math.exp(-step / 160) + rng.random() * 0.3
        buffer.extend([BufferedLine(f"Epoch 0: step {step} reduced_train_loss={loss:.4f} lr=0.0002", pod, at)])
        if step % 37 == 0:
            buffer.extend(
                [BufferedLine("\x1b[33m[NeMo W]\x1b[0m grad_norm is \x1b[1;31m12.5\x1b[0m, clipped", pod, at)]
            )
        if step % 90 == 80:
            buffer.extend([BufferedLine("reconnected, nothing lost", pod, at, is_marker=True)])
            buffer.extend([BufferedLine(f"Validation:  10%|#\rValidation: {step // 4}%|####      |", pod, at)])
    return buffer


STAGES = [
    StageLine("provision", "Provision VPC and cluster", StageLook.DONE, 2_405, (2_100, 2_700)),
    StageLine("kubeconfig", "Write the kubeconfig", StageLook.DONE, 2, (1, 10)),
    StageLine("operators", "Install training-operator", StageLook.DONE, 44, (30, 60)),
    StageLine("preflight", "Check what must be healthy", StageLook.SKIPPED, note="existing cluster"),
    StageLine("data", "Prepare UniRef50", StageLook.RUNNING, 71_000, (180_000, 216_000), note="31 of 90 shards"),
    StageLine("approve", "Review the plan", StageLook.WAITING, 65, note="approve with a"),
    StageLine("train", "Pre-train ESM-1nv", StageLook.PENDING, None, (259_200, 345_600)),
    StageLine("export", "Export the checkpoint", StageLook.FAILED, 12, (30, 60), note="ImagePullBackOff: no such tag"),
]

FIELDS = {
    "workers": Parameter(
        type=ParameterType.INTEGER, title="Worker nodes", default=8, minimum=1, maximum=64, help="One pod each."
    ),
    "instance": Parameter(
        type=ParameterType.TEXT, title="Instance type", default="g5.12xlarge", choices=("g5.12xlarge", "p4d.24xlarge")
    ),
    "rate": Parameter(type=ParameterType.NUMBER, title="Learning rate", default=2e-4, minimum=0, maximum=1),
    "spot": Parameter(type=ParameterType.BOOLEAN, title="Spot capacity", default=False, help="May be taken back."),
    "key": Parameter(type=ParameterType.SECRET, title="NGC key", default="env:NGC_API_KEY", group="Image"),
    "tag": Parameter(type=ParameterType.TEXT, title="Experiment name", default="esm1nv", group="Model"),
}


def some_curves() -> list[Curve]:
    """A loss with a spike and a gap, and its validation."""
    rng = random.Random(3)
    steps = [float(step) for step in range(2_000)]
    losses = [9 * math.exp(-step / 500) + 1.2 + rng.gauss(0, 0.25) for step in steps]
    losses[1_200] = 14.0
    losses[1_500:1_560] = [math.nan] * 60
    every = steps[::100]
    return [Curve("train_loss", steps, losses), Curve("val_loss", every, [9 * math.exp(-s / 480) + 1.4 for s in every])]


class Framed(Widget):
    """A border with a title, as panes have."""

    DEFAULT_CSS = """
    Framed { width: 1fr; height: 1fr; border: round $foreground 30%; }
    Framed.-current { border: heavy $primary; }
    """

    def __init__(self, key: str, content: Widget) -> None:
        super().__init__(id=key)
        self._content = content
        self.border_title = key
        self.border_subtitle = "live"

    def compose(self) -> ComposeResult:
        yield self._content


class Gallery(App[None]):
    """All widgets, in panes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"reveal({number})", show=False) for number in range(1, 8)),
        Binding("z", "zoom", "zoom"),
        Binding("q", "quit", "quit"),
    ]
    KEYS = ("nodes", "stages", "logs", "loss", "form", "shell")
    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__()
        self._filter = ControlFilter()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._filter]

    def compose(self) -> ComposeResult:
        self._logs = LogView(some_logs())
        self._table = KeyedTable(NODE_COLUMNS, key=lambda node: node.name, noun="nodes", sort="usd", reverse=True)
        self._rail, self._plot, self._shell = StageRail(), PlotView("loss"), TerminalView()
        form = ParameterForm(FIELDS, shown=tuple(FIELDS)[:4])
        contents: Sequence[Widget] = (self._table, self._rail, self._logs, self._plot, form, self._shell)
        panes = [Framed(key, content) for key, content in zip(self.KEYS, contents, strict=True)]
        self.split = Split(side_by_side(stacked("nodes", "stages"), stacked("logs", "loss")), *panes)
        yield self.split

    async def on_mount(self) -> None:
        self._table.reconcile(some_nodes())
        self._rail.show(STAGES)
        self._logs.refresh_data()
        self._plot.show(some_curves(), version=1)
        await self._shell.feed(b"\x1b[1;32mroot@worker-0\x1b[0m:/workspace# nvidia-smi -L\r\nGPU 0: NVIDIA A10G\r\n# ")

    def action_reveal(self, number: int) -> None:
        self.split.reveal(self.KEYS[(number - 1) % len(self.KEYS)])

    def action_zoom(self) -> None:
        self.split.zoom()


async def save_all(folder: Path) -> None:
    """One SVG for each size and for each pane at 80×24."""
    for width, height in SIZES:
        app = Gallery()
        async with app.run_test(size=(width, height)) as pilot:
            await settle(pilot)
            await asyncio.sleep(1)  # nothing is asserted: somebody looks at the result
            (folder / f"gallery-{width}x{height}.svg").write_text(screen_svg(app))
            if (width, height) == SIZES[0]:
                for key in Gallery.KEYS:
                    app.split.reveal(key)
                    await settle(pilot)
                    await asyncio.sleep(1)
                    (folder / f"gallery-{key}.svg").write_text(screen_svg(app))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(save_all(Path(sys.argv[1])))
    else:
        Gallery().run()
