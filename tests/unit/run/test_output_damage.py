"""Any damage to a stage's output: what is whole is shown, the rest is counted, and going on doubles nothing."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actions.cluster.logs.lines import LogCursor, LogLine
from actions.run.output import segments
from actions.run.output.reader import OutputReader
from actions.run.output.writer import OutputSource, OutputWriter
from actions.telemetry.points import Point
from tests.support.streams import append_raw, segments_of, tail_of
from tests.unit.run.test_output import losses
from tests.unit.run.test_segments import Cut, cut_after

STAGE = "train"
PODS = ("worker-0", "worker-1")
BASE_NS = 1_700_000_000_000_000_000
LINES = 24


def line(pod: int, step: int) -> LogLine:
    at_ns = BASE_NS + step * 1_000_000_000 + pod  # two pods never print at the same nanosecond
    return LogLine(at_ns, f"Epoch 0: 3%|▎ | {step}/300 [00:10<01:00, 1.73it/s, reduced_train_loss={pod}.{step:03d}]")


def log(pod: int, until: int = LINES) -> list[LogLine]:
    """Return the lines that a pod has printed."""
    return [line(pod, step) for step in range(until)]


def follow(writer: OutputWriter, pod: int, until: int) -> OutputSource:
    """Read a pod's log on from where the output ends, as a follower does."""
    source = writer.source("default", PODS[pod], "pytorch", f"uid-{pod}", rank=pod)
    for piece in _pieces(_behind(source.cursor, log(pod, until)), 5):
        writer.write_lines(source, piece)
    return source


def _behind(cursor: LogCursor, lines: Sequence[LogLine]) -> list[LogLine]:
    skipped = sum(one.at_ns < cursor.at_ns for one in lines) + cursor.seen
    return list(lines[skipped:] if cursor.at_ns else lines)


def _pieces(lines: Sequence[LogLine], size: int) -> list[Sequence[LogLine]]:
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def a_run_s_output(folder: Path, *, is_ended: bool) -> None:
    writer = OutputWriter(folder, STAGE)
    for until in range(4, LINES + 1, 4):
        for pod in range(len(PODS)):
            source = follow(writer, pod, until)
    if is_ended:
        for source in writer.sources():
            writer.write_end(source, 0, "Completed")
    writer.close()


def kept(folder: Path) -> dict[str, list[str]]:
    """Texts by pod, without markers, in the order of the file."""
    found: dict[str, list[str]] = {}
    reader, offset = OutputReader(folder, STAGE), 0
    while True:
        lines, end = reader.lines(offset)
        for one in lines:
            if not one.is_marker:
                found.setdefault(one.pod, []).append(one.text)
        if end == offset:
            return found
        offset = end


