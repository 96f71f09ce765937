"""Accelerators of all workers."""

from __future__ import annotations

import json

import pytest

from actions.telemetry.tools.devices import Device, DeviceReading, read_devices
from tests.support.builders import a_pod
from tui.feeds.accelerators import WorkerReading
from tui.present.accelerators import device_rows, index_cell, load_cell, memory_cell, name_cell, summary
from tui.present.cells import text_of


def busy(name: str, *loads: int) -> WorkerReading:
    gpus = tuple(Device(index, str(index), "NVIDIA A10G", load) for index, load in enumerate(loads))
    return WorkerReading(a_pod(name), DeviceReading(gpus), at=0.0)


def silent(name: str, error: str) -> WorkerReading:
    return WorkerReading(a_pod(name), DeviceReading(error=error), at=0.0)


def test_the_slowest_rank_is_named() -> None:
    rows = device_rows([busy("train-worker-0", 98), busy("train-worker-1", 97), busy("train-worker-2", 20)])

    text = "\n".join(text_of(line) for line in summary(rows))

    assert "72% busy" in text
    assert "rank 2, worker-2 GPU 0 at 20%" in text
    assert "below the mean" in text


def test_an_even_load_blames_nobody() -> None:
    text = text_of(summary(device_rows([busy("a-0", 97), busy("a-1", 95)]))[1])

    assert "no lag" in text


def test_a_worker_without_an_answer_says_why() -> None:
    rows = device_rows([busy("a-0", 97), silent("a-1", "forbidden: pods/exec")])

    assert [text_of(name_cell(row)) for row in rows] == ["NVIDIA A10G", "forbidden: pods/exec"]
    assert "1 worker did not answer" in text_of(summary(rows)[0])


def drawing(*watts: float, degrees: int = 60) -> list[WorkerReading]:
    gpus = tuple(Device(index, str(index), load_pct=100, power_w=power) for index, power in enumerate(watts))
    hot = tuple(Device(7, "7", load_pct=100, power_w=watts[0], temp_c=degrees) for _ in range(1))
    return [WorkerReading(a_pod("w-0"), DeviceReading((*gpus, *hot)), at=0.0)]


def test_of_ranks_that_all_wait_busily_the_one_without_power_is_named() -> None:
    text = text_of(summary(device_rows(drawing(345, 350, 226, 340)))[1])
    assert text == "▲ rank 2, w-0 GPU 2 is as busy as the others, but draws 226 W (others: 345 W)"


def test_of_ranks_that_all_wait_busily_the_hot_one_is_named() -> None:
    text = text_of(summary(device_rows(drawing(345, 350, degrees=86)))[1])
    assert text == "▲ rank 2, w-0 GPU 7 is as busy as the others, but is at 86 °C"


def test_workers_stand_in_the_order_of_their_numbers() -> None:
    rows = device_rows([busy("w-10", 97), busy("w-2", 95)])
    assert [(row.worker, row.rank) for row in rows] == [("w-2", 0), ("w-10", 1)]


def monitor(*loads: float) -> str:
    """A record of as many cores, two to a device, the first of which holds a GiB."""
    in_use = {str(core): {"neuroncore_utilization": load} for core, load in enumerate(loads)}
    used = {"usage_breakdown": {"neuroncore_memory_usage": {"0": {"tensors": 1 << 30}}}}
    report = {
        "neuroncore_counters": {"neuroncores_in_use": in_use},
        "memory_used": {"neuron_runtime_used_bytes": used},
    }
    hardware = {
        "neuron_device_count": len(loads) // 2,
        "neuron_device_type": "trainium",
        "neuron_device_memory_size": 32 << 30,
        "neuroncore_per_device_count": 2,
    }
    return json.dumps({"neuron_runtime_data": [{"pid": 7, "report": report}], "neuron_hardware_info": hardware})


def test_a_neuron_device_shows_its_cores_and_their_memory() -> None:
    reading = read_devices('{"neuron_runtime_data": [], "system_data": {}}\n' + monitor(80, 60, 5, 5))
    rows = device_rows([WorkerReading(a_pod("trn-0"), reading, at=0.0)])
    assert [text_of(index_cell(row)) for row in rows] == ["ND0", "ND1"]
    assert text_of(name_cell(rows[0])) == "trainium, cores 80% 60%"
    assert text_of(load_cell(rows[0])).endswith(" 70%")
    assert text_of(memory_cell(rows[0])).endswith(" 1.0/32Gi")
    head, laggard = (text_of(line) for line in summary(rows))
    assert head == "2 Neuron devices, 38% busy on average"
    assert laggard == "▲ slowest: trn-0 ND1 at 5%, 32 points below the mean"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("neuron-monitor: No neuron device found", "No neuron device found"),
        ("bash: nvidia-smi: command not found", "command not found"),
        ("", "printed nothing"),
    ],
)
def test_what_is_no_answer_is_told(text: str, error: str) -> None:
    assert error in read_devices(text).error


def test_a_screen_and_a_list_are_read_too() -> None:
    screen = read_devices("NeuronCore v2 Utilization (Avg: 50.0%)\nND0   ||||[40.00%] ||||[60.00%]\n")
    assert [(one.label, one.load_pct, one.core_pcts) for one in screen.devices] == [("ND0", 50.0, (40.0, 60.0))]
    listing = read_devices('[{"neuron_device": 3, "nc_count": 2, "memory_size": 34359738368}]')
    assert [(one.label, one.load_pct, one.mem_total_bytes) for one in listing.devices] == [("ND3", None, 34359738368)]


def test_a_hot_gpu_that_takes_little_power_tells_more_than_a_load_that_is_a_little_lower() -> None:
    gpus = [Device(index, str(index), load_pct=100, power_w=345, temp_c=40) for index in range(6)]
    gpus += [Device(6, "6", load_pct=73, power_w=335, temp_c=36), Device(7, "7", load_pct=100, power_w=226, temp_c=86)]
    rows = device_rows([WorkerReading(a_pod("w-0"), DeviceReading(tuple(gpus)), at=0.0)])
    said = text_of(summary(rows)[1])
    assert said == "▲ rank 7, w-0 GPU 7 is as busy as the others, but draws 226 W (others: 345 W) and is at 86 °C"
