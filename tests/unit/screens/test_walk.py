"""The falsehoods that a first walk through the console found, each on the screen or command line that showed it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.diagnose.evidence import Evidence
from actions.fleet.facts import Resources
from actions.run.state.view import StageState
from actions.terraform.events import read_event
from actions.terraform.failure import failure_of
from tests.support import fixed_runs
from tests.support.builders import GIB
from tests.support.fixed_cluster import RUN, TRAINIUM, nodes, picture, workers
from tests.support.fixed_console import FixedConsole, Scene, a_fixed_console
from tests.support.snapshots import strips
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.cli.main import main
from tui.screens.console import ConsoleScreen
from tui.screens.viewer import Viewer
from tui.settings.settings import ConsoleSettings, DemoBadge
from tui.textual_private import screen_text

SIZE = (120, 36)
NO_ROWS_APART = 1
"""Rows of a plot between two curves of the same values: the rounding of two marks."""


pytestmark = pytest.mark.usefixtures("own_home")


def falling_losses() -> Iterable[str]:
    """Return the log of a training whose two losses are one straight line; validation prints every fiftieth step."""
    for step in range(1, 2_701):
        loss = f"{6 - step / 1_000:.6E}"
        yield f" iteration {step:8}/    2700 | consumed samples: {step * 8} | lm loss: {loss} | loss scale: 1.0 |"
        if step % 50 == 0:
            yield f" validation loss at iteration {step} on validation set | lm loss value: {loss} | lm loss PPL: 2.0 |"


def places_of(console: FixedConsole, curve: str) -> dict[int, set[int]]:
    """Return the rows of a curve by column, found by the colour of its name in the legend."""
    drawn = [list(strip) for strip in strips(console.app)]
    (name,) = (segment for row in drawn for segment in row if f"━━ {curve}" in segment.text)
    assert name.style is not None
    found: dict[int, set[int]] = defaultdict(set)
    for place, row in enumerate(drawn):
        column = 0
        for segment in row:
            is_its = segment.style is not None and segment.style.color == name.style.color
            for character in segment.text:
                if is_its and "\u2800" < character <= "\u28ff":
                    found[column].add(place)
                column += 1
    return found


async def test_two_curves_of_the_same_values_lie_on_one_another_although_one_is_sparse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed_runs.store_text(tmp_path / RUN, "train", "pretrain-0", "\n".join(falling_losses()))
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm(("train_loss 3.3", "val_loss 3.3"))
        train, val = places_of(console, "train_loss"), places_of(console, "val_loss")
        assert len(val) > 50
        apart = {
            column: min(abs(one - other) for one in train[column] for other in val[column])
            for column in train.keys() & val.keys()
        }
        assert max(apart.values(), default=0) <= NO_ROWS_APART, apart


async def test_the_form_names_the_run_that_is_in_the_place_of_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = fixed_runs.a_training_run()
    view = replace(view, is_cost_simulated=True, cluster=replace(view.cluster, namespace="default"))
    monkeypatch.setattr("actions.run.doctor.names.list_runs", lambda _home: fixed_runs.summaries(tmp_path)[:1])
    monkeypatch.setattr("actions.run.doctor.names.load_run", lambda _folder: view)
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(namespace="default"), demo=DemoBadge()))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        app.dispatcher.submit("launch bionemo-esm1nv")
        await wait_for(pilot, lambda: "Total:" in screen_text(app), "the plan is there")
        told = f"The run {RUN} of this blueprint, running, is in default"
        await wait_for(pilot, lambda: told in " ".join(screen_text(app).split()), "it names the run")


def test_the_time_of_a_plan_follows_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    def training(*words: str) -> str:
        assert main(["plan", "bionemo-esm1nv", *words]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("train "))

    assert training("--preset", "rehearsal", "max_steps=4000") != training("--preset", "rehearsal")


async def test_before_its_first_samples_the_pane_denies_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: object, **__: object) -> None:
        return

    monkeypatch.setattr("tui.feeds.accelerators.AcceleratorFeed.run", run)
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("open accelerators")
        await console.calm("accelerators")
        shown = screen_text(console.app)
        assert "No running pod" not in shown
        assert "Asking the pods that request the" in shown


async def test_behind_a_pane_what_it_can_show_is_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = Scene(picture(), view=fixed_runs.a_training_run(), summaries=fixed_runs.summaries(tmp_path))
    async with a_fixed_console(scene, monkeypatch, size=(200, 36)) as console:
        await console.calm("Runs")
        screen = console.app.screen
        assert isinstance(screen, ConsoleScreen)
        for pane, value in (
            ("run", RUN[:24]),
            ("run", "train"),
            ("pods", "run"),
            ("charts", "train"),
            ("events", "node/"),
        ):
            found = screen._completions(f"open {pane} of={value[:2]}")
            assert any(line.startswith(f"open {pane} of={value}") for line in found), (pane, found)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("open pods of=nothing", "There is no node 'nothing'."),
        ("open charts of=nothing", "The run on screen has no stage 'nothing'."),
        ("sort nothing", "objects has no column 'nothing'. There is none yet."),
        ("columns nothing", "objects has no column 'nothing'. It has none yet."),
    ],
)
async def test_what_is_not_there_is_refused_in_one_sentence(
    line: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(Scene(picture(), view=fixed_runs.a_training_run()), monkeypatch, size=SIZE) as console:
        await console.line("open objects")
        await console.calm("─ objects")
        await console.line(line)
        await console.calm(sentence)


async def test_a_wide_screen_shows_amounts_and_names_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = picture()
    busy = replace(workers()[0], uid="uid-busy", name="busy", node=TRAINIUM, requests=Resources(120_200, 8 * GIB))
    use = whole.usage[next(node.name for node in nodes() if node.name in whole.usage)]
    usage = {**whole.usage, TRAINIUM: replace(use, requested=busy.requests)}
    scene = Scene(replace(whole, pods={**whole.pods, busy.key: busy}, usage=usage))
    async with a_fixed_console(scene, monkeypatch, size=(200, 50)) as console:
        await console.line("open nodes")
        await console.calm("NAME")
        assert "120.2/127.8" in screen_text(console.app)
        await console.line("open blueprints")
        await console.calm("trainium-inferentia")


async def test_w_on_a_failed_script_of_terraform_shows_what_it_printed_not_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "\n".join(f"signed -X POST --data '{{\"step\": {number}}}' $ENDPOINT/clusters" for number in range(12))
    detail = f"Error running command '{script}': exit status 22. Output: NodeGroup already exists with name gpu.\n"
    diagnostic = {"severity": "error", "summary": "local-exec provisioner error", "detail": detail}
    event = read_event(json.dumps({"type": "diagnostic", "diagnostic": diagnostic}).encode())
    assert event is not None
    failure = failure_of(["terraform", "apply"], [event], exit_code=1, interrupted=False)

    async def in_cluster(*_: Any, **__: Any) -> Evidence:
        return Evidence()

    monkeypatch.setattr("actions.run.diagnosis._in_cluster", in_cluster)
    view = fixed_runs.a_failed_run()
    failed = replace(view.stages[1], state=StageState.FAILED, message=failure.sentence())
    scene = Scene(picture(), view=replace(view, stages=(failed,)), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open run")
        await console.calm("Cluster")
        await console.press("w")
        await console.calm(Viewer)
        shown = screen_text(console.app)
        assert "NodeGroup already exists" in shown
        assert "signed -X POST" not in shown
