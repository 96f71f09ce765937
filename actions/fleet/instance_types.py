"""EC2 instance types with their hardware, and the reader of the tables that ship with the program."""

from __future__ import annotations

import csv
import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from actions.base.errors import FormatError, InputError
from actions.base.files import asset, read_file
from actions.base.numbers import in_bounds, whole

Number = TypeVar("Number", int, float)


class TableRow:
    """A row of a table, with its place for messages.

    Args:
        cells: Text by column name.
        where: `file:line`.
    """

    def __init__(self, cells: dict[str, str], where: str) -> None:
        self._cells = cells
        self._where = where

    def text(self, column: str) -> str:
        """The cell, without surrounding blanks. Empty if the cell is.

        Raises:
            FormatError: The table has no such column.
        """
        try:
            return self._cells[column].strip()
        except KeyError as error:
            raise self.error(f"the column {column} is missing") from error

    def count(self, column: str) -> int | None:
        """The cell as a whole number, `None` if it is empty.

        Raises:
            FormatError: It is neither.
        """
        return self._converted(column, whole, "a whole number")

    def number(self, column: str) -> float | None:
        """The cell as a number, `None` if it is empty.

        Raises:
            FormatError: It is neither.
        """
        return self._converted(column, _finite_number, "a number")

    def _converted(self, column: str, convert: Callable[[str], Number | None], wanted: str) -> Number | None:
        text = self.text(column)
        if not text:
            return None
        number = convert(text)
        if number is None:
            raise self.error(f"{column} is {text[:80]!r}, not {wanted}")
        return number

    def error(self, complaint: str) -> FormatError:
        """An error that points at this row."""
        return FormatError(f"{self._where}: {complaint}.", hint="Correct the table or install the package again.")

    def has(self, column: str) -> bool:
        """Return true if the table has such a column."""
        return column in self._cells


def _finite_number(text: str) -> float | None:
    try:
        number = in_bounds(float(text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def load_rows(path: Path) -> Iterator[TableRow]:
    """Read a table.

    Raises:
        FormatError: The file cannot be read, is not UTF-8, or a row has not as many cells as the header.
    """
    try:
        lines = read_file(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FormatError(f"{path} cannot be read: {why}.", hint="Install the package again.") from error
    reader = csv.reader(lines)
    try:
        header, *rows = [(f"{path.name}:{reader.line_num}", cells) for cells in reader] or [("", [])]
    except csv.Error as error:  # a cell of more than 131,072 characters
        raise FormatError(f"{path.name}:{reader.line_num}: {error}.", hint="Correct the table.") from error
    names = header[1]
    for where, cells in rows:
        if len(cells) != len(names):
            raise FormatError(f"{where}: {len(cells)} cells where the header has {len(names)}.")
        yield TableRow(dict(zip(names, cells, strict=True)), where)


GIB = 1 << 30


class Accelerator(StrEnum):
    """The kind of device that an instance is paid for."""

    NONE = ""
    GPU = "gpu"
    NEURON = "neuron"


class InstanceType(msgspec.Struct, frozen=True):
    """An instance type: the whole machine, before the kubelet reserves its share.

    Source: columns of `assets/instances/ec2.csv`; see the README beside it.
    """

    name: str
    vcpu: int
    memory_bytes: int
    accelerator: Accelerator
    accelerator_model: str
    """`A10G`, `H100`, `trainium`…; empty without accelerators."""
    accelerators: int
    """Whole devices: GPUs, or Neuron devices (not cores)."""
    accelerator_memory_gib: float | None
    """Memory of each device. `None` if unknown or without accelerators."""
    neuron_cores: int
    """Neuron cores of the whole instance; 0 without Neuron devices."""
    efa_interfaces: int | None
    """`None` if unknown."""
    max_pods: int | None
    """The kubelet's default limit under the VPC CNI. `None` if unknown."""

    @property
    def gpus(self) -> int:
        """NVIDIA GPUs."""
        return self.accelerators if self.accelerator is Accelerator.GPU else 0

    @property
    def neuron_devices(self) -> int:
        """Neuron devices."""
        return self.accelerators if self.accelerator is Accelerator.NEURON else 0

    @property
    def efa_reads_remotely(self) -> bool:
        """True if its EFA devices can read the memory of others (RDMA read), as GPUDirect needs it.

        Source: aws-ofi-nccl and libfabric's efa provider: P4d and later P types and Trainium; not G types.
        """
        return bool(self.efa_interfaces) and self.name.startswith(("p4d", "p5", "p6", "trn"))


MOST_ASKED = 100
"""Of one type, for a rehearsal."""
SAGEMAKER = "ml."
"""Before the name of an instance type of EC2 it is that of SageMaker: the same hardware at another price."""


class InstanceTable:
    """Instance types by name.

    Args:
        types: What is known.
    """

    def __init__(self, types: Mapping[str, InstanceType]) -> None:
        self._types = dict(types)

    @classmethod
    def load(cls, path: Path | None = None) -> InstanceTable:
        """Read the table at `path`, or the one that ships with the program.

        Raises:
            FormatError: A row is wrong; the message names file and line.
        """
        return cls({kind.name: kind for kind in map(_instance_of, load_rows(path or asset("instances/ec2.csv")))})

    def find(self, name: str) -> InstanceType | None:
        """The type called `name`, of HyperPod `ml.NAME`; `None` if the table does not list it."""
        return self._types.get(name.removeprefix(SAGEMAKER))

    def counts_in(self, text: str) -> dict[str, int]:
        """Read numbers of instances by type, as `g6e.12xlarge=2,ml.p5.48xlarge=1`.

        Raises:
            InputError: It has another form, or names a type that the table does not list.
        """
        counts: dict[str, int] = {}
        for word in filter(None, text.split(",")):
            name, _, given = word.strip().partition("=")
            count = whole(given)
            if count is None or not 0 < count <= MOST_ASKED:
                message = f"{word[:60]!r} is not a type of instances with their number, 1 to {MOST_ASKED}."
                raise InputError(message, hint="Write g6e.12xlarge=2,p5.48xlarge=2.")
            if self.find(name) is None:
                near = difflib.get_close_matches(name[:60].removeprefix(SAGEMAKER), self._types, n=3, cutoff=0.0)
                hint = f"The nearest are {', '.join(near)}."
                raise InputError(f"There is no instance type {name[:60]!r} in the table.", hint=hint)
            counts[name] = count
        return counts

    def __iter__(self) -> Iterator[InstanceType]:
        return iter(self._types.values())

    def __len__(self) -> int:
        return len(self._types)


def _instance_of(row: TableRow) -> InstanceType:
    vcpu, memory_gib = row.count("vcpu"), row.number("memory_gib")
    if not vcpu or not memory_gib:
        raise row.error("vcpu and memory_gib must be known")
    accelerator = row.text("accelerator")
    if accelerator not in tuple(Accelerator):
        known = " or ".join(filter(None, Accelerator))
        raise row.error(f"accelerator is {accelerator!r}, not {known}; leave it empty for none")
    return InstanceType(
        name=row.text("instance_type"),
        vcpu=vcpu,
        memory_bytes=int(memory_gib * GIB),
        accelerator=Accelerator(accelerator),
        accelerator_model=row.text("accelerator_model"),
        accelerators=row.count("accelerator_count") or 0,
        accelerator_memory_gib=row.number("accelerator_memory_gib"),
        neuron_cores=row.count("neuron_cores") or 0,
        efa_interfaces=row.count("efa_interfaces"),
        max_pods=row.count("max_pods"),
    )
