"""Readers of whole outputs, fed in pieces, in bounded memory: each detects the form of its input."""

from __future__ import annotations

import codecs
import re
from typing import Final

from actions.base.line_cutter import LineCutter
from actions.telemetry.curves import Series
from actions.telemetry.log_records import PrefixReader, strip_controls
from actions.telemetry.runtime_format import TOOL_OUTPUT, ContainerLogDecoder, decode_lines, is_container_record
from actions.telemetry.tools.collectives import NcclReader, NcclReading, NccomReader, NccomReading, read_nccl
from actions.telemetry.tools.efa import EfaReading, read_fi_info
from actions.telemetry.tools.neuron import (
    NeuronListing,
    NeuronReport,
    NeuronScreen,
    is_top,
    read_monitor_line,
    read_neuron_ls,
    read_neuron_top,
    read_records,
)
from actions.telemetry.tools.node_listing import NodeListing, is_node_listing, read_node_listing
from actions.telemetry.tools.nvidia_smi import read as read_smi
from actions.telemetry.tools.nvidia_smi_reading import SmiReading
from actions.telemetry.tools.topology import Topology, read_topology

Reading = (
    NcclReading
    | NccomReading
    | SmiReading
    | NeuronReport
    | NeuronScreen
    | NeuronListing
    | Topology
    | EfaReading
    | list[NodeListing]
)
MOST_TEXT: Final = 4 << 20
"""Characters kept of an output that is read whole."""
_SMI_BEGINS = ("| NVIDIA-SMI", "<?xml")
_LONGEST_BEGIN = max(map(len, _SMI_BEGINS))


class _BoundedText:
    """The text of pieces, at most `MOST_TEXT` of it: the first line, and the end."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._length = 0

    def feed(self, piece: bytes) -> str:
        """Take a piece.

        Returns:
            What it adds.
        """
        added = self._decoder.decode(piece)
        self._parts.append(added)
        self._length += len(added)
        if self._length > MOST_TEXT:
            head, _, rest = self.text.partition("\n")
            _, _, tail = rest[-MOST_TEXT // 2 :].partition("\n")
            self.text = f"{head[: MOST_TEXT // 4]}\n{tail}"
        return added

    @property
    def text(self) -> str:
        """Return all that is kept."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    @text.setter
    def text(self, text: str) -> None:
        self._parts, self._length = [text], len(text)


_TOOLS_WORDS = re.compile(
    r"(?i)nvidia-smi|\bNVML\b|device handle|no devices were found|neuron|command not found|executable file not found"
    r"|No such file|The list is empty|not a valid field to query"
)
"""Words of a tool, or of who would have started it, about a machine that has nothing to list."""


def is_recognized(reading: Reading) -> bool:
    """Return whether anything was read: devices or rows, or a tool's own words in their place."""
    match reading:
        case NcclReading():
            return reading != NcclReading()
        case NccomReading():
            return bool(reading.rows or reading.error)
        case SmiReading():
            return bool(reading.gpus or reading.mig_devices or reading.rows or _are_of_a_tool(reading.error))
        case NeuronListing() | Topology():
            return bool(reading.devices) or _are_of_a_tool(reading.error)
        case NeuronScreen():
            return reading != NeuronScreen()
        case EfaReading():
            return bool(reading.providers or reading.error)
        case NeuronReport():
            return True
    return bool(reading)


def _are_of_a_tool(words: str) -> bool:
    return len(words) < _LONGEST_WORDS and _TOOLS_WORDS.search(words) is not None


_LONGEST_WORDS = 400


class _PlainLines:
    """Lines as the program wrote them: without a container runtime's wrapping, without prefixes and colours."""

    def __init__(self) -> None:
        self._unwrapper = ContainerLogDecoder()
        self._prefixes = PrefixReader()

    def line(self, line: str) -> str:
        """Return a line without all that; empty if nothing is left of it."""
        unwrapped = self._unwrapper.unwrap(line)
        record = self._prefixes.read(strip_controls(unwrapped[0]), None) if unwrapped else None
        return record.text if record else ""


def _plain(text: str) -> str:
    plain = _PlainLines()
    return "\n".join(plain.line(line) for line in text.splitlines())