def is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    rest = iter(whole)
    return all(text in rest for text in part)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of some lines."""
    monkeypatch.setattr(segments, "SEAL_BYTES", 1500)


FILES = ("sources", "lines", "points")
Damage = tuple[str, str, float, bytes]
"""The stream, the kind of damage, the place in its open end (from 0 to 1), and the bytes."""
GARBAGE = st.one_of(
    st.binary(min_size=1, max_size=80).map(lambda data: data + b"\xff"),
    st.just(bytes(64)),
    st.just(b"garbage\n"),
    st.just(b'{"type":"end","number":99,"exit_code":0,"reason":""}\n'),
    st.just(b"L000099\t2023-11-14T22:13:21.000000000Z of nobody\n"),
)
DAMAGE = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from(["cut", "over", "into", "gone"]), st.floats(0, 1), GARBAGE),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@example(damage=[("sources", "over", 0.0, b"\0" * 64), ("lines", "cut", 0.0, b""), ("lines", "over", 0.0, b"x\n")])
@given(damage=DAMAGE)
def test_whatever_is_damaged_nothing_fails_and_no_line_is_doubled(damage: list[Damage]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        a_run_s_output(folder, is_ended=False)
        for stream, kind, where, garbage in damage:
            spoil(tail_of(folder, STAGE, stream), kind, where, garbage)
        kept(folder)  # reading goes around it
        OutputReader(folder, STAGE).values()
        OutputReader(folder, STAGE).exit_codes()
        for pod in range(len(PODS)):
            writer = OutputWriter(folder, STAGE)
            follow(writer, pod, LINES + 6)
            writer.close()
        found = [text for texts in kept(folder).values() for text in texts]
        for pod in range(len(PODS)):
            for one in log(pod, LINES + 6):
                assert found.count(one.text) <= 1 or is_unnamed(damage), one.text
            assert log(pod, LINES + 6)[-1].text in found or is_touched(damage)
        values = [value for _, value in losses(folder)]
        assert len(values) == len(set(values)) or is_touched(damage)
    finally:
        shutil.rmtree(folder)


def is_touched(damage: list[Damage]) -> bool:
    """Return whether text may have been changed invisibly: bytes put into a line, or taken out of it."""
    return any(stream != "sources" and kind in ("into", "over") for stream, kind, _, _ in damage)


def is_unnamed(damage: list[Damage]) -> bool:
    """Return whether nothing may say any more whose lines these are."""
    return {stream for stream, _, _, _ in damage} == set(FILES)


def spoil(path: Path, kind: str, where: float, garbage: bytes) -> None:
    if not path.exists():
        return
    data = path.read_bytes()
    at = int(where * len(data))
    match kind:
        case "cut":
            path.write_bytes(data[:at])
        case "over":
            path.write_bytes(data[:at] + garbage + data[at + len(garbage) :])
        case "into":
            path.write_bytes(data[:at] + garbage + data[at:])
        case "gone":
            path.unlink()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("hurt", [flip, Path.unlink])
def test_a_damaged_segment_is_marked_counted_and_said_and_never_read_again(
    tmp_path: Path, hurt: Callable[[Path], None]
) -> None:
    a_run_s_output(tmp_path, is_ended=False)
    files = segments_of(tmp_path, STAGE, "lines")
    assert len(files) > 3
    before = kept(tmp_path)
    hurt(files[1])
    reader = OutputReader(tmp_path, STAGE)
    lines = reader.lines(limit_bytes=-1)[0]
    (marker,) = [one.text for one in lines if one.is_marker]
    assert "lines are missing here" in marker
    assert reader.lost_lines == 1
    left = kept(tmp_path)
    assert all(is_subsequence(left[pod], before[pod]) and left[pod] != before[pod] for pod in PODS)

    for until in (LINES, LINES + 4):
        writer = OutputWriter(tmp_path, STAGE)
        for pod in range(len(PODS)):
            follow(writer, pod, until)
        (told,) = writer.losses()
        assert "bytes of it are damaged" in told
        writer.close()
    more = {PODS[pod]: [one.text for one in log(pod, LINES + 4)[LINES:]] for pod in range(len(PODS))}
    assert kept(tmp_path) == {pod: left[pod] + more[pod] for pod in PODS}
    assert sorted(losses(tmp_path)) == sorted({*losses(tmp_path)})  # no point is doubled, and none was lost with lines


@pytest.mark.usefixtures("small")
def test_points_of_a_damaged_segment_are_counted_and_come_again_from_the_lines(tmp_path: Path) -> None:
    a_run_s_output(tmp_path, is_ended=False)
    before = losses(tmp_path)
    flip(segments_of(tmp_path, STAGE, "points")[1])
    reader = OutputReader(tmp_path, STAGE)
    reader.values(limit_bytes=-1)
    assert reader.lost_values == 1
    assert len(losses(tmp_path)) < len(before)
    for _ in range(2):
        writer = OutputWriter(tmp_path, STAGE)
        follow(writer, 0, LINES + 1)
        writer.close()
        assert sorted(losses(tmp_path)) == sorted([*before, (LINES, 0 + LINES / 1000)])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stream", ["lines", "points"])
def test_each_segment_by_itself_names_its_containers(tmp_path: Path, stream: str) -> None:
    folder, found = tmp_path / "run", tmp_path / "found"
    a_run_s_output(folder, is_ended=False)
    for path in segments_of(folder, STAGE, stream):
        shutil.rmtree(found, ignore_errors=True)
        place = found / path.relative_to(folder)
        place.parent.mkdir(parents=True)
        shutil.copy(path, place)
        reader = OutputReader(found, STAGE)
        if stream == "lines":
            names = {one.pod for one in reader.lines()[0] if not one.is_marker}
        else:
            names = {one.pod for one in reader.values()[0]}
        assert names <= set(PODS)
        assert names


def findings_by_pod(folder: Path) -> dict[str, set[int]]:
    """Return the pods that have printed what stands under each name: the whole part of a loss is the pod's number."""
    found: dict[str, set[int]] = {}
    for item in OutputReader(folder, STAGE).values(limit_bytes=-1)[0]:
        if isinstance(item.value, Point) and item.value.metric == "train_loss":
            found.setdefault(item.pod, set()).add(int(item.value.value))
    return found


