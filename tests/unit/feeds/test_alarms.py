"""Alarms: each new one calls once, an acknowledged one stays quiet, and nothing is called for what is old."""

from __future__ import annotations

import asyncio
import json
from datetime import time, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.base.errors import ConfigError, RefusedError
from actions.cloud.account import CallerIdentity
from actions.cloud.download import post
from actions.run.alarms import Alarm, AlarmKind, alarms_of, credentials_alarm
from actions.run.journal.reader import RunSummary
from actions.run.state.view import Notice, NoticeKind, RunState
from tests.support import fixed_runs
from tests.support.builders import NOW, StillClock
from tests.support.polling import until
from tests.unit.cluster.servers import serving
from tui.feeds.alarms import AlarmFeed, call_sequence, hook_words, webhook_body
from tui.feeds.cluster import CredentialsFeed
from tui.feeds.runs import RunFeed
from tui.settings.settings import AlarmSettings, DesktopNotice

RUN = "bionemo-esm1nv-1121-mjg7pfrowq5tk"


WITH_BELL = AlarmSettings()


class Called:
    """An alarm feed on runs that a test sets, with the sentences that rang."""

    def __init__(self, settings: AlarmSettings = WITH_BELL, *, is_quiet: bool = False) -> None:
        clock = StillClock()
        self.runs = RunFeed(clock, lambda: None)
        self.runs.is_listed = True
        self.credentials = CredentialsFeed(region="", clock=clock, changed=lambda: None)
        self.feed = AlarmFeed(settings, self.runs, self.credentials, clock, is_quiet=is_quiet)
        self.rang: list[str] = []
        self.complaints: list[str] = []
        self.feed.sound, self.feed.complain = self.rang.append, self.complaints.append

    def are(self, *runs: RunSummary) -> None:
        """Change the list of runs."""
        self.runs.summaries = runs
        self.runs.revision += 1
        self.feed.look()


def a_summary(state: RunState = RunState.RUNNING, stage: str = "train", *notices: Notice) -> RunSummary:
    return RunSummary(RUN, Path("/runs") / RUN, "b", "B", "c", 1.0, state, stage, 0, False, "", notices=notices)


def kinds(run: RunSummary) -> list[tuple[AlarmKind, str]]:
    return [(alarm.kind, alarm.key) for alarm in alarms_of([run])]


def test_each_cause_has_its_key() -> None:
    assert kinds(a_summary()) == []
    assert kinds(a_summary(RunState.FAILED)) == [(AlarmKind.FAILED, f"{RUN}/failed/train")]
    assert kinds(a_summary(RunState.AWAITING_APPROVAL, "nodes")) == [(AlarmKind.APPROVAL, f"{RUN}/approval/nodes")]
    assert kinds(a_summary(RunState.SUCCEEDED, "")) == [(AlarmKind.DONE, f"{RUN}/done/succeeded")]
    crash = Notice(NoticeKind.PODS, "Pre-training: worker-7 restarted 7×")
    assert kinds(a_summary(RunState.RUNNING, "train", crash)) == [(AlarmKind.PODS, f"{RUN}/pods/train")]
    stalled = Notice(NoticeKind.STALLED, "It does not respond.", 1.0)
    assert kinds(a_summary(RunState.STALLED, "train", stalled)) == [(AlarmKind.RUNNER, f"{RUN}/runner/stalled")]
    assert kinds(replace(a_summary(RunState.FAILED), error="damaged")) == []


def test_credentials_that_end_before_the_run_may_be_done_are_an_alarm() -> None:
    view, now = fixed_runs.a_training_run(), NOW.timestamp()
    alarm = credentials_alarm(view, now=now, expires_at=now + 600)
    assert alarm is not None
    assert "end in 10 min" in alarm.text
    assert credentials_alarm(view, now=now, expires_at=None) is None
    assert credentials_alarm(view, now=now, expires_at=now + 10**9) is None
    assert credentials_alarm(fixed_runs.a_failed_run(), now=now, expires_at=now + 1) is None


async def test_a_new_alarm_rings_once_and_an_old_one_never() -> None:
    called = Called()
    called.are(a_summary(RunState.FAILED))
    assert called.rang == []
    called.are(a_summary(RunState.RUNNING))
    called.are(a_summary(RunState.FAILED))
    called.are(a_summary(RunState.FAILED))
    assert called.rang == [f"Run {RUN} has failed at train."]
    called.feed.close()


async def test_an_acknowledged_alarm_stays_quiet_until_its_cause_comes_again() -> None:
    called = Called()
    called.are(a_summary())
    called.are(a_summary(RunState.FAILED))
    assert [alarm.kind for alarm in called.feed.waiting] == [AlarmKind.FAILED]
    called.feed._call_again()
    assert len(called.rang) == 2
    assert [alarm.key for alarm in called.feed.acknowledge()] == [f"{RUN}/failed/train"]
    called.feed._call_again()
    assert len(called.rang) == 2
    assert called.feed._repeat is None
    assert called.feed.acknowledge() == ()
    called.are(a_summary())
    called.are(a_summary(RunState.FAILED))
    assert len(called.rang) == 3
    called.feed.close()


