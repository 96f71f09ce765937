"""D19: what was shown and closed is freed: widgets, their drawn lines, pictures of clusters that were left."""

from __future__ import annotations

import gc
import runpy
import subprocess
import sys
import weakref
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from textual._styles_cache import StylesCache
from textual.color import Color
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.exec import run_in_pod
from actions.cluster.state.cluster_state import ClusterState
from actions.sandbox.locate import RunningSandbox
from tests.support.polling import until
from tests.support.program import Program
from tests.support.ptys import OnPty
from tests.support.waiting import settle, wait_for
from tui import gc_tuning as collector
from tui.app import ConsoleApp
from tui.settings.settings import ConsoleSettings, DemoBadge
from tui.textual_private import release_closed_widgets

SANDBOX_SPEED = 6.0
ROUNDS = 3
MEGABYTES_OF_GROWTH = 5.0
"""Through 90 changes of the layout: up to 1.9 measured, and 10 before this was mended."""


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def _own_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collect as often as a console does, not as a test; undo it at the end."""
    monkeypatch.setattr(collector, "THRESHOLDS", runpy.run_path(collector.__file__)["THRESHOLDS"])
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    if collector._freezer in gc.callbacks:
        gc.callbacks.remove(collector._freezer)


def an_app() -> ConsoleApp:
    """A console for which there is no kubeconfig."""
    return ConsoleApp(ConsoleSettings(target=ClusterTarget(), demo=DemoBadge(20)))


def living() -> tuple[int, int]:
    """Screens that something still refers to, and lines of widgets that are drawn, kept, and nobody's."""
    gc.collect()
    objects = gc.get_objects()
    screens = sum(issubclass(type(each), Screen) for each in objects)
    owned = {id(each._styles_cache) for each in objects if issubclass(type(each), Widget)}
    return screens, sum(type(each) is StylesCache and id(each) not in owned for each in objects)


async def at_rest(pilot: Pilot[object], app: ConsoleApp) -> None:
    """Only the console itself is shown, and nobody is told anything."""
    app.clear_notifications()
    await wait_for(pilot, lambda: len(app.screen_stack) == 1, "every screen in front is closed")
    for _ in range(4):
        await settle(pilot)


@pytest.mark.parametrize(
    "keys",
    [
        [":", *"layout quad", "enter", "ctrl+w", "r", "ctrl+w", "o"],
        [*"1234567890"],
        ["ctrl+p", "escape"],
        ["?", "q"],
        [":", *"launch bionemo-esm1nv", "enter", "escape"],
        [":", *"nosuch", "enter"],
        [":", "escape", "8", "/", *"word", "enter", "escape"],
        ["5", "/", *"word", "enter", "escape", "1"],
        ["z", "z", "tab", "W"],
    ],
    ids=["layouts", "panes", "palette", "help", "launch", "refusals", "lines", "searches", "zoom"],
)
async def test_d19_what_was_shown_and_closed_is_freed(keys: Sequence[str]) -> None:
    app = an_app()
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        await app.services.blueprints.find("bionemo-esm1nv")

        async def go_round(times: int) -> None:
            for _ in range(times):
                await app.script_driver.press(keys)
            await at_rest(pilot, app)

        await go_round(2)
        screens, orphans = living()
        await go_round(ROUNDS)
        _, orphans_after = living()
        # Timers that were cancelled keep a few of the last ones for seconds, on a busy machine for longer.
        await wait_for(pilot, lambda: living()[0] - screens < ROUNDS / 2, "closed screens are freed")

    assert orphans_after - orphans <= 0


@pytest.mark.usefixtures("_own_collector")
async def test_d19_pictures_of_clusters_that_were_left_are_freed(sandbox: RunningSandbox) -> None:
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(kubeconfig=sandbox.kubeconfig)))
    seen: list[weakref.ref[ClusterState]] = []
    async with app.run_test(size=(140, 45)) as pilot:
        for _ in range(4):
            known = app.services.cluster._state

            def is_another_one(known: ClusterState | None = known) -> bool:
                snapshot = app.services.cluster.snapshot()
                return app.services.cluster._state is not known and snapshot is not None and snapshot.is_complete

            await wait_for(pilot, is_another_one, "the picture of the cluster")
            state = app.services.cluster._state
            assert state is not None
            seen.append(weakref.ref(state))
            del state, known, is_another_one
            app.services.followed.connect(app.services.followed.on_screen)
        await wait_for(pilot, lambda: sum(one() is not None for one in seen) <= 1, "all pictures but one are freed")


def test_d19_no_drawn_line_outlives_its_widget() -> None:
    release_closed_widgets()
    cache = StylesCache()
    gone = weakref.ref(cache)
    cache.get_inner_outer(Color(1, 2, 3), Color(4, 5, 6))
    del cache
    assert gone() is None


async def test_d19_a_program_in_a_pod_leaves_no_connection_to_python_s_collector(sandbox: RunningSandbox) -> None:
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    pod = await running_pod(session)
    gc.collect()
    gc.disable()
    try:
        before = connections()
        for _ in range(3):
            assert (await run_in_pod(session, "kube-system", pod, "coredns", ["hostname"])).stdout.strip()
        await until(lambda: connections() <= before, "the connections to be gone")
    finally:
        gc.enable()
        await session.aclose()


async def running_pod(session: KubeSession) -> str:
    """One that a program can be run in."""
    found: list[str] = []

    async def looks() -> bool:
        items = (await session.get("/api/v1/namespaces/kube-system/pods"))["items"]
        names = [item["metadata"]["name"] for item in items if item["status"].get("phase") == "Running"]
        found[:] = [name for name in names if name.startswith("coredns")]
        return bool(found)

    await until(looks, "a pod that runs")
    return found[0]


def connections() -> int:
    """TLS connections that are in memory, closed ones too."""
    return sum(type(each) is SSLProtocol for each in gc.get_objects())


AGEING = """
import gc, sys
from collections import deque
sys.path.insert(0, {root!r})
from tui.gc_tuning import freeze_startup_objects

class Linked:
    count = 0
    def __init__(self):
        self.own = [self]
        Linked.count += 1
    def __del__(self):
        Linked.count -= 1

freeze_startup_objects()
recent, most = deque(maxlen=20_000), 0
for _ in range(1_000_000):
    recent.append(Linked())
    most = max(most, Linked.count)
print(most)
"""


def test_d19_objects_that_die_old_are_found_while_there_are_few() -> None:
    """Styles live until the next change of focus: long enough to be taken for old, and then nobody looked for them."""
    program = AGEING.format(root=str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 220_000  # 165,000, and 270,000 with the thresholds of before


def test_d19_the_console_is_as_large_after_180_layouts_as_after_sixty(program: Program) -> None:
    with OnPty(program.argv("--demo"), program.environment, size=(220, 50)) as console:
        console.wait(r"\d nodes, all ready")
        change_layouts(console, 60)
        early = settled_megabytes(console)
        change_layouts(console, 120)
        late = settled_megabytes(console)
    assert late - early < MEGABYTES_OF_GROWTH


def change_layouts(console: OnPty, times: int) -> None:
    """Four panes, the run's, one; each key waits for what the one before has brought."""
    for _ in range(times // 6):
        console.type(b":layout quad\r\x17r\x17o" * 2)
        console.forget()  # frames of the help before: its `q` would come too early, and end the console
        console.type(b"?")
        console.wait(r"─ help ─")
        console.type(b"q")


def settled_megabytes(console: OnPty) -> float:
    """Resident memory when the last frame is drawn."""
    console.read(1.0)
    return console.megabytes()
