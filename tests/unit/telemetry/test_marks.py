"""Looking only at lines and records with a mark finds what looking at everything would."""

from __future__ import annotations

import pytest

from actions.cluster.logs.batch import batches_of
from actions.cluster.logs.lines import LogLine
from actions.telemetry.dialects.dialect import Dialect
from actions.telemetry.dialects.generic import GenericLines
from actions.telemetry.dialects.huggingface import HuggingFace
from actions.telemetry.dialects.indented import Composer, Olmo
from actions.telemetry.dialects.megatron import Megatron, NemoFields
from actions.telemetry.dialects.progress_bars import Keras, LightningBars, LightningResults
from actions.telemetry.dialects.ray import RayReports, RayTables
from actions.telemetry.dialects.single_lines import DeepSpeed, JsonLines, Preprocessing, SingleLines
from actions.telemetry.dialects.tables import NcclRows, Tables
from actions.telemetry.line_cutter import LineAssembler
from actions.telemetry.log_reader import LogReader, log_sieve, read_batch
from actions.telemetry.log_records import PrefixReader, split_records, strip_controls
from tests.unit.telemetry.corpus import samples

DIALECTS = (
    Composer,
    DeepSpeed,
    HuggingFace,
    JsonLines,
    Keras,
    LightningBars,
    LightningResults,
    Megatron,
    NcclRows,
    NemoFields,
    Olmo,
    GenericLines,
    Preprocessing,
    RayReports,
    RayTables,
    SingleLines,
    Tables,
)


def sample_lines() -> list[list[str]]:
    """The lines of every sample."""
    found = []
    for sample in (*samples("logs"), *samples("nccl")):
        assembler = LineAssembler()
        found.append(assembler.feed(sample.read_bytes()) + assembler.flush())
    return found


@pytest.mark.parametrize("kind", DIALECTS)
def test_every_record_that_a_dialect_reads_has_one_of_its_marks(kind: type[Dialect]) -> None:
    for lines in sample_lines():
        dialect, prefixes = kind(), PrefixReader()
        for piece in (piece for line in lines for piece in split_records(line)):
            record = prefixes.read(strip_controls(piece), None)
            is_read = record is not None and dialect.read(record) is not None
            is_waiting = isinstance(dialect, HuggingFace | Tables) and dialect.is_waiting
            assert not is_read or is_waiting or any(mark in record.text for mark in dialect.marks if record)


@pytest.mark.parametrize("kind", DIALECTS)
def test_no_mark_has_a_digit(kind: type[Dialect]) -> None:
    assert kind().marks
    assert not any(character.isdigit() for mark in kind().marks for character in mark)


def test_batches_of_lines_say_what_the_lines_say() -> None:
    sieve = log_sieve()
    for lines in sample_lines():
        alone, together = LogReader(), LogReader()
        at = [number * 100_000_000 for number in range(len(lines))]
        wanted = [finding for line, at_ns in zip(lines, at, strict=True) for finding in alone.feed(line, at_ns / 1e9)]
        given = [LogLine(at_ns, line) for line, at_ns in zip(lines, at, strict=True)]
        found = []
        for start in range(0, len(given), 37):
            for batch in batches_of(given[start : start + 37]):
                found += read_batch(together, sieve, batch)
        assert str(found) == str(wanted)
        assert str(together.flush()) == str(alone.flush())
