"""Capacity before anything is paid for: the zone that offers an instance type, and the reservation with its time.

The decision is a pure function over what EC2 answers; `find_capacity` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from actions.base.errors import AccessError, ConfigError, ConsoleError, ParameterError
from actions.base.wording import brief_duration
from actions.blueprint.stages import CapacityStage
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Reservation, Zone, fetch_offering_zones, fetch_reservation, fetch_zones
from actions.fleet.eks_versions import VersionMatrix

CAPACITY_BLOCK = "CAPACITY_BLOCK"
AUTO = "auto"
BLOCK_ENDS_EARLY = timedelta(minutes=30)
"""Time before the end of a capacity block from which instances are terminated.

Source: EC2 user guide, Capacity Blocks for ML.
"""
_COMING = frozenset({"scheduled", "pending", "payment-pending", "assessing"})
"""States of a reservation that becomes active by itself."""


class CapacityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a run requests, and where."""

    region: str
    instance_type: str
    count: int
    zone: str = AUTO
    """Name or id of a zone; `auto` or empty to have one chosen."""
    capacity_type: str = "ON_DEMAND"
    reservation: str = ""
    """`cr-…`, or empty for none."""

    @property
    def is_zone_given(self) -> bool:
        """True if the operator named a zone."""
        return self.zone not in ("", AUTO)


class Capacity(msgspec.Struct, frozen=True):
    """The place for the nodes."""

    zone: Zone | None
    """`None` if nothing could be asked: the network root then takes the region's first."""
    detail: str
    """Zone, reservation and its time in one or two sentences."""
    reservation: Reservation | None = None
    unknown: str = ""
    """The questions left without an answer, in a sentence; empty if there are none."""

    @property
    def placement_group(self) -> str:
        """The group that the reservation was made in; empty for none."""
        return self.reservation.placement_group if self.reservation else ""


def stage_request(stage: CapacityStage, region: str, text: Callable[[str], str]) -> CapacityRequest:
    """Return what a stage of a run asks for.

    Args:
        stage: As the blueprint declares it.
        region: The run's.
        text: Fills in `${name}`.

    Raises:
        ParameterError: The number of nodes is not one.
    """
    count = text(str(stage.count))
    if not count.isdigit():
        raise ParameterError(f"{count!r} is not a number of nodes.", hint="Correct count in the blueprint.")
    return CapacityRequest(
        region=region,
        instance_type=text(stage.instance_type),
        count=int(count),
        zone=text(stage.zone),
        capacity_type=text(stage.capacity_type).upper().replace("-", "_"),
        reservation=text(stage.reservation),
    )


async def find_capacity(session: AwsSession, request: CapacityRequest, *, now: datetime) -> Capacity:
    """Ask EC2 for zones, offerings and the reservation, and choose.

    Raises:
        ConfigError: The zone or reservation cannot be used; the sentence names those that can.
        MissingError: There is no such reservation.
        AccessError: What is needed to choose a zone may not be asked, and none is given.
        UnreachableError: No answer.
    """
    require_reservation(request)
    reservation = await fetch_reservation(session, request.reservation) if request.reservation else None
    if reservation is not None:
        check_reservation(reservation, request, now=now)
    try:
        zones = await fetch_zones(session)
        offering = await fetch_offering_zones(session, request.instance_type)
    except AccessError as error:
        return _unasked(request, reservation, error, now=now)
    zone = choose_zone(request, zones, offering, reservation)
    return Capacity(zone, _detail(zone, request, reservation, now=now), reservation)


def require_reservation(request: CapacityRequest) -> None:
    """Require that a capacity block names its reservation.

    Raises:
        ConfigError: It names none.
    """
    if request.capacity_type == CAPACITY_BLOCK and not request.reservation:
        raise ConfigError(
            "A capacity block needs the id of its reservation.", hint="Set capacity_reservation_id to its id, cr-…."
        )


def choose_zone(
    request: CapacityRequest, zones: Sequence[Zone], offering: frozenset[str], reservation: Reservation | None
) -> Zone:
    """Return the zone: the given one, else that of the reservation, else the first that offers the type.

    Raises:
        ConfigError: There is none, or the given one cannot be used.
    """
    forbidden = VersionMatrix.load().forbidden_zone_ids
    usable = [zone for zone in zones if zone.id in offering and zone.id not in forbidden]
    if not usable:
        raise ConfigError(
            f"No zone of {request.region} that EKS can use offers {request.instance_type}.",
            hint="Choose another region or instance type.",
        )
    reserved = _zone_of(reservation, zones) if reservation else None
    wanted = _named(request.zone, zones) if request.is_zone_given else reserved or usable[0]
    which = f"{request.instance_type} is offered in {_listed(usable)}."
    if wanted is None:
        raise ConfigError(f"{request.region} has no zone {request.zone}; {which}", hint="Choose one of these, or auto.")
    if reservation is not None and reserved is not None and wanted != reserved:
        raise ConfigError(
            f"The reservation {reservation.id} is in {reserved.describe()}, not in {wanted.describe()}.",
            hint="Set zone to auto, or to the reservation's.",
        )
    if wanted.id in forbidden:
        raise ConfigError(f"EKS takes no subnets in {wanted.describe()}; {which}", hint="Choose one of these, or auto.")
    if wanted not in usable:
        raise ConfigError(
            f"{wanted.describe()} does not offer {request.instance_type}: it is offered in {_listed(usable)}.",
            hint="Choose one of these zones, or auto.",
        )
    return wanted


