"""Rows of the tables that ship with the program: CSV with a header line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from actions.base.errors import FormatError


class TableRow:
    """One row, with the place it came from for messages.

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
        text = self.text(column)
        if not text:
            return None
        if not text.isascii() or not text.isdigit():
            raise self.error(f"{column} is {text!r}, not a whole number")
        return int(text)

    def error(self, complaint: str) -> FormatError:
        """An error that points at this row."""
        return FormatError(f"{self._where}: {complaint}.", hint="Correct the table or install the package again.")


def load_rows(path: Path) -> Iterator[TableRow]:
    """Read a table.

    Raises:
        FormatError: The file cannot be read, is not UTF-8, or a row has not as many cells as the header.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path.name} cannot be read: {error}.", hint="Install the package again.") from error
    reader = csv.reader(lines)
    header = next(reader, [])
    for cells in reader:
        where = f"{path.name}:{reader.line_num}"
        if len(cells) != len(header):
            raise FormatError(f"{where}: {len(cells)} cells where the header has {len(header)}.")
        yield TableRow(dict(zip(header, cells, strict=True)), where)
