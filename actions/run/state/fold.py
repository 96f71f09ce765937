"""The fold from records to a view: the only place where a run's state is computed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actions.base.errors import JournalError
from actions.run.state.alarms import alarms_after, end_state_alarms
from actions.run.state.memory import remembered, resources_in
from actions.run.state.planner import half_done_jobs, kept_stages, next_teardown_step, teardown_order
from actions.run.state.records import (
    DESTROYED,
    MADE,
    OPERATOR,
    Action,
    AlarmBody,
    AlarmEnded,
    AlarmRaised,
    AlarmsAcknowledged,
    AlarmSent,
    Approval,
    ContextChosen,
    Created,
    Deleted,
    EndsKnown,
    Identified,
    IdleKnown,
    Intent,
    Interrupted,
    JournalRecord,
    LimitBody,
    LimitReached,
    LimitsSet,
    NodesUsed,
    OperationEnded,
    Operator,
    Outcome,
    Output,
    Owned,
    OwnerBody,
    PlanOffer,
    RequestKind,
    Resolved,
    Result,
    RunRequest,
    StageFinding,
    StageOutline,
    TakenOver,
    Unlocked,
)
from actions.run.state.view import (
    AlarmView,
    Audit,
    Goal,
    GoneMachine,
    OwnedObject,
    Period,
    RequestView,
    RunState,
    RunView,
    StageState,
    StageView,
    TerraformMemory,
)

_DONE = frozenset({StageState.SUCCEEDED, StageState.SKIPPED})
_OPEN = frozenset({StageState.RUNNING, StageState.UNKNOWN})


def run_state_of(
    goal: Goal,
    stages: Sequence[StageView],
    ending: Mapping[tuple[Action, str], StageView],
    *,
    is_attended: bool,
    is_audited: bool,
    deletes_data: bool = False,
) -> RunState:
    """Return the state of a run.

    Args:
        goal: The goal of its newest request.
        stages: Its stages.
        ending: The steps begun towards a goal other than forward.
        is_attended: A runner is alive and may begin a stage.
        is_audited: A teardown is complete.
        deletes_data: A teardown undoes stages that hold data, too.
    """
    states = {stage.state for stage in stages}
    match goal:
        case Goal.FORWARD:
            return _forward(states, is_attended=is_attended)
        case Goal.CANCEL:
            is_reached = all(_is_done(ending, Action.UNDO, stage.id) for stage in half_done_jobs(stages))
            reached, under_way = RunState.CANCELLED, RunState.RUNNING
        case Goal.PARK:
            is_reached = _is_parked(stages, ending)
            reached, under_way = RunState.PARKED, RunState.RUNNING
        case Goal.TEARDOWN:
            is_reached = is_audited
            reached, under_way = RunState.TORN_DOWN, RunState.TEARING_DOWN
        case _ as never:
            assert_never(never)
    if is_reached and not states & _OPEN:
        return reached
    steps = {step.state for step in ending.values()}
    goes_on = goal is Goal.TEARDOWN and next_teardown_step(stages, ending, deletes_data=deletes_data) is not None
    if StageState.FAILED in steps and not goes_on:
        return RunState.FAILED
    return RunState.UNKNOWN if not is_attended and StageState.UNKNOWN in steps | states else under_way


def _is_parked(stages: Sequence[StageView], ending: Mapping[tuple[Action, str], StageView]) -> bool:
    """Return whether the nodes are gone: those provisioned for pods, and those of stages that hold accelerators."""
    held = [stage for stage in stages if stage.holds_accelerators and stage.attempt]
    are_undone = all(_is_done(ending, Action.UNDO, stage.id) for stage in held)
    return _is_done(ending, Action.DRAIN, "") and are_undone


def _is_done(ending: Mapping[tuple[Action, str], StageView], action: Action, stage: str) -> bool:
    step = ending.get((action, stage))
    return step is not None and step.state is StageState.SUCCEEDED


def _forward(states: Set[StageState], *, is_attended: bool) -> RunState:
    if states <= _DONE:
        return RunState.SUCCEEDED
    for state, word in (
        (StageState.RUNNING, RunState.RUNNING),
        (StageState.UNKNOWN, RunState.RUNNING if is_attended else RunState.UNKNOWN),
        (StageState.AWAITING_APPROVAL, RunState.AWAITING_APPROVAL),
        (StageState.FAILED, RunState.FAILED),
    ):
        if state in states:
            return word
    return RunState.RUNNING if is_attended else RunState.WAITING


_STEP_TITLES = {Action.DRAIN: "Drain nodes", Action.AUDIT: "Audit"}
_ENDED = {
    Result.DONE: StageState.SUCCEEDED,
    Result.FAILED: StageState.FAILED,
    Result.AWAITING_APPROVAL: StageState.AWAITING_APPROVAL,
    Result.CANCELLED: StageState.CANCELLED,
}
_BEGUN_AGAIN = frozenset({StageState.FAILED, StageState.CANCELLED, StageState.UNDONE})


def fold(records: Sequence[JournalRecord], *, holder: str = "") -> RunView:
    """Compute the view of a run.

    Args:
        records: All of them, oldest first.
        holder: Token of the runner that is alive; an intent of any other that has no outcome is unknown.

    Raises:
        JournalError: The records contradict each other.
    """
    if not records or not isinstance(records[0].body, Created):
        raise JournalError("the journal does not begin with the run's creation.", hint="The run cannot be used.")
    folding = _Folding(records[0].body, records[0].at)
    for record in records[1:]:
        folding.take(record)
    return folding.view(holder, records[-1].seq)


class _StageFold(msgspec.Struct):
    """The state of one stage, or of one step of a cancel, park or teardown."""

    title: str
    kind: str
    outline: StageOutline | None = None
    state: StageState = StageState.PENDING
    reached: StageState = StageState.PENDING
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    message: str = ""
    writer: str = ""
    """Token of the runner whose intent is open; empty if none is."""
    outputs: dict[str, str] = msgspec.field(default_factory=dict)
    plan: PlanOffer | None = None
    approved_hash: str = ""
    approved_by: Operator | None = None
    requested_hash: str = ""
    findings: tuple[StageFinding, ...] = ()
    terraform: TerraformMemory = TerraformMemory()
    worked: tuple[Period, ...] = ()
    held: tuple[Period, ...] = ()
    made: dict[str, tuple[Period, ...]] = msgspec.field(default_factory=dict)
    used: tuple[tuple[float, NodesUsed], ...] = ()

    def begin(self, record: JournalRecord) -> None:
        is_continued = bool(self.writer) and record.attempt == self.attempt  # by another runner: it never ended
        if not is_continued or self.started_at is None:
            self.started_at = record.at
        if not is_continued:
            self.worked = (*_closed(self.worked, record.at), Period(record.at, None))
        if not self.held or self.held[-1].end is not None:
            self.held = (*self.held, Period(record.at, None))
        self.state = StageState.RUNNING
        self.attempt, self.ended_at = record.attempt, None
        self.message, self.writer = "", record.writer

    def end(self, record: JournalRecord, outcome: Outcome) -> None:
        self.state = self.reached = _ENDED[outcome.result]
        self.ended_at = record.at
        self.worked = _closed(self.worked, record.at)
        if outcome.result is Result.AWAITING_APPROVAL and self.held and self.held[-1].begin == self.started_at:
            self.held = self.held[:-1]  # a plan makes nothing
        self.message, self.writer, self.findings = outcome.message, "", outcome.findings
        if outcome.plan is not None:
            self.plan = outcome.plan

    def view(self, stage_id: str, holder: str) -> StageView:
        state = self.state
        if state is StageState.RUNNING and self.writer != holder:
            state = StageState.UNKNOWN
        outline = self.outline
        return StageView(
            id=stage_id,
            title=self.title,
            kind=self.kind,
            state=state,
            reached=self.reached,
            attempt=self.attempt,
            started_at=self.started_at,
            ended_at=self.ended_at,
            expect_low_seconds=outline.expect_low_seconds if outline else 0.0,
            expect_high_seconds=outline.expect_high_seconds if outline else 0.0,
            message=self.message,
            needs=outline.needs if outline else (),
            holds_accelerators=outline.holds_accelerators if outline else False,
            keeps_data=outline.keeps_data if outline else False,
            charts=outline.charts if outline else (),
            outputs=dict(self.outputs),
            plan=self.plan,
            is_approved=self.plan is not None and self.plan.plan_hash == self.approved_hash,
            approved_by=self.approved_by,
            was_approved=bool(self.approved_hash),
            is_approval_wished=self.plan is not None and self.plan.plan_hash == self.requested_hash,
            findings=self.findings,
            terraform=self.terraform,
            worked=self.worked,
            held=self.held,
            made=dict(self.made),
            used=self.used,
        )

    def see_made(self, record: JournalRecord, outcome: Outcome) -> None:
        """Note what an attempt has made: all of it if it succeeded, else what Terraform has seen to its end."""
        if outcome.result is Result.DONE:
            self.made = {kind: _opened(self.made.get(kind, ()), record.at) for kind in ("", *self.made)}
        for kind in resources_in(outcome, MADE):
            self.made[kind] = _opened(self.made.get(kind, self.made.get("", ())), record.at)

    def see_gone(self, record: JournalRecord, outcome: Outcome) -> None:
        """Note what an undo has destroyed: all of it if it succeeded, else what Terraform has seen to its end."""
        if outcome.result is Result.DONE:
            self.made = {kind: _closed(periods, record.at) for kind, periods in self.made.items()}
            self.held = _closed(self.held, record.at)
        for kind in resources_in(outcome, DESTROYED):
            self.made[kind] = _closed(self.made.get(kind, self.made.get("", ())), record.at)


def _opened(periods: tuple[Period, ...], at: float) -> tuple[Period, ...]:
    """Return the periods with one that goes on."""
    return periods if periods and periods[-1].end is None else (*periods, Period(at, None))


def _closed(periods: tuple[Period, ...], at: float) -> tuple[Period, ...]:
    """Return the periods with the last one ended, if it goes on."""
    if not periods or periods[-1].end is not None:
        return periods
    return (*periods[:-1], replace(periods[-1], end=at))


class _Folding:
    """The state after the records so far. Takes each record once, in order."""

    def __init__(self, created: Created, at: float) -> None:
        self._created = created
        self._cluster = created.cluster
        self._created_at = at
        self._account = created.account
        self._goal = Goal.FORWARD
        self._is_paused = False
        self._deletes_data = False
        self._even_if_shared = False
        self._requests: list[RequestView] = []
        self._owned: dict[tuple[str, str, str, str], OwnedObject] = {}
        self._made_uids: set[str] = set()
        self._audit: Audit | None = None
        self._owner = created.owner
        self._epoch = 1
        self._gone_machines: tuple[GoneMachine, ...] = ()
        self._owned_since = 0.0
        self._limits = created.limits
        self._limits_reached: tuple[LimitReached, ...] = ()
        self._limit_due: LimitReached | None = None
        self._ends = EndsKnown()
        self._idle = IdleKnown()
        self._alarms: dict[int, AlarmView] = {}
        self._stages = {
            outline.id: _StageFold(
                outline.title,
                outline.kind,
                outline,
                state=StageState.SKIPPED if outline.is_skipped else StageState.PENDING,
            )
            for outline in created.stages
        }
        self._ending: dict[tuple[Action, str], _StageFold] = {}

    def take(self, record: JournalRecord) -> None:
        match record.body:
            case RunRequest():
                self._take_request(record, record.body)
            case Intent(action=action):
                self._step(action, record.stage).begin(record)
            case Outcome():
                self._take_outcome(record, record.body)
            case Approval(plan_hash=plan_hash, by=by):
                stage = self._stage(record.stage)
                stage.approved_hash, stage.approved_by = plan_hash, by
            case Owned() | Deleted():
                self._take_object(record, record.body)
            case Output(values=values):
                self._stage(record.stage).outputs.update(values)
            case NodesUsed():
                stage = self._stage(record.stage)
                stage.used = (*stage.used, (record.at, record.body))
            case Interrupted() | OperationEnded() | Resolved() | Unlocked():
                stage = self._stage(record.stage)
                stage.terraform = remembered(stage.terraform, record.body, record.at)
            case Created():
                raise JournalError(f"record {record.seq} creates the run a second time.")
            case _:
                self._take_fact(record, record.body)

    def view(self, holder: str, last_seq: int) -> RunView:
        created = self._created
        stages = tuple(step.view(stage_id, holder) for stage_id, step in self._stages.items())
        teardown = self._teardown(stages, holder) if self._goal is Goal.TEARDOWN else ()
        ending = {
            (action, stage_id): step.view(stage_id or action.value, holder)
            for (action, stage_id), step in self._ending.items()
        }
        return RunView(
            id=created.run_id,
            blueprint_id=created.blueprint_id,
            title=created.title,
            preset=created.preset,
            parameters=created.parameters,
            cluster=self._cluster,
            created_at=self._created_at,
            state=run_state_of(
                self._goal,
                stages,
                ending,
                is_attended=bool(holder) and not self._is_paused,
                is_audited=self._audit is not None,
                deletes_data=self._deletes_data,
            ),
            goal=self._goal,
            is_paused=self._is_paused,
            auto_approve=created.auto_approve,
            existing_cluster=created.existing_cluster,
            deletes_data=self._deletes_data,
            stages=stages,
            teardown=teardown,
            ending=ending,
            requests=tuple(self._requests),
            owned=tuple(self._owned.values()),
            audit=self._audit,
            last_seq=last_seq,
            account=self._account,
            prices=created.prices,
            is_cost_simulated=created.is_cost_simulated,
            made_uids=frozenset(self._made_uids),
            even_if_shared=self._even_if_shared,
            store=created.store,
            owner=self._owner,
            epoch=self._epoch,
            gone_machines=self._gone_machines,
            limits=self._limits,
            limits_reached=self._limits_reached,
            limit_due=self._limit_due,
            ends=self._ends,
            idle=self._idle,
            alarms=tuple(self._alarms.values()),
        )

    def _teardown(self, stages: tuple[StageView, ...], holder: str) -> tuple[StageView, ...]:
        steps = [
            self._step(action, stage_id).view(stage_id or action.value, holder)
            for action, stage_id in teardown_order(stages, deletes_data=self._deletes_data)
        ]
        kept = frozenset() if self._deletes_data else kept_stages(stages)
        steps[-1:-1] = [
            replace(stage, state=StageState.SKIPPED, started_at=None, ended_at=None, message="Kept: it holds data.")
            for stage in reversed(stages)
            if stage.id in kept
        ]
        return tuple(steps)

    def _take_fact(self, record: JournalRecord, body: Identified | OwnerBody | LimitBody | AlarmBody) -> None:
        at = record.at
        match body:
            case Identified(account=account):
                self._account = self._account or account
            case TakenOver(owner=owner, epoch=epoch, previous=previous, is_previous_gone=is_gone):
                if previous is not None and is_gone:
                    self._gone_machines = (*self._gone_machines, GoneMachine(str(previous), at, self._owned_since))
                self._owner, self._epoch, self._owned_since = owner, epoch, at
            case ContextChosen(context=context, kubeconfig=kubeconfig):
                self._cluster = replace(self._cluster, context=context, kubeconfig=kubeconfig)
            case LimitsSet(limits=limits):
                self._limits, self._limits_reached, self._limit_due = limits, (), None
            case LimitReached():
                self._limits_reached, self._limit_due = (*self._limits_reached, body), body
            case EndsKnown():
                self._ends = body
            case IdleKnown():
                self._idle = body
            case AlarmRaised() | AlarmSent() | AlarmEnded() | AlarmsAcknowledged():
                alarms_after(self._alarms, record, body)
            case _ as never:
                assert_never(never)

    def _take_request(self, record: JournalRecord, request: RunRequest) -> None:
        is_of_limit = record.writer != OPERATOR
        self._requests.append(RequestView(record.seq, record.at, request.request, request.by, is_of_limit))
        match request.request:
            case RequestKind.APPROVE:
                for step in self._stages.values():
                    step.requested_hash = request.plan_hash
            case RequestKind.PAUSE | RequestKind.UNPAUSE:
                self._is_paused = request.request is RequestKind.PAUSE
            case RequestKind.CANCEL:
                if self._goal is Goal.FORWARD:
                    self._head_for(Goal.CANCEL)
            case RequestKind.PARK:
                if self._goal is not Goal.TEARDOWN:
                    self._head_for(Goal.PARK)
            case RequestKind.TEARDOWN:
                self._deletes_data = self._deletes_data or request.delete_data
                self._even_if_shared = self._even_if_shared or request.even_if_shared
                self._audit = None
                self._head_for(Goal.TEARDOWN)
            case RequestKind.RETRY:
                self._retry()
            case _ as never:
                assert_never(never)

    def _head_for(self, goal: Goal) -> None:
        end_state_alarms(self._alarms)
        self._goal = goal
        self._limit_due = None
        self._is_paused = False
        self._ending = {key: step for key, step in self._ending.items() if step.writer}
        for step in self._stages.values():
            if step.state is StageState.AWAITING_APPROVAL:
                step.state = StageState.CANCELLED

    def _retry(self) -> None:
        end_state_alarms(self._alarms)
        self._is_paused = False
        self._idle = IdleKnown()  # what is begun again was not idle
        self._limit_due = None
        self._ending = {
            key: step for key, step in self._ending.items() if step.writer or step.state is StageState.SUCCEEDED
        }
        if self._goal is Goal.TEARDOWN:
            return
        self._goal = Goal.FORWARD
        self._ending = {key: step for key, step in self._ending.items() if step.writer}
        for step in self._stages.values():
            if step.state in _BEGUN_AGAIN:
                step.state, step.message, step.findings = StageState.PENDING, "", ()

    def _take_outcome(self, record: JournalRecord, outcome: Outcome) -> None:
        self._step(outcome.action, record.stage).end(record, outcome)
        if outcome.action is Action.PERFORM:
            self._stage(record.stage).see_made(record, outcome)
        elif outcome.action is Action.UNDO:
            self._stage(record.stage).see_gone(record, outcome)
        if outcome.result is not Result.DONE:
            return
        if outcome.action is Action.UNDO:
            stage = self._stage(record.stage)
            stage.state = StageState.CANCELLED if self._goal is Goal.CANCEL else StageState.UNDONE
            stage.message = outcome.message
        elif outcome.action is Action.AUDIT:
            self._audit = Audit(record.at, outcome.leftovers, outcome.retained, outcome.unknown)

    def _take_object(self, record: JournalRecord, body: Owned | Deleted) -> None:
        key = (body.api_version, body.object_kind, body.namespace, body.name)
        known = self._owned.get(key)
        if known is not None and known.is_deleted:
            known = None
        stage = known.stage if known is not None else record.stage
        if isinstance(body, Deleted):
            gone = known or OwnedObject(stage, *key, "", existed=False, is_deleted=True)
            self._owned[key] = OwnedObject(
                stage, *key, gone.uid, gone.existed, is_deleted=True, made_at=gone.made_at, gone_at=record.at
            )
            return
        item = _owned_after(known, body, stage, at=record.at)
        if item.uid and not item.existed:
            self._made_uids.add(item.uid)
        self._owned[key] = item

    def _stage(self, stage_id: str) -> _StageFold:
        step = self._stages.get(stage_id)
        if step is None:
            raise JournalError(f"the journal names a stage {stage_id!r} that the run does not have.")
        return step

    def _step(self, action: Action, stage_id: str) -> _StageFold:
        if action is Action.PERFORM:
            return self._stage(stage_id)
        known = self._ending.get((action, stage_id))
        if known is None:
            title = self._stage(stage_id).title if stage_id else _STEP_TITLES[action]
            kind = self._stage(stage_id).kind if stage_id else action.value
            known = self._ending[(action, stage_id)] = _StageFold(title, kind)
        return known


def _owned_after(known: OwnedObject | None, body: Owned, stage: str, *, at: float) -> OwnedObject:
    """Return an object after one more record of it; `known` is its state before, `None` if it was deleted or is new.

    An announcement, which has no uid, leaves the known uid. An object that existed before the run keeps that mark as
    long as it has the same uid; under another uid it is another object.
    """
    is_same = known is not None and (not body.uid or body.uid == known.uid)
    return OwnedObject(
        stage,
        body.api_version,
        body.object_kind,
        body.namespace,
        body.name,
        body.uid or (known.uid if known is not None else ""),
        existed=known.existed if known is not None and is_same else body.existed,
        is_deleted=False,
        intended_at=0.0 if body.uid or body.existed else at,
        was_absent=body.was_absent,
        is_adopted=body.is_adopted,
        made_at=known.made_at if known is not None and is_same and known.made_at else at if body.uid else 0.0,
    )