async def test_of_several_alarms_at_once_the_first_is_named_and_the_others_are_counted() -> None:
    called = Called()
    runs = [a_summary(), replace(a_summary(), id="second"), replace(a_summary(), id="third")]
    called.are(*runs)
    called.are(*(replace(run, state=RunState.FAILED) for run in runs))
    assert called.rang == [f"Run {RUN} has failed at train. And 2 more alarms."]
    called.feed.close()


async def test_quiet_hours_and_scripts_send_no_alarm() -> None:
    quiet = Called(AlarmSettings(quiet_from=time(22), quiet_to=NOW.time().replace(minute=59)))
    quiet.are(a_summary())
    quiet.are(a_summary(RunState.FAILED))
    assert quiet.rang == []
    assert len(quiet.feed.waiting) == 1
    quiet.feed.close()
    script = Called(is_quiet=True)
    script.are(a_summary())
    script.are(a_summary(RunState.FAILED))
    assert script.rang == []
    assert script.feed.waiting == ()


def test_quiet_hours_may_go_over_midnight() -> None:
    night = AlarmSettings(quiet_from=time(22), quiet_to=time(7))
    assert [night.is_quiet_at(time(hour)) for hour in (21, 22, 3, 7)] == [False, True, True, False]
    assert not AlarmSettings().is_quiet_at(time(0))


async def test_the_end_of_credentials_calls_when_it_becomes_known() -> None:
    called = Called()
    called.runs.view = fixed_runs.a_training_run()
    called.are(a_summary())
    end = NOW + timedelta(minutes=10)
    called.credentials.caller = CallerIdentity("1" * 12, "arn", "us-west-2", "", end, end)
    called.feed.look()
    assert len(called.rang) == 1
    assert "credentials" in called.rang[0]
    called.feed.close()


async def test_other_sources_of_alarms_are_asked() -> None:
    called = Called()
    called.are(a_summary())
    called.feed.sources.append(lambda: [Alarm(AlarmKind.TRAINING, RUN, "The loss is NaN.", "train/nan")])
    called.feed.look()
    called.feed.look()
    assert called.rang == ["The loss is NaN."]
    called.feed.close()


async def test_a_hook_gets_the_alarm_in_its_environment_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out; touch x"
    called = Called(
        AlarmSettings(hook=("sh", "-c", 'printf "%s|%s" "$EKSML_ALARM_KEY" "$EKSML_ALARM_TEXT" > "$0"', str(out)))
    )
    called.are(a_summary())
    called.are(a_summary(RunState.FAILED))
    await until(lambda: not called.feed._calls, "the end of the call")
    assert out.read_text("utf-8") == f"{RUN}/failed/train|Run {RUN} has failed at train."
    assert called.complaints == []
    called.feed.close()


async def test_a_hook_that_fails_is_reported() -> None:
    called = Called(AlarmSettings(hook=("false",)))
    called.are(a_summary())
    called.are(a_summary(RunState.FAILED))
    await until(lambda: called.complaints, "a complaint")
    assert called.complaints[0].startswith("An alarm could not be passed on: ")
    called.feed.close()


async def test_a_hook_that_fails_keeps_no_webhook_from_its_call(tmp_path: Path) -> None:
    got: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response(status=500)

    async with serving(take) as address:
        file = tmp_path / "webhook"
        file.write_text(f"{address}/T1/secret\n")
        called = Called(AlarmSettings(hook=("false",), webhook=file))
        called.are(a_summary())
        called.are(a_summary(RunState.FAILED))
        await until(lambda: len(called.complaints) == 2, "both complaints")
        called.feed.close()
    assert len(got) == 1
    assert "HTTP 500" in called.complaints[1]


def test_what_leaves_the_machine_has_no_credentials_and_addresses_nobody() -> None:
    text = "worker-0: <!channel> HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789 & more"
    alarm = Alarm(AlarmKind.PODS, RUN, text)
    sent = webhook_body([alarm]).decode()
    assert "&lt;!channel&gt;" in sent
    assert "&amp; more" in sent
    assert "hf_abcdef" not in sent
    assert "hf_abcdef" not in hook_words([alarm])["EKSML_ALARM_TEXT"]


async def test_a_webhook_gets_the_text_as_slack_takes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    got: list[tuple[str, object]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((request.headers["Content-Type"], json.loads(await request.read())))
        return web.Response(status=404 if request.path == "/gone" else 200)

    async with serving(take) as address:
        file = tmp_path / "webhook"
        file.write_text(f"{address}/T1/secret\n")
        called = Called(AlarmSettings(webhook=file))
        called.are(a_summary())
        called.are(a_summary(RunState.FAILED))
        await until(lambda: not called.feed._calls, "the end of the call")
        assert got == [("application/json", {"text": f"Run {RUN} has failed at train."})]
        assert called.complaints == []
        with pytest.raises(RefusedError, match="HTTP 404") as refused:
            await post(f"{address}/gone", b"{}", total_seconds=10)
        assert "gone" not in str(refused.value)
        called.feed.close()
    with pytest.raises(ConfigError, match="https"):
        await post("http://hooks.example.com/x", b"{}", total_seconds=10)


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


async def test_a_call_does_not_outlive_the_console() -> None:
    called = Called(AlarmSettings(hook=("sleep", "60")))
    called.are(a_summary())
    called.are(a_summary(RunState.FAILED))
    (task,) = called.feed._calls
    called.feed.close()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
