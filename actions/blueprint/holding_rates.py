"""The hourly rates of holdings, each with its source: the price table first, then the blueprint's own price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal

import msgspec

from actions.base.errors import BlueprintError
from actions.base.numbers import whole
from actions.blueprint.model import Holding, HoldingKind
from actions.blueprint.parameters import Binding, fill
from actions.fleet.eks_versions import support_price
from actions.fleet.prices import CONTROL_PLANE, ON_DEMAND, SERVICES, PriceBook, Unit, market_of
from actions.fleet.quantity import HOURS_PER_MONTH

_DISK = "ebs-gp3"
_NODE_GROUP = "aws_eks_node_group"
_CLUSTER = "aws_eks_cluster"
_RESOURCES = {
    "nat-gateway": "aws_nat_gateway",
    "public-ipv4": "aws_eip",
    "vpc-endpoint": "aws_vpc_endpoint",
    "load-balancer": "aws_lb",
    "ecr": "aws_ecr_repository",
    "fsx-lustre": "aws_fsx_lustre_file_system",
    "s3": "aws_s3_bucket",
}
"""The type of the Terraform resource that a service is paid for, by the begin of the service's name."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The hourly cost of one thing, with the source of its price."""

    name: str
    """The thing with its amount and market: `2 × p5.48xlarge, capacity-block`."""
    holding: str = ""
    """Its name among the blueprint's holdings; empty for nodes that are started for pods."""
    usd_per_hour: Decimal | None
    """`None` if no price is known."""
    source: str = ""
    as_of: date | None = None
    resource: str = ""
    """The type of the Terraform resource that it is the rate of; empty if none is known."""
    nodes: int = 0
    """The number of nodes that it is the rate of, or of their disks."""
    instance_type: str = ""
    """Of these nodes; empty for their disks."""


