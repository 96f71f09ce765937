"""Alarms of a run: raised once by its runner, recorded, and sent by hook and webhook whatever these do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import time
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, RefusedError
from actions.base.process import own_identity
from actions.cloud.download import post
from actions.run.alarms import send as sending
from actions.run.alarms.alarm_companion import CALM_SECONDS, GONE_SECONDS, MOST_AN_HOUR, AlarmCompanion
from actions.run.alarms.causes import Alarm, Samples, alarms_in, alarms_of, credentials_alarm
from actions.run.alarms.run_sampler import RunSampler
from actions.run.alarms.send import Message, call, send
from actions.run.alarms.ways import AlarmWays, load_ways, ways_of
from actions.run.client import load_run, send_request
from actions.run.engine.runner_process import main
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import Heartbeat, take_runner_lease
from actions.run.journal.reader import RunReader
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.state.alarms import AlarmName, has_alarms_to_send, name_of
from actions.run.state.records import AlarmKind, EndsKnown, RequestKind
from actions.run.state.view import NoticeKind, RunState, RunView
from actions.telemetry.curve_alarms import CurveAlarm, CurveAlarmKind
from tests.support import fixed_runs
from tests.support.builders import NOW, StillClock
from tests.support.crashing import crash_around_records
from tests.support.forked import forked
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.cluster.servers import serving
from tests.unit.run.world import FakeWorkshop, make_run

ROOT = Path(__file__).parents[3]
CLOCK = SystemClock()
MESSAGE = Message("run/failed/train", "failed", "run", "Run run has failed.", 1.0, "c")
HOOK = """
import json, os, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([os.environ["EKSML_ALARM_KEY"], json.load(sys.stdin)]) + chr(10))
"""


def names(view: RunView) -> list[AlarmName]:
    return [alarm.name for alarm in alarms_of(view, now=NOW.timestamp())]


def test_each_state_of_a_run_has_its_alarm_and_its_name() -> None:
    failed = fixed_runs.a_failed_run()
    (alarm,) = alarms_of(failed, now=NOW.timestamp())
    assert alarm.name.kind is AlarmKind.FAILED
    assert alarm.name.key(failed.id) == f"{failed.id}/failed/{alarm.name.place}"
    assert alarm.text.startswith(f"Run {failed.id} has failed at {alarm.name.place}: ")
    assert names(fixed_runs.a_run_with_a_plan())[0].kind is AlarmKind.APPROVAL
    assert names(fixed_runs.a_torn_down_run()) == [AlarmName(AlarmKind.DONE, "torn_down")]
    assert names(fixed_runs.a_training_run()) == []


def test_crashing_pods_are_an_alarm_whose_name_has_no_count() -> None:
    (alarm,) = alarms_in(Samples("Run r", pods={"train": "w-7 restarted 7 times"}))
    assert alarm == Alarm(AlarmName(AlarmKind.PODS, "train"), "Run r at train: w-7 restarted 7 times.")


def test_credentials_that_end_before_the_run_may_be_done_are_an_alarm() -> None:
    view, now = fixed_runs.a_training_run(), NOW.timestamp()
    soon = replace(view, ends=EndsKnown(now + 600))
    assert "end in 10 min" in next(
        one.text for one in alarms_of(soon, now=now) if one.name.kind is AlarmKind.CREDENTIALS
    )
    assert credentials_alarm(view, now=now) is None
    assert credentials_alarm(replace(view, ends=EndsKnown(now + 10**9)), now=now) is None
    assert credentials_alarm(replace(fixed_runs.a_failed_run(), ends=EndsKnown(now + 1)), now=now) is None


def test_a_spike_calls_while_it_lasts_and_a_plateau_never() -> None:
    spike = CurveAlarm(CurveAlarmKind.SPIKE, "train_loss", 7, None, "train_loss jumped")
    plateau = CurveAlarm(CurveAlarmKind.PLATEAU, "train_loss", 7, None, "train_loss has not fallen")
    (alarm,) = alarms_in(Samples("Run run", {"train": [spike, plateau, replace(spike, is_past=True)]}))
    assert alarm == Alarm(AlarmName(AlarmKind.TRAINING, "train/spike:train_loss:7"), "Run run: train_loss jumped.")


async def test_a_loss_that_is_no_number_is_found_in_the_output_of_a_stage_at_work(tmp_path: Path) -> None:
    text = (fixed_runs.CORPUS / "logs" / "lightning_tqdm_nan.log").read_text()
    view = fixed_runs.a_training_run()
    stage = next(stage.id for stage in view.stages if stage.state.value == "running")
    fixed_runs.store_text(tmp_path, stage, "worker-0", text)
    found = list(await RunSampler(tmp_path, a_heartbeat(tmp_path), StillClock()).alarms(view))
    assert [alarm.name.place for alarm in found if "/nan:" in alarm.name.place]
    assert list(await RunSampler(tmp_path, a_heartbeat(tmp_path), StillClock()).alarms(fixed_runs.a_failed_run())) == []


class Loss:
    """A source whose alarms a test sets."""

    def __init__(self) -> None:
        self.now: list[Alarm] = []

    async def found(self, view: RunView) -> list[Alarm]:
        return self.now


def kept(folder: Path, work: object, ways: AlarmWays = AlarmWays()) -> RunView:  # noqa: B008 - frozen
    """Do something with a companion in loop time, and return the run after it."""

    async def body() -> None:
        clock = VirtualClock()
        lease = take_runner_lease(journal_path(folder), clock)
        journal = Journal(journal_path(folder), clock, fence=lease.token)
        try:
            loss = Loss()
            companion = AlarmCompanion(RunnerJournal(journal, lease, clock), loss.found, lambda: ways, clock)
            await work(companion, loss, clock)  # type: ignore[operator]
        finally:
            journal.close()

    run_virtually(body())
    return load_run(folder)


def a_heartbeat(folder: Path) -> Heartbeat:
    heartbeat = Heartbeat(folder, own_identity(), StillClock())
    heartbeat.trouble("a stage that is over", "its pods are gone")
    return heartbeat


def nan(place: int) -> Alarm:
    return Alarm(AlarmName(AlarmKind.TRAINING, f"train/nan:{place}"), f"The loss is NaN at {place}.")


def test_an_alarm_is_raised_once_and_again_only_after_its_cause_was_gone_for_long(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)

    async def work(companion: AlarmCompanion, loss: Loss, clock: VirtualClock) -> None:
        for found in ([nan(1)], [nan(1)], [], [nan(1)]):
            loss.now = found
            await companion.look()
            await clock.sleep(CALM_SECONDS)
        loss.now = []
        await companion.look()
        await clock.sleep(GONE_SECONDS + CALM_SECONDS)
        await companion.look()
        loss.now = [nan(1)]
        await companion.look()

    view = kept(folder, work)
    assert [(name_of(alarm).place, alarm.is_over) for alarm in view.alarms] == [
        ("train/nan:1", True),
        ("train/nan:1", False),
    ]
    assert RunReader(folder).poll() is not None


def test_the_next_runner_raises_and_sends_nothing_that_the_journal_has(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)

    async def work(companion: AlarmCompanion, loss: Loss, clock: VirtualClock) -> None:
        loss.now = [nan(1)]
        await companion.look()
        loss.now = []
        await AlarmCompanion(companion._journal, loss.found, AlarmWays, clock).look()  # it has not seen the curve yet

    assert [alarm.is_over for alarm in kept(folder, work).alarms] == [False]


def test_a_noisy_curve_raises_a_few_alarms_an_hour(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)

    async def work(companion: AlarmCompanion, loss: Loss, _clock: VirtualClock) -> None:
        loss.now = [nan(place) for place in range(100)]
        await companion.look()
        await companion.look()

    assert len(kept(folder, work).alarms) == MOST_AN_HOUR


def test_in_quiet_hours_an_alarm_is_recorded_and_not_sent(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)

    async def work(companion: AlarmCompanion, loss: Loss, clock: VirtualClock) -> None:
        loss.now = [nan(1)]
        await companion.look()

    always = AlarmWays(("false",), None, time(0), time(23, 59, 59, 999999))
    (alarm,) = kept(folder, work, always).alarms
    assert alarm.ways == ()
    assert not has_alarms_to_send(load_run(folder))


def test_quiet_hours_may_go_over_midnight() -> None:
    night = AlarmWays(quiet_from=time(22), quiet_to=time(7))
    assert [night.is_quiet_at(time(hour)) for hour in (21, 22, 3, 7)] == [False, True, True, False]
    assert not AlarmWays().is_quiet_at(time(0))


def test_the_ways_are_those_of_the_settings_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_ways() == AlarmWays()
    folder = tmp_path / "eksml-tui"
    folder.mkdir()
    (folder / "config.yaml").write_text("alarm_hook: [notify, -u]\nalarm_webhook: slack\nquiet_hours: 22:00-07:00\n")
    assert load_ways() == AlarmWays(("notify", "-u"), folder / "slack", time(22), time(7))
    (folder / "config.yaml").write_text("alarm_hook: notify\n")
    with pytest.raises(ConfigError, match="mistake"):
        load_ways()
    (folder / "config.yaml").write_text("alarm_hook: [\n")
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        load_ways()
    with pytest.raises(ConfigError, match="mistake"):
        ways_of({"quiet_hours": "22-7h"}, folder)


def test_what_leaves_the_machine_has_no_credentials_and_addresses_nobody() -> None:
    text = "worker-0: <!channel> HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789 & more"
    message = replace(MESSAGE, text=text)
    assert b"&lt;!channel&gt;" in message.webhook_body()
    assert b"&amp; more" in message.webhook_body()
    for sent in (message.webhook_body(), message.document(), message.variables()["EKSML_ALARM_TEXT"].encode()):
        assert b"hf_abcdef" not in sent


async def test_a_hook_gets_the_alarm_on_stdin_and_in_its_environment_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out; touch x"
    assert await send(lambda: AlarmWays((sys.executable, "-c", HOOK, str(out))), "hook", MESSAGE, CLOCK) == ""
    key, document = json.loads(out.read_text("utf-8"))
    assert key == document["key"] == "run/failed/train"
    assert document == {
        "key": key,
        "kind": "failed",
        "run": "run",
        "text": "Run run has failed.",
        "at": "1970-01-01T00:00:01Z",
        "cluster": "c",
    }


async def test_a_hook_that_reads_nothing_and_one_that_fails(tmp_path: Path) -> None:
    assert await send(lambda: AlarmWays(("true",)), "hook", MESSAGE, StillClock()) == ""
    reason = await send(lambda: AlarmWays(("false",)), "hook", MESSAGE, _Hasty())
    assert "false" in reason
    assert await send(AlarmWays, "hook", MESSAGE, StillClock()) == "No hook is set any more."
    missing = await send(lambda: AlarmWays(webhook=tmp_path / "none"), "webhook", MESSAGE, StillClock())
    assert "cannot be read" in missing


class _Hasty(StillClock):
    """A clock whose pauses take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("without_proxies")
