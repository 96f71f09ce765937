"""The log of a stage, read from its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import JournalError
from actions.cluster.logs.batch import line_in, number_in, tag_in
from actions.run.output.segments import StreamReader
from tests.support.polling import until
from tests.support.streams import append_raw
from tui.feeds.output import CurveFeed, OutputLogFeed, OwnProgress

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


def long_log(folder: Path, count: int) -> None:
    records = (
        b"L%06d\t2023-11-14T22:%02d:%02d.%09dZ line %d\n" % (at % 2, at // 60_000, at // 1000 % 60, at % 1000, at)
        for at in range(count)
    )
    append_raw(folder, "train", "sources", SOURCES.encode())
    append_raw(folder, "train", "lines", b"".join(records))


def test_the_newest_lines_come_first_and_those_that_follow_after_them(tmp_path: Path) -> None:
    long_log(tmp_path, 5_000)
    feed = OutputLogFeed(tmp_path, "train", newest_bytes=4_000)
    assert feed.offset > 0
    first = taken(feed) + taken(feed)
    assert first[-1] == "line 4999"
    assert first == [f"line {number}" for number in range(5_000 - len(first), 5_000)]
    assert 10 < len(first) < 100
    append_raw(tmp_path, "train", "lines", b"L000000\t2023-11-14T22:30:00.000000000Z more\n")
    assert taken(feed) + taken(feed) == ["more"]


def test_the_share_of_a_past_that_is_sorted_grows_to_all_of_it(tmp_path: Path) -> None:
    long_log(tmp_path, 5_000)
    feed, shares, found = OutputLogFeed(tmp_path, "train"), [0.0], list[str]()
    while feed.has_more:
        found += [line_in(record).text for record in feed.take(500)]
        shares.append(feed.share)
    assert found == [f"line {number}" for number in range(5_000)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any(0.1 < share < 0.9 for share in shares)


def points(folder: Path, count: int) -> None:
    records = (b'{"type":"point","number":0,"metric":"train_loss","step":%d,"value":1.5}\n' % at for at in range(count))
    append_raw(folder, "train", "points", b"".join(records))


async def test_long_curves_are_read_in_the_background_once_and_shared(tmp_path: Path) -> None:
    points(tmp_path, 20_000)
    news: list[str] = []
    feed = CurveFeed(lambda: news.append("complete"))
    first = feed.of(tmp_path, "train")
    assert first.is_complete is False
    assert 0 < first.read_bytes < first.size_bytes
    await until(lambda: news, "the end of the reading")
    assert feed.of(tmp_path, "train") is first
    assert feed.of(tmp_path, "train").is_complete
    assert news == ["complete"]
    series = first.curves.series("train_loss")
    assert series is not None
    assert series.last is not None
    assert series.last.x == 19_999
    append_raw(
        tmp_path, "train", "points", b'{"type":"point","number":0,"metric":"train_loss","step":20000,"value":2}\n'
    )
    assert feed.of(tmp_path, "train") is first
    assert series.last.x == 20_000
    feed.close()


async def test_short_curves_are_complete_at_once(tmp_path: Path) -> None:
    points(tmp_path, 3)
    feed = CurveFeed(lambda: None)
    assert feed.of(tmp_path, "train").is_complete
    feed.close()


async def test_output_that_cannot_be_read_is_an_error_each_time_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points(tmp_path, 20_000)
    news: list[str] = []
    feed = CurveFeed(lambda: news.append("complete"))
    feed.of(tmp_path, "train")

    def refuse(*_: object) -> object:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(StreamReader, "stretches", refuse)
        await until(lambda: news, "the end of the reading")
        for _ in range(2):
            with pytest.raises(JournalError, match="cannot be read: Input/output error"):
                feed.of(tmp_path, "train")
    news.clear()
    feed.of(tmp_path, "train")
    await until(lambda: feed.of(tmp_path, "train").is_complete, "the end of the reading")
    feed.close()


def test_the_time_to_go_of_an_attempt_is_not_that_of_the_one_before(tmp_path: Path) -> None:
    def bar(done: int, left: int) -> bytes:
        counts = f'"done":{done},"total":300,"remaining_seconds":{left}'
        return f'{{"type":"progress","number":0,"label":"Epoch 0",{counts}}}\n'.encode()

    append_raw(tmp_path, "train", "points", SOURCES.encode() + bar(250, 10))
    assert OwnProgress(tmp_path, "train", 1, only_new=False).left_seconds() == 10

    resumed = OwnProgress(tmp_path, "train", 2, only_new=True)
    assert resumed.left_seconds() is None
    append_raw(tmp_path, "train", "points", bar(200, 90))
    assert resumed.left_seconds() == 90
