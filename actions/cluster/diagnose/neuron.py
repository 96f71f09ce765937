"""What the Neuron runtime and driver print.

Source: AWS Neuron SDK, `nrt_status.h` and the runtime's troubleshooting page (2.2x).
"""

from __future__ import annotations

from collections.abc import Iterator

from actions.cluster.diagnose.case import Case
from actions.cluster.diagnose.finding import Finding
from actions.cluster.diagnose.signs import Hit, Sign, of_pod, pattern, read_signs, spoken
from actions.cluster.diagnose.vocabulary import Code


def _busy(hit: Hit) -> str:
    asked = hit.match.groupdict().get("asked")
    return f"The NeuronCores{f' {asked}' if asked else ''} that the program{of_pod(hit)} asks for are taken by another"


_SIGNS = (
    Sign(
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
        ),
        lambda hit: f"A Neuron device{of_pod(hit)} has a hardware error: the instance must be replaced",
        "Terminate the instance and resume from the last checkpoint on another.",
    ),
    Sign(
        Code.NEURON_COLLECTIVE_HANG,
        pattern(
            r"[Ss]uspected hang",
            r"(?:inference|execution) timeout \(\d{1,12} ms\) on (?:Neuron Device|model)",
            r"[Mm]issing infer_status notification",
            r"missing collectives status",
            r"NRT_EXEC_HW_ERR_COLLECTIVES",
            r"NRT_NETWORK_PROXY_FAILURE",
            r"\bnrt_\w+ status=(?:1200|1206)\b",
        ),
        lambda hit: f"A Neuron collective{of_pod(hit)} hangs, probably because another worker has a hardware error",
        "Search the other workers' logs for SRAM, HBM or DMA errors and replace that instance.",
    ),
    Sign(
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
    Sign(
        Code.NEURON_DRIVER,
        pattern(
            r"Unable to determine Neuron Driver version",
            r"requires Neuron Driver version",
            r"check aws-neuronx?-dkms",
            r"upgrade aws-neuronx?-dkms",
            r"[Nn]o neuron devices? (?:found|available)",
            r"[Ff]ailed to open (?:device )?/dev/neuron\d*",
            r"/dev/neuron\d+: No such file",
            r"Could not open the nd\d+",
        ),
        "The Neuron driver of this node is not loaded, or too old for the runtime",
        "Use the Neuron AMI, or load a driver (aws-neuronx-dkms) that fits the image's runtime.",
    ),
    Sign(
        Code.NEURON_NQ_OVERFLOW,
        pattern(r"NRT_EXEC_SW_NQ_OVERFLOW", r"[Nn]otification queue overflow", r"\bnrt_\w+ status=1204\b"),
        lambda hit: f"The Neuron notification queue{of_pod(hit)} has overflowed",
        "Set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0 in the job.",
    ),
)


def find_neuron_faults(evidence: Case) -> Iterator[Finding]:
    """The runtime's reports."""
    return read_signs(spoken(evidence), _SIGNS)
