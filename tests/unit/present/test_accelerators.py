"""Accelerators of all workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.telemetry.tools.device_history import DeviceHistory, RateMeter
from actions.telemetry.tools.devices import Device, DeviceReading, read_devices
from tests.support.builders import a_pod
from tui.feeds.accelerators import PastReadings, Sampled, WorkerReading
from tui.present.accelerators import (
    DeviceRow,
    answered,
    clock_cell,
    cores_cell,
    device_rows,
    ecc_cell,
    efa_cell,
    efa_range_cell,
    has_efa,
    has_nvlink,
    index_cell,
    link_errors_cell,
    load_cell,
    load_range_cell,
    memory_cell,
    memory_kinds_cell,
    name_cell,
    nvlink_cell,
    nvlink_range_cell,
    power_range_cell,
    processes_cell,
    rate_text,
    summary,
    temperature_range_cell,
    throttle_cell,
    trend_cell,
)
from tui.present.cells import text_of, width_of

CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus"


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
    assert "(others: 98%)" in text


def test_an_even_load_has_no_straggler() -> None:
    text = text_of(summary(device_rows([busy("a-0", 97), busy("a-1", 95)]))[1])

    assert "no lag" in text


def test_devices_that_stand_still_are_not_given_the_load_of_a_moment_ago() -> None:
    """A job had ended: `0% busy on average`, and `slowest: ND3 at 37%` below it."""
    history = DeviceHistory()
    for place, load in enumerate((37, 37, 37, 0)):
        history.add_sample(1000.0 + place, Device(0, "0", "", load))
    worker = busy("w-0", 0)

    lines = [text_of(line) for line in summary(device_rows([worker], {(worker.pod.key, "0"): history}))]

    assert lines[0].startswith("1 GPU, 0% busy on average")
    assert lines[1] == "no device is busy at this moment: 0% at most"


def test_a_worker_without_an_answer_says_why() -> None:
    rows = device_rows([busy("a-0", 97), silent("a-1", "forbidden: pods/exec")])

    assert [text_of(name_cell(row)) for row in rows] == ["NVIDIA A10G", "forbidden: pods/exec"]
    assert text_of(load_cell(rows[1])) == "forbidden: pods/exec"
    assert "1 worker did not answer" in text_of(summary(rows)[0])
    assert [text_of(line) for line in summary(rows[1:])] == ["No worker answered: forbidden: pods/exec"]


def test_one_reason_of_all_workers_is_one_line_and_no_rows() -> None:
    """Eight rows had the same words, each cut, below them."""
    refused = [silent(f"train-{n}", f'pods "train-{n}" is forbidden') for n in range(8)]
    assert not answered(device_rows(refused))
    assert len(answered(device_rows([*refused, silent("train-8", "It did not end.")]))) == 9
    assert len(answered(device_rows([*refused, busy("train-8", 97)]))) == 9


def test_the_first_samples_of_a_job_are_no_warning_and_busy_devices_are_counted() -> None:
    """`no device is busy: 95% at most` stood below `24% busy on average`, and a warning below the first sample."""
    pods = [busy(f"w-{n}", 95 if n > 5 else 0) for n in range(8)]
    assert text_of(summary(device_rows(pods))[1]) == "▲ 2 of 8 devices are busy: 95% at most"
    new, long = DeviceHistory(), DeviceHistory()
    for second in range(40):
        long.add_sample(1000.0 + second, Device(0, "0", load_pct=0))
    new.add_sample(1000.0, Device(0, "0", load_pct=0))
    worker = busy("w-0", 0)
    for history, told in ((new, "no device is busy yet"), (long, "▲ no device is busy: 0% at most")):
        assert text_of(summary(device_rows([worker], {(worker.pod.key, "0"): history}))[1]) == told


def drawing(*watts: float, degrees: int = 60) -> list[WorkerReading]:
    gpus = tuple(Device(index, str(index), load_pct=100, power_w=power) for index, power in enumerate(watts))
    hot = tuple(Device(7, "7", load_pct=100, power_w=watts[0], temp_c=degrees) for _ in range(1))
    return [WorkerReading(a_pod("w-0"), DeviceReading((*gpus, *hot)), at=0.0)]


def test_the_one_rank_that_draws_little_waits_for_the_others() -> None:
    rows = device_rows(drawing(345, 350, 226, 340))
    assert text_of(summary(rows)[1]) == (
        "▲ rank 2, w-0 GPU 2 waits for the others: it is as busy, but draws 226 W (others: 345 W)"
    )
    assert text_of(summary(rows, is_one_job=False)[1]).endswith("at 100%, no lag")


def test_two_jobs_of_other_gpus_do_not_wait_for_each_other() -> None:
    gpus = Device(0, "0", "NVIDIA A10G", 99, power_w=150), Device(1, "1", "NVIDIA L4", 99, power_w=70)
    rows = device_rows([WorkerReading(a_pod("w-0"), DeviceReading(gpus), at=0.0)])
    assert text_of(summary(rows)[1]).endswith("at 99%, no lag")


def recorded(name: str) -> list[DeviceRow]:
    """The last of the samples that were taken of two H100 one after the other, with the rates between them."""
    meter, rows = RateMeter(), []
    for part in (CORPUS.parent / "h100x2" / f"console_{name}.txt").read_text().split("@@@\n"):
        moment, _, text = part.partition("\n")
        if text:
            reading = meter.rated(float(moment), read_devices(text))
            rows = device_rows([WorkerReading(a_pod("w-0"), reading, at=float(moment))])
    return rows


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        ("even", "slowest: rank 0, w-0 GPU 0 at 99%, no lag"),
        ("all_reduce", "slowest: rank 0, w-0 GPU 0 at 99%, no lag"),
        ("rank_1_computes_more", "▲ the others wait for rank 1, w-0 GPU 1: it draws 697 W, they 366 W, all are busy"),
        ("rank_1_lacks_data", "▲ slowest: rank 1, w-0 GPU 1 at 0% (others: 100%)"),
        ("rank_1_hangs", "▲ slowest: rank 1, w-0 GPU 1 at 0% (others: 100%)"),
        (
            "both_hang",
            "▲ all are busy, but draw 123 of 700 W and send nothing over NVLink: a collective hangs",
        ),
    ],
)
def test_the_rank_that_really_was_late_is_named(load: str, sentence: str) -> None:
    assert text_of(summary(recorded(load))[1]) == sentence


def test_nvlink_moves_what_the_all_reduce_moved() -> None:
    rows = recorded("all_reduce")
    bus_bandwidth = 545 * 10 * (1 << 30) / 18.006  # printed by the program: bytes and seconds
    for row in rows:
        assert row.device is not None
        assert row.device.nvlink_rate == pytest.approx(2 * bus_bandwidth, rel=0.01)
    assert text_of(nvlink_cell(rows[0])) == "654GB/s"


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
    assert text_of(name_cell(rows[0])) == "trainium"
    assert text_of(cores_cell(rows[0])) == "▇▅ 80% 60%"
    assert text_of(cores_cell(rows[0], 6)) == "▇▅"
    assert text_of(memory_kinds_cell(rows[0])) == "tensors 1.0Gi"
    assert text_of(load_cell(rows[0])).endswith(" 70%")
    assert text_of(memory_cell(rows[0])).endswith(" 1.0/32Gi")
    assert width_of(load_cell(rows[0], 30)) == 30
    assert text_of(memory_cell(rows[0], 30)).split("·")[-1] == " 1.0/32Gi"
    assert width_of(memory_cell(rows[0], 30)) == 28
    assert text_of(memory_cell(rows[0], 9)) == "1.0/32Gi", "the figures stay whole where there is no room for a bar"
    assert width_of(load_cell(rows[0], 9)) == 9
    head, laggard = (text_of(line) for line in summary(rows))
    assert head == "2 Neuron devices, 38% busy on average · trainium"
    assert laggard == "▲ slowest: trn-0 ND1 at 5% (others: 70%)"


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


TABLE = (CORPUS / "nvidia_smi" / "drv580_h200_load.txt").read_text()
DETAILS = (
    "index, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active, "
    "ecc.errors.corrected.volatile.total, ecc.errors.uncorrected.volatile.total\n"
    "0, 1200, 1980, 0x0000000000000048, 3, 1\n"
)


def rows_of(text: str) -> list[DeviceRow]:
    return device_rows([WorkerReading(a_pod("w-0"), read_devices(text), at=0.0)])


def test_clock_reasons_and_memory_errors_stand_behind_the_table() -> None:
    (row,) = rows_of(TABLE + DETAILS)
    assert [text_of(cell(row)) for cell in (clock_cell, throttle_cell, ecc_cell)] == ["1200/1980", "hot", "3/1"]
    assert text_of(summary([row])[1]).endswith("but is throttled (hot) and has 1 uncorrected memory error")


@pytest.mark.parametrize("behind", ["", 'Field "clocks.max.sm" is not a valid field to query.\n'])
def test_a_driver_that_does_not_know_the_query_still_has_its_table(behind: str) -> None:
    (row,) = rows_of(TABLE + behind)
    assert text_of(name_cell(row)) == "NVIDIA H200"
    assert [text_of(cell(row)) for cell in (clock_cell, throttle_cell)] == ["-", "-"]


def test_the_document_has_clock_and_reasons_as_well() -> None:
    text = (CORPUS / "nvidia_smi" / "xml_h200_load.xml").read_text()
    (row,) = rows_of(text.replace("sw_power_cap>Not Active", "sw_power_cap>Active", 1))
    assert [text_of(cell(row)) for cell in (clock_cell, throttle_cell, ecc_cell)] == ["1980/1980", "power cap", "0/0"]
    assert "throttled" not in text_of(summary([row])[1])


def test_mig_devices_count_and_the_gpu_that_they_are_parts_of_does_not() -> None:
    rows = rows_of((CORPUS / "nvidia_smi" / "table_h200_mig_devices.txt").read_text())
    assert [text_of(index_cell(row)) for row in rows] == ["0:0", "0:1", "0:2"]
    assert [text_of(memory_cell(row)).split()[-1] for row in rows] == ["0.0/16Gi", "0.1/16Gi", "0.2/16Gi"]
    (head,) = summary(rows)
    assert text_of(head) == "3 MIG devices, whose load is not measured · NVIDIA H200 MIG 16 SM"


def test_processes_of_a_device_are_counted() -> None:
    rows = rows_of((CORPUS / "nvidia_smi" / "table_t4_new_processes.txt").read_text())
    assert [text_of(processes_cell(row)) for row in rows].count("-") < len(rows)


def over_time(*loads: float | None, every: float = 10.0) -> DeviceHistory:
    history = DeviceHistory()
    for place, load in enumerate(loads):
        history.add_sample(1000 + place * every, Device(0, "0", "", load, power_w=load, temp_c=40 + place))
    return history


def test_a_device_shows_its_course_its_least_and_its_greatest() -> None:
    worker = busy("w-0", 100)
    (row,) = device_rows([worker], {(worker.pod.key, "0"): over_time(0, 50, None, 100)})
    assert text_of(trend_cell(row, 6)) == "  ▁▅ █"
    cells = (load_range_cell, power_range_cell, temperature_range_cell)
    assert [text_of(cell(row)) for cell in cells] == ["0–100%", "0–100W", "40–43°C"]


def test_a_straggler_is_named_with_how_long_and_why() -> None:
    fast = [Device(index, str(index), "", 98, power_w=650, clock_mhz=1980) for index in range(3)]
    slow = Device(3, "3", "", 40, power_w=300, clock_mhz=990, throttle=("power brake",), ecc_uncorrected=2)
    worker = WorkerReading(a_pod("w-0"), DeviceReading((*fast, slow)), at=0.0)
    course = over_time(97, 40, 40, 40, 40, 40, 40, 40)
    said = text_of(summary(device_rows([worker], {(worker.pod.key, "3"): course}))[1])
    assert said == (
        "▲ slowest: rank 3, w-0 GPU 3 at 40% (others: 98%) for 1m00s: draws 300 W (others: 650 W) "
        "and runs at 990 MHz (others: 1980 MHz) and is throttled (power brake) and has 2 uncorrected memory errors"
    )


def test_a_single_low_sample_is_no_lag() -> None:
    worker = busy("w-0", 98, 0)
    rows = device_rows([worker], {(worker.pod.key, "1"): over_time(97, 98, 97, 98, 90)})
    assert "no lag" in text_of(summary(rows)[1])


def test_a_device_that_has_just_begun_is_compared_by_its_load_of_now() -> None:
    worker = busy("w-0", 98, 95)
    rows = device_rows([worker], {(worker.pod.key, "1"): over_time(0, 0, 95)})
    assert text_of(summary(rows)[1]) == "slowest: rank 1, w-0 GPU 1 at 95%, no lag"


def test_the_past_is_compared_by_the_means_of_all_its_time() -> None:
    worker = busy("w-0", 98, 30)
    rows = device_rows([worker], {(worker.pod.key, "1"): over_time(0, 0, 90)}, is_past=True)
    assert text_of(summary(rows)[1]) == "▲ slowest: rank 1, w-0 GPU 1 at 30% (others: 98%)"


def test_the_past_is_told_with_its_end() -> None:
    rows = device_rows([busy("w-0", 90, 80)])
    past = PastReadings(Sampled(Path("run"), "train"), (), began_at=0.0, ended_at=7325.0)
    head = "2 GPUs over 2h02m, {} 02:02:05 UTC, 85% busy on average · NVIDIA A10G"
    assert text_of(summary(rows, past, has_ended=True)[0]) == head.format("ended at")
    assert text_of(summary(rows, past)[0]) == head.format("last sample at")
    once = PastReadings(past.place, (), began_at=7325.0, ended_at=7325.0)
    assert text_of(summary(rows, once)[0]) == "2 GPUs, sampled once, at 02:02:05 UTC, 85% busy on average · NVIDIA A10G"
    apart = PastReadings(past.place, (), began_at=0.0, ended_at=7325.0, is_common=False)
    assert "over 2h02m (each over its own part of it)" in text_of(summary(rows, apart)[0])
    still = device_rows([busy("w-0", 0, 0)], is_past=True)
    assert text_of(summary(still, past)[1]) == "▲ no device was busy: 0% at most"


def test_errors_of_runtimes_are_told() -> None:
    record = json.loads(monitor(80, 60))
    stats = {"error_summary": {"generic": 18230, "hardware": 1}, "execution_summary": {"timed_out": 4}}
    record["neuron_runtime_data"][0]["report"]["execution_stats"] = stats
    (head, _) = summary(rows_of(json.dumps(record)))
    assert "✗ w-0: 1 hardware error, 4 executions out of time" in text_of(head)


def test_traffic_is_drawn_on_the_scale_of_its_own_greatest_value() -> None:
    history = DeviceHistory()
    for at, rate in ((0, 0.0), (10, 200e9), (20, 412e9)):
        history.add_sample(at, Device(0, "0", nvlink_rate=rate))
    device = Device(0, "0", load_pct=99, nvlink_bytes=7, nvlink_rate=412e9, nvlink_errors=3, efa_bytes=1)
    worker = WorkerReading(a_pod("w-0"), DeviceReading((device,)), at=0.0)
    (row,) = device_rows([worker], {(worker.pod.key, "0"): history})
    assert text_of(nvlink_cell(row, 12)) == "▁▄█  412GB/s".rjust(12)
    assert text_of(nvlink_cell(row)) == "412GB/s"
    assert text_of(nvlink_range_cell(row)) == "0–412GB/s"
    assert text_of(link_errors_cell(row)) == "3"
    assert (text_of(efa_cell(row, 12)), text_of(efa_range_cell(row))) == ("-", "-")
    assert (has_nvlink([row]), has_efa([row])) == (True, True)
    plain = device_rows([busy("w-1", 97)])
    assert (has_nvlink(plain), has_efa(plain)) == (False, False)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0, "0"), (999, "0"), (27e3, "27kB/s"), (3.4e6, "3MB/s"), (1.26e9, "1.3GB/s"), (99.96e9, "100GB/s")],
)
def test_rates_are_in_the_units_of_links(rate: float, text: str) -> None:
    assert rate_text(rate) == text
