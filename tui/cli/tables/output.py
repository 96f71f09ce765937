"""The forms in which a command prints a table: `table`, `wide`, `json`, `jsonl`, `yaml` and `csv`.

All but the first follow from the command's JSON document, whose keys are stable: YAML is the same document, JSON lines
are its rows, CSV and the wide table have a line for each of these and a column for each key, nested ones as
`price.source`.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from actions.base.errors import UsageError, nearest_hint
from actions.base.untrusted import csv_cell, one_line
from actions.base.wording import aligned_text, listed
from actions.fleet.facts import UNCOUNTED

T = TypeVar("T")

_WITH_HEADS = ("table", "wide", "csv")
_NOTHING = "-"
_NAMED = 6


def print_table(
    form: str,
    *,
    table: Callable[[], str],
    document: Callable[[], str],
    rows: str = "",
    fields: Sequence[str] = (),
    noun: str = "",
    has_heads: bool = True,
) -> None:
    """Print a table in one of several forms.

    Args:
        form: The form, one of `tui.cli.tables.FORMATS`, or `name` where the rows have a noun.
        table: Returns the table for people; its first line has the titles, or says that there is nothing.
        document: Returns the JSON document.
        rows: The key of the document under which its rows are; empty for a document that is a list, or one row.
        fields: The columns of rows without any; else they follow from the rows.
        noun: The kind that `-o name` puts before each name.
        has_heads: Print titles.
    """
    text = table() if form == "table" else formatted(form, document(), rows=rows, fields=fields, noun=noun)
    sys.stdout.write(text if has_heads or form not in _WITH_HEADS else text.partition("\n")[2])


def in_order(
    facts: Iterable[T], column: str, document_of: Callable[[T], Mapping[str, Any]], fields: Sequence[str]
) -> list[T]:
    """Return facts in the order of a column, unknown ones last; as they are for an empty column.

    Args:
        facts: What is printed.
        column: A column of `-o wide`, with a `-` in front of it for the highest first.
        document_of: Returns the document of a fact.
        fields: The columns that there are, beside those of labels.

    Raises:
        UsageError: There is no such column.
    """
    if not column:
        return list(facts)
    name = column.removeprefix("-")
    if name not in fields and not name.startswith("labels."):
        raise UsageError(f"There is no column {name!r} to sort by.", hint=nearest_hint(name, fields))
    values = [(_value_at(document_of(fact), name), fact) for fact in facts]
    known = [(value, fact) for value, fact in values if value is not None]
    known.sort(key=lambda one: one[0] if isinstance(one[0], int | float) else str(one[0]), reverse=name != column)
    return [fact for _, fact in known] + [fact for value, fact in values if value is None]


def _value_at(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column such as `requests.gpu`; names of labels have dots of their own."""
    if column in row:
        return row[column]
    outer, _, rest = column.partition(".")
    inner = row.get(outer)
    return _value_at(inner, rest) if isinstance(inner, dict) and rest else None


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


def formatted(form: str, document: str, *, rows: str = "", fields: Sequence[str] = (), noun: str = "") -> str:
    """Return a JSON document in a form other than `table`; see `print_table`."""
    if form == "json":
        return document
    content = json.loads(document)
    if form == "yaml":
        import yaml

        text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
        return text
    if form == "jsonl":
        return "".join(json_line(row) for row in _rows_of(content, rows))
    if form == "name":
        return "".join(f"{noun}/{row['name']}\n" for row in _rows_of(content, rows))
    flat = [flattened(row) for row in _rows_of(content, rows)]
    columns = _columns_of(flat, fields)
    return _csv(flat, columns) if form == "csv" else _wide(flat, columns)


def json_line(row: Any) -> str:
    """Return a row as a line of JSON."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


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
