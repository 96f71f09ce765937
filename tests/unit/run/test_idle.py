"""The idle limit: what the samples of accelerators say, and what is not known is no idle time."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import UsageError
from actions.base.process import own_identity
from actions.run.alarms.causes import alarms_of
from actions.run.alarms.run_sampler import RunSampler
from actions.run.client import load_run
from actions.run.engine.limit_guard import LOOK_SECONDS, LimitGuard
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import Heartbeat, take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.limits.idle import GAP_SECONDS, NO_ANSWER, IdleMeter, PodLoad, ZeroMeter, load_in
from actions.run.limits.options import LimitTexts, limits_of, limits_text, require_limit
from actions.run.limits.rules import idle_bill, limit_notices, reached_limit, statuses_of
from actions.run.output.streams import AcceleratorSample
from actions.run.output.writer import OutputWriter
from actions.run.state.records import (
    Action,
    AlarmKind,
    EndsKnown,
    HeldPrice,
    IdleKnown,
    Intent,
    LimitAction,
    Limits,
    Outcome,
    RequestKind,
    Result,
)
from actions.run.state.view import RunState, RunView, StageState, UnusedDevices
from tests.support import fixed_runs
from tests.support.builders import NOW, StillClock
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.world import creation, make_run
from tui.present.text import unused_text

IDLE = Limits(idle_minutes=30)
AT = NOW.timestamp()
PRICES = (HeldPrice(title="nodes", stage="train", usd_per_hour="100", is_of_work=True),)


def a_view(limits: Limits = IDLE) -> RunView:
    return replace(fixed_runs.a_training_run(), limits=limits, idle=IdleKnown())


def looked(meter: IdleMeter, view: RunView, minutes: float, *loads: float | None) -> IdleKnown:
    now = AT + 60 * minutes
    return meter.look(view, {f"w-{place}": PodLoad(now - 3, (load,)) for place, load in enumerate(loads)}, now)


def test_it_is_recorded_from_half_of_the_limit_on_and_taken_back_when_one_is_at_work() -> None:
    meter, view = IdleMeter(), a_view()
    found = [looked(meter, view, minutes, 0.0, 4.9) for minutes in range(17)]
    assert found[:15] == [IdleKnown()] * 15
    assert found[15:] == [IdleKnown(AT - 3)] * 2
    assert looked(meter, view, 17, 0.0, 5.0) == IdleKnown(), "one at work makes all of them busy"
    assert looked(meter, view, 18, 0.0, 0.0) == IdleKnown()


@pytest.mark.parametrize(
    "loads",
    [
        {},
        {"w-0": PodLoad(AT + 1797, (), "nvidia-smi: not found")},
        {"w-0": PodLoad(AT + 1797, (0.0,)), "w-1": PodLoad(AT + 1797, (None,))},
        {"w-0": PodLoad(AT + 1797, (0.0,)), "w-1": PodLoad(AT + 1797, (), "no devices were found")},
        {"w-0": PodLoad(AT + 1000, (0.0,))},
    ],
)
def test_what_does_not_answer_is_no_idle_time(loads: dict[str, PodLoad]) -> None:
    meter, view = IdleMeter(), a_view()
    looked(meter, view, 0, 0.0)
    found = meter.look(view, loads, AT + 1800)
    assert found.since is None
    assert found.unknown
    status = statuses_of(replace(view, idle=found), AT + 1800)[0]
    assert (status.is_reached, status.at) == (False, None)
    assert "not known" in status.text
    assert status.doubt


def test_an_exec_that_fails_once_ends_no_idle_time() -> None:
    meter, view = IdleMeter(), a_view()
    for minutes in range(17):
        found = looked(meter, view, minutes, 0.0)
    view = replace(view, idle=found)
    assert meter.look(view, {}, AT + 16 * 60 + GAP_SECONDS) == found
    assert meter.look(view, {}, AT + 16 * 60 + GAP_SECONDS + 1) == IdleKnown(unknown=NO_ANSWER)


def test_the_next_runner_goes_on_if_it_comes_soon_and_begins_anew_if_not() -> None:
    view = replace(a_view(), idle=IdleKnown(AT - 1200))
    soon, late = IdleMeter(), IdleMeter()
    soon.look(view, {"w-0": PodLoad(AT - 20, (0.0,))}, AT)
    assert soon.look(view, {"w-0": PodLoad(AT, (0.0,))}, AT) == IdleKnown(AT - 1200)
    assert late.look(view, {"w-0": PodLoad(AT - 900, (0.0,))}, AT) == IdleKnown(unknown=NO_ANSWER)
    assert late.look(view, {"w-0": PodLoad(AT, (0.0,))}, AT) == IdleKnown()


def test_a_run_that_is_over_and_holds_accelerators_uses_none() -> None:
    view = a_view()
    stages = tuple(
        replace(stage, state=StageState.SUCCEEDED, worked=(replace(stage.worked[-1], end=AT - 1000),))
        if stage.state is StageState.RUNNING
        else stage
        for stage in view.stages
    )
    over = replace(view, state=RunState.SUCCEEDED, stages=stages)
    assert IdleMeter().look(over, {}, AT) == IdleKnown(AT - 1000)


def test_near_it_warns_with_the_bill_and_then_it_is_reached() -> None:
    view = replace(a_view(), idle=IdleKnown(AT))
    assert limit_notices(view, AT + 899) == ()
    (alarm,) = alarms_of(view, now=AT + 900)
    assert (alarm.name.kind, alarm.name.place) == (AlarmKind.IDLE, "idle_minutes")
    assert "No accelerator has reached 5 % since" in alarm.text
    assert "The runner parks the run at" in alarm.text
    assert idle_bill(view, AT + 900) in alarm.text
    assert reached_limit(view, AT + 1799) is None
    reached = reached_limit(view, AT + 1800)
    assert reached is not None
    assert reached.name.value == "idle_minutes"


def test_devices_that_stand_still_for_minutes_are_counted_beside_pods_that_do_not_answer() -> None:
    meter = ZeroMeter()
    rows = {"w-0": [97] * 12, "w-1": [97, 98, *[0] * 10], "w-2": [*[0] * 10, 3, 0]}
    found = None
    for place in range(12):
        at = AT + 20 * place
        loads = {pod: PodLoad(at, (float(row[place]), 97.0)) for pod, row in rows.items()}
        found = meter.look(loads | {"w-3": PodLoad(at, (), "exec is forbidden")}, at + 2)
    assert found == UnusedDevices(1, 6, AT + 40, 3, 4)
    assert unused_text(found, AT + 352) == "1 of 6 accelerators at 0% for 5m12s, 3 of 4 workers answered"
    assert meter.look({"w-1": PodLoad(AT + 240, (0.0,))}, AT + 500) is None, "an old sample is not of now"
    assert meter.look({"w-1": PodLoad(AT + 500, (0.0,))}, AT + 500) is None, "it begins anew"


def test_how_it_is_written() -> None:
    limits = limits_of(LimitTexts(idle="30m", below="2.5%"), now=NOW)
    assert (limits.idle_minutes, limits.idle_below_pct) == (30, 2.5)
    assert limits_text(limits) == "park at: idle for 30m (below 2.5 %)"
    assert limits_of(LimitTexts(idle="none"), now=NOW, known=limits) == Limits(idle_below_pct=2.5)
    for idle in ("4m", "8d", "soon"):
        with pytest.raises(UsageError, match="time for idle"):
            limits_of(LimitTexts(idle=idle), now=NOW)
    for below in ("0", "100%", "much"):
        with pytest.raises(UsageError, match="share of load"):
            limits_of(LimitTexts(idle="30m", below=below), now=NOW)
    with pytest.raises(UsageError, match="needs a time"):
        require_limit(LimitTexts(below="5%"), Limits())


def sample(load: int | str) -> str:
    return f"0, NVIDIA A10G, {load}, 20480, 23028, 61, 250.00, 300.00, P0"


async def test_loads_are_read_from_what_the_runner_keeps(tmp_path: Path) -> None:
    view = fixed_runs.a_training_run()
    stage = next(stage.id for stage in view.stages if stage.state is StageState.RUNNING)
    writer = OutputWriter(tmp_path, stage)
    writer.write_sample("w-0", AcceleratorSample(AT, sample(3)))
    writer.close()
    heartbeat = Heartbeat(tmp_path, own_identity(), StillClock())
    assert await RunSampler(tmp_path, heartbeat, StillClock()).loads(view) == {"w-0": PodLoad(AT, (3.0,))}
    refused = load_in("sh: nvidia-smi: not found", AT)
    assert refused.loads == ()


@pytest.mark.parametrize("action", list(LimitAction))
def test_the_runner_warns_records_and_acts_as_the_limit_says(tmp_path: Path, action: LimitAction) -> None:
    stages = tuple(replace(stage, holds_accelerators=stage.id == "train") for stage in creation().stages)
    created = replace(creation(), limits=Limits(idle_minutes=5, action=action), prices=PRICES, stages=stages)
    folder = make_run(tmp_path, SystemClock(), created=created)

    async def body() -> None:
        clock = VirtualClock()
        lease = take_runner_lease(journal_path(folder), clock)
        journal = Journal(journal_path(folder), clock, fence=lease.token)
        runner_journal = RunnerJournal(journal, lease, clock)
        for stage in ("provision", "operators"):
            await runner_journal.write(Intent(Action.PERFORM), stage=stage, attempt=1)
            await runner_journal.write(Outcome(Action.PERFORM, Result.DONE), stage=stage, attempt=1)
        await runner_journal.write(Intent(Action.PERFORM), stage="train", attempt=1)

        async def no_ends(_view: RunView) -> EndsKnown:
            raise AssertionError("no limit refers to an end")

        async def loads(_view: RunView) -> dict[str, PodLoad]:
            return {"w-0": PodLoad(clock.now().timestamp(), (0.0,))}

        guard = LimitGuard(runner_journal, no_ends, clock, read_loads=loads)
        for _ in range(int(300 / LOOK_SECONDS) + 2):
            await guard.look()
            await clock.sleep(LOOK_SECONDS)
        journal.close()

    run_virtually(body())
    view = load_run(folder)
    (reached,) = view.limits_reached
    assert reached.limit == "idle_minutes"
    assert "That has cost $8" in reached.text
    assert [request.kind for request in view.requests] == [
        RequestKind.PARK if action is LimitAction.PARK else RequestKind.TEARDOWN
    ]
