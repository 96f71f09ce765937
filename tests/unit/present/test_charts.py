"""The charts that there are, and the notes on them."""

from __future__ import annotations

import math

from actions.run.state.records import CheckResult, StageFinding
from actions.telemetry.curves import Curves
from actions.telemetry.points import Point, TrainingProgress
from tui.present.cells import text_of
from tui.present.charts.metrics import charts_of, curves_in, notes_on, progress_lines

MIB = 1 << 20


def curves(*points: Point) -> Curves:
    found = Curves()
    for point in points:
        found.add(point)
    return found


def notes(source: Curves, name: str, *findings: StageFinding) -> list[str]:
    chart = next(chart for chart in charts_of(source.metrics()) if chart.name == name)
    return [text_of(line) for line in notes_on(chart, source, findings)]


def test_losses_share_a_chart_and_the_rest_stands_alone() -> None:
    charts = charts_of(["lr", "train_loss", "consumed_samples", "val_loss", "mfu_percent", "grad_norm"])
    assert [(chart.name, chart.metrics) for chart in charts] == [
        ("loss", ("train_loss", "val_loss")),
        ("grad_norm", ("grad_norm",)),
        ("lr", ("lr",)),
        ("consumed_samples", ("consumed_samples",)),
        ("mfu_percent", ("mfu_percent",)),
    ]


def test_charts_come_in_the_order_of_the_blueprint_and_others_after_them() -> None:
    metrics = ["lr", "train_loss", "grad_norm", "val_loss", "throughput"]

    assert [chart.name for chart in charts_of(metrics, ("lr", "val_loss", "mfu_percent"))] == [
        "lr",
        "loss",
        "throughput",
        "grad_norm",
    ]


def test_a_loss_that_is_no_number_any_more_is_told_on_its_chart() -> None:
    source = curves(*(Point("train_loss", step, 9.0 if step < 2 else math.nan) for step in range(6)))
    assert notes(source, "loss") == ["▲ train_loss is nan since step 2; the last number was 9 at 1."]


def test_bandwidth_stands_over_the_size_with_peak_and_mean() -> None:
    source = curves(*(Point("busbw_gbs", size * MIB, float(size)) for size in (1, 2, 6)))
    (chart,) = charts_of(source.metrics())
    assert chart.is_by_size
    assert curves_in(chart, source)[0].xs == [MIB, 2 * MIB, 6 * MIB]
    assert notes(source, "busbw_gbs") == ["peak 6 GB/s at 6 MiB out of place · mean 3 GB/s of all sizes"]


def test_the_verdict_on_bandwidth_is_told() -> None:
    source = curves(Point("busbw_gbs", MIB, 3.0))
    slow = StageFinding(CheckResult.FAILED, "bandwidth", "3 GB/s at 1 MiB, 40 % of 2 × p5.48xlarge")
    fine = StageFinding(CheckResult.PASSED, "bandwidth", "12 GB/s at 1 MiB")
    assert notes(source, "busbw_gbs", slow)[1] == "✗ bandwidth: 3 GB/s at 1 MiB, 40 % of 2 × p5.48xlarge"
    assert notes(source, "busbw_gbs", fine)[1] == "✓ bandwidth: 12 GB/s at 1 MiB"


def test_the_rank_that_takes_longest_is_named() -> None:
    source = curves(*(Point("step_time_s", 7, seconds, rank) for rank, seconds in enumerate((2.0, 2.1, 2.6))))
    assert notes(source, "step_time_s") == ["▲ slowest: rank 2, 2.6 s a step, 24% over the median"]


def test_progress_without_a_total_has_no_bar_and_none_is_left_of_what_is_over() -> None:
    """An empty bar was read as 0 %, and a job that had ended was said to have time left."""
    counting = {("tokenise", "documents"): TrainingProgress("documents", 722_857, None, per_second=258.9)}
    assert [text_of(line) for line in progress_lines(counting, limit=1)] == ["tokenise 722,857 · 259/s documents"]

    ended = {("train", "Epoch 0"): TrainingProgress("Epoch 0", 60, 61, remaining_seconds=0.9, per_second=1.14)}
    shown = [text_of(progress_lines(ended, limit=1, is_over=is_over)[0]) for is_over in (False, True)]
    assert shown == [
        "train ███████▉  98% 60/61 · 0.9s to go · 1.14/s Epoch 0",
        "train ███████▉  98% 60/61 · 1.14/s Epoch 0",
    ]


def test_the_bar_gives_way_to_what_is_counted_and_left() -> None:
    state = {("worker-0", "Epoch 0"): TrainingProgress("Epoch 0", 30, 61, remaining_seconds=27.0, per_second=1.1)}
    (line,) = progress_lines(state, limit=1, width=38)
    assert text_of(line) == "worker-0 ███···  49% 30/61 · 27s to go"  # and no piece of the rate
    (wide,) = progress_lines(state, limit=1, width=60)
    assert text_of(wide).endswith(" · 27s to go · 1.1/s Epoch 0")
    (narrow,) = progress_lines(state, limit=1, width=20)
    assert text_of(narrow).startswith("worker-0   49% 30/61")


def test_even_ranks_have_no_straggler_and_one_rank_is_not_compared() -> None:
    even = curves(*(Point("step_time_s", 7, 2.0, rank) for rank in range(3)))
    assert notes(even, "step_time_s") == ["slowest: rank 0, 2 s a step, no lag"]
    assert notes(curves(Point("step_time_s", 7, 2.0)), "step_time_s") == []
