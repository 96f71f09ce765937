"""A recording is a script after every step, holds no secret, and waits for what came true."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.errors import ConfigError
from actions.base.untrusted import KNOWN
from actions.command.verbs import Call
from actions.run.state.view import RunState, StageState
from actions.script.model import Script
from actions.script.noticed import Noticed, Scene
from actions.script.parse import load_script
from actions.script.recording import Recording
from actions.telemetry.points import Point
from tests.support.builders import a_pod
from tests.unit.script.test_play import a_run, a_stage

SECRET = "hunter2-and-more"


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    yield
    KNOWN.forget()


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    begun = Recording(
        tmp_path / "rec.yaml",
        made_at=datetime(2026, 1, 1, tzinfo=UTC),
        size=(120, 40),
        remarks=["eksml-tui --script rec.yaml"],
    )
    begun.begin("open", "home")
    return begun


def played(recording: Recording, **environment: str) -> Script:
    return load_script(recording.file, environment=environment)


def values(recording: Recording, number: int, **environment: str) -> dict[str, Any]:
    action = played(recording, **environment).steps[number].action
    assert isinstance(action, Call)
    return dict(action.values())


def test_it_is_a_script_after_every_step(recording: Recording) -> None:
    steps: list[tuple[str, Any]] = [
        ("launch", {"blueprint": "efa-nccl-tests", "set": {"nodes": 2, "name": "on", "size": "0755"}}),
        ("wait", {"stage": "train", "is": "running"}),
        ("filter", {"text": "#'\": {a, b} - ${x} — *&!%"}),
        ("teardown", {"confirm": "no"}),
        ("close", {}),
    ]
    for number, (verb, value) in enumerate(steps, start=1):
        recording.add(verb, value, within_seconds=61.0 if verb == "wait" else 0.0)
        assert [step.verb for step in played(recording).steps][number] == verb
    script = played(recording)
    assert script.size == (120, 40)
    assert script.steps[2].within_seconds == 120
    assert script.deadline_seconds >= sum(step.within_seconds for step in script.steps)
    assert values(recording, 1)["set"] == {"nodes": 2, "name": "on", "size": "0755"}
    assert values(recording, 3)["text"] == "#'\": {a, b} - ${x} — *&!%"
    assert values(recording, 4)["confirm"] == "no"


def test_what_the_language_refuses_becomes_a_remark(recording: Recording) -> None:
    recording.add("teardown", {})
    recording.add("filter", {"text": "two\nlines"})
    recording.add("filter", {"text": "\x1b]0;title\x07"})
    text = recording.file.read_text()
    assert [step.verb for step in played(recording).steps] == ["open"]
    assert "teardown needs the cluster's name" in text
    assert "\x1b" not in text


def test_secrets_are_references(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", SECRET)
    KNOWN.add(SECRET, "${env:HUB_TOKEN}")
    KNOWN.add("whispered-secret", "file:/key")
    recording.add("filter", {"text": f"token {SECRET}"})
    recording.add("launch", {"blueprint": "b", "set": {"token": "whispered-secret"}})
    recording.add("filter", {"text": "AKIAABCDEFGHIJKLMNOP"})
    text = recording.file.read_text()
    assert SECRET not in text
    assert "whispered-secret" not in text
    assert "AKIAABCDEFGHIJKLMNOP" not in text
    assert "# filter" in text  # a likely credential has no reference
    assert values(recording, 1, HUB_TOKEN=SECRET)["text"] == f"token {SECRET}"


def test_a_filter_that_grows_is_one_step_and_a_failed_command_none(recording: Recording) -> None:
    for text in ("b", "bi", "bio"):
        recording.replace_last("filter", {"text": text})
    line = recording.add("sort", {"column": "NOPE"})
    recording.drop(line)
    assert [step.text for step in played(recording).steps] == ["open home", "filter text=bio"]


def test_a_file_that_exists_is_left(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("eksml-script: 1\n")
    again = Recording(tmp_path / "mine.yaml", made_at=datetime(2026, 1, 1, tzinfo=UTC), size=(80, 24), remarks=[])
    with pytest.raises(ConfigError, match="exists"):
        again.begin("open", "home")
    assert (tmp_path / "mine.yaml").read_text() == "eksml-script: 1\n"


def test_a_disk_without_room_leaves_the_script_as_it_was(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recording.file.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("actions.script.recording.write_private", full)
        with pytest.raises(ConfigError, match="No space left"):
            recording.add("zoom")
    assert recording.file.read_bytes() == before
    recording.add("close")
    assert [step.verb for step in played(recording).steps] == ["open", "zoom", "close"]


def test_it_ends_before_it_is_too_large_to_be_played(recording: Recording) -> None:
    for _ in range(40):
        recording.add("filter", {"text": "x" * 40_000})
    assert "The recording ends here" in recording.file.read_text()
    assert played(recording).steps


RUNNING = StageState.RUNNING
DONE = StageState.SUCCEEDED


def told(noticed: Noticed, scene: Scene, command: str = "zoom", names: str = "") -> list[dict[str, Any]]:
    waits = [dict(wait) for wait in noticed.before_command(scene, command=command, names=names)]
    noticed.after_command(scene, command)
    return waits


def test_of_a_run_that_was_launched_each_end_is_waited_for_once() -> None:
    noticed = Noticed()
    first = a_run(a_stage("data", RUNNING), a_stage("train", StageState.PENDING))
    noticed.follow(first, is_new=True)
    assert told(noticed, Scene(run=first)) == [{"stage": "data", "is": "running"}]
    later = a_run(a_stage("data", DONE), a_stage("train", RUNNING))
    assert list(noticed.reached(Scene(run=later))) == [{"stage": "data", "is": "succeeded"}]
    assert told(noticed, Scene(run=later)) == [{"stage": "train", "is": "running"}]
    ended = a_run(a_stage("data", DONE), a_stage("train", DONE), state=RunState.SUCCEEDED)
    assert told(noticed, Scene(run=ended)) == [{"stage": "train", "is": "succeeded"}, {"run": "succeeded"}]
    assert told(noticed, Scene(run=ended)) == []


def test_of_an_older_run_only_what_is_new_and_of_one_that_a_replay_lacks_nothing() -> None:
    noticed = Noticed()
    older = a_run(a_stage("data", DONE), a_stage("train", RUNNING))
    assert told(noticed, Scene(run=older)) == []
    noticed.follow(older, is_new=False)
    assert told(noticed, Scene(run=older)) == []
    ended = a_run(a_stage("data", DONE), a_stage("train", DONE), state=RunState.SUCCEEDED)
    assert told(noticed, Scene(run=ended)) == [{"stage": "train", "is": "succeeded"}, {"run": "succeeded"}]


def test_a_plan_is_waited_for_by_its_approval_alone() -> None:
    noticed = Noticed()
    waiting = a_run(a_stage("network", StageState.AWAITING_APPROVAL))
    noticed.follow(waiting, is_new=True)
    assert told(noticed, Scene(run=waiting), "approve") == []
    assert told(noticed, Scene(run=waiting), "zoom") == [{"stage": "network", "is": "awaiting_approval"}]


def test_the_end_that_a_command_brings_is_its_own_step_and_a_retry_goes_on() -> None:
    noticed = Noticed()
    running = a_run(a_stage("train", RUNNING))
    noticed.follow(running, is_new=True)
    told(noticed, Scene(run=running), "cancel")
    cancelled = a_run(a_stage("train", StageState.CANCELLED), state=RunState.CANCELLED)
    assert told(noticed, Scene(run=cancelled), "resume") == []
    assert list(noticed.reached(Scene(run=cancelled))) == []  # the view may be late
    again = a_run(replace(a_stage("train", DONE), attempt=2), state=RunState.SUCCEEDED)
    assert told(noticed, Scene(run=again), "zoom") == [{"stage": "train", "is": "succeeded"}, {"run": "succeeded"}]


def test_a_curve_is_waited_for_by_the_step_that_it_has_reached() -> None:
    noticed = Noticed()
    train = replace(a_stage("train", RUNNING), charts=("train_loss",))
    run = a_run(train)
    noticed.follow(run, is_new=True)
    points = [Point("train_loss", 20, 9.0), Point("lr", 21, 0.1)]
    scene = Scene(run=run, points=lambda _: points)
    assert told(noticed, scene)[1:] == [{"metric": "train_loss", "of": "train", "step": ">= 20"}]
    assert told(noticed, scene) == []


def test_objects_that_have_appeared_are_waited_for_where_a_command_names_them() -> None:
    noticed = Noticed()
    pods = {pod.key: pod for pod in (a_pod("web-0"), a_pod("web.1"))}
    empty = Scene(cluster="big")
    assert told(noticed, empty) == [{"cluster": "big"}]
    key = next(key for key in pods if key.endswith("web.1"))
    namespace = key.partition("/")[0]
    found = told(noticed, Scene(cluster="big", pods=pods, ready_nodes=2), "logs", key)
    assert found == [{"nodes": {"ready": ">= 2"}}, {"pods": {"namespace": namespace, "name": r"^web\.1$"}}]
    text = Scene(cluster="big", pods=pods, ready_nodes=2, text=lambda: "│ claim-7 Bound │")
    assert told(noticed, text, "describe", "pvc/work/claim-7") == [{"text": r"claim\-7"}]
    assert told(noticed, text, "describe", "pvc/work/claim-7") == []
