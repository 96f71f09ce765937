"""Prices from AWS: the Price List query API, and EC2's history of spot prices.

Filters and answers as Karpenter's pricing provider has them (aws/karpenter-provider-aws 1d927085,
pkg/providers/pricing/pricing.go): without `marketoption`, an answer holds capacity blocks too, at a price of zero.
Usage types are those of bills, with the region's code before them but in us-east-1: `USW2-NatGateway-Hours`. That EKS
lists extended support as a surcharge, and FSx for Lustre its throughput as `Storage.SSD.250`, is from public copies of
the price list of July to September 2026. All load balancers have the usage type `LoadBalancerUsage`, and differ by
their operation: `LoadBalancing` is of classic ones.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import msgspec
from msgspec.structs import replace

from actions.base.decoding import decode_json
from actions.base.errors import FormatError, UsageError
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession, pages

ENDPOINT_REGION = "us-east-1"
"""One of the few regions that answer; each has the prices of all."""
_PAGE = 100
_CODE = re.compile(r"^(?:[A-Z]{2,4}[0-9]?-)?(.+)$")
"""A usage type behind the code of its region."""
_FIRST_REGION = "us-east-1"
"""Most of its usage types have no code; a first word such as that of `TS-LoadBalancerUsage` is not one."""


class Quote(msgspec.Struct, frozen=True):
    """A price as AWS lists it, above zero."""

    key: str
    """Instance type or usage type without its region: `NatGateway-Hours`, `LoadBalancerUsage:Network`."""
    usd: Decimal
    unit: str
    """`Hrs`, `GB-Mo`, `GB`."""
    as_of: date | None
    """The date on which the price list was published."""


class SpotQuote(msgspec.Struct, frozen=True):
    """The dearest zone's spot price of an instance type, for an hour."""

    instance_type: str
    usd: Decimal
    zone: str
    zones: int


class _Offer(msgspec.Struct, frozen=True):
    """A query of the price list."""

    service: str
    attributes: dict[str, str]
    mark: str = ""
    """Put behind the usage type, where other products have the same one at another price."""


_INSTANCES = _Offer(
    "AmazonEC2",
    {
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": "Shared",
        "productFamily": "Compute Instance",
    },
)
_SERVICES = (
    _Offer("AmazonEC2", {"productFamily": "NAT Gateway"}),
    _Offer("AmazonEC2", {"productFamily": "Storage", "volumeApiName": "gp3"}),
    _Offer("AmazonEKS", {}),
    _Offer("AmazonVPC", {}),
    _Offer("AmazonECR", {}),
    _Offer("AWSELB", {"operation": "LoadBalancing:Application"}, ":Application"),
    _Offer("AWSELB", {"operation": "LoadBalancing:Network"}, ":Network"),
    _Offer("AWSELB", {"operation": "LoadBalancing"}, ":Classic"),
    _Offer("AmazonCloudWatch", {"productFamily": "Data Payload"}),
    _Offer("AmazonFSx", {"fileSystemType": "Lustre", "storageType": "SSD", "operation": "CreateFileSystem:Lustre"}),
)


class _Dimension(msgspec.Struct, frozen=True):
    unit: str = ""
    begin: str = msgspec.field(name="beginRange", default="0")
    price: dict[str, str] = msgspec.field(name="pricePerUnit", default_factory=dict)


class _Term(msgspec.Struct, frozen=True):
    dimensions: dict[str, _Dimension] = msgspec.field(name="priceDimensions", default_factory=dict)


class _Terms(msgspec.Struct, frozen=True):
    on_demand: dict[str, _Term] = msgspec.field(name="OnDemand", default_factory=dict)


class _Product(msgspec.Struct, frozen=True):
    attributes: dict[str, str] = msgspec.field(default_factory=dict)


class _Item(msgspec.Struct, frozen=True):
    """One entry of `PriceList`, which is JSON in a text."""

    product: _Product
    terms: _Terms = _Terms()
    published: str = msgspec.field(name="publicationDate", default="")