class UsagePrice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is paid by use, so that no sum contains it."""

    title: str
    usd: Decimal | None
    """`None` if no price is known."""
    unit: str
    stage: str = ""
    """The first stage that holds it."""

    @property
    def text(self) -> str:
        """`NAT gateway traffic, $0.045/GB`."""
        return f"{self.title}, {'?' if self.usd is None else f'${self.usd.normalize():f}'}/{self.unit}"


class Tariff(msgspec.Struct, frozen=True):
    """The prices that count for a run."""

    prices: PriceBook
    region: str
    day: date
    """The day on which the support of a control plane counts."""


class NodeMarket(msgspec.Struct, frozen=True):
    """The way in which nodes of one type are bought."""

    market: str
    disk_gib: int


def markets_of(holdings: Iterable[Holding], binding: Binding) -> Mapping[str, NodeMarket]:
    """Return how each instance type is bought, by type; on demand and without a disk if no holding states it."""
    return {
        fill(holding.instance_type, binding.everything): NodeMarket(
            market_of(fill(holding.capacity_type, binding.everything)),
            _amount_of(holding, "disk_gib", binding),
        )
        for holding in holdings
        if holding.kind is HoldingKind.NODES
    }


def _amount_of(holding: Holding, key: str, binding: Binding) -> int:
    text = fill(getattr(holding, key), binding.everything)
    found = whole(text)
    if found is None:
        raise BlueprintError(f"{holding.title} has {text[:60]!r} as {key}, which is not a whole number.")
    return found


def held_nodes(held: Iterable[Holding], binding: Binding) -> Mapping[str, int]:
    """Return the nodes of holdings by instance type."""
    nodes: Counter[str] = Counter()
    for holding in held:
        if holding.kind is HoldingKind.NODES:
            nodes[fill(holding.instance_type, binding.everything)] += _amount_of(holding, "count", binding)
    return +nodes


def node_rates(
    nodes: Mapping[str, int], markets: Mapping[str, NodeMarket], tariff: Tariff, *, holding: str = ""
) -> Iterator[Rate]:
    """Yield the rates of nodes by type, and of their disks."""
    for instance_type, count in nodes.items():
        bought = markets.get(instance_type, NodeMarket(ON_DEMAND, 0))
        price = tariff.prices.price_of(instance_type, tariff.region, bought.market)
        market = "" if bought.market == ON_DEMAND else f", {bought.market}"
        yield Rate(
            name=f"{count} × {instance_type}{market}",
            holding=holding,
            usd_per_hour=None if price is None else price.usd_per_hour * count,
            source=price.source if price else "",
            as_of=price.as_of if price else None,
            resource=_NODE_GROUP if holding else "",
            nodes=count,
            instance_type=instance_type,
        )
        if bought.disk_gib:
            gib = bought.disk_gib * count
            disks = _service_rate(tariff, f"disks of {count} × {instance_type}, {gib} GiB", (_DISK,), holding, gib)
            yield msgspec.structs.replace(disks, resource=_NODE_GROUP if holding else "", nodes=count)


def holding_rates(held: Mapping[str, Holding], binding: Binding, tariff: Tariff) -> Iterator[Rate]:
    """Yield the rate of each holding that is paid by the hour and is not nodes.

    Args:
        held: By name.
        binding: Fills `${name}`.
        tariff: The prices.
    """
    for name, holding in held.items():
        match holding.kind:
            case HoldingKind.CONTROL_PLANE:
                version = fill(holding.version, binding.everything)
                support = support_price(version, tariff.day)
                title = f"{holding.title} {version}, {support} support"
                found = _service_rate(tariff, title, (f"{CONTROL_PLANE}-{support}",), name, 1)
                yield msgspec.structs.replace(found, resource=_CLUSTER)
            case HoldingKind.FLAT:
                found = _service_rate(tariff, holding.title, _services(holding, binding), name, 1)
                yield _or_own(found, holding, holding.usd_per_hour, Decimal(1))
            case HoldingKind.STORAGE:
                gib = _amount_of(holding, "gib", binding)
                title = f"{holding.title}, {gib} GiB"
                found = _service_rate(tariff, title, _services(holding, binding), name, gib)
                yield _or_own(found, holding, holding.usd_per_gib_month, Decimal(gib) / HOURS_PER_MONTH)
            case HoldingKind.NODES | HoldingKind.USAGE:
                pass


def usage_prices(held: Iterable[tuple[str, Holding]], binding: Binding, tariff: Tariff) -> Iterator[UsagePrice]:
    """Yield what is paid by use, of holdings with the stages that hold them."""
    for stage, holding in held:
        if holding.kind is HoldingKind.USAGE:
            for service in _services(holding, binding):
                price = tariff.prices.service_price(service, tariff.region)
                unit = SERVICES.get(service, Unit.GB)
                yield UsagePrice(title=holding.title, usd=price.usd if price else None, unit=unit.value, stage=stage)


def _services(holding: Holding, binding: Binding) -> tuple[str, ...]:
    return tuple(fill(service, binding.everything) for service in holding.prices)


def _service_rate(tariff: Tariff, title: str, services: tuple[str, ...], holding: str, amount: int) -> Rate:
    """Return the sum of services that are paid together; unknown if the price of one is."""
    known = [tariff.prices.service_price(service, tariff.region) for service in services]
    found = [price for price in known if price is not None]
    resource = next((kind for name, kind in _RESOURCES.items() if services and services[0].startswith(name)), "")
    if not found or len(found) < len(services):
        return Rate(name=title, holding=holding, usd_per_hour=None, resource=resource)
    hours = {Unit.HOUR: Decimal(1), Unit.GB_MONTH: Decimal(HOURS_PER_MONTH)}
    return Rate(
        name=title,
        holding=holding,
        usd_per_hour=sum((price.usd * amount / hours[price.unit] for price in found), Decimal(0)),
        source="; ".join(dict.fromkeys(price.source for price in found)),
        as_of=_oldest(price.as_of for price in found),
        resource=resource,
    )


def _oldest(days: Iterable[date | None]) -> date | None:
    """Return the oldest; `None` if one is unknown."""
    known = list(days)
    return None if None in known else min(day for day in known if day is not None)


def _or_own(found: Rate, holding: Holding, own: float | None, amount: Decimal) -> Rate:
    if found.usd_per_hour is not None or own is None:
        return found
    return msgspec.structs.replace(found, usd_per_hour=Decimal(str(own)) * amount, source=holding.source)
