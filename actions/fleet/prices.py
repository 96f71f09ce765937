"""Prices with their sources: what ships with the program, and the operator's own file of prices and discounts.

A file is a CSV table with the columns `item, region, market, usd, unit, source, as_of`. An item is an instance type, or
one of `SERVICES`. `*` is every region, or, in a row of unit `percent off`, every item that the pattern matches. The
columns of `assets/prices/ec2.csv` are read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.errors import FormatError, UsageError
from actions.base.files import asset, config_folder
from actions.fleet.instance_types import SAGEMAKER, TableRow, load_rows

ON_DEMAND = "on-demand"
SPOT = "spot"
CAPACITY_BLOCK = "capacity-block"

COLUMNS = ("item", "region", "market", "usd", "unit", "source", "as_of")
EVERYWHERE = "*"
FILE_NAME = "prices.csv"
"""The operator's own file in the settings folder."""


class Unit(StrEnum):
    """The amount that a price is of."""

    HOUR = "hour"
    GB_MONTH = "GB-month"
    GB = "GB"
    PERCENT_OFF = "percent off"
    """Not a price: a discount on all that the row matches."""


CONTROL_PLANE = "eks-control-plane"
"""Followed by `-standard` or `-extended`: the whole price of a cluster in that support."""
SERVICES: dict[str, Unit] = {
    f"{CONTROL_PLANE}-standard": Unit.HOUR,
    f"{CONTROL_PLANE}-extended": Unit.HOUR,
    "nat-gateway": Unit.HOUR,
    "nat-gateway-traffic": Unit.GB,
    "public-ipv4": Unit.HOUR,
    "vpc-endpoint": Unit.HOUR,
    "load-balancer-application": Unit.HOUR,
    "load-balancer-network": Unit.HOUR,
    "load-balancer-classic": Unit.HOUR,
    "ebs-gp3": Unit.GB_MONTH,
    "ecr-storage": Unit.GB_MONTH,
    "cloudwatch-logs": Unit.GB,
    "fsx-lustre-ssd-125": Unit.GB_MONTH,
    "fsx-lustre-ssd-250": Unit.GB_MONTH,
    "fsx-lustre-ssd-500": Unit.GB_MONTH,
    "fsx-lustre-ssd-1000": Unit.GB_MONTH,
    "s3-standard": Unit.GB_MONTH,
}
"""Everything beside instances that has a price here, with its unit.

FSx is PERSISTENT_2, by MB/s for each TiB; S3 is its first 50 TB; an endpoint is one interface endpoint in one zone.
Load balancers are without what they carry.
"""

PriceKey = tuple[str, str, str]
"""Instance type, region, capacity type."""
ServiceKey = tuple[str, str]
"""Service, region or `*`."""


def market_of(capacity_type: str) -> str:
    """Return the market of a capacity type as Karpenter, EKS or a label writes it: `CAPACITY_BLOCK`, `spot`."""
    return capacity_type.strip().lower().replace("_", "-")


class Price(msgspec.Struct, frozen=True):
    """A known price. Always above zero: a listed zero is a price that is not known."""

    usd_per_hour: Decimal
    """The price of one instance: Linux, shared tenancy."""
    source: str
    """The place where it was read, in words for the operator."""
    as_of: date | None
    """The date of that source; `None` if it bears none."""


class ServicePrice(msgspec.Struct, frozen=True):
    """A known price of something beside instances, above zero."""

    usd: Decimal
    unit: Unit
    source: str
    as_of: date | None


class Discount(msgspec.Struct, frozen=True):
    """A share off every price that it matches."""

    item: str
    """An item, or a pattern such as `p5*`."""
    region: str
    market: str
    """Empty: every market."""
    percent: Decimal
    source: str

    def matches(self, item: str, region: str, market: str) -> bool:
        """Return true if it is a discount on that price."""
        return (
            fnmatchcase(item, self.item)
            and self.region in (EVERYWHERE, region)
            and self.market in ("", EVERYWHERE, market)
        )


