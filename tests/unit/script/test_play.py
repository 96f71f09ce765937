"""A script is played step by step; what fails is said with what was seen, and `always` is played whatever happens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.base.patterns import Pattern, compile_pattern
from actions.cluster.diagnose.codes import Code, Finding, finding
from actions.cluster.logs.lines import LogLine
from actions.cluster.state.cluster_state import ClusterSnapshot
from actions.command.verbs import Call
from actions.run.output.writer import OutputWriter
from actions.run.state.records import ClusterName
from actions.run.state.view import Audit, Goal, RunState, RunView, StageState, StageView
from actions.script.artifacts import Artifacts
from actions.script.parse import parse_script
from actions.script.play import Player
from actions.script.report import Report, StepResult, write_junit, write_summary
from actions.script.run_observer import RunObserver
from actions.telemetry.points import Point
from tests.support.answering import write_kubeconfig
from tests.support.smallrun import a_small_run


class FakeClock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


def a_stage(name: str, state: StageState) -> StageView:
    return StageView(id=name, title=name, kind="job", state=state)


def a_run(*stages: StageView, state: RunState = RunState.RUNNING, audit: Audit | None = None) -> RunView:
    return RunView(
        id="bionemo-1",
        blueprint_id="bionemo",
        title="",
        preset="",
        parameters={},
        cluster=ClusterName(name="c", region="r"),
        created_at=0.0,
        state=state,
        goal=Goal.FORWARD,
        is_paused=False,
        auto_approve=False,
        deletes_data=False,
        existing_cluster=False,
        stages=stages,
        teardown=(),
        ending={},
        requests=(),
        owned=(),
        audit=audit,
        last_seq=1,
    )


@dataclass
class FakeWorld:
    """A console driver whose world a test changes, frame by frame."""

    clock: FakeClock
    frames: list[Callable[[FakeWorld], None]] = field(default_factory=list)
    view: RunView | None = None
    curve: list[Point] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    screen: str = ""
    data: str = ""
    """Comes on screen when it is going to be read."""
    hangs: bool = False
    executed: list[str] = field(default_factory=list)
    refuse: str = ""
    broken: bool = False
    """Its handler of `launch` has a bug."""
    wrong: list[Finding] = field(default_factory=list)
    folder: Path | None = None
    """Of the run that is on screen."""
    asked: list[str] = field(default_factory=list)

    async def explain(self, stage: str) -> Sequence[Finding]:
        self.asked.append(stage)
        return tuple(self.wrong)

    def snapshot(self) -> ClusterSnapshot | None:
        return None

    def screen_text(self) -> str:
        return self.screen

    def identity(self) -> dict[str, str]:
        return {"cluster": "bionemo-on-eks", "region": "us-west-2", "account": ""}

    async def execute(self, call: Call) -> None:
        if self.refuse:
            raise RefusedError(self.refuse)
        if self.broken and call.command.id == "launch":
            raise NameError("name 'nothing' is not defined")
        self.executed.append(call.command.id)
        if call.command.id == "launch":
            self.view = a_run(a_stage("train", StageState.PENDING))
        if call.command.id == "teardown" and self.view:
            self.view = replace(self.view, state=RunState.TORN_DOWN, audit=Audit(0.0, (), ()))

    async def press(self, keys: Sequence[str]) -> None:
        self.executed.extend(keys)

    async def settle(self) -> None:
        return

    async def show(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        self.screen = self.data or self.screen

    async def frame(self) -> None:
        await self.clock.sleep(0.1)
        if self.frames:
            self.frames.pop(0)(self)

    def run_folder(self) -> Path | None:
        return self.folder

    def save_screen(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.screen)


class FakeRun(RunObserver):
    """The world's run, which has no folder."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world, world.clock)
        self._world = world

    @property
    def newest(self) -> RunView | None:
        return self._world.view

    def view(self) -> RunView | None:
        return self._world.view

    def points(self, metric: str, stage: str) -> Sequence[Point]:
        return [point for point in self._world.curve if point.metric == metric]

    def has_line(self, pattern: Pattern, stage: str) -> bool:
        return any(pattern.search(line) for line in self._world.lines)


