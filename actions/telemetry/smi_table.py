"""nvidia-smi's table for people, of drivers 418 to 610.

Widths, rows for each GPU and titles differ by driver; the order of the cells does not. So rows are known by their
shape, never by columns or by the driver's version.

Source: `docs/facts/nvidia-smi.md#the-table`; driver 580 captured in `tests/fixtures/corpus/nvidia_smi`.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from actions.telemetry.smi_reading import Gpu, MigDevice, SmiProcess, SmiReading, amount_of, count_of, word_of

_TITLE = re.compile(r"^\|\s+NVIDIA-SMI\s{1,8}([\d.]{1,20})?")
_DRIVER = re.compile(r"\b(?:Driver|KMD) Version:\s*([\d.]{1,20})")
_CUDA = re.compile(r"\bCUDA (?:UMD )?Version:\s*([\d.]{1,20})")
_TOP = re.compile(
    r"^\|\s{1,8}(?P<index>\d{1,3})\s{1,2}(?P<name>\S.{0,60}?)\s{1,40}(?P<persistence>On|Off|WDDM|TCC|MCDM)\s{0,4}\|"
    r"\s{0,8}(?P<bus>[0-9A-Fa-f]{1,8}:\S{1,12})\s{1,8}(?:On|Off|N/A|ERR!)\s{0,4}\|\s{0,24}(?P<ecc>\S{1,12})\s{0,4}\|"
)
_LOW = re.compile(
    r"^\|\s{0,4}(?P<fan>\S{1,6})\s{1,8}(?P<temp>\S{1,6})\s{1,8}(?P<perf>P\d{1,2}|ERR!|N/A)\s{1,24}"
    r"(?P<power>\S{1,10})\s{0,4}/\s{0,4}(?P<cap>\S{1,10})\s{0,4}\|"
    r"\s{0,24}(?:(?P<used>\d{1,9})MiB\s{0,4}/\s{0,4}(?P<total>\d{1,9})MiB"
    r"|Not Supported|\S{1,10}(?:\s{0,4}/\s{0,4}\S{1,10})?)\s{0,16}\|"
    r"\s{0,12}(?P<util>\S{1,8})\s{1,12}(?P<mode>\S{1,24}(?: \S{1,24})?)?"
)
_MIG_MODE = re.compile(r"^\|\s{1,60}\|\s{1,40}\|\s{1,30}(?P<mode>Enabled\*?|Disabled\*?|N/A|ERR!)\s{0,4}\|")
_MIG = re.compile(
    r"^\|\s{1,4}(?P<gpu>\d{1,3})\s{1,6}(?P<gi>\d{1,3}|N/A)\s{1,6}(?P<ci>\d{1,3}|N/A)\s{1,6}(?P<device>\d{1,3})\s{0,4}\|"
    r"\s{0,30}(?P<used>\d{1,9})MiB\s{0,4}/\s{0,4}(?P<total>\d{1,9})MiB\s{0,6}\|"
    r"(?:\s{0,6}(?P<sm>\d{1,4})\s{1,8}(?P<ecc>\S{1,8})\s{0,4}\|)?"
)
_PROCESS = re.compile(
    r"^\|\s{1,8}(?P<gpu>\d{1,3})\s{1,8}(?:(?P<gi>N/A|\d{1,3})\s{1,8}(?P<ci>N/A|\d{1,3})\s{1,20})?"
    r"(?P<pid>\d{1,10})\s{1,8}(?P<type>C\+G|M\+C|C|G|M)\s{1,8}(?P<name>.{0,80}?)\s{1,60}(?:(?P<mem>\d{1,9})MiB|N/A)\s{0,6}\|"
)
_WRAPPED = "The table is wrapped by a narrow terminal; ask with --query-gpu and --format=csv."


def is_table(text: str) -> bool:
    """Whether `text` holds such a table, in whatever shape."""
    return "NVIDIA-SMI" in text and "+---" in text


def read_table(text: str) -> SmiReading:
    """Read the table. One that a terminal has broken into halves is an error, not a guess."""
    gpus: list[Gpu] = []
    migs: list[MigDevice] = []
    processes: list[SmiProcess] = []
    driver = cuda = ""
    version: str | None = None
    for line in text.splitlines():
        if title := _TITLE.match(line):
            version = title[1]
            driver, cuda = _version(_DRIVER, line), _version(_CUDA, line)
        elif top := _TOP.match(line):
            gpus.append(_gpu_of(top))
        elif gpus and (low := _LOW.match(line)):
            gpus[-1] = _completed(gpus[-1], low)
        elif gpus and (mode := _MIG_MODE.match(line)):
            gpus[-1] = _with_mode(gpus[-1], mode["mode"])
        elif mig := _MIG.match(line):
            migs.append(_mig_of(mig))
        elif process := _PROCESS.match(line):
            processes.append(_process_of(process))
    if not gpus:
        return SmiReading(error=_WRAPPED if re.search(r"^-+\+$", text, re.MULTILINE) else "The table shows no GPU.")
    return SmiReading(
        gpus=tuple(gpus),
        mig_devices=tuple(migs),
        processes=tuple(processes),
        smi_version=version,
        driver_version=driver or None,
        cuda_version=cuda or None,
        warnings=_warnings(text),
    )


def _gpu_of(top: re.Match[str]) -> Gpu:
    return Gpu(
        index=int(top["index"]),
        name=top["name"],
        bus_id=top["bus"],
        persistence=top["persistence"],
        ecc_uncorrected=int(top["ecc"]) if top["ecc"].isdigit() else None,
        ecc_raw=top["ecc"],
        errors=("ecc",) if top["ecc"] == "ERR!" else (),
    )


def _completed(gpu: Gpu, low: re.Match[str]) -> Gpu:
    cells = {
        "fan": low["fan"],
        "temp": low["temp"],
        "perf": low["perf"],
        "power": low["power"],
        "cap": low["cap"],
        "util": low["util"],
    }
    return replace(
        gpu,
        fan_pct=count_of(low["fan"]),
        temp_c=count_of(low["temp"]),
        perf=word_of(low["perf"]),
        power_w=amount_of(low["power"]),
        power_cap_w=amount_of(low["cap"]),
        mem_used_mib=count_of(low["used"]),
        mem_total_mib=count_of(low["total"]),
        util_pct=count_of(low["util"]),
        compute_mode=(low["mode"] or "").strip("| "),
        errors=tuple(field for field, cell in cells.items() if cell == "ERR!") + gpu.errors,
    )


def _with_mode(gpu: Gpu, mode: str) -> Gpu:
    errors = (*gpu.errors, "mig") if mode == "ERR!" else gpu.errors
    return replace(gpu, mig_mode=None if mode == "ERR!" else mode, errors=errors)


def _mig_of(row: re.Match[str]) -> MigDevice:
    return MigDevice(
        gpu=int(row["gpu"]),
        device=int(row["device"]),
        gi=count_of(row["gi"]),
        ci=count_of(row["ci"]),
        mem_used_mib=int(row["used"]),
        mem_total_mib=int(row["total"]),
        sm=count_of(row["sm"]),
        ecc_uncorrected=count_of(row["ecc"]),
    )


def _process_of(row: re.Match[str]) -> SmiProcess:
    return SmiProcess(
        gpu=int(row["gpu"]),
        pid=int(row["pid"]),
        type=row["type"],
        name=row["name"],
        mem_mib=count_of(row["mem"]),
        gi=count_of(row["gi"]),
        ci=count_of(row["ci"]),
    )


def _version(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.search(line)
    return match[1] if match else ""


def _warnings(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.startswith("WARNING:"))
