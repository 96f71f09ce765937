"""The log of a stage, read from its output."""

from __future__ import annotations

from pathlib import Path

from actions.cluster.logs.batch import line_in, number_in, tag_in
from tests.support.streams import append_raw
from tui.feeds.output import OutputLogFeed

SOURCES = (
    '{"type":"source","number":0,"namespace":"n","pod":"worker-0","container":"main","uid":"a"}\n'
    '{"type":"source","number":1,"namespace":"n","pod":"worker-1","container":"main","uid":"b"}\n'
)


def an_output(folder: Path, *lines: tuple[int, int, str]) -> Path:
    """Output with lines of (seconds, source, text)."""
    append_raw(folder, "train", "sources", SOURCES.encode())
    add(folder, *lines)
    return folder


def add(folder: Path, *lines: tuple[int, int, str]) -> None:
    records = (f"L{source:06d}\t1970-01-01T00:00:{at:02d}.000000000Z {text}\n" for at, source, text in lines)
    append_raw(folder, "train", "lines", "".join(records).encode())


def taken(feed: OutputLogFeed) -> list[str]:
    return [line_in(record).text for record in feed.take(1000)]


def test_a_backlog_is_in_the_order_of_time_whoever_arrived_first(tmp_path: Path) -> None:
    feed = OutputLogFeed(an_output(tmp_path, (10, 0, "a"), (30, 0, "c"), (20, 1, "b")), "train")

    assert taken(feed) + taken(feed) == ["a", "b", "c"]


def test_the_newest_second_waits_for_late_comers(tmp_path: Path) -> None:
    feed = OutputLogFeed(an_output(tmp_path, (10, 0, "a")), "train")
    assert taken(feed) + taken(feed) == ["a"]

    add(tmp_path, (20, 0, "c"))
    assert taken(feed) == []
    add(tmp_path, (19, 1, "b"), (22, 1, "d"))
    assert taken(feed) == ["b", "c"]
    assert taken(feed) == ["d"]


def test_a_stage_that_has_not_begun_has_no_lines(tmp_path: Path) -> None:
    feed = OutputLogFeed(tmp_path, "train")

    assert taken(feed) == []
    assert not feed.has_more


def test_lines_know_their_pod(tmp_path: Path) -> None:
    feed = OutputLogFeed(an_output(tmp_path, (10, 1, "a")), "train")
    feed.take(10)

    assert [feed.source_of(number_in(tag_in(record))) for record in feed.take(10)] == ["worker-1"]


def test_a_backlog_of_any_size_is_in_the_order_of_time(tmp_path: Path) -> None:
    first, second = ([(10 + number // 9, log, f"{number}") for number in range(450)] for log in range(2))
    feed = OutputLogFeed(an_output(tmp_path, *second, *first), "train")
    found = []
    while feed.has_more:
        found += feed.take(7)
    lines = [(line_in(record), number_in(tag_in(record))) for record in found]
    assert [line.at_ns for line, _ in lines] == sorted(line.at_ns for line, _ in lines)
    for log in range(2):
        assert [line.text for line, number in lines if number == log] == [f"{number}" for number in range(450)]
