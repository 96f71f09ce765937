"""The invariants hold for a life in which nothing goes wrong, and each of them sees what breaks it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from actions.base.process import identity_of
from actions.run.output.writer import OutputWriter
from actions.run.state.records import Action, Deleted, JournalRecord, Outcome, Owned, Result
from actions.sandbox.audit import AUDIT_LOG
from actions.sandbox.clientkit.kinds import CONFIG_MAPS
from tests.schedules import invariants
from tests.schedules.blueprint import NAMESPACE
from tests.schedules.history import Seen
from tests.schedules.inject import FOREIGN_DATA, Foreign
from tests.schedules.invariants import JOB_UID, Broken, violations_of
from tests.schedules.life import Life, Story
from tests.schedules.machine import Machine, a_machine
from tests.schedules.moving import Moved
from tests.schedules.schedule import Schedule, schedule_of
from tests.support.missing import skip_without
from tests.support.streams import tail_of

Played = tuple[Story, Machine]


@pytest.fixture(scope="module")
def quiet_life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with a_machine(tmp_path_factory.mktemp("quiet")) as machine:
        yield Life(Schedule(-1, ()), machine).play(), machine


@pytest.fixture
def played(quiet_life: Played) -> Iterator[Played]:
    """The same life, whole again after each test."""
    story, machine = quiet_life
    files = [machine.ledger, *(tail_of(story.folder, "train", stream) for stream in ("lines", "points", "sources"))]
    before = [file.read_bytes() if file.exists() else None for file in files]
    objects = dict(machine.history.objects)
    yield replace(story, foreign=list(story.foreign)), machine
    machine.history.objects = objects
    for file, data in zip(files, before, strict=True):
        if data is None:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(data)


def broken(played: Played) -> set[Broken]:
    return {violation.broken for violation in violations_of(*played)}


def test_nothing_is_broken_where_nothing_goes_wrong(quiet_life: Played) -> None:
    story, machine = quiet_life
    assert [str(violation) for violation in violations_of(story, machine)] == []
    assert {seen.kind for seen in machine.history.objects.values() if seen.namespace == NAMESPACE} >= {"Job", "Pod"}


def test_a_life_without_an_end_is_told(played: Played) -> None:
    story, machine = played
    assert broken((replace(story, is_over=False), machine)) == {Broken.END}


def tenth_line(lines: list[bytes]) -> int:
    """Return the place of the tenth line; a record that names a source is none."""
    return [place for place, line in enumerate(lines) if not line.startswith(b"S")][9]


def without_line(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[tenth_line(lines)]
    return b"".join(lines)


def with_line_twice(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    place = tenth_line(lines)
    return b"".join(lines[: place + 1] + lines[place:])


def points_in(data: bytes) -> bytes:
    return b"".join(line for line in data.splitlines(keepends=True) if b'"point"' in line)


@pytest.mark.parametrize("change", [without_line, with_line_twice])
def test_a_line_that_is_lost_or_doubled_is_told(played: Played, change: Callable[[bytes], bytes]) -> None:
    file = tail_of(played[0].folder, "train", "lines")
    file.write_bytes(change(file.read_bytes()))
    assert Broken.LOG in broken(played)


def test_lines_that_are_missing_are_told_unless_the_log_says_so_for_all_pods(played: Played) -> None:
    story, _ = played
    file = tail_of(story.folder, "train", "lines")
    file.write_bytes(without_line(file.read_bytes()))
    assert Broken.LOG in broken(played)
    writer = OutputWriter(story.folder, "train")
    writer.open()
    writer.open_gap(None, "unlisted", "its pods could not be listed at the end")
    writer.close()
    assert Broken.LOG not in broken(played)


@pytest.mark.parametrize("change", [without_line, with_line_twice])
def test_a_point_that_is_lost_or_doubled_is_told(played: Played, change: Callable[[bytes], bytes]) -> None:
    file = tail_of(played[0].folder, "train", "points")
    file.write_bytes(change(points_in(file.read_bytes())))
    assert broken(played) == {Broken.CURVE}


def moved(story: Story, machine: Machine) -> list[Moved]:
    """A takeover by the machine that has the run."""
    host = machine.hosts[0]
    return [Moved(0.0, 0.0, host, story.folder, None, 0, host)]


def test_points_that_are_missing_after_a_move_are_told_unless_the_machine_says_so(played: Played) -> None:
    story, machine = played
    story = replace(story, moves=moved(story, machine))
    file, sources = (tail_of(story.folder, "train", stream) for stream in ("points", "sources"))
    whole, before = points_in(file.read_bytes()), sources.read_bytes()
    file.write_bytes(without_line(whole))
    assert broken((story, machine)) >= {Broken.CURVE}
    numbers = {json.loads(line)["number"] for line in file.read_bytes().splitlines()}
    gaps = "".join(f'{{"type":"gap","key":"unread-{number}","number":{number},"why":"gone"}}\n' for number in numbers)
    try:
        sources.write_bytes(before + gaps.encode())
        assert Broken.CURVE not in broken((story, machine))
        file.write_bytes(with_line_twice(whole))
        assert broken((story, machine)) >= {Broken.CURVE}
    finally:
        sources.write_bytes(before)


def test_points_of_a_job_that_the_machine_never_knew_are_not_missed(played: Played) -> None:
    story, machine = played
    story = replace(story, moves=moved(story, machine))
    tail_of(story.folder, "train", "points").write_bytes(b"")
    assert Broken.CURVE in broken((story, machine))
    for seen in [one for one in machine.history.objects.values() if one.kind == "Pod" and one.namespace == NAMESPACE]:
        machine.history.objects[seen.uid] = replace(seen, labels={**seen.labels, JOB_UID: "of an earlier machine"})
    assert Broken.CURVE not in broken((story, machine))


def test_a_resource_that_terraform_makes_twice_or_forgets_is_told(played: Played) -> None:
    ledger = played[1].ledger
    if not ledger.exists():
        skip_without("terraform")
    lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join(lines[:1] + lines) + "\n")
    assert broken(played) == {Broken.TERRAFORM}
    ledger.write_text("\n".join(lines[:-1]) + "\n")
    assert broken(played) == {Broken.TERRAFORM}


def a_copy(machine: Machine, kind: str, **changes: object) -> Seen:
    """Another object of the kind that the run made."""
    seen = next(seen for seen in machine.history.objects.values() if seen.kind == kind and seen.namespace == NAMESPACE)
    copy = replace(seen, uid=f"another-{kind}", **changes)
    machine.history.objects[copy.uid] = copy
    return copy


def test_an_object_that_is_made_twice_is_told(played: Played) -> None:
    story, machine = played
    copy = a_copy(machine, "Job")
    records = tuple(record for record in story.records if not isinstance(record.body, Deleted))
    owned = Owned("batch/v1", copy.name, "Job", NAMESPACE, copy.uid)
    records = (*records, replace(records[-1], body=owned))
    assert broken((replace(story, records=records), machine)) == {Broken.TWICE}


def test_an_object_without_a_record_is_told(played: Played) -> None:
    a_copy(played[1], "ConfigMap", name="unknown")
    assert broken(played) == {Broken.UNJOURNALLED}


def test_an_object_of_whose_uid_there_is_no_record_is_told(played: Played) -> None:
    objects = played[1].history.objects
    seen = next(seen for seen in objects.values() if seen.name == "settings")
    objects[seen.uid] = replace(seen, uid="another")
    assert broken(played) == {Broken.UNJOURNALLED}


def test_what_is_left_without_a_word_is_told(played: Played) -> None:
    objects = played[1].history.objects
    seen = next(seen for seen in objects.values() if seen.name == "settings")
    objects[seen.uid] = replace(seen, gone_at=0.0)
    assert broken(played) == {Broken.AUDIT}


@pytest.mark.parametrize(("data", "gone_at"), [({"of": "run"}, 0.0), (FOREIGN_DATA, 1.0)])
def test_a_foreign_object_that_is_changed_or_deleted_is_told(played: Played, data: object, gone_at: float) -> None:
    story, machine = played
    copy = a_copy(machine, "ConfigMap", name="theirs", labels={}, data=data, gone_at=gone_at)
    foreign = Foreign(CONFIG_MAPS, "theirs", copy.uid)
    assert broken((replace(story, foreign=[foreign]), machine)) == {Broken.FOREIGN}


def test_a_foreign_object_that_was_written_and_is_as_it_was_is_told(played: Played) -> None:
    story, machine = played
    copy = a_copy(machine, "ConfigMap", name="theirs", labels={}, data=FOREIGN_DATA, gone_at=0.0, deletion_at=0.0)
    story = replace(story, foreign=[Foreign(CONFIG_MAPS, "theirs", copy.uid)])
    assert broken((story, machine)) == set()
    machine.history.objects[copy.uid] = replace(copy, changes=1)
    assert broken((story, machine)) == {Broken.FOREIGN}


@pytest.mark.parametrize(
    ("verb", "uri", "found"),
    [
        ("delete", "/api/v1/namespaces/kube-system/configmaps/theirs", Broken.FOREIGN),
        ("patch", "/api/v1/nodes/a-node?fieldManager=eksml-tui", Broken.FOREIGN),
        ("create", "/api/v1/namespaces/default/configmaps", Broken.FOREIGN),
        ("TerminateInstances", "/", Broken.FOREIGN),
        ("create", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", None),
    ],
)
def test_a_change_of_what_is_not_the_runs_is_told_by_the_servers_log(
    played: Played, verb: str, uri: str, found: Broken | None
) -> None:
    story, machine = played
    pid = min(machine.hosts[0].pids())
    with an_audited(machine, verb, uri, f"eksml-tui-runner/{pid}@vm"):
        assert broken((story, machine)) == ({found} if found else set())
    with an_audited(machine, verb, uri, f"Boto3/1 md/Botocore eksml-tui/{pid}@vm", code=403):
        assert broken((story, machine)) == set()


def test_a_change_by_a_process_of_no_machine_is_told(played: Played) -> None:
    story, machine = played
    with an_audited(machine, "patch", "/api/v1/namespaces/schedules/configmaps/settings", "eksml-tui/1@vm"):
        assert broken((story, machine)) == {Broken.SENDER}


@contextmanager
def an_audited(machine: Machine, verb: str, uri: str, agent: str, *, code: int = 200) -> Iterator[None]:
    """A line at the end of the server's audit log."""
    path = machine.sandbox.kubeconfig.parent / AUDIT_LOG
    before = path.read_bytes()
    event = {"verb": verb, "requestURI": uri, "userAgent": agent, "responseStatus": {"code": code}}
    path.write_bytes(before + json.dumps(event).encode() + b"\n")
    yield
    path.write_bytes(before)


