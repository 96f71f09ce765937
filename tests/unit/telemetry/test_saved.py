"""Whole outputs, in pieces of any size, in any packing."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import FormatError
from actions.telemetry.readings.documents import (
    Json,
    efa_document,
    nccl_document,
    neuron_document,
    smi_document,
    value_of,
)
from actions.telemetry.readings.readers import MOST_TEXT, EfaFileReader, NcclFileReader, NeuronFileReader, SmiFileReader
from actions.telemetry.readings.source import CHUNK_BYTES, text_pieces
from actions.telemetry.tools.collectives import NcclReading
from actions.telemetry.tools.neuron import NeuronReport, NeuronScreen
from actions.telemetry.tools.node_listing import NodeListing, read_node_listing
from tests.unit.telemetry.corpus import samples

ROW = "1048576 262144 float sum -1 119.1 8.81 16.51 0 121.5 8.63 16.18 0"
NCCL = f"# nccl-tests\n{ROW}\n# Avg bus bandwidth    : 16.345\n"
SMI = Path(__file__).parents[2] / "fixtures" / "corpus" / "nvidia_smi" / "drv580_h200_load.txt"


def nccl_of(data: bytes, size: int) -> Json:
    reader = NcclFileReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return nccl_document(reader.reading())


def smi_of(data: bytes, size: int) -> Json:
    reader = SmiFileReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return smi_document(reader.reading(), answers=reader.answers)


def neuron_of(data: bytes, size: int) -> Json:
    reader = NeuronFileReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return neuron_document(reader.reading(), records=reader.records)


def efa_of(data: bytes, size: int) -> Json:
    reader = EfaFileReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return efa_document(reader.reading())


READERS = {"nccl": nccl_of, "nvidia_smi": smi_of, "neuron": neuron_of, "efa": efa_of}
CASES = [(category, path) for category in READERS for path in samples(category)]


@pytest.mark.parametrize(("category", "sample"), CASES, ids=[path.name for _, path in CASES])
def test_pieces_of_any_size_give_the_same_reading(category: str, sample: Path) -> None:
    data, read = sample.read_bytes(), READERS[category]
    whole = read(data, len(data) + 1)
    assert json.dumps(read(data, 7)) == json.dumps(read(data, 4096)) == json.dumps(whole)


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(NCCL.encode("utf-16"), id="utf-16"),
        pytest.param(b"\xef\xbb\xbf" + NCCL.encode(), id="marked utf-8"),
        pytest.param(gzip.compress(NCCL[:30].encode()) + gzip.compress(NCCL[30:].encode()), id="gzip of two members"),
        pytest.param(NCCL.replace("\n", "\r\n").encode(), id="crlf"),
        pytest.param(
            "".join(f"2026-11-20T13:57:23.1Z stdout F {line}\n" for line in NCCL.splitlines()).encode(), id="cri"
        ),
        pytest.param(
            "".join(json.dumps({"log": f"{line}\n", "stream": "stdout"}) + "\n" for line in NCCL.splitlines()).encode(),
            id="json-file",
        ),
        pytest.param("".join(f"[pod/x/y] {line}\n" for line in NCCL.splitlines()).encode(), id="kubectl --prefix"),
    ],
)
def test_a_log_is_the_same_in_any_packing(packed: bytes) -> None:
    reader = NcclFileReader()
    for piece in text_pieces(io.BytesIO(packed)):
        reader.feed(piece)
    reading = reader.reading()
    assert isinstance(reading, NcclReading)
    assert [row.size for row in reading.rows] == [1048576]
    assert reading.avg_bus_bandwidth == 16.345


def test_a_small_file_that_unpacks_to_a_huge_one_comes_in_bounded_pieces() -> None:
    packed = gzip.compress(b"0" * (64 * CHUNK_BYTES))
    sizes = [len(piece) for piece in text_pieces(io.BytesIO(packed))]
    assert sum(sizes) == 64 * CHUNK_BYTES
    assert max(sizes) <= CHUNK_BYTES


def test_damaged_gzip_is_told() -> None:
    with pytest.raises(FormatError, match="gzip"):
        list(text_pieces(io.BytesIO(gzip.compress(b"hello" * 100)[:10] + b"\xff" * 20)))


def test_tables_of_several_runs_are_kept_apart() -> None:
    document = nccl_of((NCCL + NCCL.replace("16.345", "nan") + ROW).encode(), 4096)
    assert document["tables"] == [
        {"rows": 1, "avg_bus_bandwidth": 16.345},
        {"rows": 1, "avg_bus_bandwidth": "nan"},
        {"rows": 1, "avg_bus_bandwidth": None},
    ]
    assert document["avg_bus_bandwidth"] == "nan"


def test_of_many_answers_of_nvidia_smi_the_last_is_the_reading() -> None:
    table = SMI.read_text(encoding="utf-8")
    reader = SmiFileReader()
    for load in ("100%", " 40%", "  7%"):
        reader.feed(table.replace("100%", load).encode())
    reading = reader.reading()
    assert [gpu.util_pct for gpu in reading.gpus] == [7]
    assert reader.answers == 3
    assert [sample.y for sample in reader.utilization[0].samples()] == [100, 40, 7]


def test_of_an_endless_query_the_newest_row_of_each_gpu_is_read() -> None:
    reader = SmiFileReader()
    reader.feed(b"index, name, utilization.gpu [%]\n")
    for load in range(200_000):
        reader.feed(f"0, NVIDIA A10G, {load % 100} %\n1, NVIDIA A10G, 5 %\n".encode())
    assert [(gpu.index, gpu.util_pct) for gpu in reader.reading().gpus] == [(0, 99), (1, 5)]
    assert len(reader._text.text) <= MOST_TEXT


def test_a_table_behind_the_prefix_of_a_launcher_is_read() -> None:
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in SMI.read_text(encoding="utf-8").splitlines())
    assert smi_of(text.encode(), 4096)["gpus"] == smi_of(SMI.read_bytes(), 4096)["gpus"]


def monitor(load: float) -> bytes:
    in_use = {"neuroncores_in_use": {"0": {"neuroncore_utilization": load}}}
    runtime = {"pid": 1, "report": {"neuroncore_counters": in_use}}
    return json.dumps({"neuron_runtime_data": [runtime], "instance_info": {"instance_type": "trn1.2xlarge"}}).encode()


def test_of_a_stream_of_records_the_last_whole_one_is_the_reading() -> None:
    reader = NeuronFileReader()
    reader.feed(b"\n".join(monitor(load) for load in (10.0, 20.0, 30.0)) + b"\n" + monitor(40.0)[:60])
    reading = reader.reading()
    assert isinstance(reading, NeuronReport)
    assert reading.cores[0].util_max == 30.0
    assert reader.records == 3
    assert [sample.y for sample in reader.utilization.samples()] == [10.0, 20.0, 30.0]


def test_records_behind_time_stamps_are_read() -> None:
    reader = NeuronFileReader()
    reader.feed(b"2026-11-20T13:57:23.1Z " + monitor(12.0) + b"\n")
    assert isinstance(reader.reading(), NeuronReport)


def test_a_screen_is_known_without_its_title() -> None:
    reader = NeuronFileReader()
    reader.feed(b"NeuronCore v2 Utilization (Avg: 71.19%)\nND0   ||||[69.89%] ||||[71.72%]\n")
    reading = reader.reading()
    assert isinstance(reading, NeuronScreen)
    assert reading.devices == {0: (69.89, 71.72)}


DESCRIBED = """\
Name:               ip-10-0-1-1
Labels:             a=b
Capacity:
  cpu:                    96
  vpc.amazonaws.com/efa:  4
