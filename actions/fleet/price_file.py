"""The operator's file of prices: rows that AWS stated are replaced by newer ones, all others are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from actions.base.errors import FormatError, UsageError
from actions.base.files import write_private
from actions.fleet.instance_types import TableRow, load_rows
from actions.fleet.prices import COLUMNS, PriceBook, Unit

PRICE_LIST = "AWS price list"
SPOT_HISTORY = "EC2 spot price history"
"""A source that begins with one of these is of a row that a refresh wrote."""


class PriceRow(msgspec.Struct, frozen=True):
    """A row of the file, as text."""

    item: str
    region: str
    market: str
    usd: str
    unit: str
    source: str
    as_of: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The thing that is priced, the place, the market."""
        return (self.item, self.region, self.market)

    @property
    def is_refreshed(self) -> bool:
        """True if a refresh wrote it, so that the next one may replace it."""
        return self.unit != Unit.PERCENT_OFF and self.source.startswith((PRICE_LIST, SPOT_HISTORY))


def read_price_file(path: Path) -> list[PriceRow]:
    """Read the rows of a file; none if there is no such file.

    Raises:
        UsageError: It is wrong; the message names file and line.
    """
    if not path.exists():
        return []
    try:
        PriceBook.load(path)
        return [_row_of(row) for row in load_rows(path)]
    except FormatError as error:
        raise UsageError(error.message, hint=f"Its columns are {', '.join(COLUMNS)}. Correct it.") from error


def refreshed_rows(old: Iterable[PriceRow], new: Sequence[PriceRow], regions: Iterable[str]) -> list[PriceRow]:
    """Return the rows of a file after a refresh.

    Args:
        old: Its rows. What an operator wrote is kept, and wins over a new row; what AWS stated of `regions` goes.
        new: What AWS states now.
        regions: Those of `new`.
    """
    places = set(regions)
    kept = [row for row in old if not (row.is_refreshed and row.region in places)]
    own = {row.key for row in kept}
    return [*kept, *(row for row in new if row.key not in own)]


def write_price_file(path: Path, rows: Iterable[PriceRow]) -> None:
    """Write a file as a whole, or leave it as it is.

    Raises:
        OSError: It cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(msgspec.structs.astuple(row) for row in rows)
    write_private(path, text.getvalue().encode())


def _row_of(row: TableRow) -> PriceRow:
    if row.has("item"):
        return PriceRow(*(row.text(column) for column in COLUMNS))
    return PriceRow(
        item=row.text("instance_type"),
        region=row.text("region"),
        market=row.text("capacity_type"),
        usd=row.text("usd_per_hour"),
        unit=Unit.HOUR,
        source=row.text("source"),
        as_of=row.text("as_of"),
    )
