"""The run on screen: what was read of it is shown, whoever read it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import MissingError, RefusedError
from actions.run.journal.folder import runs_folder
from actions.run.journal.store import append_record
from actions.run.launch import create_folder
from actions.run.state.records import RequestKind, RunRequest
from actions.run.state.view import StageState
from actions.run.summaries import RunListing, list_runs
from tests.support.builders import a_run, a_stage, console_services
from tests.unit.run.world import creation, make_run
from tui.feeds.runs import RunFeed, is_list_complete, waiting_stage, whole_id
from tui.screens.status_lines import header_facts


def test_what_a_look_on_the_thread_has_just_read_is_shown_by_the_next_look(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    feed = RunFeed(SystemClock(), lambda: None)
    feed.choose(folder)
    append_record(folder, RunRequest(request=RequestKind.PAUSE), deed="asked for")
    assert feed._reader is not None
    feed._reader.poll()  # the thread's, whose result has not come back to the loop
    feed.catch_up()
    assert feed.view is not None
    assert feed.view.is_paused
    feed.close()


def make_newest(home: Path, run_id: str) -> Path:
    source = home / "source"
    source.mkdir(exist_ok=True, parents=True)
    (source / "blueprint.yaml").write_text("schema: eksml/v1\n")
    body = replace(creation(), run_id=run_id)
    return create_folder(body, source=source, environment={}, clock=SystemClock(), base=runs_folder())


async def test_no_other_run_is_shown_in_the_place_of_a_newest_one_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    older, newest = make_newest(tmp_path, "older"), make_newest(tmp_path, "newest")
    (newest / "journal.jsonl").write_bytes(b"garbage" * 4000)
    services = console_services()

    await services.runs.refresh_list()
    assert (services.runs.folder, header_facts(services).alarm) == (None, "the newest run cannot be read")

    services.runs.choose(older)
    assert (services.runs.folder, header_facts(services).alarm) == (older, "")
    services.runs.close()


async def test_the_newest_run_is_shown_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    _, newest = make_newest(tmp_path, "older"), make_newest(tmp_path, "newest")
    feed = RunFeed(SystemClock(), lambda: None)

    await feed.refresh_list()
    assert (feed.folder, feed.unreadable) == (newest, None)
    feed.close()


def test_a_stage_that_a_run_does_not_have_is_refused_with_the_way_to_name_another_run() -> None:
    view = a_run(a_stage("train", StageState.RUNNING))
    with pytest.raises(RefusedError, match="is not waiting for approval"):
        waiting_stage(view, "train")
    with pytest.raises(RefusedError, match=f"Run {view.id} has no stage bionemo-1126-x") as refused:
        waiting_stage(view, "bionemo-1126-x")
    assert "run=ID" in refused.value.hint


async def test_the_first_list_is_shown_as_it_is_read_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("oldest", "older", "newest"):
        make_newest(tmp_path, name)
    whole = list_runs(runs_folder())
    services = console_services()
    feed, seen = services.runs, list[tuple[list[str], frozenset[str], bool, str]]()
    feed.is_listed = False

    def pieces(_: float) -> Iterator[RunListing]:
        for read in (1, 2, 3):
            yield RunListing(whole[:read], [run.id for run in whole[read:]])
            seen.append((ids_of(feed), feed.unread, feed.is_listed, feed.view.id if feed.view else ""))
            if feed.unread:
                with pytest.raises(MissingError, match="oldest is not read yet"):
                    feed.find("oldest")
                assert not is_list_complete(feed)
                assert services.paid.now().hourly.is_lower_bound

    monkeypatch.setattr("tui.feeds.runs._listings", pieces)
    await feed.refresh_list()
    assert seen == [
        (["newest"], frozenset({"older", "oldest"}), False, "newest"),
        (["newest", "older"], frozenset({"oldest"}), False, "newest"),
    ]
    assert (ids_of(feed), feed.unread, is_list_complete(feed)) == (["newest", "older", "oldest"], frozenset(), True)
    feed.close()


async def test_a_copy_of_the_newest_run_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    newest = make_newest(tmp_path, "newest")
    shutil.copytree(newest, newest.with_name("newest.bak"))
    (newest.parent / ".order").unlink()
    feed = RunFeed(SystemClock(), lambda: None)
    await feed.refresh_list()
    assert ids_of(feed) == ["newest.bak", "newest"]
    assert feed.folder == newest
    assert whole_id(feed, "new") == "newest"
    feed.choose(newest.with_name("newest.bak"))
    assert feed.view is not None
    assert (feed.view.id, feed.is_interrupted) == ("newest.bak", False)
    feed.close()


def ids_of(feed: RunFeed) -> list[str]:
    return [run.id for run in feed.summaries]
