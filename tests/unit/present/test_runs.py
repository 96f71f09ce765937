"""The cells of runs in narrow columns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support import fixed_runs
from tui.present.cells import text_of as cell_text
from tui.present.runs import RunRow, spent_cell, state_cell


def test_the_state_of_a_silent_machine_has_its_time_in_a_narrow_column() -> None:
    remote = next(run for run in fixed_runs.remote_runs() if run.id.startswith("efa") and run.id.endswith("pzta"))
    row = RunRow(None, remote, is_silent=True)

    assert cell_text(state_cell(row)) == "silent since 10:42"
    assert cell_text(state_cell(row, 13)) == "silent 10:42"


@pytest.mark.parametrize(("width", "cell"), [(0, "≥ $1,612.40"), (11, "≥ $1,612.40"), (9, "≥ $1,612")])
def test_a_narrow_column_leaves_out_the_cents(width: int, cell: str, tmp_path: Path) -> None:
    run = next(run for run in fixed_runs.summaries(tmp_path) if run.spending is not None)
    assert run.spending is not None
    row = RunRow(replace(run, spending=replace(run.spending, usd=Decimal("1612.40"))))

    assert spent_cell(row, width) == cell