async def test_a_webhook_that_is_slow_refuses_hangs_or_is_gone_ends_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sending, "CALL_SECONDS", 0.5)
    got: list[tuple[str, object]] = []
    tries = 0

    async def take(request: web.Request) -> web.Response:
        nonlocal tries
        tries += 1
        body = json.loads(await request.read())
        if request.path == "/hanging":
            await asyncio.sleep(30)
        if request.path == "/slow":
            await asyncio.sleep(0.2)
        got.append((request.headers["Content-Type"], body))
        is_refused = request.path == "/secret500" or (request.path == "/second" and tries < 2)
        return web.Response(status=500 if is_refused else 200)

    file = tmp_path / "webhook"
    async with serving(take) as address:
        reasons = {}
        for path in ("/well", "/slow", "/second", "/secret500", "/hanging"):
            tries = 0
            file.write_text(f"{address}{path}\n")
            reasons[path] = (await send(lambda: AlarmWays(webhook=file), "webhook", MESSAGE, _Hasty()), tries)
    gone = await send(lambda: AlarmWays(webhook=file), "webhook", MESSAGE, _Hasty())
    assert got[0] == ("application/json", {"text": "Run run has failed."})
    assert [reasons[path] for path in ("/well", "/slow", "/second")] == [("", 1), ("", 1), ("", 2)]
    assert reasons["/secret500"][1] == 3
    assert "HTTP 500" in reasons["/secret500"][0]
    assert "secret" not in reasons["/secret500"][0]
    assert "did not answer" in reasons["/hanging"][0]
    assert "did not answer" in gone


