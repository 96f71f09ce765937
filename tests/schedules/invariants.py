"""The invariants that hold at the end of every life, whatever was injected."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from actions.base.errors import ConsoleError
from actions.base.process import is_alive
from actions.run.journal.folder import runner_log_path
from actions.run.output.reader import OutputReader
from actions.run.output.segments import StreamReader
from actions.run.output.streams import (
    ALL_SOURCES,
    SOURCES,
    WHOLE_STAGE,
    GapLine,
    SourceLine,
    raws_in,
    source_line_in,
    stream_path,
)
from actions.run.state.records import OPERATOR, Action, Deleted, Intent, JournalRecord, Outcome, Owned, Result
from actions.run.state.view import RunState
from actions.telemetry.log_reader import LogReader
from actions.telemetry.points import Point
from tests.schedules.audited import changes_of_foreign, unknown_senders
from tests.schedules.blueprint import NAMESPACE, printed_lines
from tests.schedules.history import Seen
from tests.schedules.inject import FOREIGN_DATA
from tests.schedules.life import Story, made_by_terraform
from tests.schedules.machine import Machine
from tests.schedules.schedule import CUT_OFF, FOREIGN, HOME, MOVES, FaultKind
from tests.schedules.team import (
    changes_by_fenced,
    copies_of,
    differences_from_home,
    records_of,
    requests_from_elsewhere,
    stored_that_is_left,
)

JOB_UID = "batch.kubernetes.io/controller-uid"
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_LATE_SECONDS = 2.0
"""A fault explains what fails up to so long after it: requests that it has hit end later."""
_CREDENTIALS = frozenset({FaultKind.UNAUTHORIZED, FaultKind.FORBIDDEN})
_TERRAFORM = frozenset({FaultKind.KILL_TERRAFORM, FaultKind.KILL_BOTH, FaultKind.FULL_DISK, *HOME, *MOVES, *CUT_OFF})


class Broken(StrEnum):
    """The invariant that does not hold."""

    END = "the life does not come to its end"
    TWICE = "an object is made twice"
    UNJOURNALLED = "an object is owned without a record"
    FOREIGN = "a foreign object is touched"
    LOG = "log lines are lost or doubled, and no gap is said"
    CURVE = "the curve is not that of the log"
    AUDIT = "something is left, and the audit does not say so"
    TERRAFORM = "a Terraform resource is made twice or forgotten"
    FAILURE = "a stage fails though nothing explains it"
    WRITERS = "two runners write at a time"
    RECORD = "the run is left in the store of its cluster"
    HOME = "the home's journal is not that of the machine that has the run"
    FENCED = "a machine changes something after its run was taken over"
    ELSEWHERE = "a machine acts on a run that it does not have"
    SENDER = "a process of no machine changes something"
    PROCESS = "a process goes on after all is over"
    TRACEBACK = "a program ends in a traceback"


class Violation(msgspec.Struct, frozen=True):
    """One invariant that does not hold."""

    broken: Broken
    text: str

    def __str__(self) -> str:
        return f"{self.broken.value}: {self.text}"


def violations_of(story: Story, machine: Machine) -> list[Violation]:
    """All that does not hold; empty if all is well."""
    if not story.is_over:
        state = story.view.state.value if story.view else "nothing"
        return [Violation(Broken.END, f"it is {state}; {'; '.join(story.steps[-3:])}"), *_tracebacks(story, machine)]
    checks: tuple[Callable[[], Iterator[Violation]], ...] = (
        lambda: _objects(story, machine),
        lambda: _foreign(story, machine),
        lambda: _logs(story, machine),
        lambda: _audit(story, machine),
        lambda: _terraform(machine),
        lambda: _failures(story, machine),
        lambda: _writers(story.records),
        lambda: (Violation(Broken.RECORD, text) for text in stored_that_is_left(story, machine)),
        lambda: (Violation(Broken.HOME, text) for text in differences_from_home(story, machine)),
        lambda: (Violation(Broken.FENCED, text) for text in changes_by_fenced(story, machine)),
        lambda: (Violation(Broken.ELSEWHERE, text) for text in requests_from_elsewhere(story)),
        lambda: (Violation(Broken.SENDER, text) for text in unknown_senders(machine)),
        lambda: _processes(machine),
        lambda: _tracebacks(story, machine),
    )
    return [violation for check in checks for violation in check()]


def _ours(story: Story, machine: Machine) -> list[Seen]:
    """Return the objects that the run made and no controller: its label, no owner, not foreign."""
    foreign = {item.uid for item in story.foreign}
    run = story.folder.name
    return [
        seen for seen in machine.history.seen() if seen.run == run and not seen.has_owner and seen.uid not in foreign
    ]


def _objects(story: Story, machine: Machine) -> Iterator[Violation]:
    found: dict[str, list[Seen]] = defaultdict(list)
    for seen in _ours(story, machine):
        found[seen.key].append(seen)
    owned: set[str] = set()
    deleted: Counter[str] = Counter()
    for record in story.records:
        match record.body:
            case Owned(uid=uid):
                owned.add(uid)
            case Deleted(object_kind=kind, namespace=namespace, name=name):
                deleted[f"{kind} {namespace}/{name}"] += 1
    elsewhere = {uid for folder in copies_of(story) for uid in _owned_in(folder)}
    arrived_at = max((move.at for move in story.moves), default=0.0)
    for key, ours in found.items():
        if len(ours) > 1 + deleted[key]:
            uids = ", ".join(seen.uid for seen in ours)
            yield Violation(Broken.TWICE, f"{key} had the uids {uids}; {deleted[key]} were deleted")
        for seen in ours:
            is_lost = 0.0 < seen.gone_at < arrived_at and seen.uid in elsewhere
            if seen.uid not in owned and not is_lost:
                yield Violation(Broken.UNJOURNALLED, f"{key} {seen.uid}")


def _owned_in(folder: Path) -> set[str]:
    return {record.body.uid for record in records_of(folder) if isinstance(record.body, Owned)}


def _foreign(story: Story, machine: Machine) -> Iterator[Violation]:
    for item in story.foreign:
        seen = machine.history.objects[item.uid]
        if not item.is_withdrawn and (seen.deletion_at or seen.gone_at):
            yield Violation(Broken.FOREIGN, f"{seen.key} was deleted")
        elif seen.data != FOREIGN_DATA or seen.changes:
            yield Violation(Broken.FOREIGN, f"{seen.key} was changed: {seen.data}, {seen.changes} times")
    journals = [records_of(folder) for folder in copies_of(story)]
    for text in changes_of_foreign(machine, journals, story.folder.name):
        yield Violation(Broken.FOREIGN, f"not of the run: {text}")


def _logs(story: Story, machine: Machine) -> Iterator[Violation]:
    points: dict[str, Counter[tuple[str, int | None, float]]] = defaultdict(Counter)
    try:
        # Lines stay on the machine that has read them; points are in the home, and come along.
        copies = [_lines_in(folder) for folder in copies_of(story)]
        for item in OutputReader(story.folder, "train").values(limit_bytes=1 << 26)[0]:
            if isinstance(item.value, Point):
                points[item.pod][(item.value.metric, item.value.step, item.value.value)] += 1
    except ConsoleError as error:
        yield Violation(Broken.LOG, error.sentence())
        return
    expected = printed_lines()
    for seen in machine.history.seen():
        if seen.kind != "Pod" or seen.namespace != NAMESPACE:
            continue
        lines, marked = max(copies, key=lambda copy: len(copy[0][seen.name]))
        kept = lines[seen.name]
        is_whole = kept == expected if seen.phase == "Succeeded" else kept == expected[: len(kept)]
        if not is_whole and not marked & {seen.name, WHOLE_STAGE.pod}:
            yield Violation(Broken.LOG, f"{seen.name} ({seen.phase}) {_difference(kept, expected)}")
        for copy, _ in copies:
            if copy[seen.name] != [line for line in expected if line in copy[seen.name]]:
                yield Violation(Broken.LOG, f"{seen.name} out of order: {_difference(copy[seen.name], expected)}")
        wrong = points[seen.name], _points_of(kept)
        is_said = not wrong[0] - wrong[1] and (_is_loss_said(story, seen.name) or _is_of_unknown_job(story, seen))
        if wrong[0] != wrong[1] and not is_said:
            yield Violation(
                Broken.CURVE,
                f"{seen.name} has {wrong[0].total()} points, its log {wrong[1].total()}; "
                f"missing {list(wrong[1] - wrong[0])[:3]}, too many {list(wrong[0] - wrong[1])[:3]}",
            )


def _is_loss_said(story: Story, pod: str) -> bool:
    """Return whether the machine that has the run says that it lacks lines of a pod which another one has read."""
    parts = StreamReader(stream_path(story.folder, "train", SOURCES)).stretches(0) if story.moves else []
    raws = [raw for part in parts for raw in raws_in(part)]
    lines = [line for line in map(source_line_in, raws) if line is not None]
    numbers = {line.number for line in lines if isinstance(line, SourceLine) and line.pod == pod}
    gaps = {line.key: line for line in lines if isinstance(line, GapLine)}
    return any(gap.number in {*numbers, ALL_SOURCES} for gap in gaps.values() if not gap.is_closed)


def _is_of_unknown_job(story: Story, pod: Seen) -> bool:
    """Return whether an earlier machine has made the pod's Job, whose record has not reached that which has the run.

    That one makes a Job of its own, and knows of no pod of the first.
    """
    known = {record.body.uid for record in story.records if isinstance(record.body, Owned)}
    return bool(story.moves) and pod.labels[JOB_UID] not in known


def _lines_in(folder: Path) -> tuple[dict[str, list[str]], set[str]]:
    """Return the lines of each pod's log in a run's folder, and the pods of whose logs a gap is said, or all pods."""
    lines: dict[str, list[str]] = defaultdict(list)
    marked: set[str] = set()
    for line in OutputReader(folder, "train").lines(limit_bytes=1 << 26)[0]:
        if line.is_marker:
            marked.add(line.pod)
        else:
            lines[line.pod].append(line.text)
    return lines, marked


def _difference(kept: list[str], expected: list[str]) -> str:
    missing, doubled = list(Counter(expected) - Counter(kept)), list(Counter(kept) - Counter(expected))
    return f"has {len(kept)} of {len(expected)} lines; missing {missing[:3]}, too many {doubled[:3]}"


def _points_of(lines: list[str]) -> Counter[tuple[str, int | None, float]]:
    reader = LogReader(0)
    findings = [finding for line in lines for finding in reader.feed(line)] + reader.flush()
    return Counter((item.metric, item.step, item.value) for item in findings if isinstance(item, Point))


def _audit(story: Story, machine: Machine) -> Iterator[Violation]:
    view = story.view
    assert view is not None
    if view.audit is None or view.state is not RunState.TORN_DOWN:
        yield Violation(Broken.AUDIT, "there was none")
        return
    told = [*view.audit.leftovers, *getattr(view.audit, "unknown", ())]
    left = [seen for seen in _ours(story, machine) if not seen.gone_at]
    for seen in left:
        if not any(seen.name in line for line in told):
            yield Violation(Broken.AUDIT, f"{seen.key} is there; told: {told}")
    if told and not left and not any(not item.is_withdrawn for item in story.foreign):
        yield Violation(Broken.AUDIT, f"nothing is there; told: {told}")


def _terraform(machine: Machine) -> Iterator[Violation]:
    """The operator looks into the world and answers for what Terraform left open, so nothing is wrong at the end."""
    made: Counter[str] = Counter()
    lines = machine.ledger.read_text(encoding="utf-8").splitlines() if machine.ledger.exists() else []
    for line in lines:  # there are none if it was simulated, or never began
        verb, _, name = line.partition(" ")
        made[name] = made[name] + 1 if verb == "made" else 0
        if made[name] > 1:
            yield Violation(Broken.TERRAFORM, f"{name} was made a second time: {lines}")
    left = +made_by_terraform(machine.ledger)
    if left:
        yield Violation(Broken.TERRAFORM, f"{', '.join(left)} is left behind: {lines}")


def _failures(story: Story, machine: Machine) -> Iterator[Violation]:
    begun: dict[tuple[Action, str], JournalRecord] = {}
    for record in story.records:
        if isinstance(record.body, Intent):
            begun[(record.body.action, record.stage)] = record
        if isinstance(record.body, Outcome) and record.body.result is Result.FAILED:
            since = begun[(record.body.action, record.stage)]
            if not _is_explained(story, machine, record.body, record.stage, (since.seq, record.seq)):
                yield Violation(
                    Broken.FAILURE, f"{record.stage or 'run'} {record.body.action.value}: {record.body.message}"
                )


def _is_explained(story: Story, machine: Machine, outcome: Outcome, stage: str, seqs: tuple[int, int]) -> bool:
    begin, end = (story.seen_at[seq] for seq in seqs)
    hitting = {
        item.fault.kind
        for item in story.injected
        if item.begun_at and item.begun_at <= end and (item.ended_at or end) >= begin - _LATE_SECONDS
    }
    if stage == "network":
        return any(kind in _TERRAFORM for kind in _begun(story))
    if stage == "train" and outcome.action is Action.PERFORM and _is_job_alive(machine, end):
        return False
    if hitting & _CREDENTIALS:
        return True
    return outcome.action is Action.UNDO and stage == "objects" and any(kind in FOREIGN for kind in _begun(story))


def _is_job_alive(machine: Machine, moment: float) -> bool:
    return any(
        seen.kind == "Job" and seen.first_at < moment and not (seen.deletion_at or seen.gone_at) < moment
        for seen in machine.history.seen()
        if seen.namespace == NAMESPACE
    )


def _begun(story: Story) -> Iterator[FaultKind]:
    return (item.fault.kind for item in story.injected if item.begun_at)


def _writers(records: tuple[JournalRecord, ...]) -> Iterator[Violation]:
    over: set[str] = set()
    newest = ""
    for record in records:
        if record.writer in (OPERATOR, newest):
            continue
        if record.writer in over:
            yield Violation(Broken.WRITERS, f"record {record.seq} is of {record.writer}, who had been followed")
        over.add(newest)
        newest = record.writer


def _processes(machine: Machine) -> Iterator[Violation]:
    """A console stays open; all else of the program has a moment to end."""
    consoles = {console.pid for console in machine.consoles}
    deadline = time.monotonic() + _END_SECONDS
    for host in machine.hosts:
        for process in host.processes():
            while process.pid not in consoles and is_alive(process):
                if time.monotonic() > deadline:
                    yield Violation(Broken.PROCESS, f"{process.pid} on the machine of {host.user}")
                    break
                time.sleep(_LOOK_SECONDS)


def _tracebacks(story: Story, machine: Machine) -> Iterator[Violation]:
    logs = [(f"runner in {folder.name}", _text(runner_log_path(folder))) for folder in copies_of(story)]
    consoles = [("console", console.text) for console in machine.consoles]
    for what, text in (*logs, *consoles, *(("command", step) for step in story.steps)):
        place = text.find("Traceback (most recent call last)")
        if place >= 0:
            yield Violation(Broken.TRACEBACK, f"{what}: {text[place : place + 3000][-600:]}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
