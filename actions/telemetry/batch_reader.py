"""Reading a log in batches of lines: the reader is shown the lines that can tell it something, in their order."""

from __future__ import annotations

from typing import Protocol

from actions.telemetry.dialects.dialect import Finding
from actions.telemetry.log_reader import SIGNS, LogReader, may_interest
from actions.telemetry.sieve import LineSieve


class LineBatch(Protocol):
    """Consecutive lines of one log."""

    @property
    def data(self) -> bytes:
        """All of them, each ended by a newline; something short may stand before their texts."""
        ...

    def text(self, index: int) -> str:
        """One line, without its newline."""
        ...

    def at_ns(self, index: int) -> int:
        """When it was written, nanoseconds since the epoch."""
        ...

    def __len__(self) -> int: ...


def log_sieve() -> LineSieve:
    """What keeps the lines apart in which no dialect sees anything. One does for any number of logs."""
    return LineSieve(may_interest, signs=SIGNS)


def read_batch(reader: LogReader, sieve: LineSieve, batch: LineBatch) -> list[Finding]:
    """What a batch says: the same as if every line were fed to the reader.

    Args:
        reader: Of this log.
        sieve: Made by `log_sieve`.
        batch: The lines that come next.
    """
    findings: list[Finding] = []
    done = 0
    for place in sieve.pick(batch.data):
        findings += _while_waiting(reader, batch, done, place)
        findings += _read(reader, batch, place)
        done = place + 1
    return findings + _while_waiting(reader, batch, done, len(batch))


def _while_waiting(reader: LogReader, batch: LineBatch, start: int, end: int) -> list[Finding]:
    """Show the reader lines that say nothing by themselves, for as long as it waits for what follows."""
    findings: list[Finding] = []
    while start < end and reader.is_waiting:
        findings += _read(reader, batch, start)
        start += 1
    return findings


def _read(reader: LogReader, batch: LineBatch, place: int) -> list[Finding]:
    return reader.feed(batch.text(place), batch.at_ns(place) / 1e9)
