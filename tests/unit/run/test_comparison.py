"""Runs side by side, from their output."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import yaml

from actions.base.errors import MissingError, RefusedError
from actions.cluster.logs.lines import LogLine
from actions.run import comparison
from actions.run.client import RunMissingError
from actions.run.comparison import (
    RunCurves,
    comparison_csv,
    comparison_json,
    comparison_table,
    differences_of,
    figures_of_series,
    metric_to_compare,
    read_run,
    shared_metrics,
    values_by_step,
)
from actions.run.output import curve_reader
from actions.run.output.writer import OutputWriter
from actions.run.state.view import RunView
from actions.telemetry.curves import Series
from tests.support import fixed_runs
from tests.support.builders import NOW
from tui.cli.arguments import parse_arguments
from tui.cli.runs import run as run_command


def stored_output(folder: Path, losses: Sequence[float | str], *, every: int = 1) -> Path:
    """Store a training that prints its loss at every so many steps."""
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "train-0", "main", f"uid-{folder.name}")
    start = NOW.timestamp() - 600
    lines = [f'{{"step": {place * every}, "loss": {loss}}}' for place, loss in enumerate(losses)]
    writer.write_lines(source, [LogLine(int((start + place) * 1e9), text) for place, text in enumerate(lines)])
    writer.close()
    return folder


def a_view(run_id: str, **parameters: int | float | str | bool) -> RunView:
    return msgspec.structs.replace(fixed_runs.a_training_run(), id=run_id, parameters=parameters)


@pytest.fixture
def two_runs(tmp_path: Path) -> list[RunCurves]:
    one, other = (
        stored_output(tmp_path / "one", [9.0, 5.0, 6.0]),
        stored_output(tmp_path / "two", [8.0, "NaN"], every=2),
    )
    runs = [RunCurves(one, a_view("one", lr=1e-4, spot=True)), RunCurves(other, a_view("two", lr=2e-4, spot=True))]
    assert not any(run.read_on() for run in runs)
    return runs


def test_settings_that_differ_are_listed_and_others_are_not() -> None:
    one: dict[str, int | float | str | bool] = {"preset": "", "workers": 8, "spot": True, "lr": 1e-4, "token": ""}
    other: dict[str, int | float | str | bool] = {"preset": "", "workers": 8, "spot": 1, "zone": "b", "lr": 2e-4}
    found = {difference.name: difference.values for difference in differences_of([one, other])}
    assert found == {"spot": (True, 1), "zone": (None, "b"), "lr": (1e-4, 2e-4)}


def test_the_training_loss_is_compared_unless_another_metric_is_named() -> None:
    assert shared_metrics([["lr", "train_loss", "val_loss"], ["val_loss", "train_loss", "lr"]])[0] == "train_loss"
    assert shared_metrics([["lr", "train_loss"], ["lr"]]) == ("lr",)


def test_curves_are_aligned_by_step() -> None:
    one, other = Series(), Series()
    for step, value in ((0, 3.0), (2, 2.0)):
        one.append(step, value)
    for step, value in ((1, 9.0), (2, 8.0)):
        other.append(step, value)
    assert values_by_step([one, other, None]) == [
        (0, (3.0, None, None)),
        (1, (None, 9.0, None)),
        (2, (2.0, 8.0, None)),
    ]


def test_the_least_value_is_where_it_came_last_and_is_a_number() -> None:
    series = Series()
    for step, value in enumerate((4.0, 2.0, 2.0, math.nan)):
        series.append(step, value)
    figures = figures_of_series(series)
    assert figures.least is not None
    assert (figures.points, figures.least.x) == (4, 2)
    assert figures_of_series(None).last is None


def test_runs_are_compared_in_a_table(two_runs: list[RunCurves]) -> None:
    assert metric_to_compare(two_runs) == "train_loss"
    rows = [line.split() for line in comparison_table(two_runs, "train_loss").splitlines()]
    assert rows == [
        ["train_loss"],
        ["RUN", "STAGE", "POINTS", "STEP", "LAST", "MIN", "AT", "STEP"],
        ["one", "train", "3", "2", "6", "5", "1"],
        ["two", "train", "2", "2", "nan", "8", "0"],
        [],
        ["DIFFERS", "one", "two"],
        ["lr", "0.0001", "0.0002"],
    ]


def test_runs_are_compared_as_csv_and_json(two_runs: list[RunCurves]) -> None:
    assert comparison_csv(two_runs, "train_loss") == "step,one,two\n0,9.0,8.0\n1,5.0,\n2,6.0,nan\n"
    document = json.loads(comparison_json(two_runs, "train_loss"))
    assert document["differences"] == {"lr": {"one": 1e-4, "two": 2e-4}}
    one, two = document["runs"]
    assert (one["last"], one["min"], one["min_step"], two["last"]) == (6.0, 5.0, 1, "nan")
    assert [sample[:2] for sample in two["samples"]] == [[0, 8.0], [2, "nan"]]
    assert one["samples"][1][2] - one["samples"][0][2] == 1


def test_a_metric_that_a_run_lacks_is_refused_with_its_name(tmp_path: Path, two_runs: list[RunCurves]) -> None:
    with pytest.raises(MissingError, match="Run one has no 'lr'") as refused:
        metric_to_compare(two_runs, "lr")
    assert refused.value.hint == "All of them have train_loss."
    silent = RunCurves(tmp_path / "silent", a_view("silent"))
    with pytest.raises(RefusedError, match="share no metric: one has train_loss; silent has none"):
        metric_to_compare([two_runs[0], silent])


def test_a_long_output_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve_reader, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(comparison, "load_run", lambda folder: a_view(folder.name))
    series = read_run(stored_output(tmp_path / "long", [float(place) for place in range(200)])).series("train_loss")
    assert series is not None
    assert len(series) == 200


def test_the_wide_comparison_has_the_figures_of_each_run_and_yaml_all_that_json_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_output(tmp_path / "one", [9.0, 5.0])
    stored_output(tmp_path / "two", [8.0, 4.0])
    monkeypatch.setattr(comparison, "load_run", lambda folder: a_view(folder.name))
    monkeypatch.setattr("tui.cli.runs.find_run", lambda name: tmp_path / name)
    printed = {}
    for output in ("wide", "yaml", "json"):
        assert run_command(parse_arguments(["--readonly", "runs", "compare", "one", "two", "-o", output])) == 0
        printed[output] = capsys.readouterr().out
    head, one, two = map(str.split, printed["wide"].splitlines())
    assert head == ["ID", "BLUEPRINT", "STAGE", "POINTS", "STEP", "LAST", "MIN", "MIN_STEP"]
    assert ([one[0], *one[-3:]], [two[0], *two[-3:]]) == (["one", "5.0", "5.0", "1.0"], ["two", "4.0", "4.0", "1.0"])
    assert yaml.safe_load(printed["yaml"]) == json.loads(printed["json"])


def test_the_curves_of_a_run_are_a_document_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_output(tmp_path / "one", [9.0, 5.0])
    monkeypatch.setattr(comparison, "load_run", lambda folder: a_view(folder.name))
    monkeypatch.setattr("tui.cli.runs.find_run", lambda name: tmp_path / name)
    assert run_command(parse_arguments(["--readonly", "runs", "curves", "one", "-o", "json"])) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["id"]) == ("eksml-curves/1", "one")
    (curve,) = document["curves"]
    assert (curve["metric"], curve["stage"], curve["points"], curve["last"]) == ("train_loss", "train", 2, 5.0)
    assert [sample[:2] for sample in curve["samples"]] == [[0, 9.0], [1, 5.0]]
    file = tmp_path / "curves.yaml"
    assert run_command(parse_arguments(["--readonly", "runs", "curves", "one", str(file), "-o", "yaml"])) == 0
    assert yaml.safe_load(file.read_text()) == document


@pytest.mark.parametrize("output", ["table", "json", "csv", "plot"])
def test_the_command_compares_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    stored_output(tmp_path / "one", [9.0, 5.0])
    stored_output(tmp_path / "two", [8.0, 4.0])
    monkeypatch.setattr(comparison, "load_run", lambda folder: a_view(folder.name))
    monkeypatch.setattr("tui.cli.runs.find_run", lambda name: tmp_path / name)
    assert run_command(parse_arguments(["--readonly", "runs", "compare", "one", "two", "-o", output])) == 0
    printed = capsys.readouterr().out
    assert "one" in printed
    assert "two" in printed
    assert "train_loss" in printed or output == "csv"


def test_the_command_takes_a_run_that_is_not_here_from_its_home_if_it_is_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_output(tmp_path / "one", [9.0, 5.0])
    stored_output(tmp_path / "two", [8.0, 4.0])

    def here(name: str) -> Path:
        if name == "two":
            raise RunMissingError("There is no run 'two'.")
        return tmp_path / name

    monkeypatch.setattr(comparison, "load_run", lambda folder: a_view(folder.name))
    monkeypatch.setattr("tui.cli.runs.find_run", here)
    monkeypatch.setattr("tui.cli.run_verbs.remote_runs.copied", lambda options, run: tmp_path / run)
    words = ["runs", "compare", "one", "two", "-o", "csv"]
    assert run_command(parse_arguments([*words, "--store", "s3://team-runs/ml"])) == 0
    assert capsys.readouterr().out == "step,one,two\n0,9.0,8.0\n1,5.0,4.0\n"
    with pytest.raises(RunMissingError):
        run_command(parse_arguments(words))


def test_the_curves_of_a_run_are_printed_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_output(tmp_path / "one", [9.0, 5.0])
    monkeypatch.setattr(comparison, "load_run", lambda folder: a_view(folder.name))
    monkeypatch.setattr("tui.cli.runs.find_run", lambda name: tmp_path / name)
    assert run_command(parse_arguments(["--readonly", "runs", "curves", "one", "-o", "csv"])) == 0
    assert capsys.readouterr().out == "step,train_loss\n0,9.0\n1,5.0\n"
    file = tmp_path / "curve.svg"
    assert run_command(parse_arguments(["--readonly", "runs", "curves", "one", str(file), "-o", "svg"])) == 0
    picture = file.read_text().replace("&#160;", " ")
    assert "train_loss: last 5, min 5, max 9" in picture
    assert "#5fafff" in picture, "in colours, though stdout is no terminal"
    assert run_command(parse_arguments(["--readonly", "runs", "curves", "one"])) == 0
    assert "train_loss: last 5, min 5, max 9" in capsys.readouterr().out
    with pytest.raises(MissingError, match="has no 'lr'"):
        run_command(parse_arguments(["--readonly", "runs", "curves", "one", "--metric", "lr"]))
