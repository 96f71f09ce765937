"""`docs/faults.md` names every fault, threat, defect and falsehood on screen, and tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "faults.md"
NUMBERS = [f"{kind}{n}" for kind, last in (("F", 34), ("S", 16), ("D", 22), ("A", 12)) for n in range(1, last + 1)]
WHY_NOT = "Not tried: "
"""Begins the last cell of a number without a test."""

_ROW = re.compile(r"^\| ([FSDA]\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


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


def named() -> Iterator[tuple[str, str]]:
    """Number and test."""
    for number, cell in rows().items():
        for name in _CODE.findall(cell):
            yield number, name


def test_every_number_is_there_in_order() -> None:
    assert list(rows()) == NUMBERS


def test_every_number_has_a_test_or_a_reason() -> None:
    without = [number for number, cell in rows().items() if not _CODE.search(cell) and not cell.startswith(WHY_NOT)]
    assert without == []


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for number, name in named():
        path, _, test = name.partition("::")
        file = ROOT / path
        if not (file.is_file() and test in names_in(file)):
            missing.append(f"{number}: {name}")
    assert missing == []
