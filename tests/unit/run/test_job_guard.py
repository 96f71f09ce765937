"""The guard of a job without a run: the same alarms and idle limit, and nothing is sent twice."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from actions.fleet.facts import PodFacts, Resources
from actions.run.alarms.job_guard import IdleRule, JobGuard, SentAlarms
from actions.run.limits.idle import PodLoad
from actions.run.state.alarms import AlarmName
from actions.run.state.records import AlarmKind
from actions.telemetry.curves import Curves
from actions.telemetry.log_reader import LogReader
from actions.telemetry.points import Point
from tests.support import fixed_runs
from tests.support.builders import NOW

AT = NOW.timestamp()
NAME = "pytorchjob/train/llama"
POD = PodFacts("u1", "train", "llama-worker-0", phase="Running", requests=Resources(gpu=8))


def curves_of(log: str) -> Curves:
    curves, reader = Curves(), LogReader()
    for line in (fixed_runs.CORPUS / "logs" / log).read_text().splitlines():
        for found in reader.feed(line, AT):
            if isinstance(found, Point):
                curves.add(found)
    return curves


def looked(guard: JobGuard, seconds: float, *loads: float | None, price: Decimal | None = None) -> list[str]:
    now = AT + seconds
    pods = {f"w-{place}": PodLoad(now, (load,)) for place, load in enumerate(loads)}
    return [f"{alarm.name.key('')} {alarm.text}" for alarm in guard.look(Curves(), [POD], pods, price, now)]


def test_a_loss_that_is_no_number_and_a_crash_loop_are_alarms_of_the_job() -> None:
    guard = JobGuard(NAME, IdleRule())
    found = list(guard.look(curves_of("lightning_tqdm_nan.log"), [POD], {}, None, AT + 1))
    assert any(alarm.name.place.startswith("nan:") and NAME in alarm.text for alarm in found)
    crash = PodFacts("u1", "train", "llama-worker-0", phase="Running", reason="CrashLoopBackOff", restarts=7)
    (pods,) = guard.look(Curves(), [crash], {}, None, AT)
    assert pods.name == AlarmName(AlarmKind.PODS)
    assert "CrashLoopBackOff" in pods.text


def test_it_warns_at_half_of_the_time_and_is_reached_at_all_of_it_with_the_bill() -> None:
    guard = JobGuard(NAME, IdleRule(1800, 5, parks=True))
    seconds = range(0, 1801, 60)
    found = {at: looked(guard, at, 0.0, 1.0, price=Decimal(98)) for at in seconds}
    assert {at for at, alarms in found.items() if alarms} == set(range(900, 1801, 60))
    assert "idle/near" in found[900][0]
    assert "it is suspended" in found[900][0]
    assert "$24.50 since" in found[900][0]
    assert "idle/reached" in found[1800][0]
    assert guard.is_reached(AT + 1800)
    assert looked(guard, 1860, 0.0, 99.0) == []
    assert not guard.is_reached(AT + 1860)


def test_what_does_not_answer_is_not_known_and_no_idle_time() -> None:
    guard = JobGuard(NAME, IdleRule(600))
    for at in range(0, 1200, 60):
        assert looked(guard, at, 0.0, None) == []
    assert "not known" not in guard.idle.unknown
    assert guard.idle.unknown
    assert not guard.is_reached(AT + 1200)


def test_a_guard_that_is_started_again_sends_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    guard = JobGuard(NAME, IdleRule())
    crash = PodFacts("u1", "train", "llama-worker-0", phase="Running", reason="CrashLoopBackOff", restarts=7)
    found = {alarm.name: alarm for alarm in guard.look(Curves(), [crash], {}, None, AT)}
    first = SentAlarms("uid-1")
    assert len(first.new_in(found)) == 1
    first.keep(found)
    assert SentAlarms("uid-1").new_in(found) == []
    assert len(SentAlarms("uid-2").new_in(found)) == 1, "another job of that name"
    SentAlarms("uid-1").keep([])
    assert len(SentAlarms("uid-1").new_in(found)) == 1, "its cause was gone"
