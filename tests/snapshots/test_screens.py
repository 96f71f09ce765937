"""Every screen as text, compared with the file that was reviewed. See README.md beside this file."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.screen import Screen

from actions.cluster.objects.catalogue import ServedKind
from actions.cluster.queues import QueueList, queues_of
from actions.cluster.watch.table_format import ObjectRow, TableColumn
from actions.fleet.facts import Resources
from actions.run.state.view import RunView, UnusedDevices
from tests.support import fixed_runs
from tests.support.builders import NOW, a_node, a_snapshot
from tests.support.fixed_cluster import BROKEN, RUN, SIDECARS, TRAINIUM, picture, workers
from tests.support.fixed_console import CONTEXT, MONOTONIC, FixedConsole, Scene, a_fixed_console
from tests.support.snapshots import difference, is_updating, rows, styled, without_tabs
from tests.unit.cluster.test_queues import CLUSTER_QUEUE, OTHERS, WORK
from tui.feeds.objects import ObjectsScope
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.queues import QueuesPane
from tui.screens.confirm import ConfirmModal, TypeNameModal
from tui.screens.console import PrefixScreen
from tui.screens.viewer import Viewer

FILES = Path(__file__).parent / "screens"
SMALL, MIDDLE, LARGE = (80, 24), (120, 36), (160, 45)
SIZES = (SMALL, LARGE)
WITH_TABS = ("home", SMALL)
"""The one screen that is kept with the tabs of all panes."""

Step = Callable[[FixedConsole], Awaitable[None]]


@dataclass(frozen=True)
class Shot:
    """One screen.

    Args:
        name: Of its file.
        step: Brings the console there from the shot before.
        shows: A text or several that are on screen then, best not of wording; or the class of the screen in front.
        leave: Keys that lead back to the panes.
    """

    name: str
    step: Step
    shows: str | tuple[str, ...] | type[Screen[Any]]
    leave: tuple[str, ...] = ()


def line(text: str) -> Step:
    """A step that carries typed lines out, separated by `;`."""

    async def step(console: FixedConsole) -> None:
        for part in text.split(";"):
            await console.line(part.strip())
            await console.calm()

    return step


def keys(*names: str, after: str = "") -> Step:
    """A step that presses keys, after a line."""

    async def step(console: FixedConsole) -> None:
        if after:
            await line(after)(console)
        await console.press(*names)

    return step


def scene_of(**changes: object) -> Step:
    """A step that changes what the feeds give."""

    async def step(console: FixedConsole) -> None:
        for name, value in changes.items():
            setattr(console.scene, name, value)

    return step


def both(*steps: Step) -> Step:
    """Steps one after the other."""

    async def step(console: FixedConsole) -> None:
        for one in steps:
            await one(console)
            await console.calm()

    return step


def with_run(view: RunView, stage: str, *, is_busy: bool = True) -> Step:
    """A step that puts a run on screen, with the cursor on a stage."""
    return both(line("open run"), scene_of(view=view, is_busy=is_busy), line(f"open run of={stage}"))


HOME_SIZES = (SMALL, (120, 36), LARGE, (200, 50))
"""Sizes at which Home is taken."""


def some_deployments() -> Step:
    """A step that shows three deployments in the objects pane, one of them new and not ready."""
    kind = ServedKind("apps", "v1", "deployments", "Deployment", "deployment", ("deploy",))
    columns = (
        TableColumn("Name", format="name"), TableColumn("Ready"), TableColumn("Up-to-date", "integer"),
        TableColumn("Available", "integer"), TableColumn("Age"), TableColumn("Containers", priority=1),
        TableColumn("Images", priority=1),
    )  # fmt: skip

    def row(namespace: str, name: str, ready: int, of: int, seconds: float) -> ObjectRow:
        cells = (name, f"{ready}/{of}", of, ready, "", name, f"registry.example/{name}:1.4")
        return ObjectRow(f"u-{name}", namespace, name, cells, NOW.timestamp() - seconds)

    async def step(console: FixedConsole) -> None:
        objects = console.app.services.objects
        objects.show(ObjectsScope(kind))
        rows = [
            row("kube-system", "coredns", 2, 2, 86_400 * 40),
            row("training", "esm1nv-tensorboard-10", 0, 1, 75),
            row("training", "esm1nv-tensorboard-2", 1, 1, 7_300),
        ]
        objects.take_all(rows, columns)
        objects.take_health(FeedHealth(FeedState.LIVE))
        await console.line("open objects")

    return step


def some_queues() -> Step:
    """A step that shows a queue of Kueue with work that has its quota, and work that waits for it."""
    found = QueueList(queues_of([CLUSTER_QUEUE, *OTHERS, *WORK], {}), ("Volcano is not installed here.",))

    async def step(console: FixedConsole) -> None:
        pane = console.app.workspace.pane("queues")
        assert isinstance(pane, QueuesPane)
        pane.take(found)
        await console.line("open queues")

    return step


PANES = (
    Shot("nodes", line("open nodes"), "x9.mystery"),
    Shot("pods", line("open pods"), "eval-mlm-0"),
    Shot("blueprints", line("open blueprints"), "≥ $"),
    Shot("run", line("open run"), "Pre-training"),
    Shot("logs", line("open logs"), "12600/500000"),
    Shot("accelerators", line("open accelerators"), "A10G"),
    Shot("charts", line("open charts"), "train_loss"),
    Shot("events", line("open events"), "notebook-grace-0"),
    Shot("cost", line("open cost"), "x9.mystery"),
    Shot("objects", some_deployments(), "esm1nv-tensorboard-10"),
    Shot("queues", some_queues(), "nvidia.com/gpu"),
    Shot("runs", line("open runs"), "parked"),
)
LAYOUTS = (
    Shot("layout-watch", line("open run; layout watch"), ("20.3/22Gi", "val_loss 1.253")),
    Shot("layout-quad", line("open nodes; layout quad"), "notebook-grace-0"),
    Shot("layout-job", line("open run; layout job; open pods of=train"), "20.3/22Gi"),
)
IN_FRONT = Shot("pane-in-front", line("open events"), "esc layout")
MIDDLE_LAYOUTS = (LAYOUTS[0], IN_FRONT)
SMALL_LAYOUTS = (Shot("layout-watch", line("open run; layout watch"), ("Pre-training", "too small for all")), IN_FRONT)
DIALOGUES = (
    Shot("help", keys("?", after="open run"), Viewer, ("escape",)),
    Shot("describe", line(f"describe pod/{BROKEN}"), Viewer, ("escape",)),
    Shot("palette", keys("ctrl+p", "t", "e", "a", "r"), "delete_data", ("escape",)),
    Shot("launch", line("launch bionemo-esm1nv"), "+ traffic, peak", ("escape",)),
)
SMALL_DIALOGUES = (
    Shot("why", line(f"why pod/{BROKEN}"), Viewer, ("escape",)),
    Shot("command-line", keys(":", *"open "), "nodes  pods", ("escape",)),
    Shot("filter-line", keys("/", *"worker", after="open pods"), "worker-7", ("escape", "escape")),
    Shot("prefix-keys", keys("ctrl+w"), PrefixScreen, ("escape",)),
    Shot("message", keys(":", *"teardwon", "enter"), "teardwon"),
    Shot("teardown", line("teardown"), TypeNameModal, ("escape",)),
    Shot("launch-confirm", keys("enter", after="launch bionemo-esm1nv"), TypeNameModal, ("escape", "escape")),
    Shot("approve", both(with_run(fixed_runs.a_run_with_a_plan(), "provision"), line("approve")), ConfirmModal, ("n",)),
)
STATES = (
    Shot("charts-all", line("open charts; chart all"), "train_loss_smoothed", ("M",)),
    Shot("logs-containers", line(f"logs {SIDECARS}"), "KV cache"),
    Shot("run-checks", line("open run; open run of=preflight"), "EFA device plugin"),
    Shot("run-failed", with_run(fixed_runs.a_failed_run(), "train", is_busy=False), "failed"),
    Shot("run-crashing", with_run(fixed_runs.a_crashing_run(), "train"), "A GPU of worker-7"),
    Shot("run-awaiting-approval", with_run(fixed_runs.a_run_with_a_plan(), "provision"), "aws_eks_cluster"),
    Shot("run-stalled", with_run(fixed_runs.a_stalled_run(), "data"), "does not respond"),
    Shot("run-torn-down", with_run(fixed_runs.a_torn_down_run(), "teardown:audit", is_busy=False), "torn down"),
)
TRAINIUM_STATE = (Shot("accelerators-neuron", line("open accelerators"), "ND0"),)
BANDWIDTH_STATE = (Shot("charts-bandwidth", line("open charts"), "busbw"),)
STALE_STATES = (
    Shot("home-stale", line("open home"), "stale 42s"),
    Shot("nodes-stale", line("open nodes"), "42s"),
    Shot("accelerators-unanswered", line("open accelerators"), "No worker answered"),
)
KEPT_STATES = (
    Shot("nodes-kept", line("open nodes"), "as of 10:42 UTC"),
    Shot("pods-kept", line("open pods"), "as of 10:42 UTC"),
)
EMPTY_STATES = (
    Shot("home-empty", line("open home"), "No run yet"),
    Shot("nodes-empty", line("open nodes"), "$0.00/h"),
    Shot("run-none", line("open run"), "[4 run]"),
    Shot("runs-empty", line("open runs"), "[0 runs]"),
)
UNUSED_STATES = (Shot("home-unused", line("open home"), "3 of 8 at 0%"),)
SEVERAL_STATES = (
    Shot(
        "home-clusters", line("open home"), ("AWS has no capacity", "not in these sums", "bionemo-esm1nv        8 A10G")
    ),
    Shot("nodes-clusters", line("open nodes"), "all 4 clusters"),
)
REMOTE_STATES = (
    Shot("runs-remote", line("open runs"), "linus@"),
    Shot("run-remote", line(f"open run of={fixed_runs.remote_runs()[0].id}"), "runs takeover"),
)
ASCII = (
    *(shot for shot in PANES if shot.name in ("nodes", "run", "accelerators", "charts")),
    DIALOGUES[2],
    DIALOGUES[3],
)
LIGHT = tuple(shot for shot in PANES if shot.name in ("run", "charts"))


def file_of(name: str, size: tuple[int, int], kind: str = "") -> Path:
    """The file of a screen."""
    return FILES / f"{name}-{size[0]}x{size[1]}{kind and f'-{kind}'}.txt"


def all_files() -> set[Path]:
    """The files of every screen that a test looks at."""
    at_both = (*PANES, *DIALOGUES, *REMOTE_STATES, *SEVERAL_STATES)
    still = (*STALE_STATES, *KEPT_STATES, *EMPTY_STATES, *UNUSED_STATES)
    small = (*SMALL_DIALOGUES, *STATES, *TRAINIUM_STATE, *BANDWIDTH_STATE, *still)
    return {
        *(file_of(shot.name, size) for shot in at_both for size in SIZES),
        *(file_of("home", size) for size in HOME_SIZES),
        *(file_of("home-remote", size) for size in SIZES),
        *(file_of(shot.name, SMALL) for shot in small),
        *(file_of(shot.name, LARGE) for shot in LAYOUTS),
        *(file_of(shot.name, size) for shot in MIDDLE_LAYOUTS for size in (SMALL, MIDDLE)),
        *(file_of(shot.name, SMALL, "ascii") for shot in ASCII),
        *(file_of(shot.name, SMALL, "light") for shot in LIGHT),
    }


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def training(tmp_path: Path) -> Scene:
    """A cluster on which a run trains."""
    folder = tmp_path / RUN
    fixed_runs.store_training(folder)
    return Scene(picture(), view=fixed_runs.a_training_run(), folder=folder, summaries=fixed_runs.summaries(tmp_path))


async def compare(
    console: FixedConsole, shots: Iterable[Shot], size: tuple[int, int], spare: Path, *, kind: str = ""
) -> None:
    """Take one shot after the other, and fail with all that differs."""
    differences = []
    for shot in shots:
        await shot.step(console)
        await console.calm(shot.shows)
        has_tabs = (shot.name, size) == WITH_TABS
        drawn = console.drawn if has_tabs else without_tabs(console.app, console.drawn)
        lines = styled(console.app, drawn) if size == SMALL and kind != "ascii" else rows(drawn)
        differences.append(difference(file_of(shot.name, size, kind), lines, spare))
        await console.press(*shot.leave)
        console.app.clear_notifications()
    told = "\n\n".join(filter(None, differences))
    assert not told, f"{told}\n\nIf this is how it shall be: make snapshots, and look at the files before the commit."


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("shots", [PANES, DIALOGUES], ids=["panes", "dialogues"])
async def test_screens(
    shots: tuple[Shot, ...], size: tuple[int, int], training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with a_fixed_console(training, monkeypatch, size=size) as console:
        await compare(console, shots, size, tmp_path)


@pytest.mark.parametrize("size", HOME_SIZES, ids=str)
async def test_home(size: tuple[int, int], training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with a_fixed_console(training, monkeypatch, size=size) as console:
        shot = Shot("home", line("open home"), "AWS has no capacity")
        await compare(console, [shot], size, tmp_path)


@pytest.mark.parametrize(
    ("shots", "size"),
    [
        (SMALL_DIALOGUES, SMALL),
        (STATES, SMALL),
        (LAYOUTS, LARGE),
        (SMALL_LAYOUTS, SMALL),
        (MIDDLE_LAYOUTS, MIDDLE),
    ],
    ids=["dialogues", "states", "layouts", "narrow", "middle"],
)
async def test_screens_of_one_size(
    shots: tuple[Shot, ...], size: tuple[int, int], training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with a_fixed_console(training, monkeypatch, size=size) as console:
        await compare(console, shots, size, tmp_path)


async def test_neuron_devices(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pod = replace(
        workers()[0],
        name=fixed_runs.TRAINIUM_POD,
        node=TRAINIUM,
        requests=Resources(64_000, neuron=16),
        owner_kind="MPIJob",
    )
    training.folder = tmp_path / "llama2-trn1-mpi-1120-obyeqz7rm3xva"
    training.snapshot = replace(picture(), pods={pod.key: pod})
    fixed_runs.store_trainium(training.folder)
    async with a_fixed_console(training, monkeypatch, size=SMALL) as console:
        await compare(console, TRAINIUM_STATE, SMALL, tmp_path)


async def test_a_chart_by_message_size(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    training.view = fixed_runs.a_bandwidth_run()
    training.folder = tmp_path / training.view.id
    fixed_runs.store_bandwidth(training.folder)
    async with a_fixed_console(training, monkeypatch, size=SMALL) as console:
        await compare(console, BANDWIDTH_STATE, SMALL, tmp_path)


async def test_a_cluster_that_does_not_answer(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    detail = "https://4F2A77.gr7.us-west-2.eks.amazonaws.com cannot be reached: timed out. Check the network and VPN."
    training.health = FeedHealth(FeedState.WAITING, detail, MONOTONIC - 42)
    training.folder = None
    async with a_fixed_console(training, monkeypatch, size=SMALL) as console:
        await compare(console, STALE_STATES, SMALL, tmp_path)


async def test_a_cluster_as_it_was_kept(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept_at = NOW.replace(hour=10, minute=42).timestamp()
    training.snapshot = replace(picture(), is_complete=False, as_of=kept_at, health={})
    training.health = FeedHealth(FeedState.STARTING)
    training.folder = None
    async with a_fixed_console(training, monkeypatch, size=SMALL) as console:
        await compare(console, KEPT_STATES, SMALL, tmp_path)


async def test_accelerators_that_are_not_used(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unused = UnusedDevices(3, 8, NOW.timestamp() - 312, 2, 2)
    assert training.view is not None
    training.view = replace(training.view, unused=unused)
    training.summaries = tuple(replace(one, unused=unused) if one.id == RUN else one for one in training.summaries)
    async with a_fixed_console(training, monkeypatch, size=SMALL) as console:
        await compare(console, UNUSED_STATES, SMALL, tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_runs_of_other_machines(
    size: tuple[int, int], training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    training.remotes = fixed_runs.remote_runs()
    async with a_fixed_console(training, monkeypatch, size=size) as console:
        home = Shot("home-remote", line("open home"), ("AWS has no capacity", "on other machines"))
        await compare(console, (home, *REMOTE_STATES), size, tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_several_clusters(
    size: tuple[int, int], training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silent = FeedHealth(FeedState.WAITING, "the API server does not answer", MONOTONIC - 42)
    refused = FeedHealth(FeedState.REFUSED, "The API server of lab does not accept our credentials.", MONOTONIC - 200)
    nodes = [a_node(f"ip-10-9-0-{at}.us-east-1.compute.internal", region="us-east-1") for at in range(3)]
    east, old = a_snapshot([*nodes, replace(nodes[0], name="ip-10-9-0-9", is_ready=False)]), a_snapshot(nodes[:1])
    training.others = {
        "arn:aws:eks:us-east-1:444455556666:cluster/evaluation": Scene(east),
        "arn:aws:eks:eu-west-1:444455556666:cluster/old-one": Scene(old, health=silent),
        "kind-lab": Scene(health=refused),
    }
    kubeconfig = tmp_path / "kubeconfig"
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in (CONTEXT, *training.others)]
    clusters, users = [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], [{"name": "u", "user": {}}]
    kubeconfig.write_text(json.dumps({"contexts": contexts, "clusters": clusters, "users": users}))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    async with a_fixed_console(training, monkeypatch, size=size) as console:
        await compare(console, SEVERAL_STATES, size, tmp_path)


async def test_an_empty_cluster_without_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with a_fixed_console(Scene(a_snapshot()), monkeypatch, size=SMALL) as console:
        await compare(console, EMPTY_STATES, SMALL, tmp_path)


async def test_screens_in_ascii(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with a_fixed_console(training, monkeypatch, size=SMALL, is_ascii=True) as console:
        await compare(console, ASCII, SMALL, tmp_path, kind="ascii")


async def test_screens_in_a_light_theme(training: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with a_fixed_console(training, monkeypatch, size=SMALL, theme="textual-light") as console:
        await compare(console, LIGHT, SMALL, tmp_path, kind="light")


def test_every_file_is_of_a_screen() -> None:
    unknown = set(FILES.glob("*")) - all_files()
    for file in unknown if is_updating() else ():
        file.unlink()
    assert is_updating() or not unknown, f"no test takes {sorted(file.name for file in unknown)}"


def test_ascii_files_are_ascii() -> None:
    assert all(file.read_text(encoding="utf-8").isascii() for file in FILES.glob("*-ascii.txt"))
