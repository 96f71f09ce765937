"""The reader of nvidia-smi, for any form of its answer; its table for people and its XML are read here.

In the table of drivers 418 to 610 widths, rows for each GPU and titles differ by driver; the order of the cells does
not. So rows are known by their shape, never by columns or by the driver's version. The XML is of DTD versions 11 to
13.

Source: docs/facts/nvidia-smi.md; driver 580 captured in `tests/fixtures/corpus/nvidia_smi`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from msgspec.structs import replace

from actions.base.numbers import whole
from actions.base.untrusted import plain_text
from actions.telemetry.log_records import strip_controls
from actions.telemetry.tools.nvidia_smi_links import is_links, read_links
from actions.telemetry.tools.nvidia_smi_listing import is_listing, read_listing
from actions.telemetry.tools.nvidia_smi_reading import (
    Gpu,
    MigDevice,
    SmiProcess,
    SmiReading,
    amount_of,
    count_of,
    is_failure,
    numbers_of,
    throttle_reasons_named,
    word_of,
)
from actions.telemetry.tools.nvidia_smi_rows import (
    QUERY_FIELDS,
    is_header,
    is_monitor,
    is_row,
    read_csv,
    read_monitor,
    with_details,
)

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
_WRAPPED = "The table is wrapped by a narrow terminal; use --query-gpu and --format=csv."


def is_table(text: str) -> bool:
    """Return whether `text` holds such a table, in whatever form, or a part of one with a GPU in it."""
    return ("NVIDIA-SMI" in text and "+---" in text) or any(map(_TOP.match, text.splitlines()))


def read_table(text: str) -> SmiReading:
    """Read the table. One that a terminal has broken into halves is an error, not a guess."""
    gpus: list[Gpu] = []
    migs: list[MigDevice] = []
    processes: list[SmiProcess] = []
    driver = cuda = ""
    version: str | None = None
    is_open = False  # the first row of a GPU has been read, and not yet its second one
    for line in text.splitlines():
        if title := _TITLE.match(line):
            version = title[1]
            driver, cuda = _version(_DRIVER, line), _version(_CUDA, line)
        elif top := _TOP.match(line):
            gpus.append(_gpu_of(top))
            is_open = True
        elif is_open and (low := _LOW.match(line)):
            gpus[-1] = _completed(gpus[-1], low)
            is_open = False
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
        ecc_uncorrected=whole(top["ecc"]),
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


_BEGIN = re.compile(r"^[ \t]{0,16}(?=<\?xml|<!DOCTYPE nvidia_smi_log|<nvidia_smi_log)", re.MULTILINE)
_END = "</nvidia_smi_log>"
_POWER = ("gpu_power_readings", "power_readings")
_DRAWS = ("power_draw", "average_power_draw", "instant_power_draw")
"""The mean of a second first, as the table and `power.draw` have it: two forms of one moment agree."""
_LIMITS = ("current_power_limit", "power_limit")


def is_xml(text: str) -> bool:
    """Return whether there is such a document in `text`."""
    return _BEGIN.search(text) is not None and "<nvidia_smi_log" in text


def read_xml(text: str) -> SmiReading:
    """Read the document; what stands before and behind it does no harm.

    Entities are refused, the DTD that it names is not loaded.
    """
    begin, end = _BEGIN.search(text), text.rfind(_END)
    text = text[begin.end() if begin else 0 : end + len(_END) if end >= 0 else None]
    if "<!ENTITY" in text:
        return SmiReading(error="The XML declares entities, which nvidia-smi never does.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - entity declarations are refused above
    except ElementTree.ParseError as error:
        return SmiReading(error=f"The XML is damaged: {error}.")
    _clean(root)
    gpus = root.findall("gpu")
    attached = count_of(root.findtext("attached_gpus"))
    numbered = list(zip(numbers_of([gpu.findtext("minor_number") for gpu in gpus], attached), gpus, strict=True))
    return SmiReading(
        gpus=tuple(_gpu_of_xml(element, index) for index, element in numbered),
        mig_devices=tuple(_mig_of_xml(mig, index) for index, element in numbered for mig in element.iter("mig_device")),
        processes=tuple(
            _process_of_xml(process, index)
            for index, element in numbered
            for process in element.iter("process_info")
            if (process.findtext("pid") or "").strip().isdigit()
        ),
        driver_version=word_of(root.findtext("driver_version")),
        cuda_version=word_of(root.findtext("cuda_version")),
        error="" if gpus else "No devices were found",
    )


def _clean(root: ElementTree.Element) -> None:
    """Take out what entities such as `&#155;` have brought in."""
    for element in root.iter():
        element.text = plain_text(element.text or "")
        for name, value in element.attrib.items():
            element.set(name, plain_text(value))


def _gpu_of_xml(element: ElementTree.Element, index: int) -> Gpu:
    return Gpu(
        index=index,
        name=(element.findtext("product_name") or "").strip(),
        uuid=(element.findtext("uuid") or "").strip(),
        bus_id=element.get("id", ""),
        fan_pct=count_of(element.findtext("fan_speed")),
        temp_c=count_of(element.findtext("temperature/gpu_temp")),
        perf=word_of(element.findtext("performance_state")),
        power_w=_first_amount(element, _DRAWS),
        power_cap_w=_first_amount(element, _LIMITS),
        mem_used_mib=count_of(element.findtext("fb_memory_usage/used")),
        mem_total_mib=count_of(element.findtext("fb_memory_usage/total")),
        util_pct=count_of(element.findtext("utilization/gpu_util")),
        ecc_uncorrected=_uncorrected(element),
        ecc_corrected=_corrected(element),
        clock_mhz=count_of(element.findtext("clocks/sm_clock")),
        clock_max_mhz=count_of(element.findtext("max_clocks/sm_clock")),
        throttle=throttle_reasons_named(_active_reasons(element)),
        mig_mode=(element.findtext("mig_mode/current_mig") or "").strip() or None,
        errors=tuple(sorted({leaf.tag for leaf in element.iter() if is_failure(leaf.text)})),
    )


def _first_amount(element: ElementTree.Element, names: tuple[str, ...]) -> float | None:
    for block in _POWER:
        for name in names:
            amount = amount_of(element.findtext(f"{block}/{name}"))
            if amount is not None:
                return amount
    return None


def _uncorrected(element: ElementTree.Element) -> int | None:
    """The volatile count: DTD 11 keeps a total of double-bit errors, later ones a count for each kind of memory."""
    total = count_of(element.findtext("ecc_errors/volatile/double_bit/total"))
    if total is not None:
        return total
    volatile = element.find("ecc_errors/volatile")
    if volatile is None:
        return None
    return _sum_of(leaf.text for leaf in volatile if "uncorrectable" in leaf.tag)


def _sum_of(cells: Iterable[str | None]) -> int | None:
    known = [count for count in map(count_of, cells) if count is not None]
    return sum(known) if known else None


def _corrected(element: ElementTree.Element) -> int | None:
    """The volatile count, of the same elements as `_uncorrected`."""
    total = count_of(element.findtext("ecc_errors/volatile/single_bit/total"))
    volatile = element.find("ecc_errors/volatile")
    if total is not None or volatile is None:
        return total
    return _sum_of(leaf.text for leaf in volatile if leaf.tag.endswith("_correctable"))


def _active_reasons(element: ElementTree.Element) -> frozenset[str]:
    """The reasons why a clock is held down; until DTD 12 they are called throttle reasons."""
    found = []
    for word in ("event", "throttle"):
        for leaf in element.findall(f"clocks_{word}_reasons/*"):
            if (leaf.text or "").strip() == "Active":
                found.append(leaf.tag.removeprefix(f"clocks_{word}_reason_"))
    return frozenset(found)


def _mig_of_xml(element: ElementTree.Element, gpu: int) -> MigDevice:
    return MigDevice(
        gpu=gpu,
        device=count_of(element.findtext("index")) or 0,
        gi=count_of(element.findtext("gpu_instance_id")),
        ci=count_of(element.findtext("compute_instance_id")),
        mem_used_mib=count_of(element.findtext("fb_memory_usage/used")),
        mem_total_mib=count_of(element.findtext("fb_memory_usage/total")),
        sm=count_of(element.findtext("device_attributes/shared/multiprocessor_count")),
        ecc_uncorrected=_sum_of(
            leaf.text
            for block in element.iter()
            if block.tag.startswith("volatile")
            for leaf in block
            if "uncorrectable" in leaf.tag
        ),
    )


def _process_of_xml(element: ElementTree.Element, gpu: int) -> SmiProcess:
    return SmiProcess(
        gpu=gpu,
        pid=whole((element.findtext("pid") or "").strip()) or 0,
        type=(element.findtext("type") or "").strip(),
        name=(element.findtext("process_name") or "").strip(),
        mem_mib=count_of(element.findtext("used_memory")),
        gi=count_of(element.findtext("gpu_instance_id")),
        ci=count_of(element.findtext("compute_instance_id")),
    )


__all__ = ["QUERY_FIELDS", "Gpu", "MigDevice", "SmiProcess", "SmiReading", "read"]

MAX_TEXT = 4 << 20
_UUID = r"(?:\(UUID: (?:({kind}-[^)\s.…]{{1,100}})|[^)]{{0,100}})\)|\.{{2,3}}|…)?\s{{0,8}}$"
"""Left out of many a document, or cut."""
_LISTED = re.compile(rf"^\s{{0,16}}GPU (\d{{1,3}}): (\S.{{0,100}}?)\s{{0,4}}{_UUID.format(kind='GPU')}")
_LISTED_MIG = re.compile(
    rf"^\s{{1,24}}MIG (\S{{1,40}})\s{{1,20}}Device\s{{1,4}}(\d{{1,3}}):\s{{0,4}}{_UUID.format(kind='MIG')}"
)
_INSTANCES = re.compile(r"^\|\s{0,4}GPU instances:", re.MULTILINE)
_INSTANCE = re.compile(
    r"^\|\s{1,8}(\d{1,3})\s{1,4}MIG (\S{1,40})\s{1,20}\d{1,3}\s{1,20}(\d{1,3})\s{1,20}\d{1,3}:\d{1,3}\s{1,8}\|"
)
"""A row of `mig -lgi`: GPU, profile and its number, instance, where it begins and how large it is."""
_INDENTED = re.compile(r"^[ \t]{1,40}(?=[|+])", re.MULTILINE)
"""Blanks before the frame of a table that stands in a document."""
_PROMPT = re.compile(r"\A\s{0,8}(?:[^\n]{0,200}[#$>%+] |\+ )(?:sudo )?(?:/usr/bin/)?nvidia-smi(?: [^\n]*)?\n")
"""The command's own line in a shell, copied along."""
_NUMBERS = re.compile(r"[\d.]{1,20}(?: %| [A-Z]\w{0,4})?(?:, ?[^,\n]{1,120}){1,64}\Z")
"""A row of a query or of dmon without its header."""
_NAMELESS = "These are numbers without the names of their columns; leave noheader out of --format."
_UNREAD = {
    "| GPU instance profiles:": (
        "The profiles of GPU instances are not read; mig -lgi lists the instances that there are."
    ),
    "NVSMI LOG": "This form of output is not read; use -q -x, or --query-gpu and --format=csv.",
}
"""Sentences about forms that are not read, by a mark of each."""


