"""The output of a stage: whole after any crash."""

from __future__ import annotations

import math
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.cluster.logs.lines import LogCursor, LogLine
from actions.run.output.reader import OutputReader
from actions.run.output.streams import AcceleratorSample, PointLine, points_line_in
from actions.run.output.writer import OutputWriter
from actions.telemetry.points import Point, TrainingProgress
from actions.telemetry.tools.device_history import Quantity
from tests.support.streams import append_raw, tail_of

STAGE = "train"


def step(number: int) -> LogLine:
    return LogLine(
        1_700_000_000_000_000_000 + number,
        f"Epoch 0:   3%|▎  | {number}/300 [00:10<01:00,  1.73it/s, reduced_train_loss={3 - number / 100:.3f}]",
    )


def write(folder: Path, *lines: LogLine, pod: str = "worker-0") -> None:
    writer = OutputWriter(folder, STAGE)
    writer.write_lines(writer.source("default", pod, "pytorch", f"uid-{pod}"), lines)
    writer.close()


def texts(folder: Path) -> list[str]:
    return [line.text for line in OutputReader(folder, STAGE).lines()[0]]


def losses(folder: Path) -> list[tuple[int | None, float]]:
    found = [item.value for item in OutputReader(folder, STAGE).values()[0]]
    return [(item.step, item.value) for item in found if isinstance(item, Point) and item.metric == "train_loss"]


def test_lines_come_back_with_their_pod_and_colours(tmp_path: Path) -> None:
    write(tmp_path, LogLine(5, "a\tb\r\x1b[31mred\x1b[0m"), LogLine(6, "-- restarted --", is_marker=True))
    first, second = OutputReader(tmp_path, STAGE).lines()[0]
    assert (first.at_ns, first.pod, first.container, first.text) == (
        5,
        "worker-0",
        "pytorch",
        "a\tb\r\x1b[31mred\x1b[0m",
    )
    assert second.is_marker


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    write(tmp_path, step(1))
    reader = OutputReader(tmp_path, STAGE)
    _, offset = reader.lines()
    assert reader.lines(offset) == ([], offset)
    write(tmp_path, step(2), pod="worker-1")
    lines, _ = reader.lines(offset)
    assert [line.pod for line in lines] == ["worker-1"]


def test_a_stage_that_has_not_begun_has_no_lines(tmp_path: Path) -> None:
    reader = OutputReader(tmp_path, STAGE)
    assert (reader.lines(), reader.values(), reader.accelerators()) == (([], 0), ([], 0), {})


def test_a_writer_knows_where_to_take_up_each_log(tmp_path: Path) -> None:
    write(tmp_path, LogLine(5, "a"), LogLine(5, "b"), LogLine(5, "marker", is_marker=True))
    writer = OutputWriter(tmp_path, STAGE)
    assert writer.source("default", "worker-0", "pytorch", "uid-worker-0").cursor == LogCursor(5, 2)
    assert writer.source("default", "worker-0", "pytorch", "another-uid").cursor == LogCursor(0, 0)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_torn_line_is_cut_off_and_taken_again(tmp_path: Path, cut: int) -> None:
    write(tmp_path, step(1), step(2))
    path = tail_of(tmp_path, STAGE, "lines")
    os.truncate(path, path.stat().st_size - cut)
    assert texts(tmp_path) == [step(1).text]
    writer = OutputWriter(tmp_path, STAGE)
    source = writer.source("default", "worker-0", "pytorch", "uid-worker-0")
    assert source.cursor == LogCursor(step(1).at_ns, 1)
    writer.write_lines(source, [step(2), step(3)])
    assert texts(tmp_path) == [step(1).text, step(2).text, step(3).text]


@pytest.mark.parametrize("kept", range(0, 1200, 37))
def test_findings_lost_in_a_crash_are_read_again_and_none_is_doubled(tmp_path: Path, kept: int) -> None:
    lines = [step(number) for number in range(1, 12)]
    write(tmp_path, *lines)
    whole = losses(tmp_path)
    assert len(whole) == len(lines)
    path = tail_of(tmp_path, STAGE, "points")
    os.truncate(path, min(kept, path.stat().st_size))
    write(tmp_path, step(12))
    assert losses(tmp_path) == [*whole, (12, 2.88)]


def test_a_loss_that_is_not_a_number_stays_so(tmp_path: Path) -> None:
    write(tmp_path, *(LogLine(at, f"step: {at} loss: {value}") for at, value in ((1, "nan"), (2, "inf"))))
    (_, first), (_, second) = losses(tmp_path)
    assert math.isnan(first)
    assert second == math.inf


def test_counted_progress_is_not_mistaken_for_what_the_log_said(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE)
    source = writer.source("default", "worker-0", "pytorch", "uid")
    writer.write_progress(source, TrainingProgress("files", 3, 15))
    writer.close()
    again = OutputWriter(tmp_path, STAGE)
    again.write_lines(again.source("default", "worker-0", "pytorch", "uid"), [step(1)])
    assert losses(tmp_path) == [(1, 2.99)]


