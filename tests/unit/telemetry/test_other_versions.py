"""Outputs of tools in the forms of other versions, other options, and of none at all."""

from __future__ import annotations

import json

import pytest

from actions.telemetry.readings.documents import nccl_document, smi_document
from actions.telemetry.readings.readers import EfaFileReader, NcclFileReader, NeuronFileReader
from actions.telemetry.tools.collectives import NcclReading, read_nccl, row_of
from actions.telemetry.tools.efa import read_fi_info
from actions.telemetry.tools.neuron import NeuronReport, read_neuron_ls
from actions.telemetry.tools.node_listing import read_node_listing
from actions.telemetry.tools.nvidia_smi import read as read_smi


@pytest.mark.parametrize(
    ("line", "redop", "root", "bandwidth"),
    [
        ("8388608 2097152 float sum 387.0 21.67 40.64 5e-07 382.6 21.92 41.11 5e-07", "sum", None, 41.11),
        ("8 2 float 0 45.82 0.00 1.50 N/A 38.17 0.00 1.25 N/A", "", 0, 1.25),
        ("1048576 65536 float 119.1 8.81 8.25 0e+00 121.5 8.63 8.09 0e+00", "", None, 8.09),
        ("256 64 float sum -1 34.24 0.01 0.01 0 33.65 0.01 0.02 N/A", "sum", -1, 0.02),
    ],
)
def test_rows_of_older_versions_have_fewer_columns(line: str, redop: str, root: int | None, bandwidth: float) -> None:
    row = row_of(line)
    assert row is not None
    assert (row.redop, row.root, row.ways[1].busbw) == (redop, root, bandwidth)


@pytest.mark.parametrize(
    ("line", "root", "busbw"),
    [
        ("1048576 262144 float sum -1 101.2 10.36 19.42 0", -1, [19.42]),
        ("1048576 262144 float sum -1 101.2 10.36 19.42", -1, [19.42]),
        ("1048576 262144 float sum -1 101.2 10.36 19.42 99.8 10.51 19.70", -1, [19.42, 19.7]),
        ("1048576 262144 float 0 71234 10.36 19.42", 0, [19.42]),
        ("1048576 262144 float sum 101.2 10.36 19.42", None, [19.42]),
    ],
)
def test_rows_are_read_when_columns_have_been_trimmed_away(line: str, root: int | None, busbw: list[float]) -> None:
    row = row_of(line)
    assert row is not None
    assert (row.root, [way.busbw for way in row.ways]) == (root, busbw)


def test_a_log_line_of_numbers_and_words_is_no_row() -> None:
    assert row_of("2024 10 float nothing at all 1 2") is None
    assert row_of("8 2 shards sum took 3 4 5") is None


@pytest.mark.parametrize(
    "line", ["8 2 float sum -1 1 2 3", "1 2 3 4 5 6 7 8 9 10 11 12 13", "8 2 float sum x 1 1 1 0 1 1 1 0"]
)
def test_other_lines_of_numbers_are_no_rows(line: str) -> None:
    assert row_of(line) is None


def test_a_table_is_complete_if_its_average_is_of_its_rows() -> None:
    row = "8 2 float sum -1 1 1 10.0 0 1 1 12.0 0\n"
    assert nccl_document(read_nccl(row + "# Avg bus bandwidth    : 11.0"))["table_complete"] is True
    assert nccl_document(read_nccl(row + "# Avg bus bandwidth    : 31.0"))["table_complete"] is False
    assert nccl_document(read_nccl(row))["table_complete"] is False


@pytest.mark.parametrize(
    "error", ["Cuda failure common.cu:892 'no device'", "There are not enough slots available in it"]
)
def test_what_stopped_a_test_is_an_error(error: str) -> None:
    assert read_nccl(f"# nThread 1\nhost: {error}\n").error == error


TITLE = "| NVIDIA-SMI 580.159.03    Driver Version: 580.159.03    CUDA Version: 13.0     |\n+----+\n"


def test_a_gpu_without_memory_of_its_own_keeps_its_other_values() -> None:
    table = (
        f"{TITLE}|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |\n"
        "| N/A   33C    P8              4W /  N/A  | Not Supported          |      7%      Default |\n"
    )
    (gpu,) = read_smi(table).gpus
    assert (gpu.temp_c, gpu.power_w, gpu.mem_total_mib, gpu.util_pct) == (33, 4.0, None, 7)


