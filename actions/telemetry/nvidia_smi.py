"""The reader of nvidia-smi, for any form of its answer.

Source: `docs/facts/nvidia-smi.md`.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from actions.telemetry.lines import strip_controls
from actions.telemetry.smi_csv import QUERY_ARGV, QUERY_FIELDS, is_header, is_row, read_csv
from actions.telemetry.smi_monitor import is_monitor, read_monitor
from actions.telemetry.smi_reading import Gpu, MigDevice, SmiProcess, SmiReading
from actions.telemetry.smi_table import is_table, read_table
from actions.telemetry.smi_xml import is_xml, read_xml

__all__ = ["QUERY_ARGV", "QUERY_FIELDS", "Gpu", "MigDevice", "SmiProcess", "SmiReading", "read"]

MAX_TEXT = 4 << 20
_LISTED = re.compile(r"^GPU (\d{1,3}): (.{1,100}?) \(UUID: (GPU-[\w-]{1,60})\)")
_LISTED_MIG = re.compile(r"^\s{1,8}MIG (\S{1,40})\s{1,20}Device\s{1,4}(\d{1,3}): \(UUID: (MIG-[^)\s]{1,100})\)")
_INSTANCES = re.compile(r"^\|\s{0,4}GPU instances:", re.MULTILINE)
_INSTANCE = re.compile(
    r"^\|\s{1,8}(\d{1,3})\s{1,4}MIG (\S{1,40})\s{1,20}\d{1,3}\s{1,20}(\d{1,3})\s{1,20}\d{1,3}:\d{1,3}\s{1,8}\|"
)
"""A row of `mig -lgi`: GPU, profile and its number, instance, where it begins and how large it is."""
_PROMPT = re.compile(r"\A\s{0,8}(?:[^\n]{0,200}[#$>%+] |\+ )(?:sudo )?(?:/usr/bin/)?nvidia-smi(?: [^\n]*)?\n")
"""The line with which a shell was asked, copied along."""
_OTHER_FORM = "This is a form of output that is not read; ask with -q -x, or with --query-gpu and --format=csv."


def read(text: str) -> SmiReading:
    """Read what nvidia-smi printed: its table, CSV, XML or `-L`.

    Args:
        text: Its output; what stands before and after (dates, warnings) does no harm.

    Returns:
        A reading, always. Where the tool gave no answer, `error` holds its words and there are no GPUs.
    """
    text = text[:MAX_TEXT]
    if is_xml(text):
        return replace(read_xml(text), form="xml")
    plain = "\n".join(strip_controls(line) for line in text.splitlines())
    if is_table(plain):
        return replace(read_table(plain), form="table")
    plain = _PROMPT.sub("", plain, count=1)
    first = next((line.strip() for line in plain.splitlines() if line.strip()), "")
    if _INSTANCES.search(plain):
        return _read_instances(plain)
    if is_monitor(first):
        return read_monitor(plain)
    if "NVSMI LOG" in plain:
        return SmiReading(error=_OTHER_FORM)
    if _LISTED.match(first):
        return _read_list(plain)
    if is_header(first) or is_row(first):
        return read_csv(plain)
    return SmiReading(error=" ".join(plain.split())[:400] or "nvidia-smi printed nothing.")


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
            gpus.append(Gpu(index=int(gpu[1]), name=gpu[2], uuid=gpu[3]))
        elif gpus and (mig := _LISTED_MIG.match(line)):
            migs.append(MigDevice(gpus[-1].index, int(mig[2]), profile=mig[1], uuid=mig[3]))
    return SmiReading(tuple(gpus), tuple(migs), form="L")
