"""Looking only at lines and records with a mark finds what looking at everything would."""

from __future__ import annotations

import pytest

from actions.base.line_cutter import LineCutter
from actions.cluster.logs.batch import batches_of
from actions.cluster.logs.lines import LogLine
from actions.telemetry.dialects.dialect import Dialect, WaitingDialect
from actions.telemetry.dialects.generic import GenericLines
from actions.telemetry.log_reader import DIALECTS, LogReader, log_prefilter, read_batch
from actions.telemetry.log_records import PrefixReader, split_records, strip_controls
from actions.telemetry.outlines import LinePrefilter, has_mark, without_digits
from actions.telemetry.runtime_format import TOOL_OUTPUT, decode_lines
from tests.unit.telemetry.corpus import samples


def sample_lines() -> list[list[str]]:
    """The lines of every sample."""
    found = []
    for sample in (*samples("logs"), *samples("nccl")):
        cutter = LineCutter(TOOL_OUTPUT)
        found.append(decode_lines([*cutter.feed(sample.read_bytes()), *cutter.finish()]))
    return found


@pytest.mark.parametrize("kind", [*DIALECTS, GenericLines])
def test_every_record_that_a_dialect_reads_has_one_of_its_marks(kind: type[Dialect]) -> None:
    for lines in sample_lines():
        dialect, prefixes = kind(), PrefixReader()
        for piece in (piece for line in lines for piece in split_records(line)):
            record = prefixes.read(strip_controls(piece), None)
            is_read = record is not None and dialect.read(record) is not None
            is_waiting = isinstance(dialect, WaitingDialect) and dialect.is_waiting
            assert not is_read or is_waiting or (record and has_mark(without_digits(record.outline), dialect.marks))


@pytest.mark.parametrize("kind", [*DIALECTS, GenericLines])
def test_no_mark_has_a_digit(kind: type[Dialect]) -> None:
    assert kind().marks
    assert not any(character.isdigit() for mark in kind().marks for character in mark)


def test_batches_of_lines_say_what_the_lines_say() -> None:
    prefilter = log_prefilter()
    for lines in sample_lines():
        alone, together = LogReader(), LogReader()
        at = [number * 100_000_000 for number in range(len(lines))]
        wanted = [finding for line, at_ns in zip(lines, at, strict=True) for finding in alone.feed(line, at_ns / 1e9)]
        given = [LogLine(at_ns, line) for line, at_ns in zip(lines, at, strict=True)]
        found = []
        for start in range(0, len(given), 37):
            for batch in batches_of(given[start : start + 37]):
                found += read_batch(together, prefilter, batch)
        assert str(found) == str(wanted)
        assert str(together.flush()) == str(alone.flush())


def test_the_prefilter_misses_no_line_with_a_mark() -> None:
    marks = [mark for kind in DIALECTS for mark in kind.marks]
    prefilter = LinePrefilter(marks)
    for lines in sample_lines():
        data = "".join(f"{line.splitlines()[0]}\n" for line in lines if line.strip()).encode()
        chosen = set(prefilter.pick(data))
        for place, line in enumerate(data.decode().splitlines()):
            assert place in chosen or not any(mark in line for mark in marks)
