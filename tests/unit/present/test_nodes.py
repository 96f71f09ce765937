"""The cells of a node, at every width of their columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from actions.fleet.cost import NodeCost
from actions.fleet.facts import NodeUsage, Resources
from tests.support.builders import GIB, a_node
from tui.present.cells import CellValue, text_of, width_of
from tui.present.nodes import NodeRow, accelerator_cell, cpu_cell, memory_cell


def a_row(share: float = 0.5) -> NodeRow:
    whole = Resources(cpu_milli=127_900, memory_bytes=1_120 * GIB, gpu=8)
    asked = Resources(
        cpu_milli=round(127_900 * share), memory_bytes=round(whole.memory_bytes * share), gpu=round(8 * share)
    )
    node = replace(a_node(), allocatable=whole)
    return NodeRow(node, NodeUsage(asked, 3), NodeCost(None, 8, 0))


@pytest.mark.parametrize("cell", [cpu_cell, memory_cell, accelerator_cell])
def test_a_bar_takes_the_room_that_its_text_leaves(cell: Callable[[NodeRow, int], CellValue]) -> None:
    texts = [text_of(cell(a_row(), width)) for width in range(16, 40)]

    assert all(width_of(text) <= width for width, text in enumerate(texts, start=16))
    assert all(text.split()[-1] == texts[0].split()[-1] for text in texts), "the numbers are whole"
    assert texts[-1].count("█") >= 8


def test_a_text_without_room_for_a_bar_stands_alone() -> None:
    numbers = text_of(cpu_cell(a_row(), 40)).split()[-1]

    assert text_of(cpu_cell(a_row(), len(numbers) + 1)) == numbers
    assert width_of(cpu_cell(a_row(), len(numbers) + 2)) == len(numbers) + 2


def test_bars_of_one_column_are_equally_long() -> None:
    lengths = {len(text_of(cpu_cell(a_row(share), 30)).split(" ")[0]) for share in (0.01, 0.5, 0.999, 1.0)}

    assert len(lengths) == 1
