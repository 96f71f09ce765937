"""A run computed from its journal: its stages, objects, audit and notices, all frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from actions.base.clock import time_of_day
from actions.base.process import ProcessIdentity
from actions.run.state.records import (
    Action,
    AlarmKind,
    AlarmSent,
    ClusterName,
    Deleted,
    EndsKnown,
    HeldPrice,
    IdleKnown,
    LimitReached,
    Limits,
    NodesUsed,
    Operator,
    Owned,
    PlanOffer,
    RequestKind,
    Resolution,
    RunAccount,
    Scalar,
    StageFinding,
    Unlocked,
)


class Goal(StrEnum):
    """The goal that the newest request sets for a run."""

    FORWARD = "forward"
    CANCEL = "cancel"
    PARK = "park"
    TEARDOWN = "teardown"


class StageState(StrEnum):
    """The state of a stage, or of a step of a teardown."""

    PENDING = "pending"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    UNKNOWN = "unknown"
    """Its runner died between an intent and its outcome: what happened is looked up before anything is repeated."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNDONE = "undone"


class RunState(StrEnum):
    """The state of a run; the value is the text on screen."""

    WAITING = "waiting"
    """Work is left and none of it is under way: no runner, or paused."""
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting approval"
    UNKNOWN = "unknown"
    """The runner died at work: resume it."""
    STALLED = "stalled"
    """The runner's process exists, but its heartbeat is some seconds old: it is stopped or stuck."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PARKED = "parked"
    TEARING_DOWN = "tearing down"
    TORN_DOWN = "torn down"


OVER = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.PARKED, RunState.TORN_DOWN})
"""States in which a run has no runner, unless it is begun again."""
ENDED = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
"""States in which a run does nothing more, and holds what it holds until it is parked or torn down."""
TO_RETRY = (RunState.FAILED, RunState.CANCELLED, RunState.PARKED)
"""States from which a retry goes on."""
_VANISHED = "vanished"
_UNOBSERVED = "unobserved"


class Interruption(msgspec.Struct, frozen=True):
    """An interrupt that was sent to a Terraform process, or was about to be sent when the runner died."""

    process: ProcessIdentity
    at: float
    is_sent: bool


class PendingChange(msgspec.Struct, frozen=True):
    """A resource that may exist outside of Terraform's state, and how that was settled."""

    address: str
    action: str
    resource_type: str
    resource_id: str
    """The provider's id of it, from Terraform or an operator; empty if unknown."""
    at: float
    how: Resolution | None = None

    @property
    def is_open(self) -> bool:
        """True if it is not settled yet: the stage does not continue."""
        return self.how is None

    @property
    def has_vanished(self) -> bool:
        """True if a destroy did not find it; otherwise it may have been made."""
        return self.action == _VANISHED

    @property
    def is_unobserved(self) -> bool:
        """True if an apply of another machine was to make it, and no record has the end of that."""
        return self.action == _UNOBSERVED


class TerraformMemory(msgspec.Struct, frozen=True):
    """The interrupts of a stage's Terraform processes and their pending changes, across runners."""

    interrupts: tuple[Interruption, ...] = ()
    pending: tuple[PendingChange, ...] = ()
    ended: tuple[str, ...] = ()
    """Processes whose incomplete operation was recorded."""
    unlocked: tuple[Unlocked, ...] = ()
    """Locks of dead holders that were removed from its state, oldest first."""


class Period(msgspec.Struct, frozen=True):
    """A time in seconds since the epoch, from its begin to its end."""

    begin: float
    end: float | None
    """`None` if it goes on."""


