"""`neuron-monitor` inside a container, read back by our own reader."""

from __future__ import annotations

import json

from msgspec.structs import replace

from actions.sandbox.kubelet.images import exec_program
from actions.sandbox.programs.program import NeuronLoad, ProcessContext
from actions.telemetry.tools.neuron import read_monitor_line
from tests.unit.sandbox.programs.containers import Outcome, a_container, context, run

_COMMAND = "python3 -u megatron_gpt_pretraining.py --config-path=conf --config-name=megatron_llama_7b_config"
_BUSY = NeuronLoad(71.0, 14_000, command=_COMMAND)


def _worker() -> ProcessContext:
    return context(replace(a_container(gpus=()), neurons=tuple(range(16))), load=_BUSY)


def _ask(worker: ProcessContext, *argv: str, for_seconds: float = 1e6) -> Outcome:
    return run(exec_program(worker, list(argv)), for_seconds=for_seconds)


def test_the_first_record_of_the_monitor_has_no_runtime_yet() -> None:
    outcome = _ask(_worker(), "neuron-monitor", for_seconds=12)
    first, second, *_ = outcome.out.splitlines()
    assert json.loads(first)["neuron_runtime_data"] == []
    report = read_monitor_line(second)
    assert report is not None
    assert len(report.cores) == 32
    assert all(abs(core.util_max - 71.0) < 2 for core in report.cores.values())
    assert report.device_mem_total_bytes == 32 * 14_000 * (1 << 20)
    assert (report.ecc_uncorrected, report.runtimes[0].failed, report.device_count) == (0, 0, 16)


def test_without_a_device_there_are_no_tools() -> None:
    outcome = _ask(context(a_container(gpus=())), "neuron-monitor")
    assert outcome.exit_code == 127