async def fetch_instance_prices(session: AwsSession, region: str) -> list[Quote]:
    """The on-demand prices of all instance types of a region: Linux, shared tenancy.

    Raises:
        AccessError: No right for `pricing:GetProducts`.
        UnreachableError: No answer.
        FormatError: An answer has another form.
        UsageError: The region is not paid in US dollars.
    """
    return unambiguous([quote async for quote in _quotes(session, _INSTANCES, region, "instanceType")])


async def fetch_service_prices(session: AwsSession, region: str) -> list[Quote]:
    """The prices of control planes, gateways, addresses, disks, images and file systems, by usage type.

    Raises:
        AccessError, UnreachableError, FormatError, UsageError: As `fetch_instance_prices`.
    """
    found = [quote for offer in _SERVICES async for quote in _quotes(session, offer, region, "usagetype")]
    return unambiguous(found)


async def fetch_spot_prices(session: AwsSession, region: str, now: datetime) -> list[SpotQuote]:
    """The present spot prices of a region, of each instance type that of its dearest zone.

    Raises:
        AccessError: No right for `ec2:DescribeSpotPriceHistory`.
        UnreachableError: No answer.
    """
    by_type: dict[str, dict[str, Decimal]] = {}
    async for answer in pages(
        session,
        "ec2",
        "describe_spot_price_history",
        region=region,
        StartTime=now.astimezone(UTC),
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
    ):
        for entry in answer.get("SpotPriceHistory") or ():
            usd = _positive(str(entry.get("SpotPrice", "")))
            if usd is not None:
                zones = by_type.setdefault(one_line(str(entry.get("InstanceType", ""))), {})
                zones[one_line(str(entry.get("AvailabilityZone", "")))] = usd
    return [_dearest(instance_type, zones) for instance_type, zones in sorted(by_type.items())]


def unambiguous(quotes: Iterable[Quote]) -> list[Quote]:
    """Leave out what is listed at more than one price: which of them counts is not known."""
    listed: dict[str, list[Quote]] = {}
    for quote in quotes:
        listed.setdefault(quote.key, []).append(quote)
    return [same[0] for same in listed.values() if len({quote.usd for quote in same}) == 1]


def _dearest(instance_type: str, zones: Mapping[str, Decimal]) -> SpotQuote:
    zone = max(zones, key=lambda name: zones[name])
    return SpotQuote(instance_type, zones[zone], zone, len(zones))


async def _quotes(session: AwsSession, offer: _Offer, region: str, key: str) -> AsyncIterator[Quote]:
    if region.startswith("cn-"):
        raise UsageError(f"Prices of {region} are in CNY, and all others here are in USD.", hint="Write them yourself.")
    wanted = {"regionCode": region, **offer.attributes}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    async for answer in pages(
        session,
        "pricing",
        "get_products",
        region=ENDPOINT_REGION,
        ServiceCode=offer.service,
        Filters=filters,
        FormatVersion="aws_v1",
        MaxResults=_PAGE,
    ):
        for text in answer.get("PriceList") or ():
            for quote in _read(str(text), key):
                yield replace(quote, key=quote.key + offer.mark)


def _read(text: str, key: str) -> list[Quote]:
    try:
        item = decode_json(text, _Item)
        as_of = date.fromisoformat(item.published[:10]) if item.published else None
    except (msgspec.MsgspecError, ValueError) as error:
        raise FormatError(f"The AWS Price List answered with another form: {error}.") from error
    name = one_line(item.product.attributes.get(key, ""))
    is_first = item.product.attributes.get("regionCode") == _FIRST_REGION
    name = name.removeprefix("USE1-") if is_first else _CODE.sub(r"\1", name)
    found = []
    for term in item.terms.on_demand.values():
        for dimension in term.dimensions.values():
            usd = _positive(dimension.price.get("USD", ""))
            if name and usd is not None and dimension.begin in ("", "0"):
                found.append(Quote(name, usd, dimension.unit, as_of))
    return found


def _positive(text: str) -> Decimal | None:
    try:
        usd = Decimal(text)
    except InvalidOperation:
        return None
    return usd if usd.is_finite() and usd > 0 else None
