"""Rules for faults of accelerators: Xid lines of the NVIDIA driver, messages of the Neuron runtime and driver.

Source: NVIDIA's Xid catalogue (*Analyzing Xid Errors with the Xid Catalog*, r590), by the immediate action named there;
`dcgm_policies.go` of aws/eks-node-monitoring-agent, which takes the same numbers for faults of a node. The code of a
line is the first number after the PCI address, which has numbers of its own. AWS Neuron SDK, `nrt_status.h` and the
runtime's troubleshooting page (2.2x).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from actions.cluster.diagnose.codes import Code, Finding, Severity, field_quote, finding
from actions.cluster.diagnose.evidence import Evidence
from actions.cluster.diagnose.log_patterns import (
    Hit,
    LogPattern,
    all_messages,
    find_hits,
    match_patterns,
    pattern,
    pod_suffix,
)


class _Class(msgspec.Struct, frozen=True):
    code: Code
    meaning: str
    next_step: str
    severity: Severity | None = None


_RESET = "Drain the node and reset the GPU; replace the instance if it comes back."
_REPLACE = "Cordon the node and replace the instance; resume from the last checkpoint."
_APP = "Look for the bug in the job or in one of its libraries; the node is as a rule not at fault."

_ECC = _Class(Code.GPU_ECC, "A GPU has an uncorrectable memory error", _RESET)
_CONTAINED = _Class(
    Code.GPU_ECC_CONTAINED,
    "A GPU contained a memory error: only the process that used it is hit",
    "Restart the job; the node may stay. Reset the GPU when it is free.",
)
_GSP = _Class(Code.GPU_GSP, "The GPU's own firmware stopped answering", _RESET)
_LOST = _Class(Code.GPU_LOST, "A GPU fell off the bus", _REPLACE)
_LINK = _Class(Code.NVLINK, "An NVLink has failed", _RESET + " With SXid lines the NVSwitch is at fault.")
_REBOOT = _Class(
    Code.GPU_REBOOT, "The driver asks for a recovery of the node", "Drain the node, then reboot or replace it."
)
_HALTED = _Class(Code.GPU_GSP, "A micro-controller of the GPU halted", _RESET)
_SILENT = _Class(Code.GPU_REBOOT, "A GPU stopped processing", _RESET)
_SECURITY = _Class(Code.GPU_REBOOT, "A GPU reports a security fault, as a rule of its hardware", _RESET)
_ENGINE = _Class(
    Code.GPU_APP_FAULT,
    "An engine of the GPU raised an exception",
    "Restart the job. If it comes back on the same node, cordon that and replace the instance.",
)
_FAULT = _Class(Code.GPU_APP_FAULT, "The program made the GPU stop its work", _APP)
_STOPPED = _Class(Code.GPU_APP_FAULT, "The program's GPU channel was stopped", _APP, Severity.WARNING)

_XIDS: dict[int, _Class] = {
    13: _Class(Code.GPU_APP_FAULT, "A GPU kernel of the program raised an exception", _APP),
    31: _Class(Code.GPU_APP_FAULT, "The program accessed GPU memory that is not its own", _APP),
    43: _STOPPED,
    45: _STOPPED,
    46: _SILENT,
    54: _Class(Code.GPU_LOST, "The auxiliary power of a GPU is not connected", _REPLACE),
    109: _Class(Code.GPU_REBOOT, "A GPU did not switch contexts in time", _RESET),
    110: _SECURITY,
    142: _Class(Code.GPU_REBOOT, "A video encoder of the GPU has failed for good", _REPLACE),
    143: _Class(Code.GPU_REBOOT, "A GPU could not be initialised", _RESET),
    158: _Class(Code.GPU_REBOOT, "A GPU did not answer in time, for good", _RESET),
    167: _Class(Code.GPU_LOST, "The PCIe link of a GPU timed out for good", _REPLACE),
    **dict.fromkeys((8, 11, 12, 32, 69, 80, 137), _FAULT),
    **dict.fromkeys((*range(39, 42), 60, 68, *range(70, 73), *range(75, 78), *range(82, 87), 88, 89), _ENGINE),
    **dict.fromkeys((*range(96, 106), *range(126, 136), 139), _ENGINE),
    **dict.fromkeys((62, 169), _HALTED),
    **dict.fromkeys((48, 64, 95, 140, 156, 157, 171, 172), _ECC),
    **dict.fromkeys((63, 92, 94), _CONTAINED),
    **dict.fromkeys((119, 120), _GSP),
    **dict.fromkeys((74, 136, 144, 145, 146, 147, 148, 149, 150, 155, 173), _LINK),
    79: _LOST,
    **dict.fromkeys((151, 154, 168), _REBOOT),
}
_TO_IGNORE = frozenset({37, 38, 44, 66, 67, 93, 106, 107, 108, 121, 141, 152, 153, *range(160, 166)})
"""Numbers that the catalogue says to ignore: corrected, informational, or known by what they lead to."""
_UNKNOWN = _Class(
    Code.GPU_REBOOT, "The driver reports a fault of a GPU", "Look the number up in NVIDIA's list; drain the node."
)

_IGNORED = "|".join(map(str, sorted(_TO_IGNORE)))
_XID = re.compile(
    rf"NVRM: Xid \((?P<where>[^)\n]{{1,60}})\):? (?!(?:{_IGNORED})\b)(?P<number>\d{{1,4}})\b"
    rf"|NvidiaXID(?!(?:{_IGNORED})(?!\d))(?P<agent>\d{{1,4}})(?!\d)"
)
_AFTER_EFFECTS = frozenset({45})
_NO_ACTION = re.compile(r"recovery action changed from [^\n]{1,60} to 0x0 ")
"""Of a line of number 154: a recovery is over, or none is needed."""

_NVIDIA_PATTERNS = (
    LogPattern(
        Code.NVLINK,
        pattern(r"SXid \([^)\n]{1,60}\): \d{1,6}", r"NvidiaNV(?:Switch|Link)Error"),
        "An NVSwitch reports an error",
        "Drain the node and replace the instance: the NVSwitch is at fault.",
    ),
    LogPattern(
        Code.NVLINK,
        pattern(r"uncorrectable NVLink error", ignore_case=True),
        lambda hit: f"An NVLink has failed under the program{pod_suffix(hit)}",
        _RESET,
    ),
    LogPattern(
        Code.GPU_LOST,
        pattern(
            r"GPU is lost",
            r"(?:GPU has|NVRM:) fallen off the bus",
            r"Unable to determine the device handle for (?:GPU|gpu)",
        ),
        "A GPU is lost to its driver",
        _REPLACE,
    ),
    LogPattern(
        Code.GPU_REBOOT,
        pattern(r"NV_ERR_RESET_REQUIRED"),
        "The driver asks for a reset of a GPU",
        "Drain the node, then reset its GPUs, reboot or replace it.",
    ),
    LogPattern(
        Code.GPU_ECC,
        pattern(
            r"uncorrectable ECC error",
            r"CUDA error: uncorrectable ECC",
            r"NvidiaDoubleBitError",
            ignore_case=True,
        ),
        "A GPU has an uncorrectable memory error",
        _RESET,
    ),
    LogPattern(
        Code.GPU_APP_FAULT,
        pattern(
            r"block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `(?P<assertion>[^`\n]{1,200})` failed",
            r"CUDA error: device-side assert triggered",
            r"CUDA_ERROR_ASSERT\b",
            r"cudaErrorAssert\b",
        ),
        lambda hit: f"An assertion of a GPU kernel failed{f': {it}' if (it := hit.match['assertion']) else ''}",
        _APP,
    ),
    LogPattern(
        Code.GPU_APP_FAULT,
        pattern(
            r"CUDA error: an illegal (?:memory access|instruction)",
            r"CUDA error: (?:misaligned address|unspecified launch failure)",
            r"CUDA error: (?:operation not supported on global/shared address space|invalid program counter"
            r"|hardware stack error)",
            r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|LAUNCH_FAILED)\b",
            r"CUDA_ERROR_(?:INVALID_ADDRESS_SPACE|INVALID_PC|HARDWARE_STACK_ERROR)\b",
            r"cudaError(?:IllegalAddress|IllegalInstruction|MisalignedAddress|LaunchFailure)\b",
            r"cudaError(?:InvalidAddressSpace|InvalidPc|HardwareStackError)\b",
        ),
        "A GPU kernel of the program made an illegal access",
        _APP,
    ),
)


def find_nvidia_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield the driver's reports, each class once, the earliest first; then other forms of them."""
    reported: set[Code] = set()
    reports = [hit for hit in find_hits(all_messages(evidence), _XID) if not _NO_ACTION.search(hit.line)]
    for finding_ in _xids(reports):
        reported.add(finding_.code)
        yield finding_
    yield from (one for one in match_patterns(all_messages(evidence), _NVIDIA_PATTERNS) if one.code not in reported)
    if Code.GPU_ECC not in reported and (
        counts := [gpu.ecc_uncorrected for gpu in evidence.gpus if gpu.ecc_uncorrected]
    ):
        headline = (
            f"{len(counts)} of {len(evidence.gpus)} GPUs have uncorrectable memory errors ({max(counts)} on the worst)"
        )
        yield finding(Code.GPU_ECC, headline, [field_quote("ecc_uncorrected", counts[0])], _RESET)


