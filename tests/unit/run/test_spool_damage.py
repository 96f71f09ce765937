"""Any damage to a spool's files: opening mends it, keeps what is whole, and reading the logs again doubles nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actions.cluster.logs.lines import LogCursor, LogLine
from actions.run.spool.files import MOST_SET_ASIDE, set_aside
from actions.run.spool.format import lines_file, points_file, sources_file
from actions.run.spool.reader import SpoolReader
from actions.run.spool.writer import SpooledSource, SpoolWriter
from actions.telemetry.points import Point
from tests.unit.run.test_spool import losses

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


def follow(writer: SpoolWriter, pod: int, until: int) -> SpooledSource:
    """Read a pod's log on from where the spool is, as a follower does."""
    source = writer.source("default", PODS[pod], "pytorch", f"uid-{pod}", rank=pod)
    for piece in _pieces(_behind(source.cursor, log(pod, until)), 5):
        writer.write_lines(source, piece)
    return source


def _behind(cursor: LogCursor, lines: Sequence[LogLine]) -> list[LogLine]:
    skipped = sum(one.at_ns < cursor.at_ns for one in lines) + cursor.seen
    return list(lines[skipped:] if cursor.at_ns else lines)


def _pieces(lines: Sequence[LogLine], size: int) -> list[Sequence[LogLine]]:
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def a_spool(folder: Path, *, is_ended: bool) -> None:
    writer = SpoolWriter(folder, STAGE)
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
    reader, offset = SpoolReader(folder, STAGE), 0
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


Damage = tuple[Callable[[Path, str], Path], str, float, bytes]
"""The file, the kind of damage, the place in the file (from 0 to 1), and the bytes."""
FILES = (sources_file, lines_file, points_file)
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
@example(
    damage=[(sources_file, "over", 0.0, b"\0" * 64), (lines_file, "cut", 0.0, b""), (lines_file, "over", 0.0, b"x\n")],
    is_ended=False,
)
@given(damage=DAMAGE, is_ended=st.booleans())
def test_whatever_is_damaged_nothing_fails_and_no_line_is_doubled(damage: list[Damage], is_ended: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        a_spool(folder, is_ended=is_ended)
        for path_of, kind, where, garbage in damage:
            spoil(path_of(folder, STAGE), kind, where, garbage)
        kept(folder)  # reading goes around it
        SpoolReader(folder, STAGE).findings()
        SpoolReader(folder, STAGE).exit_codes()

        writer = SpoolWriter(folder, STAGE)
        writer.open()
        originals = [[one.text for one in log(pod)] for pod in range(len(PODS))]
        for texts in kept(folder).values():
            true = [text for text in texts if any(text in whole for whole in originals)]
            assert any(is_subsequence(true, whole) for whole in originals)

        for pod in range(len(PODS)):
            follow(writer, pod, LINES + 6)
        writer.close()
        found = [text for texts in kept(folder).values() for text in texts]
        for pod in range(len(PODS)):
            for one in log(pod, LINES + 6):
                assert found.count(one.text) <= 1, one.text
                assert found.count(one.text) == 1 or is_touched(damage), one.text

        again = SpoolWriter(folder, STAGE)
        again.open()
        assert again.repairs == ()
        again.close()
    finally:
        shutil.rmtree(folder)


def is_touched(damage: list[Damage]) -> bool:
    """Return whether text may have been changed invisibly: bytes put into a line, or taken out of it."""
    return any(path_of is lines_file and kind in ("into", "over") for path_of, kind, _, _ in damage)


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


def zero_block(path: Path) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes(300) + data[middle + 300 :])


def garbage_line(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\x00\xff garbage\n")


def lines_of_another_shape(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"{}\n[1]\n" + b"9" * 6000 + b"\n")


@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize("path_of", FILES)
@pytest.mark.parametrize("spoiled", [zero_block, garbage_line, lines_of_another_shape, Path.unlink])
def test_what_pods_still_have_is_whole_again(
    tmp_path: Path, spoiled: Callable[[Path], None], path_of: Callable[[Path, str], Path], is_ended: bool
) -> None:
    a_spool(tmp_path, is_ended=is_ended)
    before = losses(tmp_path)
    spoiled(path_of(tmp_path, STAGE))

    writer = SpoolWriter(tmp_path, STAGE)
    for pod in range(len(PODS)):
        source = follow(writer, pod, LINES)
        if not source.is_ended:
            writer.write_end(source, 0, "Completed")
    assert writer.losses() == ()
    writer.close()
    found = sorted(text for texts in kept(tmp_path).values() for text in texts)
    assert found == sorted(one.text for pod in range(len(PODS)) for one in log(pod))
    assert sorted(losses(tmp_path), key=str) == sorted(before, key=str)
    again = SpoolWriter(tmp_path, STAGE)
    again.open()
    again.close()
    assert (again.repairs, again.losses()) == ((), ())
    assert sorted(losses(tmp_path), key=str) == sorted(before, key=str)


def without_names(folder: Path) -> None:
    """As an earlier version left it: nothing in the lines and points says whose they are."""
    sources_file(folder, STAGE).unlink()
    path = lines_file(folder, STAGE)
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(keepends=True) if line[:1] != b"S"))
    without_names_in_points(folder)


