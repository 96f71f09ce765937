"""Runs side by side: their curves by metric, aligned by step, and the parameters in which they differ."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from actions.base.errors import MissingError, RefusedError
from actions.base.untrusted import csv_cell
from actions.run.journal.reader import load_run
from actions.run.output.curve_reader import CAPACITY, StageCurves
from actions.run.state.records import Scalar
from actions.run.state.view import RunView
from actions.telemetry.curves import Sample, Series

USUAL_METRIC = "train_loss"
WHOLE = 200_000
"""Samples of a metric that are kept for an export; a longer curve is thinned."""


class RunCurves:
    """The curves of all stages of one run, read on while its output grows.

    Of several stages that print the same metric, the curve is that of the last one.

    Args:
        folder: The run's.
        view: The run.
        capacity: Samples kept of each metric.
    """

    def __init__(self, folder: Path, view: RunView, *, capacity: int = CAPACITY) -> None:
        self.id = view.id
        self.settings = settings_of(view)
        self._stages = {stage.id: StageCurves(folder, stage.id, capacity=capacity) for stage in view.stages}

    @property
    def revision(self) -> int:
        """Rises with every piece that has values."""
        return sum(stage.revision for stage in self._stages.values())

    def read_on(self) -> bool:
        """Read a piece of what has been written since.

        Returns:
            Whether more may be waiting.

        Raises:
            JournalError: The output cannot be read.
        """
        return any(stage.read_on() for stage in self._stages.values())

    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics of all stages, in the order of the stages."""
        return tuple(dict.fromkeys(metric for one in self._stages.values() for metric in one.curves.metrics()))

    def stage_of(self, metric: str) -> str:
        """The stage whose curve of a metric counts; empty without one."""
        return next((stage for stage, one in reversed(self._stages.items()) if one.curves.series(metric)), "")

    def series(self, metric: str) -> Series | None:
        """The curve of a metric; `None` if no stage has printed it."""
        stage = self.stage_of(metric)
        return self._stages[stage].curves.series(metric) if stage else None


def read_run(folder: Path, *, capacity: int = WHOLE) -> RunCurves:
    """Return the curves of a run, read to their end.

    Raises:
        JournalError: Its journal or output cannot be read.
    """
    run = RunCurves(folder, load_run(folder), capacity=capacity)
    while run.read_on():
        pass
    return run


def settings_of(view: RunView) -> dict[str, Scalar]:
    """Return what a run was launched with: blueprint, preset, cluster, and its parameters by name."""
    return {
        "blueprint": view.blueprint_id,
        "preset": view.preset,
        "cluster": view.cluster.name,
        **view.parameters,
    }


class Difference(msgspec.Struct, frozen=True):
    """A setting that runs do not share."""

    name: str
    values: tuple[Scalar | None, ...]
    """One for each run; `None` if it has no such setting."""


def differences_of(settings: Sequence[Mapping[str, Scalar]]) -> tuple[Difference, ...]:
    """Return the settings in which runs differ, in the order in which they first come."""
    names = dict.fromkeys(name for each in settings for name in each)
    found = (Difference(name, tuple(each.get(name) for each in settings)) for name in names)
    return tuple(one for one in found if any(_differ(one.values[0], value) for value in one.values[1:]))


def _differ(one: Scalar | None, other: Scalar | None) -> bool:
    if one in (None, "") and other in (None, ""):
        return False  # one blueprint leaves empty what the other does not have
    return isinstance(one, bool) != isinstance(other, bool) or one != other  # True == 1, and is not the same setting


