"""Service quotas with what is in use of them: vCPUs by family and market, addresses, VPCs, storage of FSx for Lustre.

Instances of a capacity block count for no quota. Those of a reservation count from the moment it is made, so that
starting them adds nothing; the reservation's free places count too.

Source: EC2 user guide, "EC2 instance type quotas" and "Capacity Blocks for ML"; FSx for Lustre user guide, "Quotas";
codes as ListServiceQuotas has them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import msgspec

from actions.base.errors import FormatError, MissingError
from actions.cloud.aws_session import AwsSession, pages
from actions.fleet.instance_types import InstanceTable


class Market(StrEnum):
    """A way to buy an instance, as far as quotas differ by it."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


class VcpuQuota(msgspec.Struct, frozen=True):
    """A quota on the vCPUs that run of some families, in one market."""

    families: tuple[str, ...]
    """Letters before the generation: `g` of g5.8xlarge, `trn` of trn1.32xlarge."""
    market: Market


_FAMILIES = (
    (("a", "c", "d", "h", "i", "m", "r", "t", "z"), "L-1216C47A", "L-34B43A08"),
    (("g", "gr", "vt"), "L-DB2E81BA", "L-3819A6DF"),
    (("p",), "L-417A185B", "L-7212CCBC"),
    (("trn",), "L-2C3B7624", "L-6B0D517C"),
    (("inf",), "L-1945791B", "L-B5D1601B"),
)
VCPU_QUOTAS: Mapping[str, VcpuQuota] = MappingProxyType(
    {code: VcpuQuota(families, Market.ON_DEMAND) for families, code, _ in _FAMILIES}
    | {code: VcpuQuota(families, Market.SPOT) for families, _, code in _FAMILIES}
)
"""By quota code."""
SPOT_CODES: Mapping[str, str] = MappingProxyType({on_demand: spot for _, on_demand, spot in _FAMILIES})
"""The code of the quota for spot instances, by that of the same families on demand."""
ADDRESSES = "L-0263D0A3"
"""Elastic IP addresses of a region: a NAT gateway takes one."""
VPCS = "L-F678F1CE"
"""VPCs of a region; of the service `vpc`."""
LUSTRE_STORAGE = "Lustre Persistent 2 file storage capacity"
"""GiB of all file systems of the deployment type PERSISTENT_2 in a region; of the service `fsx`.

AWS documents this quota by its name alone.
"""
CODE_PREFIX = "L-"
"""The beginning of a quota's code; anything else in its place is the quota's name."""

_FAMILY = re.compile(r"^([a-z]+?)(?:-?[0-9])")


async def fetch_quota(session: AwsSession, service: str, code: str) -> float:
    """The value of a quota, by its code or its name.

    Raises:
        AccessError: No right for `servicequotas:GetServiceQuota`, or for a name `servicequotas:ListServiceQuotas`.
        MissingError: There is no such quota.
        UnreachableError: No answer.
        FormatError: The answer holds no number.
    """
    if code.startswith(CODE_PREFIX):
        answer = await session.call("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
        quota = answer.get("Quota") or {}
    else:
        quota = await _quota_named(session, service, code)
    try:
        return float(quota["Value"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"The quota {code} of {service} has no value.") from error


async def _quota_named(session: AwsSession, service: str, name: str) -> dict[str, Any]:
    """Return the quota that applies to the account; if AWS lists none, as it was never changed, the default."""
    applied = await _listed(pages(session, "service-quotas", "list_service_quotas", ServiceCode=service), "Quotas")
    found = _first_named(applied, name)
    if found is None:
        usual = pages(session, "service-quotas", "list_aws_default_service_quotas", ServiceCode=service)
        defaults = await _listed(usual, "Quotas")
        found = _first_named(defaults, name)
    if found is not None:
        return found
    raise MissingError(f"{service} has no quota {name}.")


def _first_named(quotas: Iterable[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((one for one in quotas if str(one.get("QuotaName", "")).casefold() == name.casefold()), None)


async def fetch_use(session: AwsSession, code: str) -> float | None:
    """The amount in use of a quota; `None` for a quota whose use this module cannot count.

    Raises:
        AccessError: No right for the call that lists what counts.
        UnreachableError: No answer.
    """
    if code == ADDRESSES:
        return float(len((await session.call("ec2", "describe_addresses")).get("Addresses") or ()))
    if code == VPCS:
        return float(len(await _listed(pages(session, "ec2", "describe_vpcs"), "Vpcs")))
    if code == LUSTRE_STORAGE:
        systems = await _listed(pages(session, "fsx", "describe_file_systems"), "FileSystems")
        return float(sum(map(_lustre_gib_of, systems)))
    quota = VCPU_QUOTAS.get(code)
    if quota is None:
        return None
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    groups = await _listed(pages(session, "ec2", "describe_instances", Filters=running), "Reservations")
    used = float(sum(_vcpus_of(entry, quota) for group in groups for entry in group.get("Instances") or ()))
    if quota.market is Market.ON_DEMAND:
        active = [{"Name": "state", "Values": ["active"]}]
        answers = pages(session, "ec2", "describe_capacity_reservations", Filters=active)
        reservations = await _listed(answers, "CapacityReservations")
        used += _free_places(reservations, quota)
    return used


async def _listed(answers: AsyncIterator[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return a list that AWS divides into pages."""
    return [item async for answer in answers for item in answer.get(key) or ()]


def _lustre_gib_of(system: Mapping[str, Any]) -> int:
    """Return the storage of a file system of the deployment type PERSISTENT_2; 0 for any other."""
    kind = (system.get("LustreConfiguration") or {}).get("DeploymentType")
    return int(system.get("StorageCapacity") or 0) if kind == "PERSISTENT_2" else 0


def _vcpus_of(entry: Mapping[str, Any], quota: VcpuQuota) -> int:
    """Return what an instance counts: 0 in another family or market, and in a capacity block."""
    lifecycle = str(entry.get("InstanceLifecycle") or "")
    market = Market.SPOT if lifecycle == "spot" else Market.ON_DEMAND
    name = str(entry.get("InstanceType") or "")
    if lifecycle == "capacity-block" or market is not quota.market or family_of(name) not in quota.families:
        return 0
    options = entry.get("CpuOptions") or {}
    return int(options.get("CoreCount") or 0) * int(options.get("ThreadsPerCore") or 1) or _vcpus_of_type(name)


def _free_places(reservations: Iterable[Mapping[str, Any]], quota: VcpuQuota) -> int:
    """Return the vCPUs of reserved places without an instance, which count as if one ran."""
    return sum(
        int(entry.get("AvailableInstanceCount") or 0) * _vcpus_of_type(str(entry.get("InstanceType") or ""))
        for entry in reservations
        if entry.get("ReservationType") != "capacity-block"
        and family_of(str(entry.get("InstanceType") or "")) in quota.families
    )


def family_of(instance_type: str) -> str:
    """Return the letters before the generation: `trn` of `trn1n.32xlarge`."""
    match = _FAMILY.match(instance_type)
    return match[1] if match else ""


def _vcpus_of_type(name: str) -> int:
    found = InstanceTable.load().find(name)
    return found.vcpu if found else 0
