"""neuron-ls, neuron-monitor and neuron-top."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.readings.readers import NeuronFileReader
from actions.telemetry.tools.neuron import (
    CoreUse,
    NeuronDevice,
    NeuronListing,
    NeuronProcess,
    NeuronReport,
    NeuronScreen,
    read_monitor_line,
    read_neuron_ls,
    read_neuron_top,
)
from tests.unit.telemetry.corpus import expected_of, is_close, samples

GIB = 1 << 30


def of_format(*formats: str) -> list[Path]:
    return [path for path in samples("neuron") if expected_of(path)["format"] in formats]


def text_of(sample: Path) -> str:
    return sample.read_text(encoding="utf-8", errors="replace")


def records_in(sample: Path) -> list[NeuronReport]:
    text = text_of(sample)
    whole = read_monitor_line(" ".join(text.split())) if sample.suffix == ".json" else None
    found = [whole] if whole else [read_monitor_line(line) for line in text.splitlines()]
    return [report for report in found if report]


@pytest.mark.parametrize("sample", of_format("neuron-ls-table", "neuron-ls-json"), ids=lambda path: path.stem)
def test_every_device_is_listed_as_it_stands(sample: Path) -> None:
    expected, listing = expected_of(sample), read_neuron_ls(text_of(sample))
    assert bool(listing.error) == (not expected["devices"])
    assert [(one.device, one.cores, list(one.connected)) for one in listing.devices] == [
        (want["device"], want["cores"], want["connected"]) for want in expected["devices"]
    ]
    for one, want in zip(listing.devices, expected["devices"], strict=True):
        assert one.memory_bytes == want.get("memory_bytes", want.get("memory_gb", 0) * GIB)
        pids = want.get("pids", [process["pid"] for process in want.get("processes", [])])
        assert [process.pid for process in one.processes] == pids


@pytest.mark.parametrize("sample", of_format("neuron-monitor-json"), ids=lambda path: path.stem)
def test_every_record_says_what_its_groups_say(sample: Path) -> None:
    expected, records = expected_of(sample), records_in(sample)
    if "complete_records" in expected:
        assert len(records) == expected["complete_records"]
        return
    (report,) = records
    assert [runtime.pid for runtime in report.runtimes] == [want["pid"] for want in expected["runtimes"]]
    for runtime, want in zip(report.runtimes, expected["runtimes"], strict=True):
        assert {name: getattr(runtime, name) for name in want} == want
    assert {str(core): (use.util_max, use.mem_bytes) for core, use in report.cores.items()} == {
        core: (want["util_max"], want["mem_bytes"]) for core, want in expected["cores"].items()
    }
    for name in ("device_mem_total_bytes", "ecc_uncorrected", "host_memory_used_bytes", "vcpu_user_pct"):
        assert is_close(getattr(report, name), expected[name])
    for name in ("instance_type", "device_type", "device_count", "cores_per_device", "device_memory_size"):
        assert getattr(report, name) == expected[name]
    assert report.logical_core_config == expected["lnc"]


@pytest.mark.parametrize("sample", of_format("neuron-top-screen"), ids=lambda path: path.stem)
def test_every_core_on_a_screen_is_read(sample: Path) -> None:
    expected, screen = expected_of(sample), read_neuron_top(text_of(sample))
    assert screen.avg_utilization == expected["avg_utilization"]
    assert screen.devices == {want["device"]: tuple(want["cores"]) for want in expected["devices"]}
    assert screen.vcpu["system"] == (expected["vcpu_system_user"], expected["vcpu_system_sys"])
    assert (screen.host_used, screen.device_used) == (expected["host_used"], expected["device_used"])


TABLE = """\
instance-type: trn2.48xlarge
logical-neuroncore-config: 2
+--------+--------+----------+---------+---------+
| NEURON | NEURON |  NEURON  |   PID   | RUNTIME |
| DEVICE | CORES  | CORE IDS |         | VERSION |
+--------+--------+----------+---------+---------+
| 0      | 4      | 0-3      | 1966680 | 2.34.10 |
|        |        |          | 1966681 | NA      |
+--------+--------+----------+---------+---------+
"""


def test_columns_are_known_by_their_names_and_further_processes_by_their_empty_device() -> None:
    listing = read_neuron_ls(TABLE)
    assert (listing.instance_type, listing.logical_core_config) == ("trn2.48xlarge", 2)
    processes = (NeuronProcess(1966680, None, "2.34.10"), NeuronProcess(1966681, None, "NA"))
    assert listing.devices == (NeuronDevice(0, cores=4, core_ids=(0, 1, 2, 3), processes=processes),)


@pytest.mark.parametrize("text", ["", "Neuron DKMS Driver is not running!", "[", "[]", '[{"neuron_device": "x"}]'])
def test_a_listing_of_nothing_says_why(text: str) -> None:
    listing = read_neuron_ls(text)
    assert listing.devices == ()
    assert listing.error


def runtime(pid: int, utilization: float, size: int) -> dict[str, Any]:
    return {
        "pid": pid,
        "report": {
            "neuroncore_counters": {"neuroncores_in_use": {"0": {"neuroncore_utilization": utilization}}},
            "memory_used": {
                "neuron_runtime_used_bytes": {"usage_breakdown": {"neuroncore_memory_usage": {"0": {"tensors": size}}}}
            },
            "execution_stats": {
                "error_summary": {"generic": 9, "hardware": 1},
                "execution_summary": {"completed": 5, "timed_out": 2},
            },
        },
    }


def test_a_core_that_two_runtimes_list_is_as_busy_as_the_busier_says() -> None:
    report = read_monitor_line(json.dumps({"neuron_runtime_data": [runtime(1, 80.0, 10), runtime(2, 0.0, 5)]}))
    assert report is not None
    assert report.cores == {0: CoreUse(80.0, 15, util_sum=80.0, mem_parts={"tensors": 15})}


def test_failures_are_kept_apart_from_what_is_no_alarm() -> None:
    report = read_monitor_line(json.dumps({"neuron_runtime_data": [runtime(1, 80.0, 10)]}))
    assert report is not None
    (one,) = report.runtimes
    assert (one.errors, one.failed, one.hardware_errors, one.completed) == (10, 2, 1, 5)


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"neuron_runtime_data": [1]', "starting"])
def test_a_line_that_is_no_record_is_none(line: str) -> None:
    assert read_monitor_line(line) is None


def test_a_record_without_runtimes_is_a_record() -> None:
    report = read_monitor_line('{"neuron_runtime_data": null, "system_data": null}')
    assert report is not None
    assert (report.runtimes, report.cores, report.ecc_uncorrected) == ((), {}, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_no_record_makes_the_reader_fail(runtimes: object, system: object) -> None:
    line = json.dumps({"neuron_runtime_data": runtimes, "system_data": system, "neuron_hardware_info": system})
    report = read_monitor_line(line)
    assert report is None or isinstance(report, NeuronReport)


@given(st.text(alphabet="|+-ND0123456789 \n[]%.GB", max_size=300))
def test_no_text_makes_the_other_readers_fail(text: str) -> None:
    assert isinstance(read_neuron_ls(text), NeuronListing)
    assert isinstance(read_neuron_top(text), NeuronScreen)


def test_a_terminal_around_the_json_is_not_in_the_way() -> None:
    pasted = '$ neuron-ls -j\n[\n {"neuron_device": 3, "nc_count": 2}\n]\nroot@worker-0:/# '
    listing = read_neuron_ls(pasted)
    assert [device.device for device in listing.devices] == [3]
    assert listing.error == ""


SAMPLES = of_format("neuron-ls-table", "neuron-ls-json", "neuron-monitor-json", "neuron-top-screen")
WRAPPINGS = ("", "[1,0]<stdout>:", "2026-11-21T10:00:00.123456789Z ", "2026-11-21T10:00:00Z stdout F ", "\x1b[32m")


@pytest.mark.parametrize("prefix", WRAPPINGS)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_prefixes_and_cuts_change_nothing(sample: Path, prefix: str) -> None:
    plain = sample.read_bytes()
    wrapped = b"".join(prefix.encode() + line for line in plain.splitlines(keepends=True))
    for size in (1, 7, 4096):
        reader = NeuronFileReader()
        for start in range(0, len(wrapped), size):
            reader.feed(wrapped[start : start + size])
        assert reader.reading() == whole(plain)


def whole(content: bytes) -> object:
    reader = NeuronFileReader()
    reader.feed(content)
    return reader.reading()


def test_a_row_with_a_glued_cell_is_not_shifted() -> None:
    text = (
        "+--------+--------+--------+--------------+\n"
        "| NEURON | NEURON | NEURON |     PCI      |\n"
        "| DEVICE | CORES  | MEMORY |     BDF      |\n"
        "+--------+--------+--------+--------------+\n"
        "| 0      | 2      | 32 GB  | 0000:00:1e.0 |\n"
        "| 1      | 2        32 GB  | 0000:00:1f.0 |\n"
        "+--------+--------+--------+--------------+\n"
    )
    whole, glued = read_neuron_ls(text).devices
    assert (whole.cores, whole.bdf) == (2, "0000:00:1e.0")
    assert (glued.device, glued.cores, glued.memory_bytes, glued.bdf) == (1, None, None, "")