Allocatable:
  cpu:                    95690m
  hugepages-2Mi:          21122Mi
System Info:
  Machine ID:  7
Name:               ip-10-0-1-2
Allocatable:
  nvidia.com/gpu:  8
"""


def test_the_resources_of_described_nodes_are_read_as_they_stand() -> None:
    first, second = read_node_listing(DESCRIBED)
    assert (first.name, second.name) == ("ip-10-0-1-1", "ip-10-0-1-2")
    assert first.sections["Allocatable"] == {"cpu": "95690m", "hugepages-2Mi": "21122Mi"}
    assert first.amount("Allocatable", "cpu") == pytest.approx(95.69)
    assert first.amount("Capacity", "vpc.amazonaws.com/efa") == 4
    assert first.amount("Capacity", "nvidia.com/gpu") is None


@pytest.mark.parametrize("is_list", [True, False])
def test_nodes_as_json_are_read_too(is_list: bool) -> None:
    node: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3920m"}},
    }
    text = json.dumps({"kind": "List", "items": [node, {"status": None}]} if is_list else node)
    assert read_node_listing(text) == [
        NodeListing("n", {"Capacity": {"cpu": "4"}, "Allocatable": {"cpu": "3920m"}}),
    ]


@pytest.mark.parametrize("text", ['{"allocatable": 1', '{"allocatable": {}}', '{"items": [3], "allocatable": 1}', ""])
def test_other_text_has_no_node(text: str) -> None:
    assert read_node_listing(text) == []


@pytest.mark.parametrize(
    ("number", "written"),
    [(1.5, 1.5), (None, None), (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")],
)
def test_what_json_has_no_number_for_is_a_text(number: float | None, written: object) -> None:
    assert value_of(number) == written
