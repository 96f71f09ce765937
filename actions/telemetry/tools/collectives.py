"""The result tables of nccl-tests and of nccom-test, its counterpart for Neuron.

Source: NVIDIA/nccl-tests 2.13 to 2.19 `src/common.cu`, `src/util.cu`; AWS Neuron SDK guide 2.2x, nccom-test;
docs/facts/bandwidth-tests.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from actions.base.decoding import convert
from actions.base.line_cutter import LineCutter
from actions.base.numbers import whole
from actions.base.untrusted import cleaned
from actions.telemetry.log_records import LogRecord, PrefixReader, split_records, strip_controls
from actions.telemetry.points import NUMBER, number_of, number_or_none
from actions.telemetry.runtime_format import TOOL_OUTPUT, decode_lines


class Bandwidth(msgspec.Struct, frozen=True, gc=False):
    """A row's values in one direction."""

    time_us: float
    algbw: float
    """GB/s, decimal (1e9)."""
    busbw: float
    """GB/s, decimal: what the links carried. 0 with a single GPU, correctly."""
    wrong: float | None
    """Values that were wrong, before 2.13 the greatest deviation; `None` where they were not checked (`N/A`)."""


class NcclRow(msgspec.Struct, frozen=True, gc=False):
    """A row of the table: one message size."""

    size: int
    """Bytes."""
    count: int
    type: str
    redop: str
    """`none` where nothing is reduced; empty where older versions print no such column."""
    root: int | None
    """Rank; -1 where there is none, `None` where older versions print no such column."""
    out_of_place: Bandwidth
    in_place: Bandwidth | None
    """`None` where the table has been trimmed to the first half of its columns, or has `N/A` in all the others."""

    @property
    def ways(self) -> tuple[Bandwidth, ...]:
        """The directions that are there."""
        return (self.out_of_place,) if self.in_place is None else (self.out_of_place, self.in_place)


class OutOfBounds(msgspec.Struct, frozen=True, gc=False):
    """The verdict below the table."""

    count: int
    """Tests, not values, that were wrong."""
    ok: bool


class NcclTable(msgspec.Struct, frozen=True, gc=False):
    """A table of a stream that may hold several."""

    rows: int
    """Rows above its average."""
    avg_bus_bandwidth: float | None
    """GB/s; `None` where it ended without."""


class NcclReading(msgspec.Struct, frozen=True, gc=False):
    """The output of one run of nccl-tests, or of several in one stream."""

    rows: tuple[NcclRow, ...] = ()
    tables: tuple[NcclTable, ...] = ()
    """In the order of the stream; rows behind the last average are one without."""
    avg_bus_bandwidth: float | None = None
    """As printed last, GB/s: the mean over all sizes, small ones included. May be NaN; `None` if it is not there."""
    out_of_bounds: OutOfBounds | None = None
    collective: str = ""
    """`all_reduce`…, where the output names it."""
    is_efa: bool | None = None
    """True if NCCL printed that it goes over EFA; `None` if it printed no network, or needs none: on one machine."""
    error: str = ""
    """The reason why the test stopped, in its own words."""
    is_cpu_time: bool = False
    """True if the times are those of the processor (`-C 1`); the bandwidths are of the whole time all the same."""
    is_deviation: bool = False
    """True if `wrong` is the greatest deviation from the right value, as before 2.13: above 0 in a good test, too."""

    @property
    def peak_busbw(self) -> float | None:
        """The greatest bus bandwidth of any row, GB/s."""
        values = [way.busbw for row in self.rows for way in row.ways]
        return max(values) if values else None

    @property
    def is_checked(self) -> bool:
        """True if results were compared: if they were not, `0 OK` means nothing."""
        return any(way.wrong is not None for row in self.rows for way in row.ways)

    @property
    def wrong_rows(self) -> tuple[NcclRow, ...]:
        """The rows with wrong values. A deviation alone is none: whether it is too great stands below the table."""
        return () if self.is_deviation else tuple(row for row in self.rows if any(way.wrong for way in row.ways))


_AVERAGE = re.compile(r"^[#\s]{0,40}Avg bus bandwidth\s{0,8}: (\S{1,40})")
_BOUNDS = re.compile(r"^[#\s]{0,40}Out of bounds values : (\d{1,12}) (OK|FAILED)")
_COLLECTIVE = re.compile(
    r"\b(all_reduce|all_gather|alltoall|broadcast|reduce_scatter|reduce|sendrecv|scatter|gather)_perf\b"
)
_HEADER = re.compile(r"^[#\s]{0,40}(?:size|bytes)\s.{1,200}\bbusbw\b")
_DAY, _CLOCK = re.compile(r"\d{4}-\d\d-\d\d$"), re.compile(r"\d\d:\d\d:\d\d$")
"""The day and the time that `-S 1` prints behind a row."""
_NONE = ["N/A"] * 4
"""The cells of a direction that was not measured."""
_EFA = re.compile(r"(?i)Selected Provider is efa|Using network (?:AWS )?Libfabric")
_OTHER_NETWORK = re.compile(r"NET/Socket : Using|Using network Socket|Using network IB")
_NODES = re.compile(r"NCCL INFO [^\n]{0,200}\bnNodes (\d{1,6})\b")
_ERROR = re.compile(
    r"Invalid number of GPUs.{0,200}|Test failure \S{1,80}|Test (?:NCCL|CUDA) failure.{0,200}"
    r"|\b(?:NCCL|Cuda) failure.{0,200}|There are not enough slots available.{0,200}"
    r"|mpirun (?:noticed|detected) that .{0,200}|ORTE (?:was unable|has lost) .{0,200}"
)


