"""A run computed from its journal: its stages, objects, audit and notices, all frozen."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from actions.base.clock import time_of_day
from actions.base.process import ProcessIdentity
from actions.run.state.records import Action, ClusterName, PlanOffer, RequestKind, Resolution, Scalar, StageFinding


class Goal(StrEnum):
    """Where a run is heading."""

    FORWARD = "forward"
    CANCEL = "cancel"
    PARK = "park"
    TEARDOWN = "teardown"


class StageState(StrEnum):
    """How far a stage is, or a step of a teardown."""

    PENDING = "pending"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    UNKNOWN = "unknown"
    """Its runner died between an intent and its outcome: the world is asked before anything is done again."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNDONE = "undone"


class RunState(StrEnum):
    """How a run is, in a word."""

    WAITING = "waiting"
    """Nothing is under way, and something is still to be done: no runner, or paused."""
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting approval"
    UNKNOWN = "unknown"
    """The runner died at work: resume it."""
    STALLED = "stalled"
    """The runner's process exists, and has given no sign of life for some seconds: stopped, or stuck."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PARKED = "parked"
    TEARING_DOWN = "tearing down"
    TORN_DOWN = "torn down"


class Interruption(msgspec.Struct, frozen=True):
    """An interrupt that a Terraform process was sent, or was to be sent when the runner died."""

    process: ProcessIdentity
    at: float
    is_sent: bool


class PendingChange(msgspec.Struct, frozen=True):
    """A resource that Terraform may have made outside of its state, and what became of that question."""

    address: str
    action: str
    resource_type: str
    resource_id: str
    """The provider's id of it, as Terraform or a person told; empty if nobody knows."""
    at: float
    how: Resolution | None = None

    @property
    def is_open(self) -> bool:
        """True if it is still unknown: the stage does not go on."""
        return self.how in (None, Resolution.IMPORT)


class TerraformMemory(msgspec.Struct, frozen=True):
    """The interrupts of a stage's Terraform processes, and their pending changes, whoever the runner was."""

    interrupts: tuple[Interruption, ...] = ()
    pending: tuple[PendingChange, ...] = ()
    ended: tuple[str, ...] = ()
    """Processes whose unfinished end was looked at."""


class StageView(msgspec.Struct, frozen=True, eq=False):
    """One stage, or one step of a teardown."""

    id: str
    title: str
    kind: str
    state: StageState
    reached: StageState = StageState.PENDING
    """How it ended when it was last carried out, whatever a teardown has taken back since."""
    attempt: int = 0
    """How often it was begun; 0 if never."""
    started_at: float | None = None
    """Seconds since the epoch: start of the newest attempt, whichever runner began it; after an approval, start of
    the apply."""
    ended_at: float | None = None
    expect_low_seconds: float = 0.0
    expect_high_seconds: float = 0.0
    message: str = ""
    """While it runs, what it waits for; afterwards, how it ended. One line."""
    needs: tuple[str, ...] = ()
    holds_accelerators: bool = False
    """Parking the run undoes it."""
    keeps_data: bool = False
    charts: tuple[str, ...] = ()
    """Metrics of its log in the order of their charts."""
    outputs: Mapping[str, str] | None = None
    plan: PlanOffer | None = None
    """What waits for an approval, or was approved last."""
    is_approved: bool = False
    """Whether `plan` may be carried out."""
    is_approval_wished: bool = False
    """Somebody approved `plan`; the runner has not taken note yet."""
    findings: tuple[StageFinding, ...] = ()
    terraform: TerraformMemory = TerraformMemory()


class RequestView(msgspec.Struct, frozen=True):
    """One wish."""

    seq: int
    at: float
    kind: RequestKind


class OwnedObject(msgspec.Struct, frozen=True):
    """An object that the run applied or brought about."""

    stage: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    """Empty if the run died between intending and applying it."""
    existed: bool
    """It was there before the run: it is never deleted."""
    is_deleted: bool
    intended_at: float = 0.0
    """Seconds since the epoch: when it was announced that it would be applied; 0.0 once its uid is known."""
    was_absent: bool = False
    """It was looked for when it was announced, and was not there."""
    is_adopted: bool = False
    """Its uid was not recorded by the runner that applied it, but found later, by evidence."""