class PriceBook:
    """Prices that are known; all others are unknown, and none is carried from one region or market to another.

    Args:
        prices: Of instances, by instance type, region and capacity type.
        services: Of everything else, by service and region.
        discounts: Each is taken off after the one before it.
    """

    def __init__(
        self,
        prices: Mapping[PriceKey, Price],
        services: Mapping[ServiceKey, ServicePrice] | None = None,
        discounts: Iterable[Discount] = (),
    ) -> None:
        self._prices = dict(prices)
        self._services = dict(services or {})
        self._discounts = tuple(discounts)

    @classmethod
    def load(cls, path: Path | None = None) -> PriceBook:
        """Read the table at `path`, or those that ship with the program.

        Raises:
            FormatError: A row is wrong; the message names file and line.
        """
        if path is not None:
            return _book_of(path)
        return _book_of(asset("prices/ec2.csv")).updated(_book_of(asset("prices/services.csv")))

    @classmethod
    def usual(cls) -> PriceBook:
        """The prices that ship with the program, and over them those of the operator's own file, if there is one.

        Raises:
            UsageError: The operator's file is wrong; the message names file and line.
        """
        book, own = cls.load(), _chosen.file or config_folder() / FILE_NAME
        if not (_chosen.file or own.exists()):
            return book
        try:
            return book.updated(cls.load(own))
        except FormatError as error:
            hint = f"Its columns are {', '.join(COLUMNS)}. Correct it, or make one: eksml-tui prices refresh."
            raise UsageError(error.message, hint=hint) from error

    def updated(self, other: PriceBook) -> PriceBook:
        """Return all prices of both; where both have one, the other's. Discounts of both count."""
        return PriceBook(
            {**self._prices, **other._prices},
            {**self._services, **other._services},
            (*self._discounts, *other._discounts),
        )

    def price_of(self, instance_type: str, region: str, capacity_type: str = ON_DEMAND) -> Price | None:
        """Return the price of one instance after discounts, `None` if it is not known.

        Args:
            instance_type: As EC2 names it, or SageMaker: without a price of its own, such a one has that of EC2.
            region: Its region.
            capacity_type: `on-demand`, `spot` or `capacity-block`. Spot has no static price. Empty (no such
                label) is unknown too: it might be spot.
        """
        price = self._prices.get((instance_type, region, capacity_type))
        if price is None and instance_type.startswith(SAGEMAKER):
            price = self.price_of(instance_type.removeprefix(SAGEMAKER), region, capacity_type or ON_DEMAND)
            return replace(price, source=f"{price.source}, of EC2 and not of SageMaker") if price is not None else None
        if price is None:
            return None
        share, words = self._reduction(instance_type, region, capacity_type)
        return replace(price, usd_per_hour=price.usd_per_hour * share, source=price.source + words) if words else price

    def service_price(self, service: str, region: str) -> ServicePrice | None:
        """Return the price of one of `SERVICES` after discounts, `None` if it is not known."""
        price = self._services.get((service, region)) or self._services.get((service, EVERYWHERE))
        if price is None:
            return None
        share, words = self._reduction(service, region, ON_DEMAND)
        return replace(price, usd=price.usd * share, source=price.source + words) if words else price

    def __len__(self) -> int:
        return len(self._prices) + len(self._services)

    def _reduction(self, item: str, region: str, market: str) -> tuple[Decimal, str]:
        share, words = Decimal(1), ""
        for discount in self._discounts:
            if discount.matches(item, region, market):
                share *= 1 - discount.percent / 100
                words += f", less {discount.percent.normalize():f} % ({discount.source})"
        return share, words


class _Chosen(msgspec.Struct):
    file: Path | None = None


_chosen = _Chosen()


def choose_price_file(file: Path | None) -> None:
    """Take the operator's prices from this file from now on, instead of the one in the settings folder."""
    _chosen.file = file


def _book_of(path: Path) -> PriceBook:
    prices: dict[PriceKey, Price] = {}
    services: dict[ServiceKey, ServicePrice] = {}
    discounts: list[Discount] = []
    for row in load_rows(path):
        item = row.text("item" if row.has("item") else "instance_type")
        region, market = row.text("region"), row.text("market" if row.has("market") else "capacity_type")
        usd, as_of, source = _amount_of(row), _date_of(row), row.text("source")
        unit = _unit_of(row)
        if unit is Unit.PERCENT_OFF:
            if usd >= 100:
                raise row.error(f"{usd} percent off leaves no price")
            discounts.append(Discount(item, region, market_of(market), usd, source))
        elif item in SERVICES:
            _require_unit(row, unit, SERVICES[item])
            if usd:
                services[item, region] = ServicePrice(usd, unit, source, as_of)
        else:
            _require_unit(row, unit, Unit.HOUR)
            if usd:
                prices[item, region, market_of(market)] = Price(usd, source, as_of)
    return PriceBook(prices, services, discounts)


_LEAST_PRICE, _MOST_PRICE = Decimal("1e-12"), Decimal("1e9")
"""US dollars; what is beyond is a slip of the pen, and its digits could fill the memory."""


def _amount_of(row: TableRow) -> Decimal:
    text = row.text("usd" if row.has("usd") else "usd_per_hour")
    try:
        usd = Decimal(text)
    except InvalidOperation as error:
        raise row.error(f"{text[:80]!r} is not a price") from error
    if not usd.is_finite() or (usd and not _LEAST_PRICE <= usd <= _MOST_PRICE):
        raise row.error(f"{text[:80]} is not a price")
    return usd


def _date_of(row: TableRow) -> date | None:
    day = row.text("as_of")
    try:
        return date.fromisoformat(day) if day else None
    except ValueError as error:
        raise row.error(f"{day!r} is not a date, such as 2026-11-22") from error


def _unit_of(row: TableRow) -> Unit:
    text = row.text("unit") if row.has("unit") else Unit.HOUR.value
    try:
        return Unit(text)
    except ValueError as error:
        raise row.error(f"{text!r} is not a unit; the units are {', '.join(Unit)}") from error


def _require_unit(row: TableRow, unit: Unit, wanted: Unit) -> None:
    if unit is not wanted:
        raise row.error(f"its price is by the {wanted}, not by the {unit}")
