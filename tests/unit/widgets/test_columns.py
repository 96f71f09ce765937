"""Columns at every width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.table_model import GAP, SPARE, Column, fit_columns


def a_column(name: str, width: int, *, drop: int = 0, flex: int = 0, limit: int = 0, wanted: int = 0) -> Column[str]:
    return Column(id=name, title=name, cell=str, width=width, drop=drop, flex=flex, limit=limit, wanted=wanted)


def widths(columns: list[Column[str]], width: int) -> dict[str, int]:
    return {fitted.column.id: fitted.width for fitted in fit_columns(columns, width)}


def test_all_columns_stay_when_there_is_room() -> None:
    assert widths([a_column("a", 5), a_column("b", 5, drop=1)], 11) == {"a": 5, "b": 5}


def test_the_highest_drop_number_goes_first() -> None:
    columns = [a_column("a", 5), a_column("b", 5, drop=1), a_column("c", 5, drop=2)]
    assert widths(columns, 16) == {"a": 5, "b": 5}
    assert widths(columns, 8) == {"a": 5}


def test_among_equals_the_rightmost_goes_first() -> None:
    assert widths([a_column("a", 5, drop=1), a_column("b", 5, drop=1)], 8) == {"a": 5}


def test_an_undroppable_column_is_cut_rather_than_lost() -> None:
    assert widths([a_column("a", 10)], 6) == {"a": 6}


def test_spare_room_is_shared_up_to_the_limits() -> None:
    columns = [a_column("a", 5, flex=1, limit=8), a_column("b", 5, flex=1), a_column("c", 5)]
    assert widths(columns, 40) == {"a": 8, "b": 25, "c": 5}


def test_a_column_that_wants_more_gets_it_from_what_is_spare() -> None:
    columns = [a_column("a", 5, flex=1, wanted=12), a_column("b", 5, flex=1), a_column("c", 9, drop=SPARE)]
    assert widths(columns, 40) == {"a": 18, "b": 11, "c": 9}
    assert widths(columns, 24) == {"a": 15, "b": 8}
    assert widths([*columns[:2], a_column("c", 9, drop=SPARE - 1)], 24) == {"a": 8, "b": 5, "c": 9}


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 9), st.integers(0, 2), st.integers(0, 40), st.integers(0, 40)),
        max_size=12,
    ),
    st.integers(0, 200),
)
def test_what_fits_never_needs_more_than_the_width(shapes: list[tuple[int, int, int, int, int]], width: int) -> None:
    columns = [a_column(str(i), w, drop=d, flex=f, limit=m, wanted=n) for i, (w, d, f, m, n) in enumerate(shapes)]
    fitted = fit_columns(columns, width)
    assert sum(item.width for item in fitted) + GAP * max(0, len(fitted) - 1) <= width
    assert all(item.width > 0 for item in fitted)


def test_columns_that_size_themselves_give_way_before_the_last_one_is_cut() -> None:
    columns = [
        Column[str]("name", "NAME", str, width=10),
        Column[str]("load", "LOAD", str, width=13, least=9),
        Column[str]("memory", "MEMORY", str, width=16, least=11),
    ]
    assert [one.width for one in fit_columns(columns, 41)] == [10, 13, 16]
    assert [one.width for one in fit_columns(columns, 36)] == [10, 11, 13]
    assert [one.width for one in fit_columns(columns, 32)] == [10, 9, 11]
    assert [one.width for one in fit_columns(columns, 30)] == [10, 9, 9]
