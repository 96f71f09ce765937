"""A short part of `make fuzz`: changed samples break no reader of files."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from actions.base.errors import FormatError, ReaderDefectError, UnreadableError
from tests.fuzz import __main__ as fuzzing
from tests.fuzz.changes import changed
from tests.fuzz.targets import Target, all_targets

_ROOT = Path(__file__).parents[3]


def test_changed_samples_break_no_reader(tmp_path: Path) -> None:
    words = ["-m", "tests.fuzz", "--seconds", "12", "--seed", "a test", "--each", "60", "--keep", str(tmp_path)]
    done = subprocess.run([sys.executable, *words], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BROKEN" not in done.stdout


def test_every_sample_is_taken_as_it_is(tmp_path: Path) -> None:
    for name, target in all_targets().items():
        assert target.samples, name
        for sample in target.samples[:2]:
            assert fuzzing._broken(target, sample, 60) == "", name


def test_a_seed_gives_the_same_input_again() -> None:
    sample = (b"one 1\ntwo 2\n", b"three")
    given = {changed(sample[0], random.Random("7 log 3"), sample) for _ in range(3)}
    assert len(given) == 1
    assert len({changed(sample[0], random.Random(str(at)), sample) for at in range(100)}) > 50


def _defect(path: Path) -> None:
    raise UnreadableError("x", file=str(path)) from ReaderDefectError("a bug")


def _right(path: Path) -> None:
    raise FormatError(str(path))


def _wrong(path: Path) -> None:
    raise IndexError(path)


@pytest.mark.parametrize(("read", "is_broken"), [(_right, False), (_defect, True), (_wrong, True), (len, True)])
def test_what_breaks_a_reader_is_kept_with_its_place(read: object, is_broken: bool) -> None:
    assert callable(read)
    assert bool(fuzzing._broken(Target(read, (b"",)), b"data", 60)) is is_broken