def without_names_in_points(folder: Path) -> None:
    """As 0.1.0 wrote them."""
    path = points_file(folder, STAGE)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"type":"source"' not in line))


def findings_by_pod(folder: Path) -> dict[str, set[int]]:
    """Return the pods that have printed what stands under each name: the whole part of a loss is the pod's number."""
    found: dict[str, set[int]] = {}
    for item in SpoolReader(folder, STAGE).findings(limit_bytes=-1)[0]:
        if isinstance(item.finding, Point) and item.finding.metric == "train_loss":
            found.setdefault(item.pod, set()).add(int(item.finding.value))
    return found


class Disk:
    """The writes of a spool, call by call, so that the disk after a loss of power at any moment can be made."""

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
        writer = SpoolWriter(folder, STAGE)
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
            writer = SpoolWriter(found, STAGE)
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


@pytest.mark.parametrize("has_list", [True, False])
def test_points_of_a_version_that_named_no_source_there_keep_theirs(tmp_path: Path, has_list: bool) -> None:
    a_spool(tmp_path, is_ended=False)
    without_names_in_points(tmp_path)
    if not has_list:
        sources_file(tmp_path, STAGE).unlink()
        lines_file(tmp_path, STAGE).unlink()
    writer = SpoolWriter(tmp_path, STAGE)
    writer.write_lines(writer.source("default", "worker-2", "pytorch", "uid-2", rank=2), log(2, 2))
    writer.close()
    names = PODS if has_list else ("container 0", "container 1")
    assert findings_by_pod(tmp_path) == {"worker-2": {2}, **{name: {pod} for pod, name in enumerate(names)}}
    if has_list:
        sources_file(tmp_path, STAGE).unlink()  # from now on the points name them
        lines_file(tmp_path, STAGE).unlink()
        again = SpoolWriter(tmp_path, STAGE)
        again.open()
        again.close()
        assert findings_by_pod(tmp_path) == {"worker-2": {2}, **{name: {pod} for pod, name in enumerate(PODS)}}


def test_points_keep_their_names_beside_the_list_of_another_machine(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    path = sources_file(tmp_path, STAGE)
    path.write_bytes(path.read_bytes().replace(b"worker-0", b"worker-9").replace(b"worker-1", b"worker-8"))
    assert findings_by_pod(tmp_path) == {name: {pod} for pod, name in enumerate(PODS)}


def test_lines_that_nothing_names_are_found_to_be_whose_they_are(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    before = losses(tmp_path)
    without_names(tmp_path)
    assert sorted(kept(tmp_path)) == ["container 0", "container 1"]
    for _ in range(2):
        writer = SpoolWriter(tmp_path, STAGE)
        for pod in range(len(PODS)):
            follow(writer, pod, LINES)
        writer.close()
        assert kept(tmp_path) == {PODS[pod]: [one.text for one in log(pod)] for pod in range(len(PODS))}
        assert sorted(losses(tmp_path), key=str) == sorted(before, key=str)


def test_what_was_lost_of_pods_that_are_gone_is_told(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=True)
    zero_block(lines_file(tmp_path, STAGE))
    writer = SpoolWriter(tmp_path, STAGE)
    writer.open()
    (told,) = writer.losses()
    assert "bytes of it were damaged" in told
    writer.close()
    markers = [one.text for one in SpoolReader(tmp_path, STAGE).lines()[0] if one.is_marker]
    assert len(markers) == 1
    assert "lines are missing here" in markers[0]
    again = SpoolWriter(tmp_path, STAGE)
    again.open()
    assert (again.repairs, again.losses()) == ((), (told,))
    again.close()


def test_damaged_files_are_kept_but_not_without_end(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    for _ in range(MOST_SET_ASIDE + 3):
        garbage_line(lines_file(tmp_path, STAGE))
        writer = SpoolWriter(tmp_path, STAGE)
        writer.open()
        writer.close()
    assert len(set_aside(lines_file(tmp_path, STAGE))) == MOST_SET_ASIDE


def test_a_reader_that_follows_sees_a_mended_spool_from_its_beginning(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    garbage_line(lines_file(tmp_path, STAGE))
    reader = SpoolReader(tmp_path, STAGE)
    _, offset = reader.lines()
    writer = SpoolWriter(tmp_path, STAGE)
    follow(writer, 0, LINES + 1)
    writer.close()
    lines, _ = reader.lines(offset)
    assert "was repaired" in lines[0].text
    assert lines[1].text == line(0, 0).text
    assert line(0, LINES).text in [one.text for one in lines]


def test_a_stamp_of_the_future_is_damage(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    path = lines_file(tmp_path, STAGE)
    path.write_bytes(path.read_bytes().replace(b"\t2023-11-14T22:13:25", b"\t9023-11-14T22:13:25"))
    writer = SpoolWriter(tmp_path, STAGE)
    for pod in range(len(PODS)):
        follow(writer, pod, LINES + 3)
    writer.close()
    assert {pod: sorted(texts) for pod, texts in kept(tmp_path).items()} == {
        PODS[pod]: sorted(one.text for one in log(pod, LINES + 3)) for pod in range(len(PODS))
    }