def stage_is(state: StageState) -> Callable[[FakeWorld], None]:
    def move(world: FakeWorld) -> None:
        world.view = a_run(a_stage("train", state))

    return move


async def played(text: str, world: FakeWorld, artifacts: Path) -> tuple[Report, list[str]]:
    told: list[str] = []
    script = parse_script(f"eksml-script: 1\n{text}".encode(), file="s.yaml", environment={})
    run = FakeRun(world)
    player = Player(script, world, run, clock=world.clock, print_line=told.append, artifacts=Artifacts(artifacts))
    return await player.play(), told


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld(FakeClock())


async def test_a_wait_ends_when_the_stage_is_there_or_past(world: FakeWorld, tmp_path: Path) -> None:
    world.frames = [stage_is(StageState.RUNNING), stage_is(StageState.SUCCEEDED)]
    report, told = await played(
        "steps:\n- launch: b\n- wait: {stage: train, is: running}\n- wait: {stage: train, is: succeeded}",
        world,
        tmp_path,
    )
    assert (report.result, report.exit_code) == ("passed", 0)
    assert [line.strip() for line in told if line.startswith("     ")] == ["train running", "train succeeded"]


async def test_a_stage_that_failed_ends_the_wait_at_once(world: FakeWorld, tmp_path: Path) -> None:
    world.frames = [stage_is(StageState.FAILED)]
    report, _ = await played("steps:\n- launch: b\n- wait: {stage: train, is: succeeded, within: 1h}", world, tmp_path)
    assert report.exit_code == 1
    assert "train is failed" in report.steps[1].seen
    assert world.clock.seconds < 1


async def test_a_failed_stage_ends_the_wait_for_those_that_need_it_until_it_is_tried_again(
    world: FakeWorld, tmp_path: Path
) -> None:
    def moved(state: StageState) -> Callable[[FakeWorld], None]:
        def move(world: FakeWorld) -> None:
            sample = replace(a_stage("sample", state), message="no space left")
            data = replace(a_stage("data", StageState.PENDING), needs=("sample",))
            world.view = a_run(sample, data, replace(a_stage("train", StageState.PENDING), needs=("data",)))

        return move

    text = "steps:\n- launch: b\n- wait: {stage: train, is: succeeded, within: 1h}"
    world.frames = [moved(StageState.FAILED)]
    report, _ = await played(text, world, tmp_path)
    assert report.steps[1].seen == "train is pending, and sample, which it needs, is failed: no space left"
    assert world.clock.seconds < 1
    world.frames = [moved(StageState.PENDING), stage_is(StageState.SUCCEEDED)]
    assert (await played(text, world, tmp_path))[0].exit_code == 0


async def test_waiting_for_a_failure_can_pass(world: FakeWorld, tmp_path: Path) -> None:
    world.frames = [stage_is(StageState.FAILED)]
    report, _ = await played("steps:\n- launch: b\n- wait: {stage: train, is: failed}", world, tmp_path)
    assert report.exit_code == 0


async def test_time_is_up_with_what_was_seen_last_and_a_picture(world: FakeWorld, tmp_path: Path) -> None:
    world.screen = "nothing here"
    report, _ = await played("steps:\n- wait: {text: never, within: 5s}\n- press: j", world, tmp_path)
    assert [step.result for step in report.steps] == [StepResult.FAILED, StepResult.SKIPPED]
    assert report.steps[0].seen == "time is up: 'never' is not on the screen"
    assert 5 <= world.clock.seconds < 6
    assert (tmp_path / "failed-line-3.txt").read_text() == "nothing here"
    assert world.executed == []


@pytest.mark.parametrize("verb", ["wait", "expect"])
async def test_what_is_read_from_the_screen_is_the_newest(verb: str, world: FakeWorld, tmp_path: Path) -> None:
    world.screen, world.data = "old", "new"
    report, _ = await played(f"steps:\n- {verb}: {{text: old}}", world, tmp_path)
    assert report.steps[0].result is StepResult.FAILED
    assert (tmp_path / "failed-line-3.txt").read_text() == "new"
    world.screen, world.data = "old", "newer"
    await played("steps:\n- screenshot: it.txt", world, tmp_path)
    assert (tmp_path / "it.txt").read_text() == "newer"


