"""GPUs over time as a Prometheus has them: recorded answers, and such as nobody should send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import FormatError
from actions.telemetry.tools.dcgm import METRICS, XID, KeptGpu, gpus_in, queries, read_answer
from actions.telemetry.tools.device_history import Quantity

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "prometheus" / "dcgm.json").read_text("utf-8")
)
"""Answers by metric."""


def recorded() -> list[KeptGpu]:
    return gpus_in(one for metric in METRICS for one in read_answer(json.dumps(RECORDED[metric]).encode()))


def answer(*series: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}} | more).encode()


def test_the_gpus_of_pods_and_of_none_are_read_with_their_history() -> None:
    idle, first, second, third = recorded()
    assert (idle.pod, idle.node, idle.device.label) == ("", "ip-10-1-33-9", "1")
    assert [(one.pod, one.device.label) for one in (first, second, third)] == [
        ("train/esm-worker-0", "0"),
        ("train/esm-worker-0", "1"),
        ("train/esm-worker-1", "0"),
    ]
    device = second.device
    assert (device.model, device.temp_c, device.power_w, device.clock_mhz) == ("NVIDIA A10G", 50, 151.5, 1710)
    assert (device.mem_used_bytes, device.mem_total_bytes) == (12_000 << 20, 23_000 << 20)
    memory, load = (second.history.extent(quantity) for quantity in (Quantity.MEMORY, Quantity.LOAD))
    assert memory is not None
    assert load is not None
    assert (memory.most, load.most > load.least) == (12_000 << 20, True)
    assert second.history.span[1] == second.at


def test_an_xid_error_has_the_moment_at_which_it_came() -> None:
    _, first, second, _ = recorded()
    assert first.xid is None
    assert second.xid is not None
    at, number = second.xid
    assert number == 79
    assert second.history.span[0] < at < second.at
    there = {"metric": {"__name__": XID, "gpu": "0", "pod": "a"}, "values": [[10, "31"], [20, "31"]]}
    load = {"metric": {"__name__": METRICS[0], "gpu": "0", "pod": "a"}, "values": [[10, "5"], [20, "5"]]}
    (gpu,) = gpus_in(read_answer(answer(there, load)))
    assert gpu.xid == (0.0, 31), "it was there before"


def test_numbers_that_are_none_are_left_out() -> None:
    values = [[1, "NaN"], [2, "+Inf"], [3, "9223372036854775794"], [4, "-1"], [5, "word"], [6, "7"]]
    series = {"metric": {"__name__": METRICS[0], "gpu": "x" * 9, "pod": "p\x1b[2J", "namespace": "n"}, "values": values}
    (gpu,) = gpus_in(read_answer(answer(series)))
    assert (gpu.device.load_pct, gpu.device.index, gpu.at) == (7.0, 0, 6)
    assert "\x1b" not in gpu.pod
    assert gpus_in(read_answer(answer({"metric": {}, "values": []}))) == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"status":"error","error":"parse error"}', b'{"data":{}}'])
def test_what_is_not_an_answer_of_prometheus_is_refused(body: bytes) -> None:
    with pytest.raises(FormatError, match="Prometheus"):
        read_answer(body)


def test_pods_are_named_in_both_ways_and_many_of_them_by_what_they_share() -> None:
    (first, *rest) = queries(["b/two", "a/one.x"])
    assert len(rest) == len(METRICS) - 1
    assert first == (
        r'DCGM_FI_DEV_GPU_UTIL{exported_namespace=~"a|b",exported_pod=~"one\\.x|two"}'
        r' or DCGM_FI_DEV_GPU_UTIL{namespace=~"a|b",pod=~"one\\.x|two"}'
    )
    many = queries([f"n/trainer-worker-{number}" for number in range(200)])[0]
    assert 'exported_pod=~"trainer-worker-.*"' in many
    assert queries([]) == list(METRICS)
