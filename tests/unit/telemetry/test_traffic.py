"""Counters of NVLink and EFA: what a container's commands print, and what they print where there is nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.tools.devices import NVIDIA_COMMAND, read_devices
from actions.telemetry.tools.nvidia_smi import read as read_smi
from actions.telemetry.tools.traffic import TRAFFIC_SCRIPT, Traffic, read_traffic
from tests.unit.telemetry.corpus import samples

TABLE = next(path for path in samples("nvidia_smi") if path.name == "drv580_h200_load.txt").read_text()
H100X2 = Path(__file__).parents[2] / "fixtures" / "h100x2"
COUNTERS = """\
GPU 0: NVIDIA H200 (UUID: GPU-1)
\t Link 0: Data Tx: 1000 KiB
\t Link 0: Data Rx: 2000 KiB
\t Link 1: Data Tx: 3000 KiB
\t Link 1: Data Rx: 4000 KiB
GPU 1: NVIDIA H200 (UUID: GPU-2)
\t Link 0: Data Tx: 7 KiB
\t Link 0: Data Rx: 0 KiB
"""
EFA = "/sys/class/infiniband/rdmap79s0/ports/1/hw_counters/rx_bytes:124457\n"


def test_a_device_has_the_counters_of_its_number() -> None:
    reading = read_devices(TABLE + COUNTERS + EFA + "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: Replay Errors: 5\n")
    first, *others = reading.devices
    assert (first.nvlink_bytes, first.nvlink_errors, first.efa_bytes) == (10_000 << 10, 5, 124_457)
    assert [device.efa_bytes for device in others] == [124_457] * len(others)
    without = read_devices(TABLE)
    assert [device.nvlink_bytes for device in without.devices] == [None] * len(reading.devices)
    assert without == read_devices(TABLE + "Invalid combination of input arguments.\n")


def played(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands with the tool of a folder."""
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(NVIDIA_COMMAND, env=path, capture_output=True, text=True, check=False, timeout=60)


def test_the_commands_of_a_shell_print_what_is_read(tmp_path: Path) -> None:
    """With an `nvidia-smi` that prints recordings: its table, an unknown field, counters, errors of one link."""
    tool = tmp_path / "nvidia-smi"
    errors = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 1: Replay Errors: 12\n\t Link 1: CRC Errors: 0\n"
    for name, text in (("table", TABLE), ("counters", COUNTERS), ("errors", errors)):
        (tmp_path / name).write_text(text)
    tool.write_text(
        f'#!/bin/sh\ncd {tmp_path}\ncase "$*" in\n"") cat table;;\n"nvlink -gt d") cat counters;;\n'
        '"nvlink -e") cat errors;;\n*) echo Field is not a valid field to query.; exit 2;;\nesac\n'
    )
    tool.chmod(0o700)
    done = played(tmp_path)
    assert done.returncode == 0
    first = read_devices(done.stdout).devices[0]
    assert (first.nvlink_bytes, first.nvlink_errors) == (10_000 << 10, 12)
    assert read_traffic(done.stdout).nvlink_bytes == {0: 10_000 << 10, 1: 7 << 10}
    assert "CRC" not in done.stdout

    tool.write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    done = played(tmp_path)
    assert (done.returncode, read_devices(done.stdout).error) == (6, "No devices were found")


def test_the_files_of_all_adapters_are_added_up(tmp_path: Path) -> None:
    for adapter, sent in (("rdmap79s0", 123_456), ("rdmap80s0", 9_000_000_000_000)):
        counters = tmp_path / adapter / "ports" / "1" / "hw_counters"
        counters.mkdir(parents=True)
        (counters / "rx_bytes").write_text(f"{sent}\n")
        (counters / "tx_bytes").write_text("1000\n")
        (counters / "lifespan").write_text("10\n")
    script = TRAFFIC_SCRIPT.replace("/sys/class/infiniband", str(tmp_path))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert read_traffic(done.stdout).efa_bytes == 9_000_000_125_456
    nothing = TRAFFIC_SCRIPT.replace("/sys/class/infiniband", str(tmp_path / "none"))
    done = subprocess.run(["sh", "-c", nothing], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""


@pytest.mark.parametrize("layout", [" {name} {value}", "\n    {name} {value} "])
def test_a_pod_with_a_network_of_its_own_asks_by_netlink(tmp_path: Path, layout: str) -> None:
    """With an `rdma` that prints what its source prints, in both of its layouts, of the counters of EFA's driver."""
    values = {"tx_bytes": 9_000_000_000_000, "tx_pkts": 70, "rx_bytes": 456, "rx_pkts": 7, "send_bytes": 123}
    counters = "".join(layout.format(name=name, value=value) for name, value in values.items())
    tool = tmp_path / "rdma"
    links = "".join(f"link rdmap{number}s0/1 {counters}\n" for number in (79, 80))
    tool.write_text(f"#!/bin/sh\n[ \"$*\" = 'statistic show' ] && cat <<'.'\n{links}.\n")
    tool.chmod(0o700)
    script = TRAFFIC_SCRIPT.replace("/sys/class/infiniband", str(tmp_path / "none"))
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], env=path, capture_output=True, text=True, check=True, timeout=60)
    assert read_traffic(done.stdout).efa_bytes == 2 * 9_000_000_000_456