def check_reservation(found: Reservation, request: CapacityRequest, *, now: datetime) -> None:
    """Check that a reservation fits: type, places and state. One that has not begun yet does.

    Raises:
        ConfigError: It does not.
    """
    if found.state != "active" and found.state not in _COMING:
        raise ConfigError(f"The reservation {found.id} is {found.state}.", hint="Name one that is active or scheduled.")
    if found.instance_type != request.instance_type:
        raise ConfigError(
            f"The reservation {found.id} is for {found.instance_type}, not {request.instance_type}.",
            hint=f"Set instance_type to {found.instance_type}, or name another reservation.",
        )
    places = found.available if found.state == "active" else found.total
    if places < request.count:
        raise ConfigError(
            f"The reservation {found.id} has {places} of {found.total} left, {request.count} required.",
            hint="Take fewer nodes, or a larger reservation.",
        )
    last = last_moment(found)
    if last is not None and last <= now:
        raise ConfigError(
            f"The reservation {found.id} has ended: EC2 has been terminating its instances since {_when(last)}.",
            hint="Name another reservation.",
        )


def begins_at(found: Reservation) -> datetime | None:
    """Return the moment at which a reservation becomes active; `None` if it is, or names none."""
    if found.state == "active" or found.starts_at is None:
        return None
    return datetime.fromtimestamp(found.starts_at, UTC)


def last_moment(found: Reservation) -> datetime | None:
    """Return the moment from which EC2 ends the instances of a capacity block; `None` for other reservations."""
    return None if found.ends_at is None else datetime.fromtimestamp(found.ends_at, UTC) - BLOCK_ENDS_EARLY


def describe_time(found: Reservation, *, now: datetime) -> str:
    """Return begin and end of a reservation as sentences; empty if it has begun and has no end."""
    sentences = []
    begin, last = begins_at(found), last_moment(found)
    if begin is not None:
        sentences.append(f"It begins on {_when(begin)}, {_until(begin, now)}.")
    elif found.state != "active":
        sentences.append(f"It is {found.state}.")
    if last is not None:
        sentences.append(f"EC2 ends its instances from {_when(last)} on, {_until(last, now)}: save checkpoints before.")
    return " ".join(sentences)


def _detail(zone: Zone, request: CapacityRequest, reservation: Reservation | None, *, now: datetime) -> str:
    if reservation is None:
        return f"{request.instance_type} is offered in {zone.describe()}; EC2 does not report what is free there."
    return describe_reservation(reservation, zone, now=now)


def describe_reservation(reservation: Reservation, zone: Zone, *, now: datetime) -> str:
    """Return places, zone, placement group and time of a reservation, as sentences."""
    places = reservation.available if reservation.state == "active" else reservation.total
    what = f"The reservation {reservation.id} has {places} × {reservation.instance_type} in {zone.describe()}."
    group = f" It is in the placement group {reservation.placement_group}." if reservation.placement_group else ""
    return f"{what}{group} {describe_time(reservation, now=now)}".rstrip()


def _unasked(
    request: CapacityRequest, reservation: Reservation | None, error: ConsoleError, *, now: datetime
) -> Capacity:
    """Return what is known without the right to ask for zones.

    Raises:
        AccessError: No zone is given, and no reservation names one.
    """
    name = request.zone if request.is_zone_given else reservation.zone if reservation else ""
    if not name:
        raise AccessError(
            f"A zone for {request.instance_type} cannot be chosen: {error.message}",
            hint=f"{error.hint} Or name a zone: zone={request.region}a.".strip(),
        )
    zone = Zone(name, "")
    about = f" {describe_reservation(reservation, zone, now=now)}" if reservation else ""
    return Capacity(zone, f"The zone {name} is taken as it was given.{about}", reservation, error.message)


def _zone_of(reservation: Reservation, zones: Iterable[Zone]) -> Zone | None:
    return next((zone for zone in zones if reservation.zone_id == zone.id or reservation.zone == zone.name), None)


def _named(text: str, zones: Iterable[Zone]) -> Zone | None:
    return next((zone for zone in zones if text in (zone.name, zone.id)), None)


def _listed(zones: Iterable[Zone]) -> str:
    return ", ".join(zone.describe() for zone in zones)


def _when(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _until(moment: datetime, now: datetime) -> str:
    return f"in {brief_duration((moment - now).total_seconds())}"