class NcclFileReader:
    """nccl-tests, its JSON report, or nccom-test."""

    def __init__(self) -> None:
        self._cutter = LineCutter(TOOL_OUTPUT)
        self._unwrapper = ContainerLogDecoder()
        self._nccl, self._nccom = NcclReader(), NccomReader()
        self._report: _BoundedText | None = None
        self._has_begun = False

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        if not self._has_begun and piece.strip():
            self._has_begun = True
            self._report = _BoundedText() if piece.lstrip().startswith(b"{") else None
        if self._report is not None:
            self._report.feed(piece)
        self._read(decode_lines(self._cutter.feed(piece)))

    def reading(self) -> NcclReading | NccomReading:
        """Return, at the end, the tables or the report."""
        self._read(decode_lines(self._cutter.finish()))
        if self._nccom.is_table:
            return self._nccom.reading()
        text = self._report.text.lstrip() if self._report is not None else ""
        report = read_nccl(text) if text and not is_container_record(text[:200]) else NcclReading()
        return report if report != NcclReading() else self._nccl.reading()

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            unwrapped = self._unwrapper.unwrap(line)
            if unwrapped is not None:
                self._nccl.feed(unwrapped[0])
                self._nccom.feed(unwrapped[0])


class SmiFileReader:
    """nvidia-smi in any form. Of one that printed in a loop the last answer is the reading."""

    def __init__(self) -> None:
        self._text = _BoundedText()
        self._recent = ""
        self.answers = 0
        """Complete ones before the last."""
        self.utilization: dict[int, Series] = {}
        """Percent by GPU, over the answers."""

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        self._recent = self._recent[-_LONGEST_BEGIN:] + self._text.feed(piece)
        if any(mark in self._recent for mark in _SMI_BEGINS):
            self._cut()

    def reading(self) -> SmiReading:
        """Return, at the end, the last answer."""
        last = read_smi(_plain(self._text.text))
        self._note(last)
        return last

    def _cut(self) -> None:
        """Note every answer that another one follows, and forget its text."""
        text = self._text.text
        for mark in _SMI_BEGINS:
            while (second := text.find(mark, text.find(mark) + 1)) > 0:
                self._note(read_smi(_plain(text[:second])))
                text = text[second:]
        self._text.text = text

    def _note(self, answer: SmiReading) -> None:
        for gpu in answer.gpus:
            if gpu.util_pct is not None:
                self.utilization.setdefault(gpu.index, Series()).append(self.answers, gpu.util_pct)
        self.answers += 1


class NeuronFileReader:
    """neuron-ls, neuron-monitor or neuron-top."""

    def __init__(self) -> None:
        self._cutter = LineCutter(TOOL_OUTPUT)
        self._plain = _PlainLines()
        self._rest: list[str] = []
        self._rest_length = 0
        self._last: NeuronReport | None = None
        self.records = 0
        """Complete ones of neuron-monitor."""
        self.utilization = Series()
        """Percent, over the cores in use, by record."""

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        self._read(decode_lines(self._cutter.feed(piece)))

    def reading(self) -> NeuronReport | NeuronScreen | NeuronListing:
        """Return, at the end, the last record, or the screen or list."""
        self._read(decode_lines(self._cutter.finish()))
        text = "\n".join(self._rest)
        if self._last is None:
            for report in read_records(text):
                self._note(report)
        if self._last is not None:
            return self._last
        return read_neuron_top(text) if is_top(text) else read_neuron_ls(text)

    def _read(self, lines: list[str]) -> None:
        for line in map(self._plain.line, lines):
            report = read_monitor_line(line)
            if report is not None:
                self._note(report)
            elif self._rest_length < MOST_TEXT:
                self._rest.append(line)
                self._rest_length += len(line)

    def _note(self, report: NeuronReport) -> None:
        self._last = report
        busy = [core.util_max for core in report.cores.values()]
        if busy:
            self.utilization.append(self.records, sum(busy) / len(busy))
        self.records += 1


class TopologyFileReader:
    """`nvidia-smi topo -m`."""

    def __init__(self) -> None:
        self._text = _BoundedText()

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        self._text.feed(piece)

    def reading(self) -> Topology:
        """Return, at the end, the matrix."""
        return read_topology(_plain(self._text.text))


class EfaFileReader:
    """`fi_info`, or a node's resources as `kubectl describe` lists them."""

    def __init__(self) -> None:
        self._text = _BoundedText()

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        self._text.feed(piece)

    def reading(self) -> EfaReading | list[NodeListing]:
        """Return, at the end, the adapters, or the nodes."""
        unwrapper = ContainerLogDecoder()
        lines = [line for line in map(unwrapper.unwrap, self._text.text.splitlines()) if line is not None]
        text = "\n".join(line for line, _ in lines)
        return read_node_listing(text) if is_node_listing(text) else read_fi_info(text)
