"""Rows, filter and order of a table, and the cursor on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.table_model import Column, RowCursor, RowOrder


@dataclass(frozen=True)
class Row:
    name: str
    load: int = 0


BY_LOAD: Column[Row] = Column(
    id="load", title="LOAD", cell=lambda row: str(row.load), width=5, sort_key=lambda r: r.load
)


def an_order(*rows: Row) -> RowOrder[Row]:
    order = RowOrder[Row](key=lambda row: row.name, search=lambda row: f"{row.name} load={row.load}")
    order.replace(rows)
    order.arrange()
    return order


def test_rows_are_ordered_by_key_without_a_sort_column() -> None:
    assert an_order(Row("b"), Row("a")).keys == ["a", "b"]


def test_equal_values_fall_back_to_the_key_in_both_directions() -> None:
    order = an_order(Row("b", 1), Row("a", 1), Row("c", 0))
    order.sort_on(BY_LOAD)
    order.arrange()
    assert order.keys == ["c", "a", "b"]
    order.sort_on(BY_LOAD, reverse=True)
    order.arrange()
    assert order.keys == ["a", "b", "c"]


def test_only_rows_that_look_different_count_as_updated() -> None:
    first, second = Row("a", 1), Row("b", 1)
    order = an_order(first, second)
    changes = order.replace([replace(first), replace(second, load=2)])
    assert changes.updated == {"b"}
    assert not changes.has_moved


def test_the_same_rows_again_are_no_change() -> None:
    rows = [Row("a"), Row("b")]
    order = an_order(*rows)
    assert not order.replace(rows)


def test_a_row_that_went_leaves_the_order_without_a_sort() -> None:
    order = an_order(Row("a"), Row("b"), Row("c"))
    assert order.replace([Row("a"), Row("c")]).has_moved
    order.drop_missing()
    assert order.keys == ["a", "c"]


def test_a_few_rows_are_taken_without_the_rest() -> None:
    order = an_order(Row("a", 1), Row("b", 1), Row("c", 1))
    changes = order.update_rows([Row("b", 2), Row("c", 1), Row("d", 1)], gone=["a", "never"])
    assert changes.updated == {"b"}
    assert changes.has_moved
    order.arrange()
    assert order.keys == ["b", "c", "d"]


def test_a_key_that_went_and_came_again_stands_there_once() -> None:
    order = an_order(Row("a"), Row("b"))
    order.update_rows([], gone=["a"])
    order.update_rows([Row("a", 5)])
    order.arrange()
    assert order.keys == ["a", "b"]


def test_only_a_change_of_what_is_sorted_by_or_filtered_asks_for_a_sort() -> None:
    order = an_order(Row("a", 1), Row("b", 2))
    assert not order.update_rows([Row("a", 3)]).is_disordered
    order.sort_on(BY_LOAD)
    assert order.update_rows([Row("a", 4)]).is_disordered
    order.sort_on(None)
    order.needle = "load=4"
    assert order.update_rows([Row("a", 5)]).is_disordered
    assert not order.update_rows([Row("a", 5)])


@given(
    st.lists(
        st.tuples(st.dictionaries(st.integers(0, 20), st.integers(0, 3)), st.sets(st.integers(0, 20))), max_size=12
    ),
    st.booleans(),
)
def test_amending_ends_where_replacing_does(steps: list[tuple[dict[int, int], set[int]]], by_load: bool) -> None:
    order, truth = an_order(), dict[str, Row]()
    order.sort_on(BY_LOAD if by_load else None)
    for changed, gone in steps:
        rows = [Row(f"r{index:02}", load) for index, load in changed.items()]
        names = {f"r{index:02}" for index in gone} - {row.name for row in rows}
        order.update_rows(rows, names)
        truth = {name: row for name, row in truth.items() if name not in names} | {row.name: row for row in rows}
        order.arrange()
        whole = RowOrder[Row](key=lambda row: row.name, search=lambda row: row.name)
        whole.sort_on(order.column)
        whole.replace(truth.values())
        whole.arrange()
        assert (order.keys, order.rows) == (whole.keys, truth)


def test_a_filter_takes_all_words_and_refuses_the_negated() -> None:
    order = an_order(Row("gpu-1", 5), Row("gpu-2", 7), Row("cpu-1", 5))
    order.needle = "GPU !load=7"
    order.arrange()
    assert order.keys == ["gpu-1"]


def test_a_filter_sees_what_a_row_became() -> None:
    order = an_order(Row("a", 5))
    order.needle = "load=6"
    order.arrange()
    assert order.keys == []
    order.replace([Row("a", 6)])
    order.arrange()
    assert order.keys == ["a"]


def test_the_cursor_stays_on_its_key_when_rows_are_inserted_before_it() -> None:
    cursor = RowCursor()
    cursor.follow(["b", "d"])
    cursor.place(1)
    cursor.follow(["a", "b", "c", "d"])
    assert (cursor.key, cursor.index) == ("d", 3)


def test_the_cursor_takes_the_next_row_when_its_own_is_gone() -> None:
    cursor = RowCursor()
    cursor.follow(["a", "b", "c"])
    cursor.place(1)
    cursor.follow(["a", "c"])
    assert cursor.key == "c"
    cursor.follow([])
    assert cursor.key == ""


@given(st.lists(st.tuples(st.sampled_from(["step", "scroll", "resize", "rows"]), st.integers(-30, 60)), max_size=30))
def test_the_cursor_is_always_in_the_window_and_the_window_in_the_rows(moves: list[tuple[str, int]]) -> None:
    cursor = RowCursor()
    for name, amount in moves:
        match name:
            case "step":
                cursor.place(cursor.index + amount)
            case "scroll":
                cursor.scroll(amount)
            case "resize":
                cursor.resize(amount)
            case _:
                cursor.follow([f"{i:03}" for i in range(max(0, amount))])
        if cursor.key:
            assert cursor.key in cursor.visible()
            assert cursor.top >= 0
