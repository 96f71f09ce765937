"""The run on screen: what was read of it is shown, whoever read it."""

from __future__ import annotations

from pathlib import Path

from actions.base.clock import SystemClock
from actions.run.journal.store import append_record
from actions.run.state.records import RequestKind, RunRequest
from tests.unit.run.world import make_run
from tui.feeds.runs import RunFeed


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
