"""The forms in which a command prints a table: `table`, `wide`, `json`, `yaml` and `csv`.

All but the first follow from the command's JSON document, whose keys are stable: YAML is the same document, CSV and the
wide table have a line for each of its rows and a column for each key of them, nested keys as `price.source`.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from actions.base.untrusted import csv_cell, one_line
from actions.base.wording import aligned_text, listed
from actions.fleet.facts import UNCOUNTED

_NOTHING = "-"
_NAMED = 6


def print_table(
    form: str, *, table: Callable[[], str], document: Callable[[], str], rows: str = "", fields: Sequence[str] = ()
) -> None:
    """Print a table in one of several forms.

    Args:
        form: The form, one of `tui.cli.tables.FORMATS`.
        table: Returns the table for people.
        document: Returns the JSON document.
        rows: The key of the document under which its rows are; empty for a document that is a list, or one row.
        fields: The columns of rows without any; else they follow from the rows.
    """
    sys.stdout.write(table() if form == "table" else formatted(form, document(), rows=rows, fields=fields))


def tell_left_out(plural: str, count: int) -> None:
    """Print to stderr that objects are left out of what is printed, as they cannot be read."""
    noun, are = (plural.removesuffix("s"), "is") if count == 1 else (plural, "are")
    sys.stderr.write(f"eksml-tui: {count} {noun} cannot be read and {are} left out.\n")


def tell_uncounted(reason: str) -> None:
    """Print to stderr that devices of claims are not counted, if there is a reason for it."""
    if reason:
        sys.stderr.write(f"eksml-tui: {UNCOUNTED}: {reason}\n")


def tell_refused(plurals: Collection[str]) -> None:
    """Print to stderr which kinds of objects were not looked at, as the user may not list them."""
    if plurals:
        sys.stderr.write(f"eksml-tui: You may not list {listed(sorted(plurals), _NAMED)}: they were not looked at.\n")


def formatted(form: str, document: str, *, rows: str = "", fields: Sequence[str] = ()) -> str:
    """Return a JSON document in a form other than `table`; see `print_table`."""
    if form == "json":
        return document
    content = json.loads(document)
    if form == "yaml":
        import yaml

        text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
        return text
    flat = [flattened(row) for row in _rows_of(content, rows)]
    columns = _columns_of(flat, fields)
    return _csv(flat, columns) if form == "csv" else _wide(flat, columns)


def _columns_of(rows: Sequence[Mapping[str, str]], fields: Sequence[str]) -> list[str]:
    """Return the columns, known ones first. A key that is `null` in some row and an object in others has none."""
    names = dict.fromkeys([*fields, *(name for row in rows for name in row)])
    outer = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [name for name in names if name not in outer or any(row.get(name) for row in rows)]


def _rows_of(content: Any, key: str) -> Iterable[Mapping[str, Any]]:
    found = content.get(key) or [] if key else content
    if isinstance(found, list):
        return found
    if key:  # a mapping of names to rows
        return [{"name": name} | (row if isinstance(row, dict) else {"value": row}) for name, row in found.items()]
    return [found]


def flattened(row: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of a row as texts, nested ones as `outer.inner`; a list of objects is JSON."""
    found: dict[str, str] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value:
            found |= flattened(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = _text(value)
    return found


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        if any(isinstance(item, dict | list) for item in value):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return " ".join(_text(item) for item in value)
    return str(value)


def _csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(map(csv_cell, columns))
    writer.writerows([csv_cell(row.get(name, "")) for name in columns] for row in rows)
    return written.getvalue()


def _wide(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    lines = [[name.upper() for name in columns]]
    lines += [[one_line(row.get(name, "")) or _NOTHING for name in columns] for row in rows]
    return aligned_text(lines)