def _xids(found: list[Hit]) -> Iterator[Finding]:
    numbers = [int(hit.match["number"] or hit.match["agent"]) for hit in found]
    if set(numbers) - _AFTER_EFFECTS:
        pairs = [(number, hit) for number, hit in zip(numbers, found, strict=True) if number not in _AFTER_EFFECTS]
    else:
        pairs = list(zip(numbers, found, strict=True))
    by_code: dict[Code, list[tuple[int, Hit]]] = {}
    for number, hit in pairs:
        by_code.setdefault(_class_of(number).code, []).append((number, hit))
    for code, members in by_code.items():
        number, hit = members[0]
        kind = _class_of(number)
        where = hit.match["where"]
        headline = f"{kind.meaning} (Xid {number}{f' at {where}' if where else ''})"
        quotes = [member.line for _, member in members[:3]]
        yield finding(code, headline, quotes, kind.next_step, severity=kind.severity)


def _class_of(number: int) -> _Class:
    return _XIDS.get(number, _UNKNOWN)


def _busy(hit: Hit) -> str:
    asked = hit.match.groupdict().get("asked")
    many = f" ({asked})" if asked else ""
    return f"The NeuronCores that the program{pod_suffix(hit)} asks for{many} are taken by another"


def _not_given(hit: Hit) -> str:
    device = hit.match["device"]
    return (
        f"The program{pod_suffix(hit)} cannot open Neuron device {device}: it wants more than it was given, or another"
        " has it"
        if device
        else f"The Neuron devices that the program{pod_suffix(hit)} was given are not neighbours"
    )


