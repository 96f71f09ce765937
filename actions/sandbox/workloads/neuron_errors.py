"""What the Neuron runtime and its neighbours print when something is wrong.

Source: AWS Neuron SDK 2.18 to 2.25, troubleshooting of the runtime; logs of others
(`docs/facts/neuron.md#runtime-errors`).
"""

from __future__ import annotations

from datetime import UTC, datetime


def cores_taken(moment: float, process_id: int, core: int) -> str:
    """A process finds its core in use, or not there."""
    return _line(
        moment,
        process_id,
        "NRT:nrt_allocate_neuron_cores",
        f"NeuronCore(s) not available - Requested:nc{core}-nc{core} Available:0",
    )


def out_of_device_memory(moment: float, process_id: int, device: int, core: int, asked_bytes: int) -> str:
    """A tensor does not fit into the memory of the device."""
    return _line(
        moment,
        process_id,
        "TDRV:dmem_alloc_internal",
        f"Failed to alloc DEVICE memory: {asked_bytes} on ND {device}:NC {core}",
    ) + _line(moment, process_id, "NRT:nrt_infodump", "Failure: NRT_RESOURCE in nrt_tensor_allocate()")


def suspected_hang(moment: float, process_id: int) -> str:
    """A collective waits for a worker that does not answer."""
    return _line(
        moment,
        process_id,
        "TDRV:exec_consume_topsp_cc_notifications",
        "(FATAL-RT-UNDEFINED-STATE) missing collectives status on Neuron Device 0 NC 0, model 10001 - suspected hang "
        "in collectives operation 0 out of 100",
    )


def no_fabric(moment: float, process_id: int) -> str:
    """EFA is asked for, and there is no interface."""
    return _line(
        moment, process_id, "ENC:ncclInit", "Failed to initialize OFI: FI_PROVIDER=efa, but no EFA interface was found"
    )


def mixed_programs(moment: float, process_id: int) -> str:
    """The ranks of a collective run different graphs."""
    return _line(
        moment,
        process_id,
        "ENC:enc_load_operations",
        "MPMD execution is not supported: ranks of the replica group have loaded different graphs",
    )


def _line(moment: float, process_id: int, place: str, text: str) -> str:
    stamp = datetime.fromtimestamp(moment, UTC)
    module, _, function = place.partition(":")
    head = f"{stamp:%Y-%b-%d %H:%M:%S}.{stamp.microsecond:06d} {process_id}:{process_id + 9} ERROR"
    return f"{head} {module:>5}:{function:<40} {text}\n"
