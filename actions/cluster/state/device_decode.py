"""The decoders of dynamic resource allocation: what ResourceSlices offer, and what ResourceClaims were given.

Sources: resource.k8s.io in its versions v1, v1beta2 (devices as in v1) and v1beta1 (their fields below `basic`);
`deviceinfo.go` and `partitions.go` of NVIDIA's k8s-dra-driver-gpu; the guide of EKS for the Neuron DRA driver and for
DRANET with EFA (its DeviceClass `efa.networking.k8s.aws`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from actions.base.decoding import json_decoder
from actions.cluster.state.decode import Raw, safe, shared
from actions.fleet.facts import DeviceClaimFacts, DeviceFacts, SliceFacts

KINDS: Final = {"gpu.nvidia.com": "gpu", "gpu.amd.com": "gpu", "neuron.aws.com": "neuron", "dra.net": ""}
"""The drivers whose devices are counted, and as what; an empty one has devices of several kinds."""

_EFA = "Elastic Fabric Adapter (EFA)"
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"
_MOST_SHARED = 16384
_WHOLE = ("gpu", "vfio")
"""The types of NVIDIA's devices that are a whole GPU: by its own driver, or passed on to a virtual machine."""


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str
    namespace: str | None = None
    annotations: dict[str, str] | None = None


class _Pool(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class _Value(msgspec.Struct, gc=False):
    string: str | None = None


class _Attributes(msgspec.Struct, gc=False):
    """The attributes that are read; a name without a domain has that of the driver."""

    type: _Value | None = None
    nvidia_type: _Value | None = msgspec.field(default=None, name="gpu.nvidia.com/type")
    pcie_bus: _Value | None = msgspec.field(default=None, name="pcieBusID")
    nvidia_pcie_bus: _Value | None = msgspec.field(default=None, name="gpu.nvidia.com/pcieBusID")
    pci_bus: _Value | None = msgspec.field(default=None, name="resource.kubernetes.io/pciBusID")
    pci_device: _Value | None = msgspec.field(default=None, name="dra.net/pciDevice")
    own_pci_device: _Value | None = msgspec.field(default=None, name="pciDevice")


class _Counters(msgspec.Struct, rename="camel", gc=False):
    counter_set: str = ""


class _Basic(msgspec.Struct, rename="camel", gc=False):
    attributes: _Attributes | None = None
    consumes_counters: list[_Counters] | None = None
    node_name: str | None = None


class _Device(_Basic, rename="camel", gc=False):
    name: str = ""
    basic: _Basic | None = None


class _SliceSpec(msgspec.Struct, rename="camel", gc=False):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    node_name: str | None = None
    devices: list[_Device] | None = None


class _Slice(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _SliceSpec


class _Result(msgspec.Struct, rename="camel", gc=False):
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class _Results(msgspec.Struct, gc=False):
    results: list[_Result] | None = None


class _Field(msgspec.Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel", gc=False):
    match_fields: list[_Field] | None = None


class _NodeSelector(msgspec.Struct, rename="camel", gc=False):
    node_selector_terms: list[_Term] | None = None


class _Allocation(msgspec.Struct, rename="camel", gc=False):
    devices: _Results | None = None
    node_selector: _NodeSelector | None = None


class _Consumer(msgspec.Struct, rename="camel", gc=False):
    api_group: str | None = None
    resource: str = ""
    name: str = ""


class _ClaimStatus(msgspec.Struct, rename="camel", gc=False):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class _Claim(msgspec.Struct, gc=False):
    metadata: _Meta
    status: _ClaimStatus | None = None


_slices = json_decoder(_Slice)
_claims = json_decoder(_Claim)


def decode_slice(raw: Raw) -> SliceFacts:
    """Decode one ResourceSlice; devices of drivers that are not in `KINDS` are left out.

    Raises:
        msgspec.DecodeError: It is not a ResourceSlice.
    """
    found = _slices.decode(raw)
    spec, pool = found.spec, found.spec.pool
    driver = shared(spec.driver)
    return SliceFacts(
        uid=safe(found.metadata.uid),
        name=safe(found.metadata.name),
        driver=driver,
        pool=shared(pool.name),
        generation=pool.generation,
        count=pool.resource_slice_count,
        node=shared(spec.node_name or ""),
        devices=_shared(tuple([_device(driver, one) for one in spec.devices or ()])) if driver in KINDS else (),
    )


def decode_device_claim(raw: Raw) -> DeviceClaimFacts:
    """Decode one ResourceClaim.

    Raises:
        msgspec.DecodeError: It is not a ResourceClaim.
    """
    found = _claims.decode(raw)
    meta, status = found.metadata, found.status or _ClaimStatus()
    allocation = status.allocation or _Allocation()
    results = (allocation.devices.results if allocation.devices else None) or ()
    return DeviceClaimFacts(
        uid=safe(meta.uid),
        namespace=shared(meta.namespace or ""),
        name=safe(meta.name),
        node=_node(allocation.node_selector),
        devices=tuple(
            (shared(one.driver), shared(one.pool), shared(one.device)) for one in results if not one.admin_access
        ),
        pods=tuple(safe(one.name) for one in status.reserved_for or () if one.resource == "pods" and not one.api_group),
        is_extended=(meta.annotations or {}).get(_EXTENDED) == "true",
    )


def _node(selector: _NodeSelector | None) -> str:
    """Return the node to which an allocation is bound by name, as it is by any device that is local to one."""
    terms = (selector.node_selector_terms if selector else None) or ()
    fields = (field for term in terms for field in term.match_fields or ())
    return next(
        (
            shared(field.values[0])
            for field in fields
            if field.key == "metadata.name" and field.operator == "In" and field.values
        ),
        "",
    )


def _device(driver: str, device: _Device) -> DeviceFacts:
    basic: _Basic = device.basic or device
    found = basic.attributes or _Attributes()
    name = shared(device.name)
    kind = KINDS[driver] or ("efa" if _text(found.pci_device or found.own_pci_device) == _EFA else "")
    return _shared_device(name, kind, _unit(name, basic, found), basic.node_name or "")


def _unit(name: str, device: _Basic, found: _Attributes) -> str:
    """Return what a device is counted as.

    Partitions and their whole draw on the same counters; a GPU and its form for virtual machines have one address. A
    MIG device that was made beforehand counts for itself, as with the device plugin: its GPU is not offered.
    """
    counters = device.consumes_counters
    if counters:
        return f"counters {counters[0].counter_set}"
    address = _text(found.pci_bus or found.pcie_bus or found.nvidia_pcie_bus)
    if address and _text(found.type or found.nvidia_type) in _WHOLE:
        return f"pci {address}"
    return name


def _text(value: _Value | None) -> str:
    return (value.string if value else None) or ""


@lru_cache(maxsize=_MOST_SHARED)
def _shared(devices: tuple[DeviceFacts, ...]) -> tuple[DeviceFacts, ...]:
    """Return equal tuples as one object."""
    return devices


@lru_cache(maxsize=_MOST_SHARED)
def _shared_device(name: str, kind: str, unit: str, node: str) -> DeviceFacts:
    """Make the facts of a device; nodes of a type have equal ones, which become one object."""
    return DeviceFacts(name, kind, shared(unit), shared(node))