@pytest.mark.usefixtures("without_proxies")
async def test_an_address_without_tls_is_refused_and_no_sentence_names_one(tmp_path: Path) -> None:
    async def take(request: web.Request) -> web.Response:
        return web.Response(status=404)

    async with serving(take) as address:
        with pytest.raises(RefusedError, match="HTTP 404") as refused:
            await post(f"{address}/gone", b"{}", total_seconds=10)
        assert "gone" not in str(refused.value)
    file = tmp_path / "webhook"
    file.write_text("http://hooks.example.com/T1/secret")
    with pytest.raises(ConfigError, match="https") as unsafe:
        await call(AlarmWays(webhook=file), "webhook", MESSAGE)
    assert "secret" not in unsafe.value.sentence()


def with_hook(tmp_path: Path, *words: str) -> dict[str, str]:
    """Return the environment of a runner whose settings have a hook."""
    folder = tmp_path / "config" / "eksml-tui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"alarm_hook: {json.dumps(words)}\n")
    return {**os.environ, "XDG_CONFIG_HOME": str(folder.parent)}


def one_runner(folder: Path, environment: dict[str, str], crash_at: str = "", seconds: float = 60) -> int:
    def work() -> int:
        crash_around_records(lambda seq, side: f"{seq}:{side}" == crash_at)
        return main(folder, FakeWorkshop)

    return forked(work, environment=environment, directory=ROOT, seconds=seconds).returncode


