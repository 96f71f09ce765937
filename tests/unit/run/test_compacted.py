"""Compacted spools: the same to every reader, at any damage, and whole in one of two forms at every moment."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.run.spool import compacted
from actions.run.spool.compacted import compact, compacted_path, line_from, opened, stored_size
from actions.run.spool.files import AppendOnly, set_aside
from actions.run.spool.format import lines_file, points_file, whole_lines
from actions.run.spool.reader import SpoolReader, last_loss
from actions.run.spool.writer import SpoolWriter
from tests.unit.run.test_spool_damage import LINES, PODS, STAGE, a_spool, follow, is_subsequence, kept, log

FILES = (lines_file, points_file)


def compact_all(folder: Path) -> None:
    for path_of in FILES:
        assert compact(path_of(folder, STAGE)).replace()
        assert not path_of(folder, STAGE).exists()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted, "BLOCK_BYTES", 512)


def read_all(path: Path) -> bytes:
    with opened(path) as file:
        return file.read(0, -1)


@settings(max_examples=40)
@given(st.integers(0, 6000), st.integers(0, 5000), st.integers(0, 3000), st.integers(0, 9))
def test_any_stretch_is_that_of_the_plain_file(size: int, offset: int, length: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lines.log"
        data = bytes(random.Random(seed).choices(b"abc\n", k=size))
        path.write_bytes(data)
        whole = whole_lines(path, offset, length), whole_lines(path)
        if not size:
            return
        assert compact(path).replace()
        assert stored_size(path) == size
        with opened(path) as file:
            assert file.is_whole()
            assert file.read(offset, length) == data[offset : offset + length]
            assert file.read(0, -1) == data
            assert line_from(file, offset) == data[offset : data.find(b"\n", offset) + 1 or None]
        assert (whole_lines(path, offset, length), whole_lines(path)) == whole
        assert gzip.decompress(compacted_path(path).read_bytes()) == data


def test_readers_show_the_same(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=True)
    open_reader = SpoolReader(tmp_path, STAGE)
    first, offset = open_reader.lines(limit_bytes=900)

    def seen() -> list[object]:
        reader = SpoolReader(tmp_path, STAGE)
        tail = reader.tail_offset(500)
        records, begins, end = reader.placed_lines(tail, limit_bytes=1 << 20)
        places = list(zip(begins, [*begins[1:], end], strict=True))
        return [
            *(reader.lines(), reader.findings(), tail, reader.findings_tail(300), records, reader.has_lines()),
            *(reader.tagged_lines_at(places[::2]), reader.exit_codes(), last_loss(tmp_path)),
        ]

    before = seen()
    compact_all(tmp_path)
    assert seen() == before
    assert [*first, *open_reader.lines(offset)[0]] == SpoolReader(tmp_path, STAGE).lines()[0]


def test_a_reader_that_follows_sees_neither_compaction_nor_expansion(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    reader = SpoolReader(tmp_path, STAGE)
    _, end = reader.lines()
    compact_all(tmp_path)
    assert reader.lines(end) == ([], end)
    writer = SpoolWriter(tmp_path, STAGE)
    follow(writer, 0, LINES + 2)
    writer.close()
    more, _ = reader.lines(end)
    assert [one.text for one in more] == [one.text for one in log(0, LINES + 2)[LINES:]]
    assert not compacted_path(lines_file(tmp_path, STAGE)).exists()


def test_a_writer_goes_on_where_it_was(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=False)
    stamps = lines_file(tmp_path, STAGE).stat().st_mtime_ns
    compact_all(tmp_path)
    assert compacted_path(lines_file(tmp_path, STAGE)).stat().st_mtime_ns == stamps
    findings = SpoolReader(tmp_path, STAGE).findings()
    writer = SpoolWriter(tmp_path, STAGE)
    writer.open()
    assert writer.repairs == ()
    for pod in range(len(PODS)):
        follow(writer, pod, LINES)
    writer.close()
    assert SpoolReader(tmp_path, STAGE).findings() == findings
    found = sorted(text for texts in kept(tmp_path).values() for text in texts)
    assert found == sorted(one.text for pod in range(len(PODS)) for one in log(pod))


def spoil(path: Path, kind: str, where: float, garbage: bytes) -> None:
    data = path.read_bytes()
    at = int(where * len(data))
    changed = {
        "cut": data[:at],
        "over": data[:at] + garbage + data[at + len(garbage) :],
        "into": data[:at] + garbage + data[at:],
        "lost": data[:at] + data[at + 700 :],
        "empty": b"",
    }
    path.write_bytes(changed[kind])


DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(FILES),
        st.sampled_from(["cut", "over", "into", "lost", "empty"]),
        st.floats(0, 1),
        st.one_of(st.binary(min_size=1, max_size=60), st.just(bytes(600)), st.just(b"\x1f\x8b\x08\x04" * 20)),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60)
@given(damage=DAMAGE)
def test_whatever_is_damaged_nothing_fails_and_logs_are_whole_again(
    damage: list[tuple[Callable[[Path, str], Path], str, float, bytes]],
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        a_spool(folder, is_ended=True)
        compact_all(folder)
        for path_of, kind, where, garbage in damage:
            spoil(compacted_path(path_of(folder, STAGE)), kind, where, garbage)
        originals = [[one.text for one in log(pod)] for pod in range(len(PODS))]
        for texts in kept(folder).values():
            assert any(is_subsequence(texts, whole) for whole in originals)  # a checksum: no line is another one
        SpoolReader(folder, STAGE).findings()
        writer = SpoolWriter(folder, STAGE)
        for pod in range(len(PODS)):
            source = follow(writer, pod, LINES)
            if not source.is_ended:
                writer.write_end(source, 0, "Completed")
        writer.close()
        found = sorted(text for texts in kept(folder).values() for text in texts)
        assert found == sorted(text for whole in originals for text in whole)
        again = SpoolWriter(folder, STAGE)
        again.open()
        again.close()
        assert again.repairs == ()
    finally:
        shutil.rmtree(folder)


def test_a_damaged_one_is_kept_beside_the_mended_one(tmp_path: Path) -> None:
    a_spool(tmp_path, is_ended=True)
    compact_all(tmp_path)
    path = lines_file(tmp_path, STAGE)
    spoil(compacted_path(path), "over", 0.5, bytes(100))
    damaged = compacted_path(path).read_bytes()
    SpoolWriter(tmp_path, STAGE).open()
    assert damaged in [other.read_bytes() for other in set_aside(path)]
    assert not compacted_path(path).exists()


def test_a_forged_header_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "lines.log"
    path.write_bytes(b"line\n" * 500)
    compact(path).replace()
    other = compacted_path(path)
    member = compacted._compressed(b"x" * 500, 1 << 60, is_last=True)
    other.write_bytes(other.read_bytes() + member)
    assert stored_size(path) == 2500


def die_at(number: int) -> Callable[[], None]:
    """Return a function whose `number`th call ends this process."""
    left = number

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def in_a_copy(work: Callable[[], object]) -> bool:
    """Run work in a copy of this process, and return whether it came to its end."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status == 0 or os.WIFSIGNALED(status)
    return status == 0


