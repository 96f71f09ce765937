"""nccl-tests, nccom-test and fi_info: what moved how fast over which adapters."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.log_reader import read_log
from actions.telemetry.tools.bandwidth import judge_bandwidth
from actions.telemetry.tools.collectives import (
    Bandwidth,
    NcclReader,
    NcclReading,
    NccomReader,
    NccomReading,
    OutOfBounds,
    read_nccl,
    row_of,
)
from actions.telemetry.tools.efa import read_fi_info
from tests.unit.telemetry.corpus import expected_of, is_close, samples
from tui.present.readings import nccl_lines

ROW = (
    "  67108864      2097152     float    none      -1   3551.8   18.89   16.53      0    676.9   99.15   86.75    N/A"
)
TABLES = [path for path in samples("nccl") if expected_of(path)["format"] == "nccl-tests"]
NEURON = [path for path in samples("nccl") if expected_of(path)["format"] == "nccom-test"]
LISTS = [path for path in samples("efa") if expected_of(path)["format"] == "fi_info"]


def read_nccom(text: str) -> NccomReading:
    reader = NccomReader()
    for line in text.splitlines():
        reader.feed(line)
    assert reader.is_table
    return reader.reading()


def text_of(sample: Path) -> str:
    return sample.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("sample", TABLES, ids=lambda path: path.stem)
def test_every_row_is_read_as_it_stands(sample: Path) -> None:
    expected, reading = expected_of(sample), read_nccl(text_of(sample))
    assert list(msgspec.to_builtins(reading.rows)) == expected["rows"]
    assert is_close(reading.avg_bus_bandwidth, expected["avg_bus_bandwidth"])
    assert msgspec.to_builtins(reading.out_of_bounds) == expected["out_of_bounds"]
    assert is_close(reading.peak_busbw, expected["peak_busbw"])


@pytest.mark.parametrize("sample", NEURON, ids=lambda path: path.stem)
def test_every_row_of_neuron_is_read_by_the_names_of_its_header(sample: Path) -> None:
    expected, text = expected_of(sample), text_of(sample)
    reading = read_nccom(text)
    assert list(reading.rows) == expected["rows"]
    assert is_close(reading.avg_bus_bandwidth, expected["avg_bus_bandwidth"])
    assert reading.error == expected["error"]


@pytest.mark.parametrize("sample", LISTS, ids=lambda path: path.stem)
def test_every_block_of_fi_info_is_read(sample: Path) -> None:
    reading = read_fi_info(text_of(sample))
    assert list(msgspec.to_builtins(reading.providers)) == expected_of(sample)["providers"]
    assert bool(reading.error) == (not reading.providers)


def test_a_row_keeps_what_was_not_checked_apart_from_what_is_right() -> None:
    row = row_of(ROW)
    assert row is not None
    assert (row.size, row.root, row.redop) == (67108864, -1, "none")
    assert row.out_of_place == Bandwidth(3551.8, 18.89, 16.53, 0.0)
    assert [way.wrong for way in row.ways] == [0.0, None]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "8 2 float",
        ROW + " 1 2 3",
        ROW.replace("-1", "x"),
        ROW.replace("3551.8", "slow"),
        ROW.replace("N/A", "?"),
        "# " + ROW,
    ],
)
def test_what_is_no_row_is_none(line: str) -> None:
    assert row_of(line) is None


def test_a_value_that_overflows_its_column_does_not_shift_the_others() -> None:
    row = row_of(
        "536870912 134217728 float sum -1    72488    7.41    7.41  2.68435e+08    73092    7.35    7.35  5e+06"
    )
    assert row is not None
    assert [way.wrong for way in row.ways] == [268435000.0, 5e6]


def test_rows_come_out_as_the_test_prints_them() -> None:
    reader = NcclReader()
    assert [row.size for row in reader.feed(f"[1,0]<stdout>:{ROW}")] == [67108864]
    assert reader.feed("[1,0]<stdout>:# Avg bus bandwidth    : nan") == []
    average = reader.reading().avg_bus_bandwidth
    assert average is not None
    assert average != average  # noqa: PLR0124 - NaN


def test_the_network_is_told_by_what_nccl_says() -> None:
    assert read_nccl("NCCL INFO NET/OFI Selected Provider is efa (found 32 nics)").is_efa is True
    assert read_nccl("NCCL INFO Using network Socket").is_efa is False
    assert read_nccl(ROW).is_efa is None


def test_an_unchecked_run_is_not_called_correct() -> None:
    unchecked = ROW.replace("16.53      0", "16.53    N/A")
    reading = read_nccl(f"{unchecked}\n# Out of bounds values : 0 OK\n")
    assert reading.out_of_bounds == OutOfBounds(0, True)
    assert not reading.is_checked


def test_what_stopped_the_test_is_told() -> None:
    text = "# Collective test starting: all_reduce_perf\nInvalid number of GPUs: 2 requested but only 1 were found.\n"
    reading = read_nccl(text)
    assert reading.error == "Invalid number of GPUs: 2 requested but only 1 were found."
    assert reading.collective == "all_reduce"


def report(**changes: Any) -> str:
    way = {"time": 4.3, "alg_bw": 241.4, "bus_bw": 1.5, "nwrong": 0.0}
    row = {
        "size": 1024,
        "count": 256,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": way,
        "in_place": way,
    }
    whole = {
        "args": ["./all_gather_perf", "-b", "1M"],
        "env": ["AWS_SECRET_ACCESS_KEY=hush"],
        "results": [row],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 1.5, "okay": "unchecked"},
        "errors": [""],
    }
    return json.dumps(whole | changes)


def test_the_report_in_json_is_read_without_its_environment() -> None:
    reading = read_nccl(report())
    assert (reading.collective, reading.avg_bus_bandwidth, reading.rows[0].root) == ("all_gather", 1.5, -1)
    assert reading.out_of_bounds == OutOfBounds(0, True)
    assert b"hush" not in msgspec.json.encode(reading)


@pytest.mark.parametrize("text", ["{", "{}", '{"results": 3}', report(args=[], results=[{"size": "x"}])])
def test_other_json_is_no_report(text: str) -> None:
    assert read_nccl(text) == NcclReading()


def test_an_adapter_that_is_listed_for_each_endpoint_type_counts_once() -> None:
    blocks = [
        f"provider: efa\n    fabric: EFA-fe80\n    domain: rdmap{n}s0-{kind}"
        for n in (79, 80)
        for kind in ("rdm", "dgrm")
    ]
    reading = read_fi_info("\n".join(blocks))
    assert len(reading.providers) == 4
    assert reading.adapters_of(0) == 2
    assert reading.adapters_of(1) == 0


@given(st.text(alphabet="0123456789 .-+enaN/Afloatsum#:\n", max_size=300))
def test_no_text_makes_the_readers_fail(text: str) -> None:
    assert isinstance(read_nccl(text), NcclReading)
    assert read_nccom(f"size(B) count(elems) busbw(GB/s)\n{text}").error is None


def test_rows_of_a_running_test_are_points_by_message_size() -> None:
    row = "[1,0]<stdout>:     4194304       1048576     float     sum      -1   1369.3    3.06    3.06      0   1356.9"
    text = (
        "[1,0]<stdout>:#  size  count  type  redop\n" + row + "    3.09    3.09      0\n# Avg bus bandwidth    : 1.3\n"
    )
    points = read_log(text.encode())
    assert [(point.metric, point.step, point.value, point.rank) for point in points] == [
        ("busbw_gbs", 4194304, 3.06, 0)
    ]


def test_a_row_of_a_per_iteration_report_has_four_more_cells_each_way() -> None:
    row = row_of(
        "   268435456      67108864     float     sum      -1   1443.2  186.00  325.50       0"
        "  1432.11  1460.02  1459.90    0.512   1440.9  186.29  326.01       2  1430.00  1455.00  1454.00    0.480"
    )
    assert row is not None
    assert row.out_of_place == Bandwidth(1443.2, 186.0, 325.5, 0)
    assert row.in_place == Bandwidth(1440.9, 186.29, 326.01, 2)


def test_a_table_of_processor_times_is_read_like_one_of_times() -> None:
    text = (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
        "#   size   count  type  redop  root  cputime  algbw  busbw  #wrong  cputime  algbw  busbw  #wrong\n"
        "16777216 4194304 float    sum    -1    412.9  40.63  71.11       0    401.1  41.83  73.20       0\n"
    )
    reading = read_nccl(text)
    assert reading.rows[0].out_of_place.time_us == 412.9
    assert reading.is_cpu_time
    assert not read_nccl(text.replace("cputime", "time")).is_cpu_time


@pytest.mark.parametrize(
    ("behind", "in_place"),
    [
        ("      0  2026-11-26 16:00:01", Bandwidth(329.3, 25.47, 44.57, 0)),
        ("  1430.00  1455.00  1454.00    0.480  2026-11-26 16:00:01", None),
    ],
)
def test_the_time_that_may_stand_behind_a_row_is_none_of_its_cells(behind: str, in_place: Bandwidth | None) -> None:
    """`-S 1`, since 2.17.6; also behind a report of single iterations."""
    first = "8388608 2097152 float sum -1 331.0 25.35 44.36 0"
    if in_place is None:
        first, in_place = f"{first} 300.1 340.0 339.9 1.2", Bandwidth(329.3, 25.47, 44.57, 0)
        behind = f"      0{behind}"
    row = row_of(f"{first} 329.3 25.47 44.57{behind}")
    assert row is not None
    assert (row.out_of_place, row.in_place) == (Bandwidth(331.0, 25.35, 44.36, 0), in_place)


def test_a_direction_that_was_not_measured_leaves_the_other() -> None:
    row = row_of("1048576 262144 float sum -1 4.91 37.25 65.19 0 N/A N/A N/A N/A")
    assert row is not None
    assert (row.out_of_place, row.in_place) == (Bandwidth(4.91, 37.25, 65.19, 0), None)


def test_a_deviation_is_no_number_of_wrong_values() -> None:
    """Until 2.12 the last column is the greatest deviation from the right value; a good test has one, too."""
    text = (
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "   134217728      16777216   float     sum   3298.6   20.34   20.34  2e-06   3070.3   21.86   21.86  2e-06\n"
        "# Out of bounds values : {bounds}\n"
    )
    good, bad = read_nccl(text.format(bounds="0 OK")), read_nccl(text.format(bounds="1 FAILED"))
    assert good.rows[0].out_of_place.wrong == 2e-6
    assert "✓ values are correct" in "\n".join(nccl_lines(good))
    assert [one.is_good for one in judge_bandwidth(good, None, at_least_percent=0, from_bytes=0)][1] is True
    assert "✗ 1 tests had wrong values" in "\n".join(nccl_lines(bad))
    counted = read_nccl(text.replace("error", "#wrong").replace("2e-06", "2").format(bounds="0 OK"))
    assert "✗ 1 row has wrong values" in "\n".join(nccl_lines(counted))


def test_a_report_of_processor_times_is_read() -> None:
    row = json.loads(report())["results"][0]
    for way in ("out_of_place", "in_place"):
        row[way]["cpu_time"] = row[way].pop("time")
    reading = read_nccl(report(results=[row]))
    assert (reading.rows[0].out_of_place.time_us, reading.is_cpu_time) == (4.3, True)
    assert not read_nccl(report()).is_cpu_time


def test_a_report_may_have_numbers_that_are_none() -> None:
    row = json.loads(report())["results"][0]
    row["in_place"] = row["in_place"] | {"alg_bw": "nan", "nwrong": None}
    (read,) = read_nccl(report(results=[row])).rows
    assert read.out_of_place.algbw == 241.4
    assert read.in_place is not None
    assert math.isnan(read.in_place.algbw)
    del row["out_of_place"]["time"]
    assert read_nccl(report(results=[row])).rows == ()


H100X2 = Path(__file__).parents[2] / "fixtures" / "h100x2"


@pytest.mark.parametrize(
    ("name", "peak", "average", "rows"),
    [
        ("all_reduce", 330.71, 214.9, 6),
        ("alltoall", 354.57, 187.837, 6),
        ("cputime", 214.02, 37.7793, 8),
        ("info", 266.87, 165.838, 3),
    ],
)
def test_tables_of_two_gpus_over_nvlink(name: str, peak: float, average: float, rows: int) -> None:
    """nccl-tests 2.19.6. Among NCCL's own lines there are sockets, which ranks of one machine do not use."""
    reading = read_nccl((H100X2 / f"nccl_tests_{name}.txt").read_text())
    assert (reading.peak_busbw, reading.avg_bus_bandwidth, len(reading.rows)) == (peak, average, rows)
    assert reading.is_checked
    assert reading.is_efa is None


def test_sockets_between_machines_are_no_efa() -> None:
    text = (H100X2 / "nccl_tests_info.txt").read_text().replace("nNodes 1", "nNodes 2")
    assert read_nccl(text).is_efa is False
