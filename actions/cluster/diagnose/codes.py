"""The codes of a diagnosis, the findings that carry them, and their form as text or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from actions.base.wording import folded


class Severity(StrEnum):
    """The urgency of a finding."""

    ERROR = "error"
    """It does not continue by itself."""
    WARNING = "warning"
    """It may continue, slowly or later."""
    INFO = "info"
    """Nothing is wrong: wait."""


class Code(StrEnum):
    """The code of a finding, from causes to their symptoms: the order in which findings are listed."""

    GPU_LOST = "GPU_LOST"
    GPU_ECC = "GPU_ECC"
    GPU_GSP = "GPU_GSP"
    NVLINK = "NVLINK"
    NEURON_HW = "NEURON_HW"
    SPOT_INTERRUPTED = "SPOT_INTERRUPTED"
    EVICTED_DISK = "EVICTED_DISK"
    EVICTED_MEMORY = "EVICTED_MEMORY"
    NODE_DISK_FULL = "NODE_DISK_FULL"
    SUBNET_FULL = "SUBNET_FULL"
    NO_POD_IP = "NO_POD_IP"
    AWS_QUOTA = "AWS_QUOTA"
    RESERVATION_FULL = "RESERVATION_FULL"
    WRONG_ZONE = "WRONG_ZONE"
    CAPACITY = "CAPACITY"
    NODEPOOL_LIMIT = "NODEPOOL_LIMIT"
    NODE_NOT_JOINING = "NODE_NOT_JOINING"
    NAMESPACE_QUOTA = "NAMESPACE_QUOTA"
    NAMESPACE_STUCK = "NAMESPACE_STUCK"
    DELETION_HELD = "DELETION_HELD"
    CONFIG_MISSING = "CONFIG_MISSING"
    PVC_UNBOUND = "PVC_UNBOUND"
    VOLUME_MOUNT = "VOLUME_MOUNT"
    IMAGE_ARCH = "IMAGE_ARCH"
    IMAGE_AUTH = "IMAGE_AUTH"
    IMAGE_NAME_INVALID = "IMAGE_NAME_INVALID"
    IMAGE_NOT_FOUND = "IMAGE_NOT_FOUND"
    REGISTRY_RATE_LIMIT = "REGISTRY_RATE_LIMIT"
    REGISTRY_UNAVAILABLE = "REGISTRY_UNAVAILABLE"
    DEVICE_PLUGIN_MISSING = "DEVICE_PLUGIN_MISSING"
    EFA_SHORTAGE = "EFA_SHORTAGE"
    TAINT = "TAINT"
    NODE_LOST = "NODE_LOST"
    NODEPOOL_MISMATCH = "NODEPOOL_MISMATCH"
    GPU_SHORTAGE = "GPU_SHORTAGE"
    GPU_ECC_CONTAINED = "GPU_ECC_CONTAINED"
    GPU_REBOOT = "GPU_REBOOT"
    GPU_RUNTIME = "GPU_RUNTIME"
    NEURON_DRIVER = "NEURON_DRIVER"
    NEURON_CORES_BUSY = "NEURON_CORES_BUSY"
    NEURON_NQ_OVERFLOW = "NEURON_NQ_OVERFLOW"
    OOM_KILLED = "OOM_KILLED"
    SHM_TOO_SMALL = "SHM_TOO_SMALL"
    OOM_CHILD_KILLED = "OOM_CHILD_KILLED"
    GPU_OOM = "GPU_OOM"
    HF_GATED = "HF_GATED"
    CHECKPOINT_DAMAGED = "CHECKPOINT_DAMAGED"
    NCCL_DUPLICATE_GPU = "NCCL_DUPLICATE_GPU"
    NCCL_NO_INTERFACE = "NCCL_NO_INTERFACE"
    EFA_MEMORY = "EFA_MEMORY"
    GPU_APP_FAULT = "GPU_APP_FAULT"
    NEURON_COLLECTIVE_HANG = "NEURON_COLLECTIVE_HANG"
    JOB_DEADLINE = "JOB_DEADLINE"
    RENDEZVOUS = "RENDEZVOUS"
    NCCL_TIMEOUT = "NCCL_TIMEOUT"
    NCCL_PEER_DIED = "NCCL_PEER_DIED"
    PROBE_FAILED = "PROBE_FAILED"
    KILLED_SIGKILL = "KILLED_SIGKILL"
    CRASH_LOOP = "CRASH_LOOP"
    JOB_FAILED = "JOB_FAILED"
    LOSS_DIVERGED = "LOSS_DIVERGED"
    GANG_WAITING = "GANG_WAITING"
    LIKELY_HANG = "LIKELY_HANG"
    EFA_NOT_USED = "EFA_NOT_USED"
    QUEUE_WAITING = "QUEUE_WAITING"
    NOT_READY = "NOT_READY"
    NOT_KNOWN = "NOT_KNOWN"
    WAITING_FOR_NODE = "WAITING_FOR_NODE"
    MPI_LAUNCHER_WAITING = "MPI_LAUNCHER_WAITING"
    IMAGE_PULLING = "IMAGE_PULLING"


RANK = {code: position for position, code in enumerate(Code)}

_WARNINGS = frozenset(
    {
        Code.EFA_NOT_USED,
        Code.GANG_WAITING,
        Code.GPU_ECC_CONTAINED,
        Code.LIKELY_HANG,
        Code.LOSS_DIVERGED,
        Code.NOT_KNOWN,
        Code.NOT_READY,
    }
)
_INFOS = frozenset({Code.IMAGE_PULLING, Code.MPI_LAUNCHER_WAITING, Code.QUEUE_WAITING, Code.WAITING_FOR_NODE})


def severity_of(code: Code) -> Severity:
    """The usual severity of each code."""
    if code in _WARNINGS:
        return Severity.WARNING
    return Severity.INFO if code in _INFOS else Severity.ERROR


LAST_RESORTS = frozenset({Code.PROBE_FAILED, Code.KILLED_SIGKILL, Code.CRASH_LOOP, Code.JOB_FAILED})
"""Codes that are listed only if there is no better one for the same workload."""

_NO_ROOM = frozenset({Code.GPU_SHORTAGE, Code.NODEPOOL_MISMATCH, Code.TAINT, Code.WAITING_FOR_NODE})
_NO_INSTANCE = (
    Code.AWS_QUOTA,
    Code.RESERVATION_FULL,
    Code.WRONG_ZONE,
    Code.CAPACITY,
    Code.SUBNET_FULL,
    Code.NODEPOOL_LIMIT,
    Code.NODE_NOT_JOINING,
)

EXPLAINS: dict[Code, frozenset[Code]] = {
    **dict.fromkeys(_NO_INSTANCE, _NO_ROOM - {Code.TAINT}),
    Code.PVC_UNBOUND: _NO_ROOM,
    Code.EFA_SHORTAGE: frozenset({Code.GPU_SHORTAGE, Code.TAINT, Code.NODEPOOL_MISMATCH}),
    Code.DEVICE_PLUGIN_MISSING: frozenset({Code.GPU_SHORTAGE, Code.NODEPOOL_MISMATCH}),
    Code.TAINT: frozenset({Code.GPU_SHORTAGE, Code.NODEPOOL_MISMATCH}),
    Code.NODEPOOL_MISMATCH: frozenset({Code.GPU_SHORTAGE}),
    Code.WAITING_FOR_NODE: frozenset({Code.GPU_SHORTAGE, Code.EFA_SHORTAGE, Code.TAINT, Code.NODEPOOL_MISMATCH}),
    Code.QUEUE_WAITING: frozenset({Code.GANG_WAITING, Code.GPU_SHORTAGE}),
    Code.GANG_WAITING: frozenset({Code.GPU_SHORTAGE, Code.NODEPOOL_MISMATCH}),
    Code.NEURON_HW: frozenset({Code.GPU_ECC}),  # the same words for another device's memory
    Code.SPOT_INTERRUPTED: frozenset({Code.NODE_LOST}),
    Code.EVICTED_DISK: frozenset({Code.NODE_DISK_FULL}),
    Code.SUBNET_FULL: _NO_ROOM - {Code.TAINT} | {Code.NO_POD_IP},
    Code.CONFIG_MISSING: frozenset({Code.VOLUME_MOUNT}),
    Code.OOM_KILLED: frozenset({Code.OOM_CHILD_KILLED}),
    Code.SHM_TOO_SMALL: frozenset({Code.OOM_CHILD_KILLED}),
    Code.JOB_DEADLINE: LAST_RESORTS,
    Code.MPI_LAUNCHER_WAITING: LAST_RESORTS,
    Code.NCCL_TIMEOUT: frozenset({Code.LIKELY_HANG}),
}
"""Cause → symptoms that would only mislead beside it."""


QUOTE_LIMIT = 600
_MOST_QUOTES = 8


class Finding(msgspec.Struct, frozen=True):
    """One fault, with its evidence and its remedy.

    `headline` is a sentence with the object and the number that matters. `evidence` are literal pieces of the input
    after the removal of control characters and credentials. `next_step` is an imperative.
    """

    code: Code
    severity: Severity
    headline: str
    evidence: tuple[str, ...]
    next_step: str


def finding(
    code: Code, headline: str, evidence: Iterable[str], next_step: str, *, severity: Severity | None = None
) -> Finding:
    """Make a finding with the usual severity of its code; evidence without repetitions, each piece on one line."""
    pieces = (line.strip()[:QUOTE_LIMIT].rstrip() for text in evidence for line in text.splitlines())
    quotes = tuple(dict.fromkeys(piece for piece in pieces if piece))[:_MOST_QUOTES]
    return Finding(code, severity or severity_of(code), headline, quotes, next_step)


def field_quote(name: str, value: object) -> str:
    """Return a field in JSON's form: `"exitCode": 137`."""
    return f'"{name}": {msgspec.json.encode(value).decode()}'


WIDTH = 100
NOTHING = "Nothing is wrong in the pods, events, nodes and logs that may be read."


def findings_json(found: Sequence[Finding]) -> str:
    """Return a JSON list of `code, severity, headline, evidence, next_step`, on several lines."""
    return msgspec.json.format(msgspec.json.encode(list(found)), indent=1).decode() + "\n"


def findings_text(found: Sequence[Finding], *, width: int = WIDTH) -> str:
    """Return one paragraph per finding: headline, evidence, next step."""
    if not found:
        return f"{NOTHING}\n"
    return "\n".join(_paragraph(one, width) for one in found)


def _paragraph(one: Finding, width: int) -> str:
    lines = [
        f"{one.severity.value.upper()}  {one.code.value}",
        *_wrapped(one.headline, "  ", "  ", width),
        *(line for quote in one.evidence for line in _wrapped(quote, "    │ ", "    │ ", width)),
        *_wrapped(one.next_step, "  → ", "    ", width),
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, first: str, further: str, width: int) -> list[str]:
    return folded(text, max(40, width), first=first, further=further) or [first]