_WAYS = ((8, 2), (4, 2), (3, 2), (4, 1), (3, 1))
"""Cells of one direction (time, the two bandwidths, how many values were wrong) and how many directions there are. All
but the second are of per-iteration reports, which have four more cells, or of tables that were trimmed."""


class NcclReader:
    """Reads the output line by line. Rows are known by their cells, never by columns: values overflow them."""

    def __init__(self) -> None:
        self._prefixes = PrefixReader()
        self._rows: list[NcclRow] = []
        self._reading = NcclReading()
        self._tables: list[NcclTable] = []
        self._nodes: set[str] = set()
        """The numbers of machines of the communicators."""

    def feed(self, line: str) -> list[NcclRow]:
        """Read one line; the rows that it completes."""
        new: list[NcclRow] = []
        for piece in split_records(line):
            record = self._prefixes.read(strip_controls(piece), None)
            row = row_of(record.text) if record else None
            if row:
                new.append(row)
            elif record:
                self._read_other(record)
        self._rows += new
        return new

    def reading(self) -> NcclReading:
        """All that has been read so far."""
        open_rows = len(self._rows) - sum(table.rows for table in self._tables)
        rest = (NcclTable(open_rows, None),) if open_rows else ()
        is_efa = None if self._nodes == {"1"} and not self._reading.is_efa else self._reading.is_efa
        return replace(self._reading, rows=tuple(self._rows), tables=(*self._tables, *rest), is_efa=is_efa)

    def _read_other(self, record: LogRecord) -> None:
        changes: dict[str, object] = {}
        text = record.text
        if average := _AVERAGE.match(text):
            changes["avg_bus_bandwidth"] = number_or_none(average[1])
            before = sum(table.rows for table in self._tables)
            self._tables.append(NcclTable(len(self._rows) - before, number_or_none(average[1])))
        elif bounds := _BOUNDS.match(text):
            changes["out_of_bounds"] = OutOfBounds(int(bounds[1]), bounds[2] == "OK")
        elif (error := _ERROR.search(text)) and not self._reading.error:
            changes["error"] = error[0].strip()
        elif nodes := _NODES.search(text):
            self._nodes.add(nodes[1])
        elif _HEADER.match(text):
            words = text.split()
            changes |= {"is_cpu_time": "cputime" in words, "is_deviation": words[-1] in ("error", "res")}
        elif _EFA.search(text):
            changes["is_efa"] = True
        elif _OTHER_NETWORK.search(text) and self._reading.is_efa is None:
            changes["is_efa"] = False
        if not self._reading.collective and (named := _COLLECTIVE.search(text)):
            changes["collective"] = named[1]
        if changes:
            self._reading = replace(self._reading, **changes)


def row_of(text: str) -> NcclRow | None:
    """Return a row of the table, `None` for any other line. A line without prefixes is expected."""
    cells = text.split()
    if len(cells) > 8 and _CLOCK.match(cells[-1]) and _DAY.match(cells[-2]):
        del cells[-2:]
    if len(cells) > 11 and cells[-4:] == _NONE:
        del cells[-4:]
    size, elements = (whole(cell) for cell in (*cells, "", "")[:2])
    if not 6 <= len(cells) <= 23 or size is None or elements is None or not cells[2][0].isalpha():
        return None
    redop = cells[3] if cells[3][0].isalpha() and number_or_none(cells[3]) is None else ""
    numbers = cells[4 if redop else 3 :]
    for width, count in _WAYS:
        start = len(numbers) - width * count
        root = number_or_none(numbers[0]) if start == 1 else None
        if start not in (0, 1) or (start and (root is None or not root.is_integer())):
            continue
        ways = [way for at in range(start, len(numbers), width) if (way := _bandwidth_of(numbers[at : at + width]))]
        if len(ways) == count:
            rank = None if root is None else int(root)
            return NcclRow(size, elements, cells[2], redop, rank, ways[0], ways[1] if count > 1 else None)
    return None


