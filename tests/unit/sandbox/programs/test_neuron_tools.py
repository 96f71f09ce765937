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


def _worker(*devices: int, load: NeuronLoad = _BUSY, has_terminal: bool = False) -> ProcessContext:
    found = context(replace(a_container(gpus=()), neurons=devices or tuple(range(16))), load=load)
    return replace(found, variables={"TERM": "xterm"} if has_terminal else {})


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


def test_the_monitor_takes_its_period_from_a_file() -> None:
    worker = _worker()
    worker.container.files.write("/tmp/monitor.json", b'{"period": "1s", "neuron_runtimes": []}')
    outcome = _ask(worker, "neuron-monitor", "-c", "/tmp/monitor.json", for_seconds=3.5)
    assert outcome.out.count("\n") >= 4


def test_the_monitor_in_a_pipe_ends_with_its_reader() -> None:
    script = (
        'echo \'{"period":"1s"}\' > /tmp/m.json && timeout 20 /opt/aws/neuron/bin/neuron-monitor -c /tmp/m.json'
        " | head -n 2"
    )
    outcome = _ask(_worker(), "sh", "-c", script)
    assert (outcome.exit_code, outcome.out.count("\n")) == (0, 2)
    assert outcome.seconds < 2


def test_without_a_device_there_are_no_tools() -> None:
    outcome = _ask(context(a_container(gpus=())), "neuron-monitor")
    assert outcome.exit_code == 127


def test_a_hardware_error_is_counted_by_the_monitor() -> None:
    worker = _worker(load=replace(_BUSY, uncorrected_errors=1))
    report = read_monitor_line(_ask(worker, "neuron-monitor", for_seconds=6).out.splitlines()[1])
    assert report is not None
    assert report.ecc_uncorrected == 1
