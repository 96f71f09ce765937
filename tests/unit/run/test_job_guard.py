"""The guard of a job without a run: its idle limit, and the Lease by which of several guards one sends, once."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, cast

import pytest

from actions.base.errors import AccessError, ConflictError, MissingError
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import ApiResource
from actions.cluster.objects.operations import Target
from actions.run.alarms.alarm_companion import AlarmCompanion
from actions.run.alarms.causes import Alarm
from actions.run.alarms.job_guard import ALARMS, LEASE_SECONDS, RENEW_SECONDS, IdleRule, JobJournal
from actions.run.alarms.send import Message
from actions.run.alarms.ways import AlarmWays
from actions.run.limits.idle import IdleMeter, PodLoad
from actions.run.state.alarms import AlarmName
from actions.run.state.records import AlarmKind, AlarmSent
from actions.run.state.view import RunView
from tests.support.builders import NOW
from tests.support.virtual import VirtualClock, run_virtually

AT = NOW.timestamp()
TITLE = "Job pytorchjob/llama"
JOB = Target(ApiResource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", is_namespaced=True), "train", "llama", "u-1")
CRASH = Alarm(AlarmName(AlarmKind.PODS), f"{TITLE}: llama-worker-0 restarted 7×, CrashLoopBackOff.")


def test_it_warns_at_half_of_the_time_and_is_reached_at_all_of_it_with_the_bill() -> None:
    rule, meter = IdleRule(1800, 5, parks=True), IdleMeter()

    def looked(seconds: float, *loads: float | None) -> list[str]:
        now = AT + seconds
        pods = {f"w-{place}": PodLoad(now, (load,)) for place, load in enumerate(loads)}
        since = meter.measured(pods, rule.below_pct, now).since
        assert rule.is_reached(since, now) == (1800 <= seconds < 1860)
        return [f"{alarm.name.key('')} {alarm.text}" for alarm in rule.alarms(TITLE, since, Decimal(98), now)]

    found = {at: looked(at, 0.0, 1.0) for at in range(0, 1801, 60)}
    assert {at for at, alarms in found.items() if alarms} == set(range(900, 1801, 60))
    assert found[900][0].startswith(f"idle/near {TITLE}: no accelerator has reached 5 % since")
    assert "it is suspended" in found[900][0]
    assert "$24.50 since" in found[900][0]
    assert "idle/reached" in found[1800][0]
    assert looked(1860, 0.0, 99.0) == []


class Cluster:
    """The Lease of a job as an API server keeps it: every write is conditional on the version that was read."""

    region = "us-west-2"

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {}
        self.refusal: Exception | None = None
        self.writes = 0

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/train/leases/eksml-guard-u-1"
        if not self.lease:
            raise MissingError("There is no Lease.")
        return json.loads(json.dumps(self.lease))  # type: ignore[no-any-return]

    async def request(self, method: str, path: str, *, body: bytes = b"") -> bytes:
        if self.refusal is not None:
            raise self.refusal
        if method == "DELETE":
            self.lease = {}
            return b""
        if method == "PUT" and not self.lease:
            raise MissingError("There is no Lease.")
        lease = json.loads(body)
        known = self.lease.get("metadata", {}).get("resourceVersion")
        if (method == "POST") == bool(self.lease) or lease["metadata"].get("resourceVersion") != known:
            raise ConflictError("the object has been modified")
        self.writes += 1
        lease["metadata"]["resourceVersion"] = str(self.writes)
        self.lease = lease
        return json.dumps(lease).encode()


class Guard:
    """A guard whose alarms a test sets; hooks are not called."""

    def __init__(self, cluster: Cluster, clock: VirtualClock) -> None:
        self.now: list[Alarm] = []
        self.told: list[str] = []
        self.journal = JobJournal(cast("KubeSession", cluster), JOB, "pytorchjob/llama", clock, self.told.append)
        self._alarms = AlarmCompanion(self.journal, self.found, AlarmWays, clock)

    async def found(self, _view: RunView) -> list[Alarm]:
        return self.now

    async def look(self, *now: Alarm) -> bool:
        self.now = list(now)
        try:
            if not await self.journal.is_held():
                return False
            await self._alarms.look(at_once=True)
        except ConflictError:
            return False
        return True


def test_of_two_guards_one_sends_and_the_other_takes_over_what_was_sent() -> None:
    async def body() -> None:
        clock, cluster = VirtualClock(), Cluster()
        first, second = Guard(cluster, clock), Guard(cluster, clock)
        assert await first.look(CRASH)
        for _ in range(3):
            assert not await second.look(CRASH)
            await clock.sleep(RENEW_SECONDS)
            assert await first.look(CRASH)
        assert first.told == [CRASH.text]
        (waits,) = second.told
        assert waits.endswith("guards this job already: this guard sends when that ends.")
        assert cluster.lease["metadata"]["ownerReferences"][0]["uid"] == "u-1"
        await clock.sleep(LEASE_SECONDS - 1)
        assert not await second.look(CRASH), "it has seen it renewed a moment ago"
        await clock.sleep(LEASE_SECONDS)
        assert await second.look(CRASH)
        assert not await first.look(CRASH), "it was asleep, and has lost it"
        assert second.told == [waits], "an alarm that the first one has raised is not raised again"
        await second.journal.give_back()
        assert await first.look(), "what is given back is free at once"

    run_virtually(body())


def test_a_guard_that_is_started_again_sends_nothing_twice_and_bad_notes_count_for_none() -> None:
    async def body() -> None:
        clock, cluster = VirtualClock(), Cluster()
        first = Guard(cluster, clock)
        await first.look(CRASH)
        await first.journal.give_back()
        again = Guard(cluster, clock)
        assert await again.look(CRASH)
        assert again.told == []
        await again.journal.give_back()
        cluster.lease["metadata"]["annotations"][ALARMS] = "[{]"
        other = Guard(cluster, clock)
        assert await other.look(CRASH)
        assert other.told == [CRASH.text]

    run_virtually(body())


def test_alarms_that_others_wrote_are_taken_only_as_far_as_they_can_be_sent() -> None:
    good = {"seq": 7, "at": AT, "kind": "pods", "place": "a\x1b[31m\nb", "text": "up\x1b]0;x\x07\n$(date)"}
    good |= {
        "ways": ["hook", "pigeon"],
        "sent": [{"kind": "alarm_sent", "seq": 10**30, "way": way} for way in ("pigeon", "webhook")],
    }
    bad = [good | {"at": at} for at in (1e300, -1.0, 4.2e9)] + [good | {"seq": seq} for seq in (0, 2**63 - 1, 2**64)]

    async def body() -> None:
        clock, cluster = VirtualClock(), Cluster()
        await Guard(cluster, clock).journal.is_held()
        cluster.lease["spec"]["holderIdentity"] = ""
        ahead = good | {"at": clock.now().timestamp() + 3600}  # for ever among those of an hour
        cluster.lease["metadata"]["annotations"][ALARMS] = json.dumps([*bad, ahead, good])
        guard = Guard(cluster, clock)
        assert await guard.journal.is_held()
        (kept,) = (await guard.journal.view()).alarms
        assert (kept.seq, kept.place, kept.text) == (7, "a b", "up $(date)")
        assert (kept.ways, kept.sent) == (("hook",), (AlarmSent(7, "webhook"),))
        assert await guard.look(CRASH)
        assert CRASH.text in guard.told

    run_virtually(body())


async def test_an_alarm_whose_time_is_in_no_calendar_is_still_sent() -> None:
    clock = VirtualClock()
    journal = JobJournal(cast("KubeSession", Cluster()), JOB, "llama", clock, lambda _: None)
    companion = AlarmCompanion(journal, Guard(Cluster(), clock).found, lambda: AlarmWays(hook=("true",)), clock)
    assert await companion._tried("hook", Message("k", "pods", "llama", "It crashed.", 1e300)) == ""


GONE = Alarm(AlarmName(AlarmKind.FAILED, "gone"), f"{TITLE} is gone.")


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_lease_goes_with_its_job_and_its_end_is_still_sent_once(is_killed: bool) -> None:
    async def body() -> None:
        clock, cluster = VirtualClock(), Cluster()
        first, second = Guard(cluster, clock), Guard(cluster, clock)
        await first.look(CRASH)
        assert not await second.look(CRASH)
        cluster.lease = {}
        if not is_killed:
            await clock.sleep(RENEW_SECONDS)
            assert await first.look(GONE)
            assert "ownerReferences" not in cluster.lease["metadata"]
            assert not await second.look(GONE)
            await first.journal.give_back()
            assert cluster.lease == {}
        for _ in range(int(LEASE_SECONDS) + 1):
            await second.look(GONE)
            await clock.sleep(1)
        told = [text for guard in (first, second) for text in guard.told if "already" not in text]
        assert told == [CRASH.text, GONE.text]

    run_virtually(body())


def test_an_answer_that_was_lost_takes_the_lease_from_nobody() -> None:
    async def body() -> None:
        clock, cluster = VirtualClock(), Cluster()
        guard = Guard(cluster, clock)
        assert await guard.look()
        cluster.lease["metadata"]["resourceVersion"] = "its own write, with a lost answer"
        await clock.sleep(RENEW_SECONDS)
        assert not await guard.look()
        assert await guard.look(CRASH)
        assert guard.told == [CRASH.text]

    run_virtually(body())


@pytest.mark.parametrize("error", [AccessError("leases is forbidden"), MissingError("no such namespace")])
def test_where_no_lease_may_be_written_a_guard_says_so_and_sends(error: Exception) -> None:
    async def body() -> None:
        clock, cluster = VirtualClock(), Cluster()
        cluster.refusal = error
        guard = Guard(cluster, clock)
        for _ in range(3):
            assert await guard.look(CRASH)
        refused, sent = guard.told
        assert "no Lease is kept" in refused
        assert sent == CRASH.text

    run_virtually(body())
