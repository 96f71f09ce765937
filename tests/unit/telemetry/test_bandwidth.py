"""Judgements of nccl-tests and fi_info: complete, right, over EFA, fast; known or not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actions.base.errors import FormatError
from actions.fleet.quantity import size_text
from actions.telemetry.tools.bandwidth import (
    ReferenceCurve,
    judge_adapters,
    judge_bandwidth,
    load_references,
)
from actions.telemetry.tools.collectives import Bandwidth, NcclReading, NcclRow, OutOfBounds
from actions.telemetry.tools.efa import read_fi_info

_MIB = 1 << 20
_CURVE = ReferenceCurve("g5.8xlarge", 2, 1, ((64 * _MIB, 2.0), (256 * _MIB, 3.0)), "a test")


def _row(size: int, busbw: float, *, wrong: float | None = 0) -> NcclRow:
    way = Bandwidth(1.0, busbw, busbw, wrong)
    return NcclRow(size, size // 4, "float", "sum", -1, way, way)


def _reading(*rows: NcclRow) -> NcclReading:
    return NcclReading(rows=rows, avg_bus_bandwidth=1.0, out_of_bounds=OutOfBounds(0, ok=True), is_efa=True)


def _goods(reading: NcclReading, reference: ReferenceCurve | None = _CURVE) -> list[bool | None]:
    judged = judge_bandwidth(reading, reference, at_least_percent=80, from_bytes=128 * _MIB)
    return [one.is_good for one in judged]


def test_a_good_test_passes_everything() -> None:
    assert _goods(_reading(_row(8, 0.01), _row(128 * _MIB, 2.5))) == [True, True, True, True]


def test_one_slow_large_message_is_enough_to_fail() -> None:
    reading = _reading(_row(128 * _MIB, 2.5), _row(256 * _MIB, 2.3))
    judged = judge_bandwidth(reading, _CURVE, at_least_percent=80, from_bytes=128 * _MIB)
    assert judged[-1].is_good is False
    assert judged[-1].detail == "2.3 GB/s at 256 MiB, 77% of the 3 of 2 × g5.8xlarge; peak 2.5 GB/s at 128 MiB."


@pytest.mark.parametrize(("busbw", "is_good"), [(3.0, True), (3.4, True), (3.5, None), (9.4, None)])
def test_what_is_faster_than_the_nodes_can_be_proves_nothing(busbw: float, is_good: bool | None) -> None:
    reading = _reading(_row(256 * _MIB, busbw))
    judged = judge_bandwidth(reading, _CURVE, at_least_percent=80, from_bytes=128 * _MIB)[-1]
    assert judged.is_good is is_good
    assert ("faster than these nodes can be" in judged.detail) == (is_good is None)


def test_a_slow_message_fails_also_beside_one_that_is_too_fast() -> None:
    assert _goods(_reading(_row(128 * _MIB, 1.0), _row(256 * _MIB, 9.4)))[-1] is False


def test_what_was_not_measured_or_reached_is_unknown() -> None:
    assert _goods(_reading(_row(256 * _MIB, 400.0)), None)[-1] is None
    assert _goods(_reading(_row(8, 0.01)))[-1] is None
    assert _goods(_reading(_row(256 * _MIB, 0.0)))[-1] is None


@pytest.mark.parametrize(
    ("change", "place", "is_good"),
    [
        ({"error": "Test NCCL failure common.cu:1005"}, 0, False),
        ({"avg_bus_bandwidth": None}, 0, False),
        ({"rows": ()}, 0, False),
        ({"out_of_bounds": OutOfBounds(3, ok=False)}, 1, False),
        ({"rows": (_row(8, 0.1, wrong=4),)}, 1, False),
        ({"rows": (_row(8, 0.1, wrong=None),)}, 1, None),
        ({"is_efa": False}, 2, False),
        ({"is_efa": None}, 2, None),
    ],
)
def test_each_sign_of_trouble_is_judged_by_itself(change: dict[str, object], place: int, is_good: bool | None) -> None:
    reading = msgspec.structs.replace(_reading(_row(256 * _MIB, 3.0)), **change)
    assert _goods(reading)[place] is is_good


def test_a_curve_is_read_between_its_points_and_beyond_them() -> None:
    assert _CURVE.at(63 * _MIB) is None
    assert _CURVE.at(128 * _MIB) == pytest.approx(2.5)
    assert _CURVE.at(1 << 40) == 3.0


def test_every_rank_must_see_all_adapters() -> None:
    text = "[1,0]<stdout>:provider: efa\n[1,0]<stdout>:    fabric: efa\n[1,0]<stdout>:    domain: rdmap0s29-rdm\n"
    listed = read_fi_info(text)
    assert judge_adapters(listed, ranks=1, adapters=1)[0].is_good
    (short,) = judge_adapters(listed, ranks=2, adapters=1)
    assert (short.is_good, short.detail) == (False, "rank 1 sees 0 of 1.")


def test_the_shipped_curves_are_sorted_and_have_a_source() -> None:
    curves = load_references()
    assert {(curve.instance_type, curve.nodes, curve.ranks_per_node) for curve in curves} >= {
        ("g5.8xlarge", 2, 1),
        ("p5.48xlarge", 2, 8),
    }
    assert all(list(curve.points) == sorted(curve.points) and curve.source for curve in curves)


def test_a_broken_table_names_its_line(tmp_path: Path) -> None:
    table = tmp_path / "curves.csv"
    head = "instance_type,nodes,ranks_per_node,size_bytes,busbw_gbs,source,as_of"
    table.write_text(f"{head}\ng5,2,1,8,fast,me,2025-01\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"curves\.csv:2"):
        load_references(table)


def test_sizes_are_written_as_people_say_them() -> None:
    assert [size_text(size) for size in (8, 1024, 128 * _MIB, 3 << 30)] == ["8 B", "1 KiB", "128 MiB", "3 GiB"]