async def test_a_failure_on_a_console_that_hangs_is_saved_as_it_stands(
    world: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actions.script.play.SHOW_SECONDS", 0.01)
    world.hangs = True
    world.screen = "old"
    await played("steps:\n- expect: {cluster: another}", world, tmp_path)
    assert (tmp_path / "failed-line-3.txt").read_text() == "old"


async def test_always_is_played_after_a_failure_and_leftovers_are_exit_code_3(world: FakeWorld, tmp_path: Path) -> None:
    def torn(world: FakeWorld) -> None:
        world.view = a_run(state=RunState.TORN_DOWN, audit=Audit(0.0, ("Job default/x",), ()))

    world.frames = [stage_is(StageState.FAILED), torn]
    text = "steps:\n- launch: b\n- wait: {stage: train, is: succeeded}\nalways:\n- expect: {audit: empty}"
    report, _ = await played(text, world, tmp_path)
    assert report.steps[-1].section == "always"
    assert "Job default/x" in report.steps[-1].seen
    assert (report.result, report.exit_code) == ("left something", 3)


async def test_a_refused_command_fails_the_step_with_its_sentence(world: FakeWorld, tmp_path: Path) -> None:
    world.refuse = "This session is read-only."
    report, _ = await played("steps:\n- launch: b", world, tmp_path)
    assert report.steps[0].seen == "This session is read-only."


async def test_a_bug_in_a_command_fails_the_step_and_always_is_played(world: FakeWorld, tmp_path: Path) -> None:
    world.broken, world.view = True, a_run(a_stage("train", StageState.RUNNING))
    report, _ = await played("steps:\n- launch: b\n- open: pods\nalways:\n- teardown: c", world, tmp_path)
    assert [step.result.value for step in report.steps] == ["failed", "skipped", "passed"]
    seen = report.steps[0].seen
    assert seen.startswith("a bug of eksml-tui (NameError: name 'nothing' is not defined, test_play.py:"), seen
    assert world.executed == ["teardown"]
    assert (report.result, report.exit_code) == ("failed", 1)


async def test_a_teardown_after_a_launch_that_made_nothing_is_done(world: FakeWorld, tmp_path: Path) -> None:
    text = "steps:\n- wait: {text: never, within: 1s}\n- launch: b\nalways:\n- teardown: c\n- expect: {audit: empty}"
    report, _ = await played(text, world, tmp_path)
    ended = report.steps[-2]
    assert (ended.verb, ended.result, ended.seen) == ("teardown", StepResult.PASSED, "nothing was launched")
    assert world.executed == []


@pytest.mark.parametrize(
    "text",
    [
        "steps:\n- teardown: c",
        "steps:\n- wait: {text: never, within: 1s}\n- launch: b\nalways:\n- teardown: {confirm: c, run: r}",
    ],
)
async def test_a_teardown_that_means_another_run_than_a_launched_one_is_asked_for(
    text: str, world: FakeWorld, tmp_path: Path
) -> None:
    await played(text, world, tmp_path)
    assert world.executed == ["teardown"]


async def test_metrics_and_logs_are_waited_for(world: FakeWorld, tmp_path: Path) -> None:
    def learn(world: FakeWorld) -> None:
        world.curve = [Point("train_loss", 100, 2.9), Point("train_loss", 200, 2.7)]
        world.lines = ["Epoch 0: 3%"]

    world.frames = [learn]
    text = "steps:\n- wait: {metric: loss, step: '>= 200', value: '< 2.8'}\n- expect: {log: 'Epoch \\d'}"
    report, _ = await played(text, world, tmp_path)
    assert report.exit_code == 0
    assert report.steps[0].seen == "train_loss is 2.7 at step 200"


_BLUEPRINT = """
schema: eksml/v1
id: small
title: One stage
summary: For tests.
cluster: {name: known, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: known, region: us-west-2}
"""


def test_a_mark_of_the_console_is_found_as_a_line_is(world: FakeWorld, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    world.folder = a_small_run(tmp_path, {"blueprint.yaml": _BLUEPRINT}, kubeconfig=kubeconfig)
    run = RunObserver(world, world.clock)
    run.view()
    writer = OutputWriter(world.folder, "access")
    source = writer.source("default", "worker-0", "pytorch", "uid")
    writer.write_lines(source, [LogLine(5, "CUDA out of memory")])
    mark = compile_pattern(r"container restarted \(exit 1")
    assert (run.has_line(compile_pattern("CUDA"), "access"), run.has_line(mark, "access")) == (True, False)
    writer.write_lines(source, [LogLine(5, "-- container restarted (exit 1, Error) --", is_marker=True)])
    assert run.has_line(mark, "access")
    writer.close()
    run.close()


async def test_the_cluster_can_be_pinned(world: FakeWorld, tmp_path: Path) -> None:
    report, _ = await played("steps:\n- expect: {cluster: another}\n- launch: b", world, tmp_path)
    assert report.steps[0].seen == "cluster is bionemo-on-eks"
    assert world.executed == []


async def test_an_interrupted_script_still_tears_down(world: FakeWorld, tmp_path: Path) -> None:
    task = asyncio.create_task(
        played("steps:\n- launch: b\n- wait: {text: never, within: 9h}\nalways:\n- teardown: c", world, tmp_path)
    )
    while "launch" not in world.executed:
        await asyncio.sleep(0)
    task.cancel()
    report, _ = await task
    assert (report.result, report.exit_code) == ("interrupted", 130)
    assert world.executed == ["launch", "teardown"]


async def test_the_junit_report_counts_failures(world: FakeWorld, tmp_path: Path) -> None:
    report, _ = await played("steps:\n- expect: {text: '<x>'}\n- press: j", world, tmp_path)
    write_junit(report, tmp_path / "junit.xml")
    text = (tmp_path / "junit.xml").read_text()
    assert 'failures="1"' in text
    assert 'skipped="1"' in text
    assert "&lt;x&gt;" in text


async def test_the_summary_is_a_table_in_which_no_text_is_markup(world: FakeWorld, tmp_path: Path) -> None:
    report, _ = await played("steps:\n- launch: b\n- expect: {text: '![a](b)|<x>'}\n- press: j", world, tmp_path)
    write_summary(report, tmp_path / "summary")
    head, _, *rows = (line for line in (tmp_path / "summary").read_text().splitlines() if line)
    assert re.fullmatch(r"### [^ ]+: failed after \d+ s", head)
    assert [re.split(r"(?<!\\)\|", row)[3].strip() for row in rows[-3:]] == ["passed", "failed", "skipped"]
    assert r"\!\[a\]\(b\)\|\<x\>" in rows[-2]


OUT_OF_MEMORY = finding(
    Code.OOM_KILLED, "Container pytorch of worker-3 needs more than 8Gi", ["OOMKilled"], "Raise it."
)
FAILED = finding(Code.JOB_FAILED, "The job has failed", [], "Read its log.")


async def test_a_diagnosis_is_expected_by_its_cause(world: FakeWorld, tmp_path: Path) -> None:
    world.wrong = [OUT_OF_MEMORY, FAILED]
    text = "steps:\n- expect: {why: {of: train, code: OOM_KILLED, says: 'worker-\\d .* 8Gi'}}"
    report, _ = await played(text, world, tmp_path)
    assert report.exit_code == 0
    assert report.steps[0].seen == "OOM_KILLED: Container pytorch of worker-3 needs more than 8Gi (also JOB_FAILED)"


@pytest.mark.parametrize("wanted", ["code: JOB_FAILED", "code: OOM_KILLED, says: worker-4"])
async def test_a_symptom_or_another_sentence_is_not_the_diagnosis(
    wanted: str, world: FakeWorld, tmp_path: Path
) -> None:
    world.wrong = [OUT_OF_MEMORY, FAILED]
    report, _ = await played(f"steps:\n- expect: {{why: {{of: train, {wanted}}}}}", world, tmp_path)
    assert report.exit_code == 1


async def test_a_diagnosis_is_waited_for(world: FakeWorld, tmp_path: Path) -> None:
    world.frames = [lambda world: None, lambda world: world.wrong.append(OUT_OF_MEMORY)]
    report, _ = await played("steps:\n- wait: {why: {of: train, code: OOM_KILLED}}", world, tmp_path)
    assert report.exit_code == 0
    assert world.asked == ["train"] * 2  # at once, and a second later