def test_a_container_that_ended_is_not_followed_again(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE)
    writer.write_end(writer.source("default", "worker-0", "pytorch", "uid"), 0, "Completed")
    writer.close()
    assert OutputWriter(tmp_path, STAGE).source("default", "worker-0", "pytorch", "uid").is_ended
    assert OutputReader(tmp_path, STAGE).exit_codes() == {"worker-0/pytorch": 0}


def test_the_newest_sample_of_each_pod_is_kept(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE)
    writer.write_sample("worker-0", AcceleratorSample(1.0, "old"))
    writer.write_sample("worker-1", AcceleratorSample(1.5, "other"))
    writer.write_sample("worker-0", AcceleratorSample(2.0, "new"))
    assert {pod: sample.text for pod, sample in OutputReader(tmp_path, STAGE).accelerators().items()} == {
        "worker-0": "new",
        "worker-1": "other",
    }


def row(load: int, watts: float) -> str:
    return f"0, NVIDIA A10G, {load}, 3032, 23028, 33, {watts}, 300.00, P0"


def spans(folder: Path) -> list[tuple[float, float, tuple[float, ...]]]:
    records, _ = OutputReader(folder, STAGE).device_spans()
    return [(one.since, one.until, tuple(one.devices[0].extents[Quantity.LOAD] or ())) for one in records]


def test_samples_are_kept_over_time_in_spans_that_grow_with_it(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE)
    for place in range(2 * 7200 // 5):  # four hours
        writer.write_sample("worker-0", AcceleratorSample(1000 + place * 5, row(place % 4 * 30, 112.1), "node-1"))
    writer.close()
    found = spans(tmp_path)
    assert found[:2] == [(1000, 1000, (0, 0, 0)), (1005, 1005, (30, 30, 30))]
    assert sum(record.samples for record in OutputReader(tmp_path, STAGE).device_spans()[0]) == 2880
    assert found[-2][1] - found[-2][0] >= 65
    assert len(found) < 800

    again = OutputWriter(tmp_path, STAGE)  # another runner goes on with spans as long
    for at in (20_000, 20_015, 20_095):
        again.write_sample("worker-0", AcceleratorSample(at, row(50, 112.1)))
    again.close()
    assert spans(tmp_path)[len(found) :] == [(20_000, 20_095, (50, 50, 50))]


def test_the_open_span_is_written_at_the_end_and_answers_without_devices_are_left_out(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE)
    writer.write_sample("worker-0", AcceleratorSample(1.0, "bash: nvidia-smi: command not found"))
    assert OutputReader(tmp_path, STAGE).device_bytes() == 0
    writer.write_sample("worker-0", AcceleratorSample(6.0, row(97, 112.1), "node-1"))
    writer.close()
    (record,), _ = OutputReader(tmp_path, STAGE).device_spans()
    assert (record.pod, record.node, record.noun, record.devices[0].model) == (
        "worker-0",
        "node-1",
        "GPU",
        "NVIDIA A10G",
    )


def test_a_damaged_span_is_left_out(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE)
    writer.write_sample("worker-0", AcceleratorSample(6.0, row(97, 112.1)))
    writer.close()
    append_raw(tmp_path, STAGE, "devices", b'{"pod": "worker-0", "since": \n{"torn')
    assert [one[0] for one in spans(tmp_path)] == [6.0]


def test_a_reader_can_begin_near_the_end(tmp_path: Path) -> None:
    write(tmp_path, *(step(number) for number in range(100)))
    reader = OutputReader(tmp_path, STAGE)
    lines, _ = reader.lines(reader.tail_offset(500))
    assert 0 < len(lines) < 6
    assert lines[-1].text == step(99).text


class StoppedClock(SystemClock):
    def now(self) -> datetime:
        return datetime.fromtimestamp(1_700_000_000.5, UTC)


def test_the_mark_of_a_gap_without_a_line_has_the_time_of_the_runner_s_clock(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, STAGE, clock=StoppedClock())
    writer.open()
    writer.open_gap(None, "unseen", "its pods were gone before they were seen")
    writer.close()
    (marker,) = OutputReader(tmp_path, STAGE).lines()[0]
    assert marker.at_ns == 1_700_000_000_500_000_000


def test_all_of_it_is_private(tmp_path: Path) -> None:
    write(tmp_path, step(1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.parametrize(
    ("value", "kept"), [("1e308", "inf"), ("-1e308", "-inf"), ("5e-324", 0.0), ('"1e308"', "inf"), ("2.5", 2.5)]
)
def test_a_stored_point_is_within_bounds_when_it_is_read(value: str, kept: float | str) -> None:
    raw = b'{"type":"point","number":1,"metric":"train_loss","step":2,"value":%s,"at":1e300}' % value.encode()
    line = points_line_in(raw)
    assert isinstance(line, PointLine)
    assert (line.value, line.at) == (kept, None)


@pytest.mark.parametrize("step", ["9" * 18, "9" * 30, "-" + "9" * 19])
def test_a_stored_step_that_no_counter_reaches_is_damage(step: str) -> None:
    raw = b'{"type":"point","number":1,"metric":"x","step":%s,"value":1.0}' % step.encode()
    line = points_line_in(raw)
    assert line is None or (isinstance(line, PointLine) and abs(line.step or 0) < 10**18)
