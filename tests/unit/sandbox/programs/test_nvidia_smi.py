"""`nvidia-smi` inside a container."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from actions.sandbox.kubelet.container import ContainerRun
from actions.sandbox.kubelet.images import exec_program
from actions.sandbox.programs.nvidia import NvidiaDevice, model_of, table
from actions.sandbox.programs.program import GpuLoad
from actions.telemetry.tools.devices import NVIDIA_COMMAND, read_devices
from actions.telemetry.tools.traffic import TRAFFIC_SCRIPT, read_traffic
from tests.unit.sandbox.programs.containers import MOMENT, Outcome, a_container, context, run

if TYPE_CHECKING:
    from actions.sandbox.kubelet.pod_config import ContainerConfig

_CSV = "--format=csv,noheader,nounits"
_BUSY = GpuLoad(95, 3032)
_CAPTURED = """\
Mon Feb 24 18:51:35 2025
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.230.02             Driver Version: 535.230.02   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA A10G                    On  | 00000000:00:1E.0 Off |                    0 |
|  0%   33C    P0             112W / 300W |   3032MiB / 23028MiB |     95%      Default |
|                                         |                      |                  N/A |
"""

_CAPTURED_570 = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   4  NVIDIA H100 80GB HBM3          On  |   00000000:97:00.0 Off |                    0 |
| N/A   39C    P0            334W /  700W |   11751MiB /  81559MiB |     95%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


def _ask(*argv: str, gpus: tuple[int, ...] = (2,), load: GpuLoad = _BUSY, for_seconds: float = 1e6) -> Outcome:
    program = exec_program(context(a_container(gpus=gpus), load=load), ["nvidia-smi", *argv])
    return run(program, for_seconds=for_seconds)


def test_the_table_is_the_captured_one() -> None:
    reading = NvidiaDevice(0, 3, 95, 3032, 33, 112.0)
    assert table([reading], MOMENT).startswith(_CAPTURED)


def test_a_younger_driver_has_a_wider_table() -> None:
    reading = NvidiaDevice(4, 4, 95, 11751, 39, 334.0, model_of("p5.48xlarge"))
    assert _CAPTURED_570 in table([reading], MOMENT)


def test_an_instance_type_brings_its_own_devices() -> None:
    container = replace(a_container(gpus=tuple(range(8))), instance_type="p4de.24xlarge")
    outcome = run(exec_program(context(container), ["nvidia-smi", "--query-gpu=name,memory.total,power.limit", _CSV]))
    assert outcome.out.splitlines() == ["NVIDIA A100-SXM4-80GB, 81920, 400.00"] * 8


def test_a_container_sees_its_own_device_only_as_number_0() -> None:
    outcome = _ask("--query-gpu=index,pci.bus_id,memory.used,memory.total", "--format=csv,noheader,nounits")
    assert outcome.out == "0, 00000000:00:1D.0, 3032, 23028\n"


def test_there_is_none_without_a_device() -> None:
    outcome = _ask(gpus=())
    assert outcome.exit_code == 127
    assert 'exec: "nvidia-smi": executable file not found' in outcome.err


def test_the_commands_of_the_console_are_carried_out() -> None:
    outcome = run(exec_program(context(a_container(gpus=(2,)), load=_BUSY), list(NVIDIA_COMMAND)))
    (device,) = read_devices(outcome.out).devices
    assert (device.clock_mhz, device.nvlink_bytes, device.efa_bytes) == (1695, None, None)


RECORDED = Path("tests/fixtures/h100x2")


def _nvlink(
    *argv: str, instance_type: str = "p5.48xlarge", gpus: tuple[int, ...] = (0, 1), busy: float = 0.0
) -> Outcome:
    surroundings = context(replace(a_container(gpus=gpus), instance_type=instance_type))
    surroundings = replace(surroundings, busy_seconds=lambda: busy)
    return run(exec_program(surroundings, ["nvidia-smi", "nvlink", *argv]))


def _form(text: str) -> list[str]:
    """Return the lines without the numbers that differ from machine to machine."""
    return [re.sub(r"UUID: [^)]*|(?<=x: )\d+", "…", line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("argv", "recorded"),
    [(("-gt", "d"), "data"), (("-e",), "errors")],
)
def test_links_are_listed_as_two_real_devices_list_them(argv: tuple[str, ...], recorded: str) -> None:
    outcome = _nvlink(*argv)
    assert outcome.exit_code == 0
    assert _form(outcome.out) == _form((RECORDED / f"nvlink_{recorded}.txt").read_text())


def test_the_consoles_script_for_traffic_is_answered_in_a_container() -> None:
    """Lines of errors that are 0 are left out as in a real shell; there is neither a file of EFA's nor `rdma`."""
    surroundings = context(replace(a_container(gpus=(0, 1)), instance_type="p5.48xlarge"))
    outcome = run(exec_program(replace(surroundings, busy_seconds=lambda: 10.0), ["sh", "-c", TRAFFIC_SCRIPT]))
    traffic = read_traffic(outcome.out)
    assert (outcome.exit_code, outcome.err) == (0, "")
    assert traffic.nvlink_bytes[0] == traffic.nvlink_bytes[1] > 0
    assert (traffic.link_errors, traffic.efa_bytes) == ({}, None)
    assert outcome.out.count("GPU 0: ") == 2, "of the counters, and of the errors"
    assert "Errors" not in outcome.out


def test_busy_time_of_a_container_counts_each_load() -> None:
    now = [1000.0]
    container = ContainerRun(cast("ContainerConfig", None))
    container.context = replace(context(a_container()), now=lambda: now[0])
    for at, load in ((1000.0, 0), (1010.0, 100), (1020.0, 50), (1030.0, 0)):
        now[0] = at
        container.set_load(GpuLoad(load))
    assert container.busy_at(1100.0) == 15.0
