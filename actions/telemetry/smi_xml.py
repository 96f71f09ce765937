"""nvidia-smi -q -x: the whole state as XML, of DTD versions 11 to 13.

Source: `docs/facts/nvidia-smi.md#xml`; driver 580 captured in `tests/fixtures/corpus/nvidia_smi/xml_h200_load.xml`.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from actions.base.untrusted import plain_text
from actions.telemetry.smi_reading import Gpu, MigDevice, SmiProcess, SmiReading, amount_of, count_of, word_of

_BEGIN = re.compile(r"^[ \t]{0,16}(?=<\?xml|<!DOCTYPE nvidia_smi_log|<nvidia_smi_log)", re.MULTILINE)
_END = "</nvidia_smi_log>"
_POWER = ("gpu_power_readings", "power_readings")
_DRAWS = ("instant_power_draw", "power_draw", "average_power_draw")
_LIMITS = ("current_power_limit", "power_limit")


def is_xml(text: str) -> bool:
    """Whether there is such a document in `text`."""
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
    return SmiReading(
        gpus=tuple(_gpu_of(element, index) for index, element in enumerate(gpus)),
        mig_devices=tuple(
            _mig_of(mig, index) for index, element in enumerate(gpus) for mig in element.iter("mig_device")
        ),
        processes=tuple(
            _process_of(process, index)
            for index, element in enumerate(gpus)
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


def _gpu_of(element: ElementTree.Element, index: int) -> Gpu:
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
        mig_mode=(element.findtext("mig_mode/current_mig") or "").strip() or None,
        errors=tuple(sorted({leaf.tag for leaf in element.iter() if (leaf.text or "").strip() == "ERR!"})),
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
    counts = [count_of(leaf.text) for leaf in volatile if "uncorrectable" in leaf.tag]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _mig_of(element: ElementTree.Element, gpu: int) -> MigDevice:
    return MigDevice(
        gpu=gpu,
        device=count_of(element.findtext("index")) or 0,
        gi=count_of(element.findtext("gpu_instance_id")),
        ci=count_of(element.findtext("compute_instance_id")),
        mem_used_mib=count_of(element.findtext("fb_memory_usage/used")),
        mem_total_mib=count_of(element.findtext("fb_memory_usage/total")),
    )


def _process_of(element: ElementTree.Element, gpu: int) -> SmiProcess:
    return SmiProcess(
        gpu=gpu,
        pid=int((element.findtext("pid") or "0").strip()),
        type=(element.findtext("type") or "").strip(),
        name=(element.findtext("process_name") or "").strip(),
        mem_mib=count_of(element.findtext("used_memory")),
        gi=count_of(element.findtext("gpu_instance_id")),
        ci=count_of(element.findtext("compute_instance_id")),
    )
