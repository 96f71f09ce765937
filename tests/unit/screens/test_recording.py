"""A session is recorded by its keys, lines and confirmations. No cluster, no run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.arguments import TeardownArguments
from actions.command.parse import parse_line
from actions.command.verbs import (
    Call,
    command_of,
)
from actions.script.parse import load_script
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.cli.arguments import parse_arguments
from tui.commands.script_writer import ScriptWriter, _command_line, _text_of
from tui.present.subject import Subject
from tui.settings.settings import ConsoleSettings, DemoBadge
from tui.textual_private import screen_text

SIZE = (120, 36)


pytestmark = pytest.mark.usefixtures("own_home")


def an_app(file: Path) -> ConsoleApp:
    return ConsoleApp(
        ConsoleSettings(
            target=ClusterTarget(), demo=DemoBadge(20), record=file, aliases={"w": "layout watch"},
            filters={"mine": "team=a"},
        )
    )  # fmt: skip


def recorder_of(app: ConsoleApp) -> ScriptWriter:
    assert app.dispatcher.script_writer is not None
    return app.dispatcher.script_writer


def steps(file: Path) -> list[str]:
    return [step.text for step in load_script(file, environment={}).steps]


async def test_keys_lines_and_filters_become_steps_and_mistakes_do_not(tmp_path: Path) -> None:
    file = tmp_path / "rec.yaml"
    app = an_app(file)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await wait_for(pilot, lambda: app.dispatcher.script_writer is not None, "the recording has begun")
        assert steps(file) == [f"open {app.workspace.split.current}"]
        await app.script_driver.press(["2", "/", "g", "p", "u", "enter", ":", *"sort NOPE", "enter"])
        await app.script_driver.press([":", "w", "enter", "?"])
        await wait_for(pilot, lambda: "─ help ─" in screen_text(app), "the help is shown")
        assert steps(file)  # a console that is killed now leaves a whole script
        await app.script_driver.press(["q"])  # the page's own key
        await app.script_driver.press([":", *"screenshot /elsewhere/x.txt", "enter", "4"])
        await app.script_driver.settle()
    text = file.read_text()
    assert steps(file)[1:] == [
        "open pane=pods",
        "filter text=gpu",
        "layout name=watch",
        "help",
        "back",
        "screenshot file=x.txt",
        "open pane=run",
    ]
    assert "NOPE" not in text
    assert "/elsewhere" not in text
    assert "size: 120x36" in text
    assert "--demo --speed 20 --script rec.yaml" in text


async def test_a_confirmed_teardown_has_the_clusters_name_and_what_needs_a_person_is_a_remark(tmp_path: Path) -> None:
    file = tmp_path / "rec.yaml"
    app = an_app(file)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await wait_for(pilot, lambda: app.dispatcher.script_writer is not None, "the recording has begun")
        script_writer = recorder_of(app)
        lines = (
            *("shell work/web-0", "edit pods/web-0", "copy", "resume takeover=77", "quit"),
            *("delete pods/work/web-0@1234-uid,pods/work/web-1@99", "logs work/web-0 tail=5", "filter @mine"),
        )
        for line in lines:
            call = parse_line(line)
            script_writer.ended(call, script_writer.begun(call), is_done=True)
        teardown = Call(command_of("teardown"), TeardownArguments(confirm="big", run="run-1", delete_data=True))
        script_writer.ended(teardown, script_writer.begun(teardown), is_done=True)
        failed = parse_line("zoom")
        script_writer.ended(failed, script_writer.begun(failed), is_done=False)
    assert steps(file)[1:] == [
        "delete object=pods/work/web-0,pods/work/web-1",
        "logs object=work/web-0 tail=5",
        "filter text=team=a",
        "teardown confirm=big run=run-1 delete_data=True",
    ]
    remarks = [line for line in file.read_text().splitlines() if line.startswith("  # ")]
    assert [line.split()[1].rstrip(":") for line in remarks] == ["shell", "edit", "copy", "resume"]


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject("Pod", "web-0", "work"), "work/web-0"),
        (Subject("Node", "ip-1"), "node/ip-1"),
        (Subject("Stage", "train"), "stage/train"),
        (Subject("Run", "run-1"), ""),
        (Subject("PyTorchJob", "esm", "work"), "pytorchjob/work/esm"),
        (Subject("Job.batch.volcano.sh", "big", "work"), "job.batch.volcano.sh/work/big"),
        (Subject("Deployment", "web", "work", api_version="apps/v1"), "deployment/work/web"),
        (Subject("Widget", "w", "work", api_version="acme.io/v1"), "widget.acme.io/work/w"),
    ],
)
def test_what_is_selected_is_named(subject: Subject, text: str) -> None:
    assert _text_of(subject) == text


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        (
            ConsoleSettings(target=ClusterTarget(), demo=DemoBadge(20), store="s3://team-runs/ml", region="us-west-2"),
            "eksml-tui --demo --speed 20 --store s3://team-runs/ml --script rec.yaml",
        ),
        (
            ConsoleSettings(
                target=ClusterTarget(kubeconfig=Path("/my configs/a"), context="prod", namespace="ml"),
                profile="ben",
                region="eu-west-1",
                store="s3://team-runs/ml",
                open_run="run-1",
            ),
            "eksml-tui --kubeconfig '/my configs/a' --context prod --namespace ml --profile ben --region eu-west-1 "
            "--store s3://team-runs/ml --run run-1 --script rec.yaml",
        ),
        (ConsoleSettings(target=ClusterTarget()), "eksml-tui --script rec.yaml"),
    ],
    ids=["demo", "cluster", "plain"],
)
def test_the_first_comment_plays_it_on_the_same_cluster_with_the_same_home(
    settings: ConsoleSettings, command: str
) -> None:
    assert _command_line(settings, "rec.yaml") == command
    parse_arguments(shlex.split(command)[1:])


def test_the_command_that_plays_a_recording_has_the_switches_of_its_session() -> None:
    settings = ConsoleSettings(target=ClusterTarget(), readonly=True, is_ascii=True)
    assert _command_line(settings, "rec.yaml") == "eksml-tui --readonly --ascii --script rec.yaml"
