"""Every answer of nvidia-smi is a reading, and says only what the tool said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.tools.nvidia_smi import QUERY_FIELDS, Gpu, SmiReading, read
from actions.telemetry.tools.nvidia_smi_reading import MigDevice, SmiRows
from tests.unit.telemetry.corpus import expected_of, is_close, samples

ANSWERS = [path for path in samples("nvidia_smi") if "gpus" in expected_of(path)]
NUMBERS = ("index", "temp_c", "fan_pct", "power_cap_w", "mem_used_mib", "mem_total_mib", "util_pct")
TEXTS = ("name", "perf", "bus_id", "mig_mode", "uuid")

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:00:06.0 Off |                  {ecc} |
|{fan}   56C    P0            {power} |   35543MiB / 143771MiB |    100%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


def a_table(*, fan: str = " N/A", power: str = "690W /  700W", ecc: str = "  0") -> SmiReading:
    return read(TABLE.format(fan=fan, power=power, ecc=ecc))


def reading_of(sample: Path) -> SmiReading:
    return read(sample.read_text(encoding="utf-8", errors="replace"))


def agrees(gpu: Gpu, want: dict[str, Any]) -> bool:
    power = want.get("power_accept") or [want.get("power_w", gpu.power_w)]
    return (
        all(is_close(getattr(gpu, name), want[name]) for name in NUMBERS if name in want)
        and all(getattr(gpu, name) == want[name] for name in TEXTS if name in want)
        and any(is_close(gpu.power_w, accepted) for accepted in power)
        and sorted(gpu.errors) == sorted(want.get("errors", gpu.errors))
    )


@pytest.mark.parametrize("sample", ANSWERS, ids=lambda path: path.stem)
def test_every_gpu_is_read_as_it_stands(sample: Path) -> None:
    expected, reading = expected_of(sample), reading_of(sample)
    assert len(reading.gpus) == len(expected["gpus"])
    wrong = [gpu for gpu, want in zip(reading.gpus, expected["gpus"], strict=True) if not agrees(gpu, want)]
    assert wrong == []
    if "processes" in expected:
        assert [process.pid for process in reading.processes] == [want["pid"] for want in expected["processes"]]
    if expected.get("mig_devices"):
        assert len(reading.mig_devices) == len(expected["mig_devices"])


@pytest.mark.parametrize(
    "sample", [path for path in ANSWERS if "error" in expected_of(path)], ids=lambda path: path.stem
)
def test_an_error_text_is_a_reading(sample: Path) -> None:
    reading = reading_of(sample)
    assert reading.gpus == ()
    assert reading.error.split()[0] in sample.read_text(encoding="utf-8")


def test_a_cell_that_says_err_is_unknown_and_named() -> None:
    (gpu,) = a_table(fan="ERR!", power="ERR! /  700W", ecc="N/A").gpus
    assert (gpu.fan_pct, gpu.power_w, gpu.power_cap_w, gpu.ecc_uncorrected) == (None, None, 700.0, None)
    assert gpu.errors == ("fan", "power")


def test_a_lost_gpu_has_no_power() -> None:
    (gpu,) = a_table(fan="ERR!", power="N/A  /  N/A ").gpus
    assert (gpu.power_w, gpu.power_cap_w, gpu.mem_used_mib) == (None, None, 35543)


def test_the_versions_are_told() -> None:
    reading = a_table()
    assert (reading.driver_version, reading.cuda_version) == ("580.159.04", "13.0")


def test_a_table_inside_other_output_is_found() -> None:
    table = TABLE.format(fan=" N/A", power="690W /  700W", ecc="  0")
    reading = read(f"Fri Nov 20 13:57:23 2026\n{table}WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n")
    assert len(reading.gpus) == 1
    assert reading.warnings == ("WARNING: infoROM is corrupted at gpu 0000:0B:00.0",)


def test_a_table_broken_by_a_narrow_terminal_is_refused() -> None:
    table = TABLE.format(fan=" N/A", power="690W /  700W", ecc="  0")
    broken = "\n".join(f"{line[:80]}\n{line[80:]}" for line in table.splitlines())
    reading = read(broken)
    assert reading.gpus == ()
    assert "--query-gpu" in reading.error


def test_a_query_without_header_is_read_by_position() -> None:
    assert len(QUERY_FIELDS) == 9
    first = "0, NVIDIA A10G, 99, 3032, 23028, 33, 112.10, 300.00, P0"
    reading = read(f"{first}\n1, NVIDIA A10G, [N/A], 0, 23028, 30, [N/A], 300.00, P8\n")
    assert [(gpu.util_pct, gpu.power_w, gpu.perf) for gpu in reading.gpus] == [(99, 112.1, "P0"), (None, None, "P8")]


def test_columns_of_a_query_with_header_may_be_renamed_and_carry_units() -> None:
    reading = read("index, name, utilization.gpu [%], power.draw [W]\n0, NVIDIA H200, 31 %, [GPU is lost]\n")
    (gpu,) = reading.gpus
    assert (gpu.util_pct, gpu.power_w, gpu.errors) == (31, None, ("power.draw",))


@pytest.mark.parametrize("words", ["ERR!", "Unknown Error", "GPU is lost", "GPU requires reset"])
def test_a_gpu_that_does_not_answer_has_errors_in_every_form(words: str) -> None:
    listing = (
        "==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:54:00.0\n"
        f"    Utilization\n        GPU : {words}\n"
    )
    xml = (
        "<nvidia_smi_log><driver_version>580</driver_version><gpu id='0'><product_name>NVIDIA H200</product_name>"
        f"<utilization><gpu_util>{words}</gpu_util></utilization></gpu></nvidia_smi_log>"
    )
    query = f"index, name, utilization.gpu [%]\n0, NVIDIA H200, [{words}]\n"
    errors = [gpu.errors for text in (listing, xml, query) for gpu in read(text).gpus]
    assert errors == [("gpu",), ("gpu_util",), ("utilization.gpu",)]


def test_processes_can_be_asked_for_alone() -> None:
    reading = read("pid, process_name, used_gpu_memory [MiB], gpu_uuid\n691, python3, 28042 MiB, GPU-1\n")
    assert [(process.pid, process.name, process.mem_mib) for process in reading.processes] == [(691, "python3", 28042)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "printed nothing"),
        ("No devices were found\n", "No devices were found"),
        ('Field "bogus" is not a valid field to query.\n', 'Field "bogus"'),
        ("bash: nvidia-smi: command not found", "command not found"),
        ("0, 99, 21363\n", "leave noheader out"),
        ("21363 MiB, 81559 MiB, 100 %, NVIDIA H100 80GB HBM3\n", "leave noheader out"),
        ("==============NVSMI LOG==============\nTimestamp : now\n", "--query-gpu"),
        ("<?xml version='1.0'?><nvidia_smi_log><gpu>", "damaged"),
        ("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><nvidia_smi_log></nvidia_smi_log>", "entities"),
        ("<?xml version='1.0'?><nvidia_smi_log></nvidia_smi_log>", "No devices"),
    ],
)
def test_what_is_no_answer_is_told_in_words(text: str, said: str) -> None:
    reading = read(text)
    assert reading.gpus == ()
    assert said in reading.error


@given(st.text(alphabet="|+-= 0123456789WMiB/NAERR!On%CP.,:\n", max_size=400))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert isinstance(read(f"| NVIDIA-SMI 1 |\n+---\n{text}"), SmiReading)


def test_a_reading_can_be_written_as_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(a_table()), type=SmiReading) == a_table()


def test_the_rows_of_dmon_are_read_by_the_names_of_their_header() -> None:
    head = "# gpu    pwr  gtemp\n# Idx      W      C\n"
    reading = read(f"{head}    0    205     -\n    1    628     54\n{head}    0    210     43\n")
    assert reading.error == ""
    assert reading.rows == SmiRows(
        ("gpu", "pwr", "gtemp"), ("Idx", "W", "C"), (("0", "205", "-"), ("1", "628", "54"), ("0", "210", "43"))
    )


def test_a_command_in_pmon_may_hold_blanks() -> None:
    reading = read(
        "# gpu         pid   type    command\n# Idx           #    C/G    name\n    0   691   C   python3 -m x\n"
    )
    assert reading.rows is not None
    assert reading.rows.cells == (("0", "691", "C", "python3 -m x"),)


def test_a_longer_query_without_header_is_read_by_position_too() -> None:
    (gpu,) = read("0, NVIDIA H200, 31, 13, 28051, 143771, 48, 208.53, 700.00, 1680, 0, P0\n").gpus
    assert (gpu.util_pct, gpu.mem_used_mib, gpu.temp_c, gpu.power_w, gpu.ecc_uncorrected, gpu.perf) == (
        31,
        28051,
        48,
        208.53,
        0,
        "P0",
    )


def test_of_an_unknown_query_without_header_only_index_and_name_are_known() -> None:
    (gpu,) = read("3, NVIDIA L4, 1, 2, 3\n").gpus
    assert (gpu.index, gpu.name, gpu.util_pct, gpu.mem_used_mib) == (3, "NVIDIA L4", None, None)


def test_processes_without_header_are_no_gpus() -> None:
    reading = read("691, python3, 28042 MiB\n")
    assert reading.gpus == ()
    assert [(process.pid, process.name, process.mem_mib) for process in reading.processes] == [(691, "python3", 28042)]


def test_the_instances_that_mig_lists_are_read() -> None:
    reading = read(
        "+-------------------------------------------------------+\n"
        "| GPU instances:                                        |\n"
        "| GPU   Name             Profile  Instance   Placement  |\n"
        "|                          ID       ID       Start:Size |\n"
        "|=======================================================|\n"
        "|   0  MIG 1g.10gb         19        9          2:1     |\n"
        "+-------------------------------------------------------+\n"
        "|   1  MIG 3g.40gb          9        2          0:4     |\n"
        "+-------------------------------------------------------+\n"
    )
    assert (reading.error, reading.form) == ("", "mig")
    assert reading.mig_devices == (
        MigDevice(0, 0, gi=9, profile="1g.10gb"),
        MigDevice(1, 1, gi=2, profile="3g.40gb"),
    )


def test_profiles_of_instances_are_no_garbled_error() -> None:
    """`mig -lgip` of driver 580."""
    text = (
        "+-------------------------------------------------------------------------------+\n"
        "| GPU instance profiles:                                                        |\n"
        "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
        "|===============================================================================|\n"
        "|   0  MIG 1g.10gb         19     7/7        9.75       No     16     1     0   |\n"
    )
    reading = read(text)
    assert (reading.gpus, reading.error.partition(";")[2]) == ((), " mig -lgi lists the instances that there are.")


_FRAGMENT = """---
|=========================================+========================+======================|
|   0  NVIDIA L4                      On  |   00000000:31:00.0 Off |                    0 |
| N/A   38C    P0             26W /   72W |   17143MiB /  23034MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
---
"""


def test_a_table_that_is_cut_at_its_head_has_its_gpus() -> None:
    (gpu,) = read(_FRAGMENT).gpus
    assert (gpu.index, gpu.name, gpu.util_pct, gpu.mem_used_mib, gpu.power_cap_w) == (0, "NVIDIA L4", 0, 17143, 72.0)


def test_a_second_row_whose_first_one_was_left_out_is_not_of_the_gpu_before() -> None:
    lines = _FRAGMENT.splitlines()
    other = lines[3].replace("17143MiB", " 9999MiB").replace("38C", "99C")
    (gpu,) = read("\n".join([*lines[:4], "...", other, *lines[4:]])).gpus
    assert (gpu.temp_c, gpu.mem_used_mib) == (38, 17143)


def test_a_list_whose_uuids_are_left_out_is_a_list() -> None:
    """As in NVIDIA's documentation of VSS."""
    text = (
        "$ nvidia-smi -L\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: ...)\n  MIG 1g.10gb     Device 0: ...\n"
        "  MIG 1g.10gb     Device 1: ...\nGPU 3: NVIDIA H100 80GB HBM3 (UUID: ...)\n  MIG 7g.80gb     Device 0: ...\n"
    )
    reading = read(text)
    assert [(gpu.index, gpu.name, gpu.uuid) for gpu in reading.gpus] == [
        (0, "NVIDIA H100 80GB HBM3", ""),
        (3, "NVIDIA H100 80GB HBM3", ""),
    ]
    assert [(mig.gpu, mig.device, mig.profile) for mig in reading.mig_devices] == [
        (0, 0, "1g.10gb"), (0, 1, "1g.10gb"), (3, 0, "7g.80gb"),
    ]  # fmt: skip


def test_a_negative_amount_is_none() -> None:
    (gpu,) = read("index, name, utilization.gpu [%], power.draw [W]\n0, NVIDIA A10G, -192 %, -3234.00 W\n").gpus
    assert gpu.util_pct is None
    assert gpu.power_w is None