class StageView(msgspec.Struct, frozen=True, eq=False):
    """One stage, or one step of a teardown."""

    id: str
    title: str
    kind: str
    state: StageState
    reached: StageState = StageState.PENDING
    """The state in which its last attempt ended, whatever a teardown has undone since."""
    attempt: int = 0
    """Number of the newest attempt, one-based; 0 if it was never begun."""
    started_at: float | None = None
    """Seconds since the epoch: start of the newest attempt, whichever runner began it; after an approval, start of
    the apply."""
    ended_at: float | None = None
    expect_low_seconds: float = 0.0
    expect_high_seconds: float = 0.0
    message: str = ""
    """Progress while it runs, then its result. One line."""
    trouble: str = ""
    """Present trouble of its pods: a crash loop, restarts, memory. One line; added by a reader."""
    needs: tuple[str, ...] = ()
    holds_accelerators: bool = False
    """Parking the run undoes it."""
    keeps_data: bool = False
    charts: tuple[str, ...] = ()
    """Metrics of its log, in the order of their charts."""
    outputs: Mapping[str, str] | None = None
    plan: PlanOffer | None = None
    """The plan that waits for approval, or was approved last."""
    is_approved: bool = False
    """`plan` may be carried out."""
    approved_by: Operator | None = None
    was_approved: bool = False
    """A plan of it was approved at some time, this one or an earlier one: resources may have been made."""
    is_approval_wished: bool = False
    """An operator approved `plan`; the runner has not recorded it yet."""
    findings: tuple[StageFinding, ...] = ()
    terraform: TerraformMemory = TerraformMemory()
    worked: tuple[Period, ...] = ()
    """Its attempts, oldest first."""
    held: tuple[Period, ...] = ()
    """The times from the begin of an attempt to the end of an undo: what it makes may exist then."""
    made: Mapping[str, tuple[Period, ...]] = {}
    """The times in which what it makes is known to exist, by type of Terraform resource; of all others under `""`."""
    used: tuple[tuple[float, NodesUsed], ...] = ()
    """The parts of nodes that were there which its pods take, from each time on; oldest first."""


class RequestView(msgspec.Struct, frozen=True):
    """One request."""

    seq: int
    at: float
    kind: RequestKind
    by: Operator | None = None
    """The operator who made it; `None` in older journals."""
    is_of_limit: bool = False
    """The runner made it, at a limit."""


class OwnedObject(msgspec.Struct, frozen=True):
    """An object that the run applied or caused to exist."""

    stage: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    """Empty if the runner died between announcing the object and recording it."""
    existed: bool
    """It existed before the run: it is never deleted."""
    is_deleted: bool
    intended_at: float = 0.0
    """Time of its announcement in seconds since the epoch; 0.0 once its uid is known."""
    was_absent: bool = False
    """It was looked up when it was announced, and did not exist."""
    is_adopted: bool = False
    """Its uid was found later, by evidence, as the runner that applied it did not record it."""
    made_at: float = 0.0
    """Time of the record of its uid in seconds since the epoch; 0.0 without one."""
    gone_at: float | None = None
    """Time of the record of its end."""

    def announcement(self) -> Owned:
        """Return the record of its being made: without uid before, with uid after."""
        return Owned(
            api_version=self.api_version,
            object_kind=self.kind,
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            existed=self.existed,
            was_absent=self.was_absent,
            is_adopted=self.is_adopted,
        )

    def deletion(self) -> Deleted:
        """Return the record of its end."""
        return Deleted(api_version=self.api_version, object_kind=self.kind, namespace=self.namespace, name=self.name)


class Audit(msgspec.Struct, frozen=True):
    """The result of the search after a teardown."""

    at: float
    leftovers: tuple[str, ...]
    retained: tuple[str, ...]
    """Kept on purpose: data, and objects older than the run."""
    unknown: tuple[str, ...] = ()
    """Places that could not be searched, one sentence each. With any, leftovers cannot be ruled out."""

    @property
    def is_clean(self) -> bool:
        """True if everything was searched and nothing was found."""
        return not (self.leftovers or self.unknown)