def read_nccl(text: str) -> NcclReading:
    """Read a whole output: tables, or the report that `-J` writes.

    The report's environment, which may hold secrets, is neither kept nor shown.
    """
    if text.lstrip().startswith("{"):
        report = _report_of(text)
        if report is not None:
            return report
    cutter, reader = LineCutter(TOOL_OUTPUT), NcclReader()
    for line in decode_lines([*cutter.feed(text.encode("utf-8", "replace")), *cutter.finish()]):
        reader.feed(line)
    return reader.reading()


def _bandwidth_of(cells: Sequence[str]) -> Bandwidth | None:
    time, algbw, busbw, *rest = map(number_or_none, cells[:4])
    if time is None or algbw is None or busbw is None or "." not in cells[2]:
        return None
    if rest and (cells[3] != "N/A" if rest[0] is None else "." in cells[3] and "e" not in cells[3]):
        return None  # a count of values: 0, 2.68435e+08, N/A
    return Bandwidth(time, algbw, busbw, rest[0] if rest else None)


class _ReportWay(msgspec.Struct):
    """The values of one direction; a number that is none is the text `nan`."""

    alg_bw: float | str
    bus_bw: float | str
    time: float | str | None = None
    cpu_time: float | str | None = None
    """In the place of `time` with `-C 1`."""
    nwrong: float | None = None

    def bandwidth(self) -> Bandwidth:
        time = self.cpu_time if self.time is None else self.time
        return Bandwidth(number_of(str(time)), number_of(str(self.alg_bw)), number_of(str(self.bus_bw)), self.nwrong)


class _ReportRow(msgspec.Struct):
    size: int
    count: int
    type: str
    redop: str
    root: str | int
    out_of_place: _ReportWay
    in_place: _ReportWay


class _Report(msgspec.Struct):
    results: list[_ReportRow]
    out_of_bounds: Mapping[str, object] = {}
    average_bus_bandwidth: Mapping[str, object] = {}
    args: list[str] = []
    errors: list[str] = []


def _report_of(text: str) -> NcclReading | None:
    try:
        return _reading_of(convert(cleaned(json.loads(text)), _Report))
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError):
        return None


def _reading_of(report: _Report) -> NcclReading:
    collective = _COLLECTIVE.search(" ".join(report.args))
    bounds, average = report.out_of_bounds, report.average_bus_bandwidth.get("bandwidth")
    return NcclReading(
        rows=tuple(map(_row_of_report, report.results)),
        avg_bus_bandwidth=float(average) if isinstance(average, int | float) else None,
        out_of_bounds=OutOfBounds(int(str(bounds["count"])), str(bounds.get("okay")) == "true") if bounds else None,
        collective=collective[1] if collective else "",
        error="; ".join(error for error in report.errors if error),
        is_cpu_time=any(row.out_of_place.cpu_time is not None for row in report.results),
    )


def _row_of_report(row: _ReportRow) -> NcclRow:
    return NcclRow(
        row.size,
        row.count,
        row.type,
        row.redop,
        int(number_of(str(row.root).strip())),
        row.out_of_place.bandwidth(),
        row.in_place.bandwidth(),
    )


_NCCOM_AVERAGE = re.compile(rf"Avg bus bandwidth:\s{{0,20}}({NUMBER})\s?GB/s")
_NCCOM_FAILURE = re.compile(r"Failure running .{0,300}")


class NccomReading(msgspec.Struct, frozen=True, gc=False):
    """The output of one run of nccom-test."""

    rows: tuple[dict[str, float | str], ...] = ()
    """By the names of the header, which depend on the options: `size(B)`, `time:p99(us)`, `busbw(GB/s)`…"""
    avg_bus_bandwidth: float | None = None
    """GB/s as printed."""
    error: str | None = None
    """The reason why the test stopped, in its own words."""


class NccomReader:
    """Reads the output line by line: cells are named by the header above them."""

    def __init__(self) -> None:
        self._prefixes = PrefixReader()
        self._names: list[str] = []
        self._rows: list[dict[str, float | str]] = []
        self._average: float | None = None
        self._error: str | None = None

    @property
    def is_table(self) -> bool:
        """True once a header of such a table has come."""
        return bool(self._names)

    def feed(self, line: str) -> None:
        """Read one line."""
        record = self._prefixes.read(strip_controls(line), None)
        if record is None:
            return
        cells = record.text.split()
        if cells[:1] == ["size(B)"]:
            self._names = cells
        elif found := _NCCOM_AVERAGE.search(record.text):
            self._average = number_of(found[1])
        elif failure := _NCCOM_FAILURE.search(record.text):
            self._error = self._error or failure[0].strip()
        elif self._names and len(cells) == len(self._names) and None not in map(whole, cells[:2]):
            self._rows.append(dict(zip(self._names, map(_cell_of, cells), strict=True)))

    def reading(self) -> NccomReading:
        """All that has been read so far."""
        return NccomReading(tuple(self._rows), self._average, self._error)


def _cell_of(cell: str) -> float | str:
    number = number_or_none(cell)
    return cell if number is None else number