LOOP = """\
timestamp, name, pci.bus_id, temperature.gpu, utilization.gpu [%], power.draw.instant [W]
2024/06/01 11:27:05.177, NVIDIA A10G, 00000000:3B:00.0, 44, 0 %, 21.5 W
2024/06/01 11:27:05.188, NVIDIA A10G, 00000000:8B:00.0, 42, 0 %, 20.5 W
2024/06/01 11:27:15.177, NVIDIA A10G, 00000000:3B:00.0, 45, 7 %, 31.5 W
"""


def test_a_loop_that_tells_gpus_by_their_bus_has_one_reading_of_each() -> None:
    gpus = read_smi(LOOP).gpus
    assert [(gpu.index, gpu.bus_id[-7:], gpu.temp_c, gpu.power_w) for gpu in gpus] == [
        (0, "3B:00.0", 45, 31.5),
        (1, "8B:00.0", 42, 20.5),
    ]


def test_without_a_header_only_what_shows_by_itself_is_read() -> None:
    reading = read_smi(LOOP.partition("\n")[2])
    assert [(gpu.name, gpu.bus_id[-7:], gpu.temp_c) for gpu in reading.gpus] == [
        ("NVIDIA A10G", "3B:00.0", None),
        ("NVIDIA A10G", "8B:00.0", None),
    ]
    amounts = read_smi("2 %, 25187 MiB, 32607 MiB\n")
    assert (amounts.gpus, amounts.error) == ((), "")
    assert amounts.rows is not None
    assert amounts.rows.cells == (("2 %", "25187 MiB", "32607 MiB"),)


@pytest.mark.parametrize(
    ("text", "name", "load"),
    [
        ("utilization.gpu [%], memory.used [MiB]\n2 %, 25187 MiB\n", "", 2),
        ("name\nNVIDIA L40S\n", "NVIDIA L40S", None),
    ],
)
def test_a_header_of_other_fields_is_a_header(text: str, name: str, load: int | None) -> None:
    (gpu,) = read_smi(text).gpus
    assert (gpu.name, gpu.util_pct) == (name, load)


def test_a_process_that_is_named_by_its_gpus_uuid_is_on_no_known_number() -> None:
    reading = read_smi("gpu_uuid, pid, used_gpu_memory [MiB]\nGPU-e82ab913-2d6b, 2069192, 77002 MiB\n")
    assert [(one.gpu, one.pid, one.mem_mib) for one in reading.processes] == [(None, 2069192, 77002)]


@pytest.mark.parametrize(
    ("text", "form", "row"),
    [
        (
            "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n"
            " 20240601   11:27:05  0  70  3\n",
            "nvidia-smi-dmon",
            {"Date": 20240601, "Time": "11:27:05", "gpu": 0, "pwr": 70, "sm": 3},
        ),
        (
            "#gpu, pwr, gtemp, mtemp, sm\n#Idx, W, C, C, %\n0, 694, 61, -, 100\n",
            "nvidia-smi-dmon",
            {"gpu": 0, "pwr": 694, "gtemp": 61, "mtemp": None, "sm": 100},
        ),
        (
            "# gpu        pid  type    fb    sm   command\n# Idx          #   C/G    MB     %   name\n"
            "    0  447153  C  7669  -  python3.9\n",
            "nvidia-smi-pmon",
            {"gpu": 0, "pid": 447153, "type": "C", "fb": 7669, "sm": None, "command": "python3.9"},
        ),
    ],
)
def test_rows_of_monitors_are_named_by_their_header(text: str, form: str, row: dict[str, object]) -> None:
    document = smi_document(read_smi(text))
    assert (document["format"], document["rows"]) == (form, [row])


DEVICE = (
    '{"neuron_device": 0, "nc_count": 4, "memory_size": 103079215104, "connected_to": null, "neuron_processes": []}'
)


@pytest.mark.parametrize(
    "text",
    [
        f"  $ neuron-ls -j\n  [\n    {DEVICE}\n  ]\n",
        f'{{"instance_type": "trn2.48xlarge", "logical_neuroncore_config": 2, "neuron_devices": [{DEVICE}]}}',
    ],
    ids=["indented behind a prompt", "an object around the list"],
)
def test_devices_are_read_from_json_of_any_layout(text: str) -> None:
    listing = read_neuron_ls(text)
    assert [(one.device, one.cores, one.memory_bytes) for one in listing.devices] == [(0, 4, 103079215104)]
    assert listing.error == ""


def test_of_records_laid_out_over_lines_the_last_whole_one_is_the_reading() -> None:
    def record(load: float) -> str:
        in_use = {"neuroncores_in_use": {"0": {"neuroncore_utilization": load}}}
        return json.dumps({"neuron_runtime_data": [{"pid": 1, "report": {"neuroncore_counters": in_use}}]}, indent=2)

    reader = NeuronFileReader()
    reader.feed("\n".join(["{broken", record(10.0), record(20.0), record(30.0)[:80]]).encode())
    reading = reader.reading()
    assert isinstance(reading, NeuronReport)
    assert (reading.cores[0].util_max, reader.records) == (20.0, 2)