class NoticeKind(StrEnum):
    """A problem of a run that no record shows."""

    STALLED = "stalled"
    """The runner's heartbeat is missing."""
    NO_RUNNER = "no runner"
    """The run was begun, work is left, and no runner is alive."""
    DISK_FULL = "disk full"
    """The journal cannot grow; running work continues."""
    READ_ONLY = "read-only"
    """The run's file system is mounted read-only."""
    PODS = "pods fail"
    """Pods of a stage at work crash, restart or were killed."""
    ELSEWHERE = "elsewhere"
    """Another machine has taken the run over."""
    UNCERTAIN = "uncertain"
    """The runner waits to hear whether another machine has taken the run over, and changes nothing meanwhile."""
    LOCKED = "locked"
    """Another process holds the journal's lock; the runner waits for it."""
    STORE_AWAY = "store away"
    """The run's store does not answer: what is new waits on this machine's disk."""
    STORE_REFUSED = "store refused"
    """The run's store refuses the credentials, or is gone."""
    STORE_BEHIND = "store behind"
    """Nothing is left to do, and the runner was lost before it knew the run's end to be in the store."""
    WATCHDOG_IDLE = "watchdog idle"
    """The run's watchdog cannot be kept in its cluster, or its pods do not end well."""
    LIMIT = "limit near"
    """A limit of the run is near, or was reached."""
    ALARM = "alarm"
    """An alarm that is not acknowledged, or that could not be sent."""
    ALARMS_UNSENT = "alarms unsent"
    """Nothing is left to do, and the runner was lost before it had sent its alarms."""
    COPY = "copy"
    """The folder has another name than its run: it is a copy of the run's, and to look at only."""


class Notice(msgspec.Struct, frozen=True):
    """One problem of a run's runner, disk, journal or pods, as a reader observes it."""

    kind: NoticeKind
    text: str
    """One sentence, without the time."""
    since: float | None = None
    """Seconds since the epoch; `None` if unknown."""
    place: str = ""
    """The key that distinguishes two notices of one kind, such as the name of a limit; empty for none."""
    hint: str = ""
    """The remedy, for who is refused because of it."""


def is_watched_only(notices: Iterable[Notice]) -> bool:
    """Return whether a run can only be looked at here: another machine carries it out, or this is a copy of it."""
    return any(notice.kind in (NoticeKind.ELSEWHERE, NoticeKind.COPY) for notice in notices)


class AlarmView(msgspec.Struct, frozen=True):
    """An alarm that the runner has raised."""

    seq: int
    """Number of its record, which names it."""
    at: float
    """Seconds since the epoch."""
    kind: AlarmKind
    place: str
    text: str
    ways: tuple[str, ...] = ()
    sent: tuple[AlarmSent, ...] = ()
    """The ends of the attempts, as far as they are known."""
    is_over: bool = False
    """Its cause is gone."""
    is_acknowledged: bool = False

    @property
    def left(self) -> tuple[str, ...]:
        """The ways that it was not sent by yet."""
        done = {one.way for one in self.sent}
        return tuple(way for way in self.ways if way not in done)


UNUSED_SECONDS = 120.0
"""From this long at 0 % in every sample on, a requested device counts as unused."""


class UnusedDevices(msgspec.Struct, frozen=True):
    """The accelerators that the stage at work holds and does not use.

    Args:
        count: Number of those at 0 % for minutes.
        of: Number of devices that were measured.
        since: Since when the last of them has been; seconds since the epoch.
        answered: Number of pods that these devices are of.
        workers: These, and those that were asked and did not answer.
    """

    count: int
    of: int
    since: float
    answered: int
    workers: int


class GoneMachine(msgspec.Struct, frozen=True):
    """A machine that carried out the run, and no longer exists, as an operator stated at a takeover."""

    who: str
    """`user@host`."""
    at: float
    """Time of the takeover in seconds since the epoch: whatever that machine holds is older."""
    since: float = 0.0
    """Time from which it carried the run out, by its own clock: what is older is of a machine before it, which may have
    the same host name. 0.0 for the first machine."""


TEARDOWN_PREFIX = "teardown:"
"""Prefix of the ids of teardown steps, where stages and steps share a list."""