def test_a_process_that_goes_on_is_told(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    story, machine = played
    monkeypatch.setattr(invariants, "_END_SECONDS", 0.1)
    file = machine.hosts[0].state.with_name("state-processes")
    before = file.read_text()
    with subprocess.Popen(["sleep", "600"]) as process:
        identity = identity_of(process.pid)
        assert identity is not None
        file.write_text(f"{before}{identity.pid} {identity.start_ticks}\n")
        assert broken((story, machine)) == {Broken.PROCESS}
        process.kill()
    assert broken((story, machine)) == set()
    file.write_text(before)


def test_a_failure_that_nothing_explains_is_told(played: Played) -> None:
    story, machine = played
    records = tuple(
        replace(record, body=Outcome(Action.PERFORM, Result.FAILED, "it failed"))
        if isinstance(record.body, Outcome) and record.stage == "objects" and record.body.action is Action.PERFORM
        else record
        for record in story.records
    )
    assert broken((replace(story, records=records), machine)) == {Broken.FAILURE}


def test_two_runners_at_a_time_are_told(played: Played) -> None:
    story, machine = played
    writers = [record.writer for record in story.records if record.writer != "operator"]
    late = JournalRecord(99, time.time(), writers[0], "train", 1, Owned("v1", "train", "Job", NAMESPACE, "x"))
    records = (*story.records, replace(late, writer="another"), late)
    assert Broken.WRITERS in broken((replace(story, records=records), machine))


def test_a_traceback_is_told(played: Played) -> None:
    story, machine = played
    steps = ["operator: resume: 1 Traceback (most recent call last): …"]
    assert broken((replace(story, steps=steps), machine)) == {Broken.TRACEBACK}


def test_a_seed_is_the_same_schedule_everywhere() -> None:
    assert schedule_of(7).lines() == PINNED
    assert [schedule_of(seed) for seed in range(50)] == [schedule_of(seed) for seed in range(50)]


PINNED = [
    "seed 7: approval automatic, operator comes after 0.3 s",
    "  1. SIGKILL runner while train runs, after 3 lines",
    "  2. streams cut at record 11, for 3.3 s",
]


def test_a_fault_that_is_left_out_moves_no_other() -> None:
    for seed in range(200):
        schedule = schedule_of(seed)
        kinds = frozenset({fault.kind for fault in schedule.faults[:1]})
        rest = tuple(fault for fault in schedule.faults if fault.kind not in kinds)
        assert schedule_of(seed, without=kinds) == replace(schedule, faults=rest)