def read(text: str) -> SmiReading:
    """Read what nvidia-smi printed: its table, CSV, XML, `-q`, `-L` or `nvlink`.

    Args:
        text: Its output; what stands before and after (dates, warnings) does no harm.

    Returns:
        A reading, always. Where the tool gave no answer, `error` holds its words and there are no GPUs.
    """
    text = text[:MAX_TEXT]
    if is_xml(text):
        return replace(read_xml(text), form="xml")
    plain = _INDENTED.sub("", "\n".join(strip_controls(line) for line in text.splitlines()))
    if is_table(plain):
        return with_details(replace(read_table(plain), form="table"), plain)
    plain = _PROMPT.sub("", plain, count=1)
    first = next((line.strip() for line in plain.splitlines() if line.strip()), "")
    if _INSTANCES.search(plain):
        return _read_instances(plain)
    if is_monitor(first):
        return read_monitor(plain)
    if is_listing(plain):
        return read_listing(plain)
    if unread := next((sentence for mark, sentence in _UNREAD.items() if mark in plain), ""):
        return SmiReading(error=unread)
    if is_links(plain):
        return read_links(plain)
    if any(map(_LISTED.match, plain.splitlines())):
        return _read_list(plain)
    if is_header(first) or is_row(first):
        return read_csv(plain)
    return SmiReading(error=_NAMELESS if _NUMBERS.match(first) else _words_of(plain))


def _words_of(text: str) -> str:
    return " ".join(text.split())[:400] or "nvidia-smi printed nothing."


def _read_instances(text: str) -> SmiReading:
    """The GPU instances that `mig -lgi` lists. Devices are what runs in them: numbered here as they are listed."""
    found = [row for line in text.splitlines() if (row := _INSTANCE.match(line))]
    migs = [MigDevice(int(row[1]), device, gi=int(row[3]), profile=row[2]) for device, row in enumerate(found)]
    return SmiReading(mig_devices=tuple(migs), form="mig")


def _read_list(text: str) -> SmiReading:
    gpus: list[Gpu] = []
    migs: list[MigDevice] = []
    for line in text.splitlines():
        if gpu := _LISTED.match(line):
            gpus.append(Gpu(index=int(gpu[1]), name=gpu[2], uuid=gpu[3] or ""))
        elif gpus and (mig := _LISTED_MIG.match(line)):
            migs.append(MigDevice(gpus[-1].index, int(mig[2]), profile=mig[1], uuid=mig[3] or ""))
    return SmiReading(tuple(gpus), tuple(migs), form="L")
