"""The whole console headless on fixed feeds: no cluster, no disk, no clock, no network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest
from rich.console import RenderableType
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input

from actions.base.errors import UnreachableError
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.model import Blueprint
from actions.cloud.account import CallerIdentity
from actions.cluster.auth.kubeconfig import ClusterTarget, parse_context_name
from actions.cluster.auth.session import ClusterIdentity
from actions.cluster.diagnose.codes import Finding
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.parse_input import parse_evidence
from actions.cluster.logs.batch import LogBatch, batches_of
from actions.cluster.logs.follow import ContainerEnd, ContainerLog
from actions.cluster.logs.lines import LogCursor, LogLine
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.run.journal.reader import RunSummary
from actions.run.journal.run_ids import short_ids
from actions.run.state.view import RunView
from actions.run.store.remote import RemoteRun
from tests.support.builders import NOW, StillClock
from tests.support.fixed_cluster import BROKEN
from tests.support.snapshots import strips
from tests.support.waiting import settle
from tui.app import ConsoleApp
from tui.feeds.blueprints import BlueprintFeed
from tui.feeds.cluster import ClusterFeed, CredentialsFeed
from tui.feeds.remote_runs import RemoteRunFeed
from tui.feeds.runs import RunFeed
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.screens.live_screen import LiveScreen
from tui.settings.settings import ConsoleSettings

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession

ACCOUNT = "111122223333"
CONTEXT = f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/bionemo-on-eks"
MONOTONIC = 10_000.0
"""Seconds of the clock that never moves."""
_CALM = 5
"""A screen is taken when it was the same so many times in a row."""
_MOST_LOOKS = 400
_MOST_UNSEEN = 2
"""A screen that changes at each look is drawn at every second one: drawing is most of the work of a look."""
_SHIPPED = Path(__file__).parents[2] / "blueprints"


class _SilentSession:
    """A session with a server that never answers."""

    namespace = "default"

    async def request(self, *_: object, **__: object) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    async def get(self, *_: object, **__: object) -> dict[str, object]:
        return {"": await self.request()}


class FrozenClock(StillClock):
    """No moment passes, and who sleeps is not woken."""

    def monotonic(self) -> float:
        return MONOTONIC

    async def sleep(self, seconds: float) -> None:
        del seconds
        await asyncio.Event().wait()


@dataclass
class Scene:
    """The data that the feeds give: set before the app starts, or changed while it runs."""

    snapshot: ClusterSnapshot | None = None
    health: FeedHealth | None = None
    """Of all sources of the cluster, if it is not that of the snapshot."""
    view: RunView | None = None
    folder: Path | None = None
    summaries: tuple[RunSummary, ...] = ()
    is_busy: bool = True
    is_interrupted: bool = False
    remotes: tuple[RemoteRun, ...] = ()
    """The runs that the cluster knows."""
    copy: Path | None = None
    """The folder with the copy of the run of another machine that is on screen."""
    others: Mapping[str, Scene] = field(default_factory=dict)
    """The scenes of further clusters, by their contexts."""


class _FixedCluster(ClusterFeed):
    scene: ClassVar[Scene]

    @property
    def own(self) -> Scene:
        """The scene of this one of the clusters."""
        return self.scene.others.get(self.target.context, self.scene)

    @property
    def session(self) -> KubeSession:
        if self.own.health is not None:
            raise UnreachableError(self.own.health.detail)
        return cast("KubeSession", _SilentSession())

    @property
    def context_name(self) -> str:
        return self.target.context or CONTEXT

    def snapshot(self) -> ClusterSnapshot | None:
        return self.own.snapshot

    def health(self, resource: str) -> FeedHealth | None:
        if self.own.health is not None or self.own.snapshot is None:
            return self.own.health
        return FeedHealth(FeedState.LIVE) if resource in self.own.snapshot.health else None

    async def settle(self, *, at_most_seconds: float) -> None:
        del at_most_seconds

    async def run(self, live: Callable[[], None]) -> None:
        live()
        await asyncio.Event().wait()

    async def wait_connected(self) -> None:
        return

    async def identify(self) -> None:
        place = parse_context_name(self.context_name)
        self.identity = ClusterIdentity(
            f"uid-{place.cluster}", "v1.32.9-eks-113cf36", place.cluster, place.region, place.account
        )


class _FixedCredentials(CredentialsFeed):
    async def run(self, live: Callable[[], None]) -> None:
        arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/trainer/ada"
        self.caller = CallerIdentity(ACCOUNT, arn, "us-west-2", "", NOW + timedelta(hours=7, minutes=12))
        live()
        await asyncio.Event().wait()


class _FixedRuns(RunFeed):
    scene: ClassVar[Scene]

    @property
    def folder(self) -> Path | None:
        return None if self.remote is not None else self.scene.folder

    @property
    def is_busy(self) -> bool:
        return super().is_busy if self.remote is not None else self.scene.is_busy

    @property
    def is_interrupted(self) -> bool:
        return self.scene.is_interrupted

    async def run(self, live: Callable[[], None]) -> None:
        self.follow_scene()
        live()
        await asyncio.Event().wait()

    def follow_scene(self) -> None:
        """Take over what the scene has now."""
        self.view, self.summaries, self.is_listed = self.scene.view, self.scene.summaries, True
        self.names = short_ids([run.id for run in self.summaries])
        self.revision += 1

    async def refresh_list(self) -> None:
        return

    def catch_up(self) -> None:
        return


class _FixedRemoteRuns(RemoteRunFeed):
    scene: ClassVar[Scene]

    async def run(self, live: Callable[[], None]) -> None:
        self.take_all(self.scene.remotes)
        live()
        await asyncio.Event().wait()


class _FixedBlueprints(BlueprintFeed):
    async def run(self) -> None:
        self.found = _shipped_blueprints()

    async def find(self, blueprint_id: str) -> Blueprint:
        return next(one for one in _shipped_blueprints() if one.id == blueprint_id)


class _FixedFollower:
    """Gives three lines of a container, which then goes on in silence."""

    def __init__(self, session: KubeSession, log: ContainerLog, *, on_lines: Any, **_: object) -> None:
        del session
        self.cursor = LogCursor(0, 0)
        self._log = log
        self._on_lines = on_lines

    async def run(self) -> ContainerEnd:
        await self._on_lines(_lines_of(self._log.container))
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")


def _lines_of(container: str) -> LogBatch:
    texts = {
        "server": [
            "INFO:     Started server process [1]",
            'INFO:     10.1.32.7:53412 - "POST /v1/completions HTTP/1.1" 200 OK',
            "WARNING:  KV cache is 94% full, 3 requests wait",
        ],
        "metrics": ['level=info msg="listening" address=:9400', 'level=warn msg="scrape took 4.1s"'],
        "queue-proxy": ['{"severity":"INFO","message":"Queue depth 3"}'],
    }.get(container, [f"{container} is up"])
    start = NOW.timestamp() - 60
    lines = [LogLine(int((start + 7 * place + len(container) / 8) * 1e9), text) for place, text in enumerate(texts)]
    (batch,) = batches_of(lines)
    return batch


@cache
def _shipped_blueprints() -> tuple[Blueprint, ...]:
    found, _ = Catalogue((_SHIPPED,)).read()
    return tuple(found)


async def _fetch(_session: object, _discovery: object, _ref: object) -> Mapping[str, Any]:
    return POD


async def _explain(_session: object, _question: object, *, clock: object) -> list[Finding]:
    del clock
    evidence, _ = parse_evidence(json.dumps({"kind": "List", "items": [POD, *_POD_EVENTS]}).encode())
    return diagnose(evidence)


_IMAGE = "public.ecr.aws/example/tokenizer:nightly"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": BROKEN.split("/")[1],
        "namespace": "default",
        "uid": "7d0f6a52-6c1c-4f3e-9f3a-0d7c3f4b9a11",
        "creationTimestamp": "2026-11-21T11:30:00Z",
        "labels": {"batch.kubernetes.io/job-name": "tokenizer-nightly-29063510"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "tokenizer-nightly-29063510", "uid": "u"}
        ],
    },
    "spec": {
        "nodeName": "ip-10-1-0-11.us-west-2.compute.internal",
        "restartPolicy": "Never",
        "serviceAccountName": "default",
        "containers": [
            {
                "name": "main",
                "image": _IMAGE,
                "command": ["python", "-m", "tokenizer.nightly", "--out", "/fsx/tokens"],
                "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
                "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}},
                "volumeMounts": [{"name": "fsx", "mountPath": "/fsx"}],
            }
        ],
        "volumes": [{"name": "fsx", "persistentVolumeClaim": {"claimName": "fsx-static-pvc"}}],
    },
    "status": {
        "phase": "Pending",
        "podIP": "10.1.3.77",
        "startTime": "2026-11-21T11:30:01Z",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {
                "type": "Ready",
                "status": "False",
                "reason": "ContainersNotReady",
                "message": "containers with unready status: [main]",
            },
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": _IMAGE,
                "ready": False,
                "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{_IMAGE}"'}},
            }
        ],
    },
}
_POD_EVENTS: list[dict[str, Any]] = [
    {
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": BROKEN.split("/")[1]},
        "reason": "Failed",
        "message": f'Failed to pull image "{_IMAGE}": rpc error: code = NotFound desc = {_IMAGE}: not found',
        "type": "Warning",
        "count": 12,
        "lastTimestamp": "2026-11-21T11:45:00Z",
    }
]


class _UnpaintedConsole(ConsoleApp):
    """A console whose frames are counted instead of made: a test renders the screen when it looks."""

    frames = 0

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        self.frames += renderable is not None
        super()._display(screen, renderable)


class FixedConsole:
    """A console on its scene, and what a test does with it.

    Args:
        app: The console.
        pilot: Its pilot.
        scene: What its feeds give.
    """

    def __init__(self, app: _UnpaintedConsole, pilot: Pilot[Any], scene: Scene) -> None:
        self.app = app
        self.pilot = pilot
        self.scene = scene
        self.drawn: list[Strip] = []
        """The rows of the terminal, as `calm` saw them last."""

    async def line(self, text: str) -> None:
        """Carry a typed line out."""
        self.app.dispatcher.submit(text)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self.app.script_driver.press(keys)

    async def resize(self, size: tuple[int, int]) -> None:
        """Give the terminal another size."""
        if tuple(self.app.size) != size:
            await self.pilot.resize_terminal(*size)

    async def calm(self, shows: str | tuple[str, ...] | type[Screen[Any]] = "") -> None:
        """Wait until texts are on screen, or a screen of a class in front, all is planned, and nothing changes.

        Raises:
            AssertionError: It does not come to rest.
        """
        drawn: list[Strip] = []
        look: object = None
        text = ""
        same = unseen = 0
        texts: tuple[str, ...] = () if isinstance(shows, type) else (shows,) if isinstance(shows, str) else shows
        for _ in range(_MOST_LOOKS):
            self.refresh()
            await settle(self.pilot)
            home = self.app.services.home  # its plans come from a thread, one by one
            last, look, before = look, (self.app.frames, tuple(self.app.screen_stack), home.revision), drawn
            is_still = look == last
            unseen += not is_still
            if not is_still and unseen < _MOST_UNSEEN:
                continue
            if unseen:
                unseen, drawn = 0, strips(self.app)
                text = "\n".join(strip.text for strip in drawn)
            is_there = isinstance(self.app.screen, shows) if isinstance(shows, type) else all(p in text for p in texts)
            is_there = is_there and not home._is_busy("costs")
            same = 0 if not is_there else same + 1 if drawn == before else int(is_still)
            if same == _CALM:
                self.drawn = drawn
                return
        trouble = "never comes to rest" if is_there else f"never shows {shows!r}"
        raise AssertionError(f"the screen {trouble}:\n{text}")

    def refresh(self) -> None:
        """Have every screen look at the scene, without a blinking cursor."""
        runs = self.app.services.runs
        if (
            isinstance(runs, _FixedRuns)
            and runs.remote is None
            and (runs.view, runs.summaries) != (self.scene.view, self.scene.summaries)
        ):
            runs.follow_scene()
        for screen in self.app.screen_stack:
            if isinstance(screen, LiveScreen) and screen.is_mounted:
                screen.refresh_data()
        for typed in self.app.screen.query(Input):
            typed.cursor_blink = False


@asynccontextmanager
async def a_fixed_console(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, size: tuple[int, int], is_ascii: bool = False, theme: str = ""
) -> AsyncIterator[FixedConsole]:
    """The console on a scene, until the end of the block.

    Args:
        scene: What its feeds give.
        monkeypatch: Puts the fixed feeds in the place of the real ones.
        size: Columns and rows.
        is_ascii: As with `--ascii`.
        theme: Another one than the console's own.
    """
    _FixedCluster.scene = _FixedRuns.scene = _FixedRemoteRuns.scene = scene
    for name, feed in (
        ("CredentialsFeed", _FixedCredentials),
        ("RunFeed", _FixedRuns),
        ("RemoteRunFeed", _FixedRemoteRuns),
        ("BlueprintFeed", _FixedBlueprints),
    ):
        monkeypatch.setattr(f"tui.feeds.services.{name}", feed)
    monkeypatch.setattr("tui.feeds.followed.ClusterFeed", _FixedCluster)
    monkeypatch.setattr("tui.widgets.plot.DRAW_SECONDS", 0.0)  # else a new size may be drawn after the screen is calm
    monkeypatch.setattr("actions.cluster.logs.follow.LogFollower", _FixedFollower)
    monkeypatch.setattr("actions.cluster.objects.client.fetch_object", _fetch)
    monkeypatch.setattr("actions.cluster.diagnose.collect.explain", _explain)

    async def copied(*_: object) -> Path | None:
        return scene.copy

    monkeypatch.setattr("tui.feeds.remote_runs.RemoteOnScreen._copied", copied)
    settings = ConsoleSettings(
        target=ClusterTarget(context=CONTEXT if scene.others else ""),
        contexts=(CONTEXT, *scene.others) if scene.others else (),
        region="us-west-2",
        is_ascii=is_ascii,
        checks_launches=False,
    )
    app = _UnpaintedConsole(settings, clock=FrozenClock())
    app.animation_level = "none"
    if theme:
        app.theme = theme
    async with app.run_test(size=size, notifications=True) as pilot:
        yield FixedConsole(app, pilot, scene)
