"""Rows of any kind: ages, orders, widths."""

from __future__ import annotations

import pytest

from actions.cluster.watch.table_format import ObjectRow, TableColumn
from tui.present.objects import ObjectColumns, changes_in, passed, value_key
from tui.present.text import natural_key

AT = 1_000_000.0
POD_COLUMNS = (
    TableColumn("Name", format="name"),
    TableColumn("Status"),
    TableColumn("Age"),
    TableColumn("IP", priority=1),
)
JOB_COLUMNS = (TableColumn("Name", format="name"), TableColumn("Status"), TableColumn("Duration"))


def a_row(name: str, *cells: str, made: float = AT - 60) -> ObjectRow:
    return ObjectRow(f"u-{name}", "work", name, (name, *cells), created_at=made)


def columns_at(columns: tuple[TableColumn, ...], now: float, *, is_across: bool = False) -> ObjectColumns:
    made = ObjectColumns(columns, has_namespace=is_across, received=lambda _: AT)
    made.now = now
    return made


@pytest.mark.parametrize(
    ("seconds", "text", "left"),
    [(0, "0s", 1), (119.5, "119s", 0.5), (121, "2m", 59), (10_799, "179m", 1), (3 * 86_400, "3d", 3600)],
)
def test_an_age_has_one_unit_and_is_right_until_it_changes(seconds: float, text: str, left: float) -> None:
    assert passed(seconds) == text
    assert changes_in(seconds) == pytest.approx(left)
    assert passed(seconds + changes_in(seconds) - 0.01) == text


def test_names_are_in_natural_order_and_values_by_size() -> None:
    assert sorted(["node-10", "node-2", "node-1a"], key=natural_key) == ["node-1a", "node-2", "node-10"]
    texts = ["<none>", "b10", "b9", "12Gi", "900Mi", "45%", "3/8", "7 (2m ago)", "-1"]
    assert sorted(texts, key=value_key) == ["-1", "3/8", "7 (2m ago)", "45%", "900Mi", "12Gi", "b9", "b10", "<none>"]


def test_an_age_is_counted_on_from_the_creation_and_not_from_what_the_server_printed() -> None:
    row = a_row("web", "Running", "1s", "10.0.0.1")
    assert columns_at(POD_COLUMNS, AT).text(row, 2) == "60s"
    assert columns_at(POD_COLUMNS, AT + 300).text(row, 2) == "6m"
    assert columns_at(POD_COLUMNS, AT).youngest_changes_in([row]) == pytest.approx(1.0)


def test_a_duration_goes_on_while_its_job_runs_and_stands_when_it_has_ended() -> None:
    texts = columns_at(JOB_COLUMNS, AT + 120)
    assert texts.text(a_row("train", "Running", "3m20s"), 2) == "5m"
    assert texts.text(a_row("train", "Complete", "3m20s"), 2) == "3m20s"


def test_ages_are_sorted_by_length_and_not_by_letters() -> None:
    texts = columns_at(POD_COLUMNS, AT)
    rows = [a_row("old", "x", "9m", made=AT - 540), a_row("older", "x", "2h", made=AT - 7200)]
    assert sorted(rows, key=lambda row: texts.sort_key(row, 2), reverse=True)[0].name == "older"


def test_columns_for_wide_tables_are_dropped_first_then_the_others_and_the_name_never() -> None:
    texts = columns_at(POD_COLUMNS, AT, is_across=True)
    texts.measure([a_row("a-very-long-name-of-a-pod-of-a-job-7f9c", "Running", "", "10.0.0.1")])
    shown = {column.title: column for column in texts.shown()}
    assert list(shown) == ["NAMESPACE", "NAME", "STATUS", "AGE", "IP"]
    order = sorted(shown, key=lambda title: shown[title].drop, reverse=True)
    assert order == ["IP", "STATUS", "AGE", "NAMESPACE", "NAME"]


def test_chosen_columns_are_shown_in_their_order_and_a_choice_that_fits_none_shows_all() -> None:
    chosen = ObjectColumns(POD_COLUMNS, has_namespace=False, received=lambda _: AT, chosen=("ip", "Name", "gone"))
    assert [column.title for column in chosen.shown()] == ["IP", "NAME"]
    none = ObjectColumns(POD_COLUMNS, has_namespace=False, received=lambda _: AT, chosen=("gone",))
    assert len(none.shown()) == len(POD_COLUMNS)