class Audit(msgspec.Struct, frozen=True):
    """What was found after a teardown."""

    at: float
    leftovers: tuple[str, ...]
    retained: tuple[str, ...]
    """Still there on purpose: data, or what was there before the run."""
    unknown: tuple[str, ...] = ()
    """The questions that could not be asked, one sentence each: with any, nobody knows that nothing is left."""

    @property
    def is_clean(self) -> bool:
        """True if everything was asked and nothing was found."""
        return not (self.leftovers or self.unknown)


class NoticeKind(StrEnum):
    """A trouble of a run that no record tells of."""

    STALLED = "stalled"
    """The runner gives no sign of life."""
    NO_RUNNER = "no runner"
    """There is something to do, it was begun, and no runner is alive."""
    DISK_FULL = "disk full"
    """The journal cannot grow; what runs goes on."""
    READ_ONLY = "read-only"
    """The run's file system takes no writes."""
    LOCKED = "locked"
    """Another process holds the journal's lock, and the runner waits for it."""


class Notice(msgspec.Struct, frozen=True):
    """One trouble of a run's runner, disk or journal, as a reader sees it."""

    kind: NoticeKind
    text: str
    """One sentence, without the time."""
    since: float | None = None
    """Seconds since the epoch; `None` if unknown."""


class RunView(msgspec.Struct, frozen=True, eq=False):
    """One run at one moment."""

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
    """The operator brought a cluster."""
    deletes_data: bool
    """A teardown may delete data: it was confirmed."""
    stages: tuple[StageView, ...]
    teardown: tuple[StageView, ...]
    """Its steps in order; empty while no teardown was asked for."""
    ending: Mapping[tuple[Action, str], StageView]
    """What was begun since the goal last changed, by action and stage (empty for none)."""
    requests: tuple[RequestView, ...]
    owned: tuple[OwnedObject, ...]
    audit: Audit | None
    last_seq: int
    """Number of the newest record in it."""
    notices: tuple[Notice, ...] = ()
    """The obstacles to it or its journal; put there by a reader."""
    made_uids: frozenset[str] = frozenset()
    """Of every object that the run has ever made or adopted, also of those that are gone."""

    def stage(self, stage_id: str) -> StageView:
        """The stage with this id.

        Raises:
            KeyError: There is none.
        """
        return next((stage for stage in self.stages if stage.id == stage_id), None) or _missing(stage_id)

    @property
    def outputs(self) -> Mapping[str, Mapping[str, str]]:
        """Outputs by stage id, of the stages that have some."""
        return {stage.id: stage.outputs for stage in self.stages if stage.outputs}

    def owned_by(self, stage_id: str) -> tuple[OwnedObject, ...]:
        """What a stage owns that is not gone, oldest first."""
        return tuple(item for item in self.owned if item.stage == stage_id and not item.is_deleted)


def _missing(stage_id: str) -> StageView:
    raise KeyError(stage_id)


GIVEN_UP = "Its runner has died five times in ten minutes: it is not started again by itself."


def has_given_up(notice: Notice) -> bool:
    """Return whether a run without a runner does not get another one by itself."""
    return notice.kind is NoticeKind.NO_RUNNER and notice.text == GIVEN_UP


def notice_line(notice: Notice) -> str:
    """The sentence with its moment: `The disk is full… (since 12:03:04 UTC)`."""
    return notice.text if notice.since is None else f"{notice.text} (since {time_of_day(notice.since)} UTC)"


def notice_words(notice: Notice) -> str:
    """As short as a header has room for: `disk full since 12:03:04 UTC`."""
    return notice.kind.value if notice.since is None else f"{notice.kind.value} since {time_of_day(notice.since)} UTC"
