"""The price book: what one instance costs an hour, with the source that says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

import msgspec

from actions.base.files import asset
from actions.fleet.tables import TableRow, load_rows

ON_DEMAND = "on-demand"

PriceKey = tuple[str, str, str]
"""Instance type, region, capacity type."""


class Price(msgspec.Struct, frozen=True):
    """A known price. Always above zero: a listed zero is a price that is not known."""

    usd_per_hour: Decimal
    """One instance, Linux, shared tenancy."""
    source: str
    """Where it was read, in words for the operator."""
    as_of: date | None
    """The date of that source; `None` if it bears none."""


class PriceBook:
    """Prices that are known; all others are unknown, and none is carried from one region or market to another.

    Args:
        prices: By instance type, region and capacity type.
    """

    def __init__(self, prices: Mapping[PriceKey, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def load(cls, path: Path | None = None) -> PriceBook:
        """Read the table at `path`, or the one that ships with the program.

        Raises:
            FormatError: A row is wrong; the message names file and line.
        """
        prices: dict[PriceKey, Price] = {}
        for row in load_rows(path or asset("prices/ec2.csv")):
            price = _price_of(row)
            if price is not None:
                prices[row.text("instance_type"), row.text("region"), row.text("capacity_type")] = price
        return cls(prices)

    def price_of(self, instance_type: str, region: str, capacity_type: str = ON_DEMAND) -> Price | None:
        """The price of one instance, `None` if it is not known.

        Args:
            instance_type: As EC2 names it.
            region: Where it runs.
            capacity_type: `on-demand`, `spot` or `capacity-block`. Spot has no static price. Empty (no label says)
                is unknown too: it might be spot.
        """
        return self._prices.get((instance_type, region, capacity_type))

    def __len__(self) -> int:
        return len(self._prices)


def _price_of(row: TableRow) -> Price | None:
    text, day = row.text("usd_per_hour"), row.text("as_of")
    try:
        usd = Decimal(text)
        as_of = date.fromisoformat(day) if day else None
    except (InvalidOperation, ValueError) as error:
        raise row.error(f"{text!r} of {day!r} is no price with a date") from error
    if not usd.is_finite() or usd < 0:
        raise row.error(f"{text} is no price")
    return Price(usd, row.text("source"), as_of) if usd else None