class RunView(msgspec.Struct, frozen=True, eq=False):
    """The state of one run at one moment."""

    id: str
    blueprint_id: str
    title: str
    preset: str
    parameters: Mapping[str, Scalar]
    cluster: ClusterName
    created_at: float
    state: RunState
    goal: Goal
    is_paused: bool
    auto_approve: bool
    existing_cluster: bool
    """The operator provides the cluster."""
    deletes_data: bool
    """A teardown may delete data: the operator confirmed it."""
    stages: tuple[StageView, ...]
    teardown: tuple[StageView, ...]
    """Its steps in order; empty while no teardown is requested."""
    ending: Mapping[tuple[Action, str], StageView]
    """Steps begun since the goal last changed, by action and stage (empty for none)."""
    requests: tuple[RequestView, ...]
    owned: tuple[OwnedObject, ...]
    audit: Audit | None
    last_seq: int
    """Number of the newest record in it."""
    notices: tuple[Notice, ...] = ()
    """Problems of its runner, disk, journal or pods; added by a reader."""
    is_starting: bool = False
    """Its runner was started, or is about to be, and has not begun to work; added by a reader."""
    account: RunAccount | None = None
    """The AWS account that it works in; `None` before its first contact with AWS."""
    prices: tuple[HeldPrice, ...] = ()
    """The things it pays for by the hour, at the prices of its launch."""
    is_cost_simulated: bool = False
    made_uids: frozenset[str] = frozenset()
    """Uids of all objects that the run has ever made or adopted, deleted ones included."""
    even_if_shared: bool = False
    """A teardown may remove what others use: the operator asked for it by name."""
    store: str = ""
    """The place that it is replicated to, `s3://BUCKET/PREFIX`; empty if it is on one machine alone."""
    owner: Operator | None = None
    """The operator who launched it, or took it over last."""
    epoch: int = 1
    """Counts the machines that have carried it out."""
    gone_machines: tuple[GoneMachine, ...] = ()
    """Oldest first."""
    limits: Limits = Limits()
    limits_reached: tuple[LimitReached, ...] = ()
    """Those of the present limits, oldest first."""
    limit_due: LimitReached | None = None
    """The last of them, if the request that follows it is not written yet."""
    ends: EndsKnown = EndsKnown()
    """The ends of credentials and capacity block, as the runner found them last."""
    idle: IdleKnown = IdleKnown()
    """The idle time of its accelerators by their last samples."""
    alarms: tuple[AlarmView, ...] = ()
    """All that were raised, oldest first."""
    unused: UnusedDevices | None = None
    """Accelerators that it holds and does not use, by its runner's samples; added by a reader."""

    def stage(self, stage_id: str) -> StageView:
        """Return the stage with this id.

        Raises:
            KeyError: There is none.
        """
        return next((stage for stage in self.stages if stage.id == stage_id), None) or _missing(stage_id)

    @property
    def outputs(self) -> Mapping[str, Mapping[str, str]]:
        """Outputs by stage id, for stages that have any."""
        return {stage.id: stage.outputs for stage in self.stages if stage.outputs}

    def step(self, key: str) -> StageView | None:
        """Return the stage, or with `TEARDOWN_PREFIX` the step of its teardown; `None` if there is none."""
        step_id = key.removeprefix(TEARDOWN_PREFIX)
        steps = self.teardown if key != step_id else self.stages
        return next((step for step in steps if step.id == step_id), None)

    def owned_by(self, stage_id: str) -> tuple[OwnedObject, ...]:
        """Return the objects of a stage that are not deleted, oldest first."""
        return tuple(item for item in self.owned if item.stage == stage_id and not item.is_deleted)


def _missing(stage_id: str) -> StageView:
    raise KeyError(stage_id)


GIVEN_UP = "Its runner has died five times in ten minutes and is not restarted automatically."


def has_given_up(notice: Notice) -> bool:
    """Return whether the runner has crashed too often to be restarted automatically."""
    return notice.kind is NoticeKind.NO_RUNNER and notice.text == GIVEN_UP


def notice_line(notice: Notice) -> str:
    """Return the sentence with its time: `The disk is full… (since 12:03:04 UTC)`."""
    return notice.text if notice.since is None else f"{notice.text} (since {time_of_day(notice.since)} UTC)"


def notice_words(notice: Notice) -> str:
    """Return a short form for headers: `disk full since 12:03:04 UTC`."""
    return notice.kind.value if notice.since is None else f"{notice.kind.value} since {time_of_day(notice.since)} UTC"


def with_troubles(view: RunView, troubles: Mapping[str, str]) -> RunView:
    """Return a run with the trouble of the pods of its stages at work, by stage, which is a notice, too."""
    at_work = {stage.id for stage in view.stages if stage.state is StageState.RUNNING} & troubles.keys()
    if not at_work:
        return view
    stages = tuple(replace(one, trouble=troubles[one.id]) if one.id in at_work else one for one in view.stages)
    found = [Notice(NoticeKind.PODS, f"{one.title}: {one.trouble}") for one in stages if one.trouble]
    return replace(view, stages=stages, notices=(*view.notices, *found))
