"""`neuron-ls`, `neuron-monitor` and `neuron-top` inside a container, read back by our own readers."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from actions.sandbox.kubelet.images import exec_program
from actions.sandbox.programs.program import NeuronLoad, ProcessContext
from actions.telemetry.tools.neuron import read_monitor_line, read_neuron_ls, read_neuron_top
from tests.unit.sandbox.programs.containers import Outcome, a_container, context, run

_COMMAND = "python3 -u megatron_gpt_pretraining.py --config-path=conf --config-name=megatron_llama_7b_config"
_BUSY = NeuronLoad(71.0, 14_000, command=_COMMAND)


def _worker(*devices: int, load: NeuronLoad = _BUSY, has_terminal: bool = False) -> ProcessContext:
    found = context(replace(a_container(gpus=()), neurons=devices or tuple(range(16))), load=load)
    return replace(found, variables={"TERM": "xterm"} if has_terminal else {})


def _ask(worker: ProcessContext, *argv: str, for_seconds: float = 1e6) -> Outcome:
    return run(exec_program(worker, list(argv)), for_seconds=for_seconds)


def test_the_table_lists_the_torus_of_a_trn1_and_who_holds_it() -> None:
    listing = read_neuron_ls(_ask(_worker(), "neuron-ls").out)
    assert [device.device for device in listing.devices] == list(range(16))
    assert listing.instance_type == "trn1.32xlarge"
    assert (listing.devices[0].connected, listing.devices[10].connected) == ((12, 3, 4, 1), (6, 9, 14, 11))
    assert (listing.devices[3].bdf, listing.devices[3].memory_bytes) == ("a0:1d.0", 32 << 30)
    assert listing.devices[5].processes[0].command == _COMMAND[:37] + "..."
    wide = read_neuron_ls(_ask(_worker(), "neuron-ls", "--wide").out)
    assert wide.devices[5].processes[0].command == _COMMAND[:77] + "..."


def test_an_idle_instance_has_no_columns_of_processes() -> None:
    outcome = _ask(_worker(load=NeuronLoad()), "neuron-ls")
    assert "PID" not in outcome.out
    assert len(read_neuron_ls(outcome.out).devices) == 16


def test_json_says_the_same_and_an_only_device_has_no_links() -> None:
    listing = read_neuron_ls(_ask(_worker(), "neuron-ls", "--json-output").out)
    assert listing.devices[15].core_ids == (30, 31)
    alone = read_neuron_ls(_ask(_worker(0), "neuron-ls", "-j").out)
    assert (alone.devices[0].connected, len(alone.devices)) == ((), 1)


def test_cores_that_are_held_are_those_that_are_busy() -> None:
    half = NeuronLoad(50.0, 1_000, cores=16, command=_COMMAND)
    listing = read_neuron_ls(_ask(_worker(load=half), "neuron-ls", "-j").out)
    assert [bool(device.processes) for device in listing.devices] == [True] * 8 + [False] * 8
    shown = read_neuron_top(_ask(_worker(load=half), "neuron-top").out)
    assert [max(cores) > 40 for cores in shown.devices.values()] == [True] * 8 + [False] * 8


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


@pytest.mark.parametrize("argv", [("neuron-top",), ("/bin/bash", "-l", "neuron-top")])
def test_a_screen_of_the_top_shows_every_core(argv: tuple[str, ...]) -> None:
    screen = read_neuron_top(_ask(_worker(), *argv).out)
    assert len(screen.devices) == 16
    assert screen.avg_utilization == pytest.approx(71.0, abs=1)
    assert screen.device_used == "437.5GB"
    assert screen.vcpu["system"] == (12.41, 1.93)


def test_at_a_terminal_the_top_goes_on() -> None:
    outcome = _ask(_worker(has_terminal=True), "neuron-top", for_seconds=3.5)
    assert outcome.out.count("neuron-top 2.") >= 4


def test_without_a_device_there_are_no_tools() -> None:
    outcome = _ask(context(a_container(gpus=())), "neuron-ls")
    assert outcome.exit_code == 127


def test_a_hardware_error_is_counted_by_the_monitor() -> None:
    worker = _worker(load=replace(_BUSY, uncorrected_errors=1))
    report = read_monitor_line(_ask(worker, "neuron-monitor", for_seconds=6).out.splitlines()[1])
    assert report is not None
    assert report.ecc_uncorrected == 1
