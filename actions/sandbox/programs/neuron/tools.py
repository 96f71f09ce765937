"""`neuron-monitor` in a container: a JSON object a line, one each period.

Its first record comes at once and has nothing of the runtimes yet, as the real one's.

Source: AWS Neuron SDK guide; captured records of trn1 (one runtime under training, one without).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from actions.sandbox.programs.neuron.cores import (
    CORES_OF_A_DEVICE,
    DEVICE_BYTES,
    PROCESS_ID,
    Core,
    cores_of,
    instance_of,
    load_of,
)
from actions.sandbox.programs.program import ContainerView, Load, Program, ProgramStep

_PERIOD_SECONDS = 5.0
_HOST_BYTES = 512 << 30
_HOST_USED_BYTES = 96 << 30
_SHARES = (("constants", 0.06), ("model_code", 0.15), ("model_shared_scratchpad", 0.09), ("runtime_memory", 0.0))
"""Shares of a core's memory; tensors have the rest."""


def run_neuron_monitor(container: ContainerView, load: Callable[[], Load], now: Callable[[], float]) -> Program:
    """Run `neuron-monitor`.

    Args:
        container: The one with the devices.
        load: Returns their present load.
        now: Seconds since the epoch.
    """
    if not container.neurons:
        yield ProgramStep(text="neuron-monitor: No neuron device found\n", is_error=True)
        return 1
    yield ProgramStep(text=_json_line(_first_record(container)))
    while True:
        yield ProgramStep(_PERIOD_SECONDS)
        yield ProgramStep(text=_json_line(record(container, load(), now(), _PERIOD_SECONDS)))


def record(container: ContainerView, load: Load, moment: float, period: float) -> dict[str, Any]:
    """Return a whole record."""
    known = load_of(load)
    cores = cores_of(container, load, moment)
    counters = [
        {
            "neuron_device_index": device,
            "mem_ecc_corrected": 0,
            "mem_ecc_uncorrected": 0,
            "sram_ecc_uncorrected": 0,
            "sram_ecc_corrected": 0,
        }
        for device in container.neurons
    ]
    return _first_record(container) | {
        "neuron_runtime_data": [_runtime(cores, known.utilisation_percent, period)] if known.command else [],
        "system_data": {
            "memory_info": _memory_info(period),
            "neuron_hw_counters": {"period": period, "neuron_devices": counters, "error": ""},
            "vcpu_usage": {
                "period": period,
                "average_usage": _vcpu(12.4 if known.utilisation_percent else 0.6),
                "context_switch_count": 84801,
                "error": "",
            },
        },
    }


def _first_record(container: ContainerView) -> dict[str, Any]:
    where = instance_of(container)
    return {
        "neuron_runtime_data": [],
        "system_data": {"memory_info": _memory_info(0.00047258)},
        "instance_info": {
            "instance_name": "",
            "instance_id": where.id,
            "instance_type": where.type,
            "instance_availability_zone": "us-west-2d",
            "instance_availability_zone_id": "usw2-az4",
            "instance_region": "us-west-2",
            "ami_id": "",
            "subnet_id": "",
            "error": "",
        },
        "neuron_hardware_info": {
            "neuron_device_type": "trainium",
            "neuron_device_version": "v2",
            "neuroncore_version": "v2",
            "neuron_device_count": len(container.neurons),
            "neuron_device_memory_size": DEVICE_BYTES,
            "neuroncore_per_device_count": CORES_OF_A_DEVICE,
            "logical_neuroncore_config": 1,
            "error": "",
        },
    }


def _runtime(cores: Sequence[Core], busy: float, period: float) -> dict[str, Any]:
    """Return the entry of a process that holds the cores. Its `generic` errors are many in good runs, too."""
    device_bytes = sum(core.memory_bytes for core in cores)
    latency = {name: 0.118 + 0.0004 * place for place, name in enumerate(("p0", "p1", "p25", "p50", "p75", "p99"))}
    executed = {"completed": round(period * 8.2) if busy else 0}
    wrong = dict.fromkeys(
        ("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue"), 0
    )
    stats = {
        "period": period,
        "error_summary": {"generic": 217, "numerical": 0, "transient": 0, "model": 0, "runtime": 0, "hardware": 0},
        "execution_summary": executed | wrong,
        "latency_stats": {
            "total_latency": latency | {"p100": 0.131} if busy else None,
            "device_latency": latency | {"p100": 0.131} if busy else None,
        },
        "error": "",
    }
    host = {"application_memory": 609656832, "constants": 0, "dma_buffers": 8388608, "tensors": 0}
    breakdown = {
        "host": host,
        "neuroncore_memory_usage": {str(core.index): _breakdown(core.memory_bytes) for core in cores},
    }
    used = {"host": sum(host.values()), "neuron_device": device_bytes, "usage_breakdown": breakdown}
    return {
        "pid": PROCESS_ID,
        "neuron_runtime_tag": str(PROCESS_ID),
        "error": "",
        "report": {
            "execution_stats": stats,
            "memory_used": {"period": period, "neuron_runtime_used_bytes": used, "loaded_models": [], "error": ""},
            "neuron_runtime_vcpu_usage": {"period": period, "vcpu_usage": {"user": 9.3, "system": 1.4}, "error": ""},
            "neuroncore_counters": {
                "period": period,
                "neuroncores_in_use": {
                    str(core.index): {"neuroncore_utilization": core.utilisation_percent} for core in cores
                },
                "error": "",
            },
        },
    }


def _breakdown(size: int) -> dict[str, int]:
    parts = {name: int(size * share) for name, share in _SHARES}
    return parts | {"tensors": size - sum(parts.values())}


def _memory_info(period: float) -> dict[str, Any]:
    return {
        "period": period,
        "memory_total_bytes": _HOST_BYTES,
        "memory_used_bytes": _HOST_USED_BYTES,
        "swap_total_bytes": 0,
        "swap_used_bytes": 0,
        "error": "",
    }


def _vcpu(user: float) -> dict[str, float]:
    return {"user": user, "nice": 0, "system": 1.9, "idle": 98.1 - user, "io_wait": 0, "irq": 0, "soft_irq": 0}


def _json_line(one: dict[str, Any]) -> str:
    return json.dumps(one, separators=(",", ":")) + "\n"
