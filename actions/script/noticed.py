"""The conditions that came true while a person worked, as the waits of a recording: of runs, nodes, the screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from actions.fleet.facts import PodFacts
from actions.run.state.view import OVER, RunState, RunView, StageState
from actions.telemetry.points import Point

Wait = Mapping[str, Any]
"""The arguments of a `wait`."""

_REACHED = (StageState.SUCCEEDED, StageState.FAILED)
"""States of a stage that are waited for as soon as they are reached."""
_PRESENT = (StageState.RUNNING, StageState.AWAITING_APPROVAL)
"""States of a stage that are waited for before the next command, if it is still in them."""
_USUAL = ("train_loss",)
"""Metrics to wait for where a stage names no chart that its log has."""
_ASKED = ("park", "cancel", "teardown")
"""Commands whose own step waits for the end."""
_GO_ON = ("launch", "resume")


class Scene(msgspec.Struct, frozen=True):
    """The things that the console shows at one moment.

    Args:
        cluster: Name of the cluster in the header; empty if unknown.
        run: The run on screen.
        pods: All pods by `namespace/name`.
        ready_nodes: Number of ready nodes.
        depth: Number of screens, the console's own included.
        text: Returns the screen as text.
        points: Returns the newest points of a stage of the run, oldest first.
    """

    cluster: str = ""
    run: RunView | None = None
    pods: Mapping[str, PodFacts] = msgspec.field(default_factory=dict)
    ready_nodes: int = 0
    depth: int = 1
    text: Callable[[], str] = lambda: ""
    points: Callable[[str], list[Point]] = lambda _: []


class Noticed:
    """The conditions that have come true since the last command. Of a run, only where playing the script shows it."""

    def __init__(self) -> None:
        self._shown_runs: set[str] = set()
        self._known: dict[tuple[str, str], tuple[int, StageState]] = {}
        """By run and stage: the attempt and the state that have been waited for."""
        self._ends: dict[str, RunState] = {}
        self._steps: dict[tuple[str, str], int] = {}
        self._asked_for: dict[str, str] = {}
        """By run, the last command that ends it or has it go on."""
        self._cluster = ""
        self._ready_nodes = 0
        self._pods: Mapping[str, PodFacts] = {}
        self._text = ""

    def follow(self, run: RunView, *, is_new: bool) -> None:
        """Notice what becomes of a run that is on screen when the script is played, too.

        Args:
            run: The run.
            is_new: It has been launched just now; of an older one, what it has reached before is not waited for.
        """
        if run.id in self._shown_runs:
            return
        self._shown_runs.add(run.id)
        if not is_new:
            for stage in run.stages:
                self._known[run.id, stage.id] = (stage.attempt, stage.state)
            self._ends[run.id] = run.state

    def reached(self, scene: Scene) -> Iterator[Wait]:
        """Yield what has been reached, and will stay so: stages that ended, the run's end."""
        run = self._followed(scene)
        if run is None:
            return
        if self._is_ending(run):
            self._ends[run.id] = run.state  # it is shown for a moment after a resume, too
            return
        for stage in run.stages:
            now = (stage.attempt, stage.state)
            if stage.state in _REACHED and self._known.get((run.id, stage.id)) != now:
                self._known[run.id, stage.id] = now
                yield {"stage": stage.id, "is": stage.state.value}
        if run.state in OVER and self._ends.get(run.id) is not run.state:
            yield {"run": run.state.value}
        self._ends[run.id] = run.state

    def before_command(self, scene: Scene, *, command: str, names: str) -> Iterator[Wait]:
        """Yield what holds when a command is given, and did not hold at the one before.

        Args:
            scene: What the console shows.
            command: The command.
            names: The object that it names; empty for none.
        """
        if scene.cluster and scene.cluster != self._cluster:
            self._cluster = scene.cluster
            yield {"cluster": scene.cluster}
        yield from self.reached(scene)
        run = self._followed(scene)
        if run is not None and not self._is_ending(run):
            yield from self._present(run, command)
            yield from self._curves(run, scene)
        elif run is None and scene.ready_nodes > self._ready_nodes:
            yield {"nodes": {"ready": f">= {scene.ready_nodes}"}}
        yield from self._named(scene, names)

    def after_command(self, scene: Scene, command: str) -> None:
        """Note what the console shows when a command has been carried out."""
        self._ready_nodes = scene.ready_nodes
        self._pods = scene.pods
        self._text = scene.text()
        if scene.run is not None and command in (*_ASKED, *_GO_ON):
            self._asked_for[scene.run.id] = command

    def _followed(self, scene: Scene) -> RunView | None:
        return scene.run if scene.run is not None and scene.run.id in self._shown_runs else None

    def _is_ending(self, run: RunView) -> bool:
        """Return whether the run was asked to end: the step of that command waits until it has."""
        return self._asked_for.get(run.id, "") in _ASKED

    def _present(self, run: RunView, command: str) -> Iterator[Wait]:
        for stage in run.stages:
            now = (stage.attempt, stage.state)
            if stage.state not in _PRESENT or self._known.get((run.id, stage.id)) == now:
                continue
            if stage.state is StageState.AWAITING_APPROVAL and command == "approve":
                continue  # its step waits for the plan itself
            self._known[run.id, stage.id] = now
            yield {"stage": stage.id, "is": stage.state.value}

    def _curves(self, run: RunView, scene: Scene) -> Iterator[Wait]:
        """Yield the newest step of the first curve of each stage at work."""
        for stage in run.stages:
            if stage.state is not StageState.RUNNING:
                continue
            points = [point for point in scene.points(stage.id) if point.step is not None]
            if not points:
                continue
            newest = {point.metric: point for point in points}
            first = next((metric for metric in (*stage.charts, *_USUAL) if metric in newest), points[-1].metric)
            last = newest[first]
            step = last.step or 0
            if step > self._steps.get((run.id, stage.id), 0):
                self._steps[run.id, stage.id] = step
                yield {"metric": last.metric, "of": stage.id, "step": f">= {step}"}

    def _named(self, scene: Scene, names: str) -> Iterator[Wait]:
        """Yield that an object is there which a command names and which has appeared since the last one."""
        for name in filter(None, names.split(",")):
            pod = scene.pods.get(name.removeprefix("pods/"))
            if pod is not None:
                if pod.key not in self._pods:
                    yield {"pods": {"namespace": pod.namespace, "name": f"^{re.escape(pod.name)}$"}}
                continue
            last = name.rpartition("/")[2]
            if last and last not in self._text and last in scene.text():
                yield {"text": re.escape(last)}
