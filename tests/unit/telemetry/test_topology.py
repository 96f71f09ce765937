"""`nvidia-smi topo -m`: tabs and escapes or a copy with blanks, GPUs and network cards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.readings.documents import topology_document
from actions.telemetry.readings.readers import TopologyFileReader
from actions.telemetry.tools.nvidia_smi import read
from actions.telemetry.tools.nvidia_smi_rows import read_csv
from actions.telemetry.tools.topology import gpus_by_link, nearest_cards, read_topology
from actions.telemetry.tools.traffic import LinkErrors, read_traffic
from tests.unit.telemetry.corpus import samples
from tui.present.describe import topology_section
from tui.present.readings import smi_lines, topology_lines

RECORDED = next(path for path in samples("nvidia_smi") if path.name == "h100_topo.txt")
DETAILS = {path.stem: path for path in samples("nvidia_smi") if path.name.startswith("h100_csv_details")}
EIGHT = """\
	\x1b[4mGPU0	GPU1	NIC0	NIC1	CPU Affinity	NUMA Affinity	GPU NUMA ID\x1b[0m
GPU0	 X 	NV18	PIX	SYS	0-47,96-143	0		N/A
GPU1	NV18	 X 	NODE	SYS	0-47,96-143	0		N/A
NIC0	PIX	NODE	 X 	SYS
NIC1	SYS	SYS	SYS	 X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: rdmap16s27
"""  # fmt: skip


def test_the_recorded_machine_has_one_gpu() -> None:
    (device,) = read_topology(RECORDED.read_text()).devices
    assert (device.name, device.links, device.cpu_affinity, device.numa_affinity) == ("GPU0", {}, "0-15", "0")
    assert "NV#" in read_topology(RECORDED.read_text()).legend


@pytest.mark.parametrize("is_copied", [False, True])
def test_links_of_each_pair_are_read_from_tabs_and_from_a_copy(is_copied: bool) -> None:
    text = re.sub(r"\x1b\[\dm", "", EIGHT).expandtabs(10) if is_copied else EIGHT
    topology = read_topology(text)
    assert [device.name for device in topology.devices] == ["GPU0", "GPU1", "NIC0", "NIC1"]
    first, *_, last = topology.devices
    assert first.links == {"GPU1": "NV18", "NIC0": "PIX", "NIC1": "SYS"}
    assert first.cpu_affinity == "0-47,96-143"
    assert last.links == {"GPU0": "SYS", "GPU1": "SYS", "NIC0": "SYS"}
    assert (last.adapter, last.cpu_affinity) == ("rdmap16s27", "")


COPIED = """\
GPU0    GPU1    mlx5_10 roceP1  CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    PIX     SOC     144-191,336-383 3               N/A
GPU1    NV18     X      SYS     PXB     0-47,192-239    0-1             8
mlx5_10 PIX     SYS      X      SYS
roceP1  SOC     PXB     SYS      X
"""
"""A terminal's copy without the first blanks: cells of seven and fifteen characters have one blank behind them."""


def test_cells_that_fill_a_column_stay_apart_in_a_copy() -> None:
    first, second, card, last = read_topology(COPIED).devices
    assert first.links == {"GPU1": "NV18", "mlx5_10": "PIX", "roceP1": "SOC"}
    assert (first.cpu_affinity, first.numa_affinity, first.gpu_numa_id) == ("144-191,336-383", "3", "")
    assert (second.cpu_affinity, second.numa_affinity, second.gpu_numa_id) == ("0-47,192-239", "0-1", "8")
    assert card.links == {"GPU0": "PIX", "GPU1": "SYS", "roceP1": "SYS"}
    assert last.links == {"GPU0": "SOC", "GPU1": "PXB", "mlx5_10": "SYS"}


def test_gpus_whose_memory_is_a_numa_node_have_its_number() -> None:
    text = EIGHT.replace("0-47,96-143\t0\t\tN/A", "0-71\t0\t\t4", 1)
    assert [device.gpu_numa_id for device in read_topology(text).devices] == ["4", "", "", ""]
    head, first, *_ = topology_lines(read_topology(text))
    assert head.endswith("numa  gpu numa")
    assert first.split()[-3:] == ["0-71", "0", "4"]
    assert "gpu numa" not in next(topology_lines(read_topology(EIGHT)))


def test_a_word_that_is_not_known_keeps_its_place() -> None:
    text = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNEW\tPIX\t0-7\nGPU1\t?\t X \tPHB\t8-15\n"
    first, second = read_topology(text).devices
    assert first.links == {"GPU1": "NEW", "NIC0": "PIX"}
    assert second.links == {"NIC0": "PHB"}
    assert (first.cpu_affinity, second.cpu_affinity) == ("0-7", "8-15")


def test_it_is_shown_with_the_words_that_stand_in_it() -> None:
    lines = "\n".join(topology_lines(read_topology(EIGHT)))
    assert "NIC0 mlx5_0" in lines
    assert "NV#: Connection traversing a bonded set of # NVLinks" in lines
    document = topology_document(read_topology(EIGHT))
    assert document["format"] == "nvidia-smi-topo"
    assert document["error"] is None


def test_what_is_no_matrix_is_an_error_in_the_tools_words() -> None:
    reader = TopologyFileReader()
    reader.feed(b"Failed to initialize NVML: Driver/library version mismatch\n")
    assert read_topology("").error
    assert "version mismatch" in reader.reading().error
    assert next(topology_lines(reader.reading())).startswith("✗ Failed")


@given(st.text(alphabet="GPUNIC01 X\tSYSNV#=:-\n\x1b[4m", max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    topology = read_topology(text)
    assert bool(topology.error) is not bool(topology.devices)
    read(f"==NVSMI LOG==\nAttached GPUs : 1\nGPU 00000000:00:06.0\n{text}")


@pytest.mark.parametrize(
    ("name", "clock", "throttle"), [("h100_csv_details_idle", 345, ()), ("h100_csv_details_busy", 1335, ("hot",))]
)
def test_details_are_known_under_the_names_that_a_new_driver_prints(
    name: str, clock: int, throttle: tuple[str, ...]
) -> None:
    (gpu,) = read_csv(Path(DETAILS[name]).read_text()).gpus
    assert (gpu.clock_mhz, gpu.clock_max_mhz, gpu.throttle) == (clock, 1980, throttle)
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (0, 0)


def test_the_listing_has_what_the_xml_has() -> None:
    listed = read(next(path for path in samples("nvidia_smi") if path.name == "h100_q_busy.txt").read_text())
    (gpu,), (process,) = listed.gpus, listed.processes
    assert (gpu.clock_mhz, gpu.clock_max_mhz, gpu.throttle, gpu.ecc_uncorrected) == (1335, 1980, ("hot",), 0)
    assert (process.pid, process.type, process.name, process.mem_mib, process.gpu) == (458, "C", "python3", 1002, 0)
    assert (listed.driver_version, listed.cuda_version) == ("580.159.04", "13.0")


def test_two_cards_a_mig_device_and_several_processes() -> None:
    card = """\
GPU 00000000:{bus}:00.0
    Product Name                          : NVIDIA A100
    MIG Mode
        Current                           : Enabled
    MIG Devices
        MIG Device
            Index                         : 1
            GPU Instance ID               : 7
            Compute Instance ID           : 0
            FB Memory Usage
                Total                     : 9728 MiB
                Used                      : 12 MiB
        MIG Device
            Index                         : 2
            GPU Instance ID               : 8
    ECC Errors
        Volatile
            Single Bit
                Total                     : 3
            Double Bit
                Total                     : 1
    Clocks Throttle Reasons
        SW Power Cap                      : Active
    Power Readings
        Power Draw                        : ERR!
        Power Limit                       : 400.00 W
    Processes
        Process ID                        : 11
            Type                          : C
            Name                          : a
        Process ID                        : 12
            Name                          : b
            Used GPU Memory               : 5 MiB
"""
    text = "====NVSMI LOG====\nAttached GPUs : 2\n" + card.format(bus="01") + card.format(bus="0A")
    reading = read(text)
    assert [gpu.bus_id for gpu in reading.gpus] == ["00000000:01:00.0", "00000000:0A:00.0"]
    first = reading.gpus[0]
    assert (first.ecc_corrected, first.ecc_uncorrected, first.throttle) == (3, 1, ("power cap",))
    assert (first.power_w, first.power_cap_w, first.errors) == (None, 400.0, ("power draw",))
    assert [(mig.gpu, mig.device, mig.gi, mig.mem_used_mib) for mig in reading.mig_devices][:2] == [
        (0, 1, 7, 12),
        (0, 2, 8, None),
    ]
    assert [(one.gpu, one.pid, one.name, one.mem_mib) for one in reading.processes][:2] == [
        (0, 11, "a", None),
        (0, 12, "b", 5),
    ]


MIG = """\
==============NVSMI LOG==============

Driver Version                            : 535.104.12
CUDA Version                              : 12.2

Attached GPUs                             : {attached}
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        Compute Instance ID               : 0
        Device Attributes
            Shared
                Multiprocessor count      : 42
                Copy Engine count         : 3
        ECC Errors
            Volatile
                SRAM Uncorrectable        : 2
        FB Memory Usage
            Total                         : 19968 MiB
            Used                          : 1843 MiB
        BAR1 Memory Usage
            Total                         : 32767 MiB
            Used                          : 2 MiB
    Minor Number                          : 3
    FB Memory Usage
        Total                             : 40960 MiB
        Used                              : 1855 MiB
    Utilization
        Gpu                               : N/A
    ECC Errors
        Volatile
            SRAM Uncorrectable            : N/A
            DRAM Uncorrectable            : 1
    Processes
        GPU instance ID                   : 1
        Compute instance ID               : 0
        Process ID                        : 3711
            Type                          : C
            Name                          : python3 train.py : x
            Used GPU Memory               : N/A
"""


def test_a_mig_device_has_its_own_counts_and_the_gpu_its_own() -> None:
    reading = read(MIG.format(attached=1))
    (gpu,), (mig,), (process,) = reading.gpus, reading.mig_devices, reading.processes
    assert (gpu.index, gpu.mem_used_mib, gpu.util_pct, gpu.ecc_uncorrected) == (0, 1855, None, 1)
    assert (mig.gi, mig.mem_used_mib, mig.sm, mig.ecc_uncorrected) == (1, 1843, 42, 2)
    assert (process.gi, process.ci, process.name, process.mem_mib) == (1, 0, "python3 train.py : x", None)
    assert any(line.split()[-2:] == ["42", "2"] for line in smi_lines(reading))


def test_a_gpu_that_was_asked_for_alone_keeps_its_number() -> None:
    """`nvidia-smi -q -i 3` lists one GPU of eight."""
    listed = read(MIG.format(attached=8))
    assert (listed.gpus[0].index, listed.mig_devices[0].gpu, listed.processes[0].gpu) == (3, 3, 3)
    xml = (
        '<?xml version="1.0" ?><nvidia_smi_log><attached_gpus>8</attached_gpus><gpu id="00000000:07:00.0">'
        "<minor_number>3</minor_number><mig_devices><mig_device><index>0</index><device_attributes><shared>"
        "<multiprocessor_count>60</multiprocessor_count></shared></device_attributes><ecc_error_count><volatile_count>"
        "<sram_uncorrectable>2</sram_uncorrectable></volatile_count></ecc_error_count></mig_device></mig_devices>"
        "</gpu></nvidia_smi_log>"
    )
    reading = read(xml)
    (mig,) = reading.mig_devices
    assert (reading.gpus[0].index, mig.gpu, mig.sm, mig.ecc_uncorrected) == (3, 3, 60, 2)


def test_clocks_and_what_holds_them_are_shown_where_they_were_printed() -> None:
    head, first = list(smi_lines(read_csv(Path(DETAILS["h100_csv_details_busy"]).read_text())))[:2]
    assert ("MHz" in head, "held by" in head, "1980" in first) == (True, True, True)
    bare = read("index, name, utilization.gpu [%]\n0, NVIDIA L4, 3 %\n")
    assert "MHz" not in next(smi_lines(bare))


def test_a_query_of_other_fields_is_shown_as_it_was_printed() -> None:
    text = "index, name, memory.free [MiB], power.draw.instant [W]\n1, NVIDIA L4, 22000 MiB, 35.10 W\n"
    assert [line.split()[-2:] for line in smi_lines(read(text))][1:] == [["35.10", "W"]]
    assert "22000 MiB" in "\n".join(smi_lines(read(text)))


EIGHT_GPUS = "\n".join(
    [
        "\t\x1b[4m"
        + "\t".join([*(f"GPU{gpu}" for gpu in range(8)), "NIC0", "NIC1"])
        + "\tCPU Affinity\tNUMA Affinity\x1b[0m",
        *(
            f"GPU{gpu}\t"
            + "\t".join(" X " if other == gpu else "NV18" for other in range(8))
            + ("\tPIX\tSYS\t0-47,96-143\t0" if gpu < 4 else "\tSYS\tPXB\t48-95,144-191\t1")
            for gpu in range(8)
        ),
        "NIC0\t" + "\t".join(["PIX"] * 4 + ["SYS"] * 4) + "\t X \tSYS",
        "NIC1\t" + "\t".join(["SYS"] * 4 + ["PXB"] * 4) + "\tSYS\t X ",
        "",
        "NIC Legend:",
        "",
        "  NIC0: rdmap79s0",
        "  NIC1: rdmap113s0",
    ]
)


def test_links_are_grouped_the_fastest_first_and_the_nearest_cards_are_named() -> None:
    topology = read_topology(EIGHT_GPUS)
    first, last = topology.devices[0], topology.devices[7]
    assert list(gpus_by_link(first)) == [("NV18", [f"GPU{gpu}" for gpu in range(1, 8)])]
    assert nearest_cards(first, topology) == ("PIX", ["rdmap79s0"])
    assert nearest_cards(last, topology) == ("PXB", ["rdmap113s0"])
    mixed = read_topology(EIGHT.replace("GPU0	 X 	NV18", "GPU0	 X 	SYS"))
    assert list(gpus_by_link(mixed.devices[0])) == [("SYS", ["GPU1"])]
    assert nearest_cards(read_topology(RECORDED.read_text()).devices[0], topology) == ("", [])


ERRORS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: 0

\t Link 1: Replay Errors: 142
\t Link 1: Recovery Errors: 3
\t Link 1: CRC Errors: 0
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)
\t Link 0: Replay Errors: 0
"""


def test_links_with_errors_are_named_and_others_are_not() -> None:
    traffic = read_traffic(EIGHT + ERRORS)
    assert traffic.link_errors == {0: (LinkErrors(1, {"replay": 142, "recovery": 3}),), 1: ()}
    assert (traffic.errors_of(0), traffic.errors_of(1), traffic.errors_of(2)) == (145, 0, None)


def test_a_described_object_names_links_memory_cores_cards_and_link_errors() -> None:
    text = "\n".join(topology_section(read_topology(EIGHT_GPUS), read_traffic(ERRORS), seen_by="worker-0"))
    assert "as worker-0 sees it" in text
    assert re.search(r"GPU0 +NV18 GPU1–7 +0 +0-47,96-143 +PIX rdmap79s0", text)
    assert re.search(r"GPU5 +NV18 GPU0–4, GPU6–7 +1 +48-95,144-191 +PXB rdmap113s0", text)
    assert "▲ GPU0 link 1 has errors since its driver was loaded: 142 replay, 3 recovery" in text
    without = topology_section(read_topology("no such thing"), read_traffic(""), seen_by="worker-0")
    assert without == ["Device topology, as worker-0 sees it", "  no such thing"]


def test_what_pairs_may_do_is_read_in_its_place() -> None:
    """`topo -p2p n` of two H100: the cells are answers, not links."""
    text = (Path(__file__).parents[2] / "fixtures" / "h100x2" / "topo_p2p_n.txt").read_text()
    reading = read_topology(text)
    assert [(device.name, device.links) for device in reading.devices] == [
        ("GPU0", {"GPU1": "OK"}),
        ("GPU1", {"GPU0": "OK"}),
    ]
    assert reading.legend["CNS"] == "Chipset not supported"


def test_two_gpus_behind_eighteen_links_each() -> None:
    reading = read_topology((Path(__file__).parents[2] / "fixtures" / "h100x2" / "topo_m.txt").read_text())
    assert [(device.name, device.links, device.cpu_affinity) for device in reading.devices] == [
        ("GPU0", {"GPU1": "NV18"}, "0-31"),
        ("GPU1", {"GPU0": "NV18"}, "0-31"),
    ]


_GLUED = (
    "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\tNV18\tPXB\tNODE\t0-55,112-167\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNODE\tNODE\t0-55,112-167\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \t{}\t0-55,112-167\t0\t\tN/A\n"
)


def test_cells_that_a_copy_has_glued_are_taken_apart_and_named() -> None:
    reading = read_topology(_GLUED.format("PXBNODE"))
    last = reading.devices[-1]
    assert last.links == {"GPU0": "NV18", "GPU1": "NV18", "NIC0": "PXB", "NIC1": "NODE"}
    assert (last.cpu_affinity, last.numa_affinity) == ("0-55,112-167", "0")
    assert [one.startswith("The row of GPU2 has cells that are glued or missing") for one in reading.warnings] == [True]
    assert "The row of GPU2" in "\n".join(topology_lines(reading))
    assert topology_document(reading)["warnings"] == reading.warnings


def test_a_row_with_a_missing_cell_is_not_shifted() -> None:
    reading = read_topology(_GLUED.format("PXB"))
    last = reading.devices[-1]
    assert last.links == {"GPU0": "NV18", "GPU1": "NV18"}
    assert (last.cpu_affinity, last.numa_affinity) == ("", "")
    assert len(reading.warnings) == 1
    assert read_topology(_GLUED.format("PXB\tNODE")).warnings == ()
