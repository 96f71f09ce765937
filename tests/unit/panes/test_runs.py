"""The columns of the runs pane on eighty columns."""

from __future__ import annotations

from tests.support.builders import console_services
from tui.panes.runs import columns_of, with_who
from tui.widgets.table_model import fit_columns


def test_eighty_columns_have_room_for_time_and_money_of_a_run() -> None:
    shown = fit_columns(columns_of(console_services()), 77)

    assert [one.column.title for one in shown] == ["RUN", "STATE", "STAGE", "TOOK", "SPENT", "$/H", "AGE"]
    assert all(one.width >= one.column.width for one in shown)


def test_who_carries_a_run_out_hides_neither_its_age_nor_its_money_on_eighty_columns() -> None:
    shown = fit_columns(with_who(columns_of(console_services())), 77)

    assert [one.column.title for one in shown] == ["RUN", "STATE", "STAGE", "WHO", "SPENT", "$/H", "AGE"]