def test_a_tool_that_is_not_there_is_an_error_not_an_empty_screen() -> None:
    reader = NeuronFileReader()
    reader.feed(b"bash: neuron-top: command not found\n")
    assert getattr(reader.reading(), "error", "") == "bash: neuron-top: command not found"


VERBOSE = """\
---
fi_info:
    caps: [ FI_MSG ]
    fi_ep_attr:
        type: FI_EP_RDM
        protocol: FI_PROTO_EFA
    fi_domain_attr:
        domain: 0x0
        name: rdmap79s0-rdm
    fi_fabric_attr:
        name: efa
        prov_name: efa
        prov_version: 200.0
    nic:
        fi_device_attr:
            name: rdmap79s0
"""


def test_adapters_are_read_from_the_form_with_all_details() -> None:
    reading = read_fi_info(VERBOSE + VERBOSE.replace("79", "96"))
    assert [(one.provider, one.fabric, one.domain, one.version, one.type) for one in reading.providers] == [
        ("efa", "efa", "rdmap79s0-rdm", "200.0", "FI_EP_RDM"),
        ("efa", "efa", "rdmap96s0-rdm", "200.0", "FI_EP_RDM"),
    ]
    assert reading.adapters_of(0) == 2


def test_adapters_are_read_from_a_container_log_file() -> None:
    reader = EfaFileReader()
    for line in ("provider: efa", "    fabric: efa", "    domain: rdmap0s29-rdm"):
        reader.feed(f"2026-11-20T13:57:23.1Z stdout F {line}\n".encode())
    assert reader.reading() == read_fi_info("provider: efa\n fabric: efa\n domain: rdmap0s29-rdm")


def test_the_resources_of_a_node_in_yaml_are_read() -> None:
    (node,) = read_node_listing(
        'status:\n  allocatable:\n    cpu: 95690m\n    nvidia.com/gpu: "8"\n  capacity:\n    cpu: "96"\n'
        "  conditions:\n  images:\n    sizeBytes: 123\n"
    )
    assert node.sections == {"Allocatable": {"cpu": "95690m", "nvidia.com/gpu": "8"}, "Capacity": {"cpu": "96"}}


def test_lines_that_are_no_rows_are_warnings() -> None:
    reading = read_smi(
        "index, name\n0, NVIDIA A10G\nUnable to determine the device handle: GPU is lost.\n" + "x" * 200_000
    )
    assert [gpu.name for gpu in reading.gpus] == ["NVIDIA A10G"]
    assert reading.warnings == ("Unable to determine the device handle: GPU is lost.", "x" * 400)
    assert read_smi("x" * 200_000).error


_XML = (
    '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    '<nvidia_smi_log>\n<gpu id="0"><product_name>NVIDIA A10G</product_name></gpu>\n</nvidia_smi_log>\n'
)


@pytest.mark.parametrize(
    ("asked", "answer", "form"),
    [
        ("root@gpu-1:/# nvidia-smi -L", "GPU 0: NVIDIA A10G (UUID: GPU-7fdaf0a5)\n", "L"),
        ("$ nvidia-smi --query-gpu=index,name --format=csv", "index, name\n0, NVIDIA A10G\n", ""),
        ("+ nvidia-smi -L", "GPU 0: NVIDIA A10G (UUID: GPU-7fdaf0a5)\n", "L"),
        ("$ nvidia-smi -q -x", _XML, "xml"),
        ("\n", _XML + "$ exit\n", "xml"),
    ],
)
def test_the_command_before_an_answer_does_no_harm(asked: str, answer: str, form: str) -> None:
    reading = read_smi(f"{asked}\n{answer}")
    assert (reading.form, [gpu.name for gpu in reading.gpus]) == (form, ["NVIDIA A10G"])


def test_a_table_is_read_from_a_log_file_of_docker() -> None:
    rows = [
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "[1,0]<stdout>:  2147483648  536870912  float  sum  -1  8019.8  267.77  468.60  0  8019.5  267.78  468.62  0",
        "[1,0]<stdout>:# Avg bus bandwidth    : 468.61",
    ]
    lines = [json.dumps({"log": f"{row}\n", "stream": "stdout", "time": "2025-06-01T10:00:00Z"}) for row in rows]
    saved = NcclFileReader()
    saved.feed("\n".join(lines).encode())
    reading = saved.reading()
    assert isinstance(reading, NcclReading)
    assert [row.size for row in reading.rows] == [2147483648]