def test_no_adapter_counts_twice_where_one_file_cannot_be_read() -> None:
    """`grep` fails if one file of many cannot be read, and `rdma` is asked for the same counters."""
    assert read_traffic(EFA + "link rdmap79s0/1 tx_bytes 1 rx_bytes 124457\n").efa_bytes == 124_457


def test_counters_of_real_links_are_added_up(tmp_path: Path) -> None:
    """`nvlink -gt d`, `-e` and `-s` of two H100 that have sent something: 18 links each, no errors."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        f'#!/bin/sh\ncase "$*" in\n"") cat {H100X2}/table_busy.txt;;\n"nvlink -gt d") cat {H100X2}/nvlink_data.txt;;\n'
        f'"nvlink -e") cat {H100X2}/nvlink_errors.txt;;\n--query-gpu=*) cat {H100X2}/details_busy.csv;;\n'
        "*) exit 2;;\nesac\n"
    )
    tool.chmod(0o700)
    devices = read_devices(played(tmp_path).stdout).devices
    assert [device.nvlink_errors for device in devices] == [0, 0]
    links = [line.split() for line in (H100X2 / "nvlink_data.txt").read_text().splitlines() if "Data" in line]
    kib = [int(line[4]) for line in links]
    assert len(kib) == 2 * 18 * 2
    assert [device.nvlink_bytes for device in devices] == [sum(kib[:36]) << 10, sum(kib[36:]) << 10]
    assert [(device.clock_mhz, device.throttle) for device in devices] == [
        (1500, ("power cap",)),
        (1365, ("power cap",)),
    ]


@pytest.mark.parametrize(
    ("name", "head", "sums"),
    [
        ("data", ("Data Tx [KiB]", "Data Rx [KiB]"), ("145756697", "145756698")),
        ("raw", ("Raw Tx [KiB]", "Raw Rx [KiB]"), ("195738841", "197368878")),
        ("errors", ("Replay Errors", "Recovery Errors", "CRC Errors"), ("0", "0", "0")),
        ("speeds", ("Speed [GB/s]",), ("478.116",)),
    ],
)
def test_links_of_a_gpu_are_one_row(name: str, head: tuple[str, ...], sums: tuple[str, ...]) -> None:
    """Not the rows of `nvidia-smi -L`, whose lines begin alike."""
    reading = read_smi((H100X2 / f"nvlink_{name}.txt").read_text())
    assert reading.form == "nvlink"
    assert not reading.gpus
    assert reading.rows is not None
    assert reading.rows.columns == ("gpu", "name", "links", *head)
    assert reading.rows.cells[0] == ("0", "NVIDIA H100 80GB HBM3", "18", *sums)
    assert len(reading.rows.cells) == 2


def test_forms_about_links_without_numbers_say_so() -> None:
    text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0, P2P is supported: true\n"
    assert "use -s, -gt d, -gt r or -e" in read_smi(text).error


@given(st.text(alphabet="GPU 01Link:DataTxRKiB\t\n/sys_hw=", max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(read_traffic(text), Traffic)


def test_two_idle_and_busy_gpus_of_a_virtual_machine() -> None:
    folder = Path(__file__).parents[2] / "fixtures" / "h200"
    idle, busy = (read_devices((folder / f"console_two_{name}.txt").read_text()) for name in ("idle", "busy"))
    assert [one.load_pct for one in (*idle.devices, *busy.devices)] == [0, 0, 100, 100]
    assert [one.power_w for one in busy.devices] == [690, 693]
    assert [one.clock_mhz for one in busy.devices] == [1470, 1440]
    assert not idle.error
    assert not busy.error
