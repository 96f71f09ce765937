"""Alarms in the console: each new one rings once, an acknowledged one stays quiet on all consoles, an old one too."""

from __future__ import annotations

from datetime import time
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run.alarms.ways import AlarmWays
from actions.run.client import load_run
from actions.run.journal.reader import RunSummary
from actions.run.journal.store import append_record
from actions.run.state.alarms import waiting_alarms
from actions.run.state.records import AlarmKind, AlarmRaised
from actions.run.state.view import AlarmView, Notice, NoticeKind, RunState
from tests.support.builders import NOW, StillClock
from tests.support.polling import until
from tests.unit.run.world import make_run
from tui.feeds.alarms import AlarmFeed, call_sequence
from tui.feeds.runs import RunFeed
from tui.settings.settings import AlarmSettings, DesktopNotice

RUN = "bionemo-esm1nv-1121-mjg7pfrowq5tk"
FAILED = AlarmView(7, NOW.timestamp(), AlarmKind.FAILED, "train", f"Run {RUN} has failed at train.")
WITH_BELL = AlarmSettings()


class Called:
    """An alarm feed on runs that a test sets, with the sentences that rang."""

    def __init__(self, settings: AlarmSettings = WITH_BELL, *, is_quiet: bool = False) -> None:
        clock = StillClock()
        self.runs = RunFeed(clock, lambda: None)
        self.runs.is_listed = True
        self.feed = AlarmFeed(settings, self.runs, clock, is_quiet=is_quiet)
        self.rang: list[str] = []
        self.feed.sound = self.rang.append

    def are(self, *runs: RunSummary) -> None:
        """Change the list of runs."""
        self.runs.summaries = runs
        self.runs.revision += 1
        self.feed.look()


def a_summary(*alarms: AlarmView, folder: Path = Path("/runs") / RUN, notices: tuple[Notice, ...] = ()) -> RunSummary:
    return RunSummary(
        RUN, folder, "b", "B", "c", 1.0, RunState.RUNNING, "train", 0, False, "", notices=notices, alarms=alarms
    )


async def test_a_new_alarm_rings_once_and_one_that_waited_before_never() -> None:
    called = Called()
    called.are(a_summary(FAILED))
    assert (called.rang, [alarm.key for alarm in called.feed.waiting]) == ([], [f"{RUN}/failed/train"])
    called.are(a_summary())
    called.are(a_summary(FAILED))
    called.are(a_summary(FAILED))
    assert called.rang == [FAILED.text]
    called.feed.close()


async def test_an_acknowledged_alarm_stays_quiet_until_its_cause_comes_again() -> None:
    called = Called()
    called.are(a_summary())
    called.are(a_summary(FAILED))
    called.feed._ring_again()
    assert len(called.rang) == 2
    assert [alarm.key for alarm in called.feed.acknowledge()] == [f"{RUN}/failed/train"]
    called.feed._ring_again()
    assert (len(called.rang), called.feed._repeat, called.feed.acknowledge()) == (2, None, ())
    called.are(a_summary(replace(FAILED, seq=9)))
    assert len(called.rang) == 3
    called.feed.close()


async def test_a_runner_that_is_gone_is_seen_by_the_console_alone() -> None:
    called = Called()
    called.are(a_summary())
    called.are(a_summary(notices=(Notice(NoticeKind.NO_RUNNER, "It has no runner."),)))
    assert called.rang == [f"Run {RUN}: It has no runner."]
    assert [(alarm.key, alarm.seq) for alarm in called.feed.acknowledge()] == [(f"{RUN}/runner/no_runner", 0)]
    called.feed.close()


async def test_of_several_alarms_at_once_the_first_is_named_and_the_others_are_counted() -> None:
    called = Called()
    runs = [a_summary(), replace(a_summary(), id="second"), replace(a_summary(), id="third")]
    called.are(*runs)
    called.are(*(replace(run, alarms=(FAILED,)) for run in runs))
    assert called.rang == [f"{FAILED.text} And 2 more alarms."]
    called.feed.close()


async def test_quiet_hours_and_scripts_ring_for_no_alarm() -> None:
    hours = AlarmWays(quiet_from=time(22), quiet_to=NOW.time().replace(minute=59))
    quiet = Called(AlarmSettings(ways=hours))
    quiet.are(a_summary())
    quiet.are(a_summary(FAILED))
    assert (quiet.rang, len(quiet.feed.waiting)) == ([], 1)
    quiet.feed.close()
    script = Called(is_quiet=True)
    script.are(a_summary())
    script.are(a_summary(FAILED))
    assert (script.rang, script.feed.waiting) == ([], ())


async def test_what_one_console_acknowledges_is_quiet_on_the_other_one(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    append_record(folder, AlarmRaised(AlarmKind.TRAINING, "The loss is NaN.", "train/nan"), deed="a test")
    alarms = waiting_alarms(load_run(folder))
    here, there = Called(), Called()
    for console in (here, there):
        console.are(a_summary(folder=folder))
        console.are(a_summary(*alarms, folder=folder))
        console.are(a_summary(*alarms, folder=folder))
    assert here.rang == there.rang == ["The loss is NaN."], "each in its own terminal, once"
    here.feed.acknowledge()
    await until(lambda: not waiting_alarms(load_run(folder)), "the record")
    there.are(a_summary(*waiting_alarms(load_run(folder)), folder=folder))
    assert there.feed.waiting == ()
    there.feed._ring_again()
    assert len(there.rang) == 1
    here.feed.close()
    there.feed.close()


def test_the_bell_and_the_notifications_of_terminals() -> None:
    assert call_sequence(AlarmSettings(), "Run x has failed.") == "\a"
    silent = AlarmSettings(bell=False)
    assert call_sequence(silent, "Run x has failed.") == ""
    assert call_sequence(replace(silent, desktop=DesktopNotice.OSC_9), "a\x1b]b").startswith("\x1b]9;")
    assert call_sequence(replace(silent, desktop=DesktopNotice.OSC_9), "a\x1b]b").count("\x1b") == 2
    text = call_sequence(replace(silent, desktop=DesktopNotice.OSC_777), "one; two")
    assert text == "\x1b]777;notify;eksml-tui;one, two\x1b\\"
    ringing = AlarmSettings(desktop=DesktopNotice.OSC_9)
    assert call_sequence(ringing, "a", is_in_tmux=True) == "\a\x1bPtmux;\x1b\x1b]9;a\x1b\x1b\\\x1b\\"
    assert call_sequence(AlarmSettings(), "a", is_in_tmux=True) == "\a"
