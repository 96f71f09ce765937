"""Neuron's tools, played: devices as the device plugin gave them; load and memory are those of the processes."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from eksml_cpu import devices

CORES = 2
"""Of a device."""
DEVICE_BYTES = 32 << 30
CACHE = Path("/shared/neuron_cache")
_COMPILER = "neuronxcc-2.16.372.0+4a9b2326"


def hardware() -> dict[str, Any]:
    """The part of neuron-monitor's records that does not change."""
    return {
        "instance_info": {
            "instance_name": "",
            "instance_id": "i-0123456789abcdef0",
            "instance_type": devices.instance_type(),
            "instance_availability_zone": "us-west-2d",
            "instance_region": "us-west-2",
            "error": "",
        },
        "neuron_hardware_info": {
            "neuron_device_type": "trainium",
            "neuron_device_version": "v2",
            "neuroncore_version": "v2",
            "neuron_device_count": len(devices.neurons()),
            "neuron_device_memory_size": DEVICE_BYTES,
            "neuroncore_per_device_count": CORES,
            "logical_neuroncore_config": 1,
            "error": "",
        },
    }


def record(period: float) -> dict[str, Any]:
    """A record of neuron-monitor: a runtime for each process of the training, which has its share of the cores."""
    works = devices.work()
    cores = cores_in_use(works)
    total, free = _memory()
    runtimes = [
        _runtime(work, {core: percent for core, (pid, percent) in cores.items() if pid == work.pid}, period)
        for work in works
    ]
    counters = [
        {
            "neuron_device_index": device,
            "mem_ecc_corrected": 0,
            "mem_ecc_uncorrected": 0,
            "sram_ecc_uncorrected": 0,
            "sram_ecc_corrected": 0,
        }
        for device in devices.neurons()
    ]
    return {
        "neuron_runtime_data": runtimes,
        "system_data": {
            "memory_info": {
                "period": period,
                "memory_total_bytes": total,
                "memory_used_bytes": total - free,
                "swap_total_bytes": 0,
                "swap_used_bytes": 0,
                "error": "",
            },
            "neuron_hw_counters": {"period": period, "neuron_devices": counters, "error": ""},
        },
        **hardware(),
    }


def cores_in_use(works: list[devices.Work]) -> dict[int, tuple[int, float]]:
    """Core → pid and load in percent of the process that has it."""
    named = devices.neurons()
    found = {}
    for place in range(len(named) * CORES):
        work = devices.of_device(works, place, len(named) * CORES)
        if work:
            found[named[place // CORES] * CORES + place % CORES] = (work.pid, work.percent)
    return found


def _runtime(work: devices.Work, cores: dict[int, float], period: float) -> dict[str, Any]:
    share = (work.mebibytes << 20) // max(1, len(cores))
    none = dict.fromkeys(("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input"), 0)
    used = {
        "host": work.mebibytes << 20,
        "neuron_device": share * len(cores),
        "usage_breakdown": {
            "host": {"application_memory": work.mebibytes << 20, "constants": 0, "dma_buffers": 0, "tensors": 0},
            "neuroncore_memory_usage": {
                str(core): {
                    "constants": 0,
                    "model_code": 0,
                    "model_shared_scratchpad": 0,
                    "runtime_memory": 0,
                    "tensors": share,
                }
                for core in cores
            },
        },
    }
    return {
        "pid": work.pid,
        "neuron_runtime_tag": str(work.pid),
        "error": "",
        "report": {
            "execution_stats": {
                "period": period,
                "error_summary": dict.fromkeys(
                    ("generic", "numerical", "transient", "model", "runtime", "hardware"), 0
                ),
                "execution_summary": {"completed": int(work.percent > 0), **none},
                "latency_stats": {"total_latency": None, "device_latency": None},
                "error": "",
            },
            "memory_used": {"period": period, "neuron_runtime_used_bytes": used, "loaded_models": [], "error": ""},
            "neuroncore_counters": {
                "period": period,
                "neuroncores_in_use": {str(core): {"neuroncore_utilization": load} for core, load in cores.items()},
                "error": "",
            },
        },
    }


def _memory() -> tuple[int, int]:
    """Bytes of the machine, and those that are free."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    found = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    return found["MemTotal"], found["MemAvailable"]


def graphs(shape: dict[str, str], count: int) -> list[Path]:
    """The paths of a program's compiled graphs, by all that shapes them."""
    names = [
        hashlib.sha256(f"{index}{json.dumps(shape, sort_keys=True)}".encode()).hexdigest() for index in range(count)
    ]
    return [CACHE / _COMPILER / f"MODULE_{int(name[:15], 16):020d}+{name[15:23]}" / "model.neff" for name in names]


def line(who: str, text: str) -> str:
    """A line of the compiler's log."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"{stamp}.000{int(time.time() * 1000) % 1000:03d}:  {os_pid()}  INFO ||{who}||: {text}"


def os_pid() -> int:
    """This process."""
    return int(Path("/proc/self").readlink().name)


def compile_graphs(paths: list[Path], *, say: Any) -> None:
    """Put what is missing into the cache: the trace of a small model stands for each graph, and is a real one."""
    import torch

    from eksml_cpu.model import LENGTH, TinyModel

    for path in paths:
        if path.is_file():
            found = f"Using a cached neff at {path}. Exiting with a successfully compiled graph."
            say(line("NEURON_CC_WRAPPER", found))
            continue
        command = f"neuronx-cc compile --target=trn1 --framework=XLA {path}"
        say(line("NEURON_CC_WRAPPER", f"Call compiler with cmd: {command}"))
        traced = torch.jit.trace(TinyModel(), torch.zeros(1, LENGTH + 1, dtype=torch.long))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{os_pid()}.part")
        torch.jit.save(traced, str(part))
        part.rename(path)
        say("Compiler status PASS")


def summary(count: int) -> list[str]:
    """The last lines of neuron_parallel_compile."""
    return [
        line("PARALLEL_COMPILE", f"Total graphs: {count}"),
        line("PARALLEL_COMPILE", f"Total successful compilations: {count}"),
        line("PARALLEL_COMPILE", "Total failed compilations: 0"),
    ]


def say(text: str) -> None:
    """Print a line in one piece."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
