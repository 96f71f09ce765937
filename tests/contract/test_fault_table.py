"""`docs/faults.md` names every fault, threat and defect, and tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "faults.md"
NUMBERS = [f"F{n}" for n in range(1, 35)] + [f"S{n}" for n in range(1, 17)] + [f"D{n}" for n in range(1, 22)]
COMING = "†"
"""In front of a pattern: tests of that name are being written."""
WHY_NOT = "Not tried: "
"""Begins the last cell of a number without a test."""

_ROW = re.compile(r"^\| ([FSD]\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
_CODE = re.compile(rf"({COMING} )?`([^`]+)`")


def rows() -> dict[str, str]:
    """The last cell of every row, by its number."""
    found = _ROW.findall(TABLE.read_text(encoding="utf-8"))
    numbers = [number for number, *_ in found]
    assert len(numbers) == len(set(numbers))
    return {number: tests for number, _, _, tests in found}


@cache
def names_in(path: Path) -> frozenset[str]:
    """Names of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def named() -> Iterator[tuple[str, bool, str]]:
    """Number, whether it is to come, and the test or pattern."""
    for number, cell in rows().items():
        for coming, name in _CODE.findall(cell):
            yield number, bool(coming), name


def test_every_number_is_there_in_order() -> None:
    assert list(rows()) == NUMBERS


def test_every_number_has_a_test_or_a_reason() -> None:
    without = [number for number, cell in rows().items() if not _CODE.search(cell) and not cell.startswith(WHY_NOT)]
    assert without == []


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for number, is_coming, name in named():
        path, _, test = name.partition("::")
        file = ROOT / path
        if not is_coming and not (file.is_file() and test in names_in(file)):
            missing.append(f"{number}: {name}")
    assert missing == []


def test_a_pattern_is_only_allowed_for_what_is_to_come() -> None:
    assert [name for _, is_coming, name in named() if is_coming and not name.startswith("tests/")] == []
    assert [name for _, is_coming, name in named() if not is_coming and "*" in name] == []
