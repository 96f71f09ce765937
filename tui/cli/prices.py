"""`eksml-tui prices refresh`: the operator's file of prices, from AWS."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal

from actions.base.clock import SystemClock
from actions.base.errors import AccessError, ConfigError
from actions.base.files import config_folder, expanded
from actions.cloud.aws_session import AwsSession
from actions.cloud.pricing import Quote, SpotQuote, fetch_instance_prices, fetch_service_prices, fetch_spot_prices
from actions.fleet.instance_types import InstanceTable
from actions.fleet.price_file import (
    PRICE_LIST,
    SPOT_HISTORY,
    PriceRow,
    read_price_file,
    refreshed_rows,
    write_price_file,
)
from actions.fleet.prices import CONTROL_PLANE, FILE_NAME, ON_DEMAND, SERVICES, SPOT, Unit
from tui.cli.target import chosen_target

_STANDARD, _SURCHARGE = "AmazonEKS-Hours:perCluster", "AmazonEKS-Hours:extendedSupport"
_USAGE_TYPES = {
    _STANDARD: f"{CONTROL_PLANE}-standard",
    "NatGateway-Hours": "nat-gateway",
    "NatGateway-Bytes": "nat-gateway-traffic",
    "PublicIPv4:InUseAddress": "public-ipv4",
    "VpcEndpoint-Hours": "vpc-endpoint",
    **{f"LoadBalancerUsage:{kind}": f"load-balancer-{kind.lower()}" for kind in ("Application", "Network", "Classic")},
    "EBS:VolumeUsage.gp3": "ebs-gp3",
    "TimedStorage-ByteHrs": "ecr-storage",
    "DataProcessing-Bytes": "cloudwatch-logs",
    **{f"Storage.SSD.{speed}": f"fsx-lustre-ssd-{speed}" for speed in (125, 250, 500, 1000)},
}
_UNITS = {"Hrs": Unit.HOUR, "hours": Unit.HOUR, "GB-Mo": Unit.GB_MONTH, "GB": Unit.GB}


def run(options: Namespace) -> int:
    """Ask AWS for the prices of regions, and write them into the file.

    Raises:
        ConsoleError: AWS does not answer, or the file cannot be used. It is left as it was.
    """
    file = expanded(options.prices or config_folder() / FILE_NAME)
    old = read_price_file(file)
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    regions = options.regions or [chosen.region]
    if not all(regions):
        raise ConfigError("No region is known.", hint="Write eksml-tui prices refresh us-west-2.")
    found = asyncio.run(_fetch(regions, chosen.profile, has_spot=not options.no_spot))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_price_file(file, refreshed_rows(old, found, regions))
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}.", hint="Choose another --prices FILE."
        ) from error
    for region in regions:
        sys.stdout.write(f"{region}: {_summary(row for row in found if row.region == region)}\n")
    sys.stdout.write(f"written to {file}; your own rows are unchanged\n")
    return 0


async def _fetch(regions: list[str], profile: str, *, has_spot: bool) -> list[PriceRow]:
    session = AwsSession(profile=profile)
    known = {kind.name for kind in InstanceTable.load()}
    now = SystemClock().now()
    rows: list[PriceRow] = []
    try:
        for region in regions:
            instances = await fetch_instance_prices(session, region)
            rows += [_instance_row(quote, region) for quote in instances if quote.key in known]
            rows += _service_rows(await fetch_service_prices(session, region), region)
            spot = await _spot(session, region, now) if has_spot else []
            rows += [_spot_row(quote, region, now) for quote in spot if quote.instance_type in known]
    finally:
        session.close()
    return rows


async def _spot(session: AwsSession, region: str, now: datetime) -> list[SpotQuote]:
    try:
        return await fetch_spot_prices(session, region, now)
    except AccessError as error:  # another right than for the price list, and the list is useful without it
        sys.stderr.write(f"eksml-tui: no spot prices of {region}: {error.sentence()}\n")
        return []


def _instance_row(quote: Quote, region: str) -> PriceRow:
    return PriceRow(quote.key, region, ON_DEMAND, _text(quote.usd), Unit.HOUR, f"{PRICE_LIST} AmazonEC2", _day(quote))


def _spot_row(quote: SpotQuote, region: str, now: datetime) -> PriceRow:
    source = f"{SPOT_HISTORY}: {quote.zone}, the dearest of {quote.zones} zones"
    return PriceRow(quote.instance_type, region, SPOT, _text(quote.usd), Unit.HOUR, source, now.date().isoformat())


def _service_rows(quotes: list[Quote], region: str) -> Iterator[PriceRow]:
    by_usage = {quote.key: quote for quote in quotes}
    for usage, item in _USAGE_TYPES.items():
        quote = by_usage.get(usage)
        if quote is not None and _UNITS.get(quote.unit, SERVICES[item]) is SERVICES[item]:
            yield PriceRow(item, region, "", _text(quote.usd), SERVICES[item], f"{PRICE_LIST} {usage}", _day(quote))
    standard, surcharge = by_usage.get(_STANDARD), by_usage.get(_SURCHARGE)
    if standard is not None and surcharge is not None:
        source = f"{PRICE_LIST} {_STANDARD} + {_SURCHARGE}"
        usd = _text(standard.usd + surcharge.usd)
        yield PriceRow(f"{CONTROL_PLANE}-extended", region, "", usd, Unit.HOUR, source, _day(surcharge))


def _summary(rows: Iterable[PriceRow]) -> str:
    found = list(rows)
    missing = sorted(set(SERVICES) - {row.item for row in found})
    counts = [f"{sum(row.market == market for row in found)} {market}" for market in (ON_DEMAND, SPOT)]
    services = f"{len(SERVICES) - len(missing)} of {len(SERVICES)} services"
    return ", ".join([*counts, services]) + (f"; not listed: {', '.join(missing)}" if missing else "")


def _text(usd: Decimal) -> str:
    return f"{usd.normalize():f}"


def _day(quote: Quote) -> str:
    return quote.as_of.isoformat() if quote.as_of else ""