_NEURON_PATTERNS = (
    LogPattern(
        Code.NEURON_HW,
        pattern(
            r"NRT_EXEC_HW_ERR_(?!COLLECTIVES)\w+",
            r"NRT_HW_ERROR",
            r"NRT_EXEC_UNIT_UNRECOVERABLE",
            r"\bnrt_\w+ status=(?:6|101|1201|1202|1203|1205)\b",
            r"Neuron(?:DMA|(?:HBM|NC|SRAM)Uncorrectable)Error",
            r"[Uu]ncorrectable (?:HBM |SRAM |DRAM |memory )+error",
            r"[Uu]ncorrectable memory error is detected on Neuron",
            r"(?:SRAM|HBM|DRAM) (?:uncorrectable|parity) (?:ECC )?error",
            r"(?:Neuron|NC|ND)\b[^\n]{0,80}\b(?:DMA (?:abort|error)|hardware error)",
            r"DMA [TR]X engine \d{1,4} is in an abort state",
            r"\bNEURON_HW_ERR=\w+",
        ),
        lambda hit: f"A Neuron device{pod_suffix(hit)} has a hardware error: the instance must be replaced",
        "Terminate the instance and resume from the last checkpoint on another.",
    ),
    LogPattern(
        Code.NEURON_COLLECTIVE_HANG,
        pattern(
            r"[Ss]uspected hang",
            r"(?:inference|execution) timeout \(\d{1,12} ms\) on (?:Neuron Device|model)"
            r"(?![^\n]{0,400}DGE notifications)",
            r"[Mm]issing infer_status notification",
            r"missing collectives status",
            r"NRT_EXEC_HW_ERR_COLLECTIVES",
            r"NRT_NETWORK_PROXY_FAILURE",
            r"\bnrt_\w+ status=(?:1200|1206)\b",
        ),
        lambda hit: f"A Neuron collective{pod_suffix(hit)} hangs, probably because another worker has a hardware error",
        "Search the other workers' logs for SRAM, HBM or DMA errors and replace that instance.",
    ),
    LogPattern(
        Code.NEURON_CORES_BUSY,
        pattern(
            r"(?:Logical )?Neuron ?Core\(s\) not available(?: - Requested:(?P<asked>\S+))?",
            r"NRT_EXEC_NC_BUSY",
            r"NRT_LOAD_NOT_ENOUGH_NC",
            r"NERR_RESOURCE_NC\b",
            r"NeuronCores? (?:is|are) (?:already )?in use",
        ),
        _busy,
        "Stop the other process (neuron-ls shows its PID), or correct NEURON_RT_VISIBLE_CORES.",
    ),
    LogPattern(
        Code.NEURON_CORES_BUSY,
        pattern(r"Could not open the (?P<device>nd\d{1,3})", r"Neuron cores are not contiguous"),
        _not_given,
        "Request as many aws.amazon.com/neuron as the program uses; for a part of a node's devices run the Neuron"
        " scheduler extension, which gives out neighbours. On a node of the right size look for another process with"
        " neuron-ls.",
    ),
    LogPattern(
        Code.NEURON_DRIVER,
        pattern(
            r"Unable to (?:determine Neuron|read compatible) Driver version",
            r"Please check /dev/neuron# is accessible",
            r"aws_hal_tpb_pooling_write_profile\s[^\n]{0,40}failed programming the engine",
            r"requires Neuron Driver version",
            r"[Nn]euron [Rr]untime[^\n]{0,120}(?:not |in)compatible with[^\n]{0,60}(?:neuronx?-dkms|[Dd]river)",
            r"check aws-neuronx?-dkms",
            r"upgrade aws-neuronx?-dkms",
            r"[Nn]o neuron devices? (?:found|available)",
            r"[Ff]ailed to open (?:device )?/dev/neuron\d*",
            r"/dev/neuron\d+: No such file",
        ),
        "The Neuron driver of this node is not loaded, or too old for the runtime",
        "Use the Neuron AMI, or load a driver (aws-neuronx-dkms) that fits the image's runtime.",
    ),
    LogPattern(
        Code.NEURON_NQ_OVERFLOW,
        pattern(
            r"NRT_EXEC_SW_NQ_OVERFLOW",
            r"[Nn]otification queue overflow",
            r"\bnrt_\w+ status=1204\b",
            r"potentially caused by DGE notifications",
        ),
        lambda hit: f"The Neuron notification queue{pod_suffix(hit)} has overflowed",
        "Set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0 in the job.",
    ),
)


def find_neuron_faults(evidence: Evidence) -> Iterator[Finding]:
    """The runtime's reports."""
    return match_patterns(all_messages(evidence), _NEURON_PATTERNS)