def shared_metrics(metrics: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the metrics that all runs have, the training loss first, else in the order of the first run."""
    first, *others = metrics
    shared = [name for name in first if all(name in each for each in others)]
    return tuple(sorted(shared, key=lambda name: name != USUAL_METRIC))


def metric_to_compare(runs: Sequence[RunCurves], wanted: str = "") -> str:
    """Return the metric to compare runs by: the wanted one, else the first that they share.

    Raises:
        MissingError: A run has no such metric; the message names the run.
        RefusedError: They share none.
    """
    shared = shared_metrics([run.metrics() for run in runs])
    if wanted in shared:
        return wanted
    if wanted:
        without = next(run for run in runs if wanted not in run.metrics())
        hint = f"All of them have {', '.join(shared)}." if shared else ""
        raise MissingError(f"Run {without.id} has no {wanted!r}.", hint=hint)
    if not shared:
        known = "; ".join(f"{run.id} has {', '.join(run.metrics()) or 'none'}" for run in runs)
        raise RefusedError(f"The runs share no metric: {known}.", hint="Compare runs that print the same one.")
    return shared[0]


class CurveFigures(msgspec.Struct, frozen=True):
    """The figures of one curve."""

    points: int
    last: Sample | None
    least: Sample | None
    """The least finite value, where it came last."""


def figures_of_series(series: Series | None) -> CurveFigures:
    """Return the figures of a curve."""
    samples = series.samples() if series is not None else ()
    finite = [sample for sample in samples if math.isfinite(sample.y)]
    least = min(reversed(finite), key=lambda sample: sample.y) if finite else None
    return CurveFigures(len(samples), samples[-1] if samples else None, least)


def values_by_step(series: Sequence[Series | None]) -> list[tuple[float, tuple[float | None, ...]]]:
    """Return the values of curves by step, in rising steps; `None` where a curve has no point at a step."""
    by_step = [{sample.x: sample.y for sample in each or ()} for each in series]
    steps = sorted({step for each in by_step for step in each})
    return [(step, tuple(each.get(step) for each in by_step)) for step in steps]


def comparison_table(runs: Sequence[RunCurves], metric: str) -> str:
    """Return a line for each run with the figures of its curve, and one for each setting that differs."""
    rows = [("RUN", "STAGE", "POINTS", "STEP", "LAST", "MIN", "AT STEP")]
    for run in runs:
        figures = figures_of_series(run.series(metric))
        last, least = figures.last, figures.least
        rows.append(
            (
                run.id,
                run.stage_of(metric),
                str(figures.points),
                f"{last.x:.10g}" if last else "",
                f"{last.y:.6g}" if last else "",
                f"{least.y:.6g}" if least else "",
                f"{least.x:.10g}" if least else "",
            )
        )
    differing = differences_of([run.settings for run in runs])
    if not differing:
        return f"{metric}\n{_columns(rows)}\nTheir parameters are the same.\n"
    below = [("DIFFERS", *(run.id for run in runs)), *((one.name, *map(setting_text, one.values)) for one in differing)]
    return f"{metric}\n{_columns(rows)}\n{_columns(below)}"


def comparison_json(runs: Sequence[RunCurves], metric: str, *, has_samples: bool = True) -> str:
    """Return one object; values that are not finite are texts, as `eksml-tui read` prints them.

    Args:
        runs: The runs.
        metric: The metric by which they are compared.
        has_samples: Whether the curves are in it, or their figures alone.
    """
    differing = differences_of([run.settings for run in runs])
    document = {
        "schema": "eksml-compare/1",
        "metric": metric,
        "shared": list(shared_metrics([run.metrics() for run in runs])),
        "runs": [
            {name: value for name, value in _run_fields(run, metric).items() if has_samples or name != "samples"}
            for run in runs
        ],
        "differences": {
            one.name: {run.id: value for run, value in zip(runs, one.values, strict=True)} for one in differing
        },
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def curves_json(run: RunCurves, metrics: Sequence[str]) -> str:
    """Return one object with the curves of a run; values that are not finite are texts."""
    document = {
        "schema": "eksml-curves/1",
        "id": run.id,
        "curves": [{"metric": metric, **_curve_fields(run, metric)} for metric in metrics],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def comparison_csv(runs: Sequence[RunCurves], metric: str) -> str:
    """Return a row for each step, with a column for each run, empty where it has no point."""
    return series_csv({run.id: run.series(metric) for run in runs})


def series_csv(series: Mapping[str, Series | None], x_name: str = "step") -> str:
    """Return a row for each x, with a column for each curve by its name, empty where it has no point."""
    return _csv([x_name, *series], values_by_step(list(series.values())))


def setting_text(value: Scalar | None) -> str:
    """Return a setting as it is typed; `-` if there is none."""
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None or value == "" else str(value)


def _run_fields(run: RunCurves, metric: str) -> dict[str, object]:
    return {"id": run.id, "blueprint": run.settings["blueprint"], **_curve_fields(run, metric)}


def _curve_fields(run: RunCurves, metric: str) -> dict[str, object]:
    series = run.series(metric)
    figures = figures_of_series(series)
    last, least = figures.last, figures.least
    return {
        "stage": run.stage_of(metric),
        "points": figures.points,
        "step": last.x if last else None,
        "last": _number(last.y) if last else None,
        "min": least.y if least else None,
        "min_step": least.x if least else None,
        "samples": [[sample.x, _number(sample.y), sample.at] for sample in series or ()],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _csv(head: Sequence[str], rows: Sequence[tuple[float, tuple[float | None, ...]]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(csv_cell, head))
    for step, values in rows:
        writer.writerow([f"{step:.17g}", *("" if value is None else repr(value) for value in values)])
    return text.getvalue()


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    padded = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in padded)