def test_a_run_that_fails_calls_the_hook_though_no_console_is_open(tmp_path: Path) -> None:
    folder, out = make_run(tmp_path, CLOCK), tmp_path / "out"
    (folder / "fail-operators").touch()
    environment = with_hook(tmp_path, sys.executable, "-c", HOOK, str(out))
    assert one_runner(folder, environment) == 0
    view = load_run(folder)
    (alarm,) = view.alarms
    assert (view.state, alarm.kind, alarm.left) == (RunState.FAILED, AlarmKind.FAILED, ())
    assert [json.loads(line)[0] for line in out.read_text().splitlines()] == [f"{view.id}/failed/operators"]
    send_request(folder, RequestKind.RETRY, start=False)
    assert one_runner(folder, environment) == 0
    assert len(out.read_text().splitlines()) == 2, "it failed again: that is another alarm"
    assert len(load_run(folder).alarms) == 2


def test_a_hook_that_hangs_or_fails_neither_fails_the_run_nor_holds_it_without_end(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    assert one_runner(folder, with_hook(tmp_path, "false")) == 0
    view = load_run(folder)
    (alarm,) = view.alarms
    assert (view.state, alarm.kind) == (RunState.SUCCEEDED, AlarmKind.DONE)
    assert [(sent.way, "false" in sent.error) for sent in alarm.sent] == [("hook", True)]
    assert any("was not sent by hook" in notice.text for notice in view.notices)


@pytest.mark.kill
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("record", ["outcome", "raised", "sent"])
def test_a_runner_that_is_killed_around_an_alarm_leaves_it_to_the_next_one(
    tmp_path: Path, record: str, side: str
) -> None:
    """At least once: twice only if it was killed between the answer and its record."""
    folder, out = make_run(tmp_path, CLOCK), tmp_path / "out"
    (folder / "fail-operators").touch()
    environment = with_hook(tmp_path, sys.executable, "-c", HOOK, str(out))
    trial = make_run(tmp_path / "trial", CLOCK)
    (trial / "fail-operators").touch()
    assert one_runner(trial, with_hook(tmp_path, "true")) == 0
    raised = load_run(trial).alarms[0].seq
    environment = with_hook(tmp_path, sys.executable, "-c", HOOK, str(out))
    seq = {"outcome": raised - 1, "raised": raised, "sent": raised + 1}[record]
    assert one_runner(folder, environment, f"{seq}:{side}") < 0
    lost = load_run(folder)
    if (record, side) != ("outcome", "before"):
        has_left = (record, side) != ("sent", "after")
        assert any(notice.kind is NoticeKind.ALARMS_UNSENT for notice in lost.notices) is has_left
    assert one_runner(folder, environment) == 0
    view = load_run(folder)
    assert [alarm.left for alarm in view.alarms] == [()]
    calls = len(out.read_text().splitlines())
    assert calls == (2 if (record, side) == ("sent", "before") else 1)