class Disk:
    """The writes of a stage's output, so that the disk after a loss of power at any moment can be made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Path, bytes | None]] = []
        """A file with what was appended to it; `None` where it was flushed."""
        pwrite, fdatasync = os.pwrite, os.fdatasync

        def written(descriptor: int, data: bytes, offset: int) -> int:
            self.calls.append((_path_of(descriptor), bytes(data)))
            return pwrite(descriptor, data, offset)

        def flushed(descriptor: int) -> None:
            self.calls.append((_path_of(descriptor), None))
            fdatasync(descriptor)

        patch.setattr(os, "pwrite", written)
        patch.setattr(os, "fdatasync", flushed)

    def after(self, moment: int) -> Iterator[dict[Path, bytes]]:
        """Yield the disks that a loss of power after so many calls may leave: of each file all, what was flushed, or
        nothing, as its name in the folder may be lost with it."""
        whole: dict[Path, bytes] = {}
        safe: dict[Path, bytes] = {}
        for path, data in self.calls[:moment]:
            if data is None:
                safe[path] = whole.get(path, b"")
            else:
                whole[path] = whole.get(path, b"") + data
        states = [{whole[path], safe.get(path, b""), None} for path in whole]
        for chosen in product(*states):
            yield {path: data for path, data in zip(whole, chosen, strict=True) if data is not None}


def _path_of(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def test_no_loss_of_power_gives_a_point_to_another_container(tmp_path: Path) -> None:
    folder, found = tmp_path / "run", tmp_path / "found"
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch)
        writer = OutputWriter(folder, STAGE)
        for until in (2, 4):
            for pod in range(len(PODS)):
                follow(writer, pod, until)
        writer.close()
    tried = 0
    for moment in range(1, len(disk.calls) + 1):
        for files in disk.after(moment):
            shutil.rmtree(found, ignore_errors=True)
            for path, data in files.items():
                place = found / path.relative_to(folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            writer = OutputWriter(found, STAGE)
            new = writer.source("default", "worker-2", "pytorch", "uid-2", rank=2)  # another pod is found first
            writer.write_lines(new, log(2, 2))
            follow(writer, 1, 4)
            writer.close()
            by_pod = findings_by_pod(found)
            assert by_pod.pop("worker-2") == {2}, files
            assert by_pod.pop(PODS[1]) == {1}, files
            assert by_pod in ({}, {PODS[0]: {0}}), files
            tried += 1
    assert tried > 100


def test_a_clock_that_is_days_behind_costs_no_line(tmp_path: Path) -> None:
    a_run_s_output(tmp_path, is_ended=False)
    for path in (tmp_path / "output").rglob("*.tail"):
        os.utime(path, (BASE_NS / 1e9 - 9 * 86_400,) * 2)
    writer = OutputWriter(tmp_path, STAGE)
    for pod in range(len(PODS)):
        follow(writer, pod, LINES + 3)
    assert writer.losses() == ()
    writer.close()
    assert kept(tmp_path) == {PODS[pod]: [one.text for one in log(pod, LINES + 3)] for pod in range(len(PODS))}


def no_sources(folder: Path) -> None:
    tail_of(folder, STAGE, "sources").unlink()


def end_of_an_unknown_source(folder: Path) -> None:
    append_raw(folder, STAGE, "sources", b'{"type":"end","number":7,"exit_code":0,"reason":"Completed"}\n')


def wrong_types(folder: Path) -> None:
    for stream in ("sources", "points"):
        append_raw(folder, STAGE, stream, b'{"type":"source","number":"one"}\n[]\n\xff\xfe\n' + b"9" * 6000 + b"\n")


def no_lines(folder: Path) -> None:
    tail_of(folder, STAGE, "lines").unlink()


def zeroed_points(folder: Path) -> None:
    path = tail_of(folder, STAGE, "points")
    path.write_bytes(bytes(path.stat().st_size) + b"\n")


@pytest.mark.parametrize("damage", [no_sources, end_of_an_unknown_source, wrong_types, no_lines, zeroed_points])
def test_what_a_log_has_again_comes_again_whatever_became_of_the_output(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    whole, hurt = tmp_path / "whole", tmp_path / "hurt"
    a_run_s_output(whole, is_ended=True)
    a_run_s_output(hurt, is_ended=False)
    damage(hurt)
    writer = OutputWriter(hurt, STAGE)
    for pod in range(len(PODS)):
        writer.write_end(follow(writer, pod, LINES), 0, "Completed")
    writer.close()
    assert kept(hurt) == kept(whole)
    assert sorted(losses(hurt)) == sorted(losses(whole))


def test_an_open_end_with_garbage_is_marked_and_what_comes_is_not_lost_with_it(tmp_path: Path) -> None:
    a_run_s_output(tmp_path, is_ended=False)
    append_raw(tmp_path, STAGE, "lines", b"\xff garbage\n")
    writer = OutputWriter(tmp_path, STAGE)
    writer.open()
    (told,) = writer.losses()
    assert re.fullmatch(r"Log incomplete: \d+ bytes of it are damaged\.", told)
    follow(writer, 0, LINES)
    writer.close()
    lines = OutputReader(tmp_path, STAGE).lines()[0]
    assert lines[0].is_marker
    assert "bytes of this log are damaged" in lines[0].text
    assert [line.text for line in lines[1:]] == [line.text for line in log(0, LINES)]
    again = OutputWriter(tmp_path, STAGE)
    again.open()
    assert again.losses() == (told,)
    again.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("cut", range(1, 300, 13))
def test_a_kill_with_any_end_of_the_tails_gives_the_lines_and_points_of_an_undisturbed_run(
    tmp_path: Path, cut: int
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    a_run_s_output(whole, is_ended=True)
    a_run_s_output(killed, is_ended=False)
    for stream in ("lines", "points"):
        path = tail_of(killed, STAGE, stream)
        if path.exists():
            os.truncate(path, max(path.stat().st_size - cut, 0))
    writer = OutputWriter(killed, STAGE)
    for pod in range(len(PODS)):
        writer.write_end(follow(writer, pod, LINES), 0, "Completed")
    assert writer.losses() == ()
    writer.close()
    assert kept(killed) == kept(whole)
    assert sorted(losses(killed)) == sorted(losses(whole))


@pytest.mark.usefixtures("small")
def test_a_kill_after_any_call_of_the_kernel_gives_the_lines_and_points_of_an_undisturbed_run(tmp_path: Path) -> None:
    whole, tried = tmp_path / "whole", 0
    a_run_s_output(whole, is_ended=True)
    lines, points = kept(whole), sorted(losses(whole))
    for moment in range(0, 4000, 2):
        killed = tmp_path / str(moment)
        with pytest.MonkeyPatch.context() as patch:
            made = cut_after(patch, moment)
            with suppress(Cut):
                a_run_s_output(killed, is_ended=True)
        writer = OutputWriter(killed, STAGE)
        for pod in range(len(PODS)):
            source = follow(writer, pod, LINES)
            if not source.is_ended:
                writer.write_end(source, 0, "Completed")
        assert writer.losses() == ()
        writer.close()
        assert kept(killed) == lines, moment
        assert sorted(losses(killed)) == points, moment
        assert OutputReader(killed, STAGE).exit_codes() == {f"{pod}/pytorch": 0 for pod in PODS}
        tried += 1
        if len(made) < moment:
            break
    assert tried > 100