def with_steps(step: Callable[[], None], work: Callable[[], object]) -> Callable[[], None]:
    """Return work that calls `step` before each call of the system that changes a file or its name."""

    def stepped() -> None:
        for module, name in ((os, "fsync"), (os, "utime"), (os, "open"), (Path, "replace"), (Path, "unlink")):
            whole = getattr(module, name)

            def before(*arguments: object, _whole: Callable[..., object] = whole, **options: object) -> object:
                step()
                return _whole(*arguments, **options)

            setattr(module, name, before)
        work()

    return stepped


@pytest.mark.kill
@pytest.mark.parametrize("is_expansion", [False, True])
def test_a_kill_at_any_step_leaves_one_of_the_two(tmp_path: Path, is_expansion: bool) -> None:
    data = b"".join(b"line %d\n" % number for number in range(2000))

    def work(path: Path) -> None:
        if is_expansion:
            AppendOnly(path)
        else:
            compact(path).replace()

    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "lines.log"
        path.write_bytes(data)
        if is_expansion:
            compact(path).replace()
        is_over = in_a_copy(with_steps(die_at(number), lambda: work(path)))  # noqa: B023 - called here
        assert read_all(path) == data, number
        AppendOnly(path).close()  # whatever is left, the next writer goes on with it
        compact(path).replace()
        assert [other.name for other in folder.iterdir()] == ["lines.log.gz"]
        assert read_all(path) == data
        if is_over:
            break
    assert is_over
    assert number >= 5


def test_a_file_that_grows_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lines.log"
    path.write_bytes(b"one\n" * 5000)
    prepared = compact(path)
    with path.open("ab") as file:
        file.write(b"two\n")
    assert not prepared.replace()
    assert [other.name for other in tmp_path.iterdir()] == ["lines.log"]
    assert path.read_bytes().endswith(b"two\n")
