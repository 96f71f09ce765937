"""The records of a journal: one frozen body for each kind.

A body is stored as JSON with its kind as tag, and read back strictly: an unknown field or kind is damage.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from actions.base.decoding import json_decoder

Scalar = int | float | str | bool
OPERATOR = "operator"
"""The writer of records that no runner wrote."""
NODE_CLAIM = "NodeClaim"
"""The kind of objects that a stage owns without having applied them; they are deleted with the nodes."""


class Action(StrEnum):
    """The action that an intent announces."""

    PERFORM = "perform"
    UNDO = "undo"
    DRAIN = "drain"
    """Drain the nodes that were provisioned for the run's pods; belongs to no stage."""
    AUDIT = "audit"
    """Search for objects that the run has left; belongs to no stage."""


class Result(StrEnum):
    """The end of an intent."""

    DONE = "done"
    FAILED = "failed"
    AWAITING_APPROVAL = "awaiting_approval"
    CANCELLED = "cancelled"


class RequestKind(StrEnum):
    """A request that a person or a script can make of a run."""

    APPROVE = "approve"
    CANCEL = "cancel"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    PARK = "park"
    TEARDOWN = "teardown"
    RETRY = "retry"


class CheckResult(StrEnum):
    """The result of a check on one subject."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class StageOutline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage as it was when the run was created."""

    id: str
    kind: str
    title: str
    needs: tuple[str, ...]
    expect_low_seconds: float
    expect_high_seconds: float
    is_skipped: bool = False
    """The operator provides the objects of this stage, or chose to leave the stage out."""
    holds_accelerators: bool = False
    """Parking the run undoes it."""
    keeps_data: bool = False
    """It holds data: a teardown leaves it and the stages it needs, unless the request is to delete data."""
    charts: tuple[str, ...] = ()
    """Metrics of its log in the order of their charts."""


class ClusterName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cluster that the run is meant for."""

    name: str
    region: str
    context: str = ""
    kubeconfig: str = ""
    """Path of a kubeconfig that the operator chose; if empty, the run gets the cluster's endpoint from EKS."""
    namespace: str = ""


class RunAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The AWS account that a run works in, as STS named it."""

    id: str
    """Twelve digits."""
    region: str
    partition: str
    """`aws`, `aws-cn`, `aws-us-gov`…"""
    arn: str
    """Of the caller."""


class Operator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person at a machine: who launched a run, took it over, or made a request of it."""

    user: str
    host: str
    arn: str = ""
    """Of the AWS identity, as STS named it; empty if it was not asked."""

    def __str__(self) -> str:
        return f"{self.user}@{self.host}"


class LimitAction(StrEnum):
    """The action of the runner at a limit."""

    PARK = "park"
    TEARDOWN = "teardown"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits at which a run parks or tears itself down. The runner watches them, so they hold while it lives."""

    until: float | None = None
    """Seconds since the epoch."""
    budget_usd: str = ""
    """A decimal number: the cost of the run so far, as `actions.run.spending` counts it."""
    max_usd_per_hour: str = ""
    """A decimal number: the cost of what the run holds at a moment."""
    credentials_end: bool = False
    """Act before the credentials end, while they still allow it."""
    capacity_end: bool = False
    """Act before the run's capacity block ends."""
    action: LimitAction = LimitAction.PARK
    idle_minutes: int = 0
    """Act when no accelerator was used for so long; 0 for no such limit."""
    idle_below_pct: float = 5.0
    """An accelerator with less load is not used."""
    watchdog_minutes: int = 0
    """A CronJob in the cluster frees accelerators when the runner's heartbeat there is older; 0 for none."""

    @property
    def is_set(self) -> bool:
        """True if there is any limit that the runner watches."""
        return self != Limits(
            action=self.action, idle_below_pct=self.idle_below_pct, watchdog_minutes=self.watchdog_minutes
        )


class HeldPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the run pays for by the hour, at the price of its launch."""

    title: str
    stage: str
    """The stage that makes it: it is paid from the beginning of that until its undo."""
    usd_per_hour: str = ""
    """A decimal number; empty if no price was known."""
    is_of_work: bool = False
    """It is paid only while the stage is at work, as are nodes that are started for the pods of a job."""
    source: str = ""
    is_by_use: bool = False
    """It is paid by use, such as traffic: it has no hourly price, and is in no sum."""
    resource: str = ""
    """The type of the Terraform resource that it is the price of; empty if that is not known."""
    nodes: int = 0
    """The number of nodes that it is the price of, or of their disks."""
    instance_type: str = ""
    """Of these nodes; empty for their disks and for all else."""


class Created(_Body, frozen=True, tag="created"):
    """The first record of every journal."""

    run_id: str
    blueprint_id: str
    title: str
    preset: str
    parameters: dict[str, Scalar]
    cluster: ClusterName
    stages: tuple[StageOutline, ...]
    """In an order that satisfies `needs`."""
    auto_approve: bool = False
    existing_cluster: bool = False
    """The operator provides the cluster: it is neither created nor deleted."""
    number: int = 0
    """Position in the order in which runs were created on this machine; 0 in journals older than that count."""
    account: RunAccount | None = None
    """The account of the credentials at the launch; `None` if the run began without AWS, or in older journals."""
    prices: tuple[HeldPrice, ...] = ()
    """The things it pays for by the hour; empty in journals older than that, and where the operator provides all."""
    is_cost_simulated: bool = False
    store: str = ""
    """The place that the run is replicated to, `s3://BUCKET/PREFIX`; empty if it is on this machine alone."""
    owner: Operator | None = None
    """The person who launched it; `None` in older journals."""
    limits: Limits = Limits()


class Identified(_Body, frozen=True, tag="identified"):
    """The account of a run that was created without one, written at its first contact with AWS; the first counts."""

    account: RunAccount


class RunRequest(_Body, frozen=True, tag="wish"):
    """A request of an operator."""

    request: RequestKind = msgspec.field(name="wish")
    plan_hash: str = ""
    delete_data: bool = False
    even_if_shared: bool = False
    """Tear down what others use, too: the operator has seen who does, or asked for it beforehand."""
    by: Operator | None = None
    """The person who made it; `None` in older journals."""


class Intent(_Body, frozen=True, tag="intent"):
    """The announcement of an action, written before anything is touched."""

    action: Action


class PlanOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Terraform plan that waits for its approval."""

    plan_hash: str
    add: int
    change: int
    destroy: int
    lines: tuple[str, ...]
    """One line for each resource: the planned change."""


MADE, DESTROYED = "made", "destroyed"
"""Details of findings on resources that Terraform has made or destroyed before it failed."""


class StageFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a check's result."""

    result: CheckResult
    subject: str
    detail: str
    fix: str = ""
    """The remedy, as an imperative; empty when it passed."""


class Outcome(_Body, frozen=True, tag="outcome"):
    """The effect of an intent, written when it is known."""

    action: Action
    result: Result
    message: str = ""
    plan: PlanOffer | None = None
    findings: tuple[StageFinding, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Of an audit: objects that still exist, one line each."""
    retained: tuple[str, ...] = ()
    """Of an audit: objects that were kept on purpose, with the reason."""
    unknown: tuple[str, ...] = ()
    """Of an audit: places that could not be searched, one sentence each. With any, leftovers cannot be ruled out."""


class Approval(_Body, frozen=True, tag="approval"):
    """The approval of a plan: it may be carried out."""

    plan_hash: str
    is_automatic: bool
    by: Operator | None = None
    """The person who approved it; `None` if it is automatic, and in older journals."""


class Owned(_Body, frozen=True, tag="owned"):
    """An object that the run applies or creates. Written before it is applied, and again after with its uid."""

    api_version: str
    name: str
    object_kind: str
    namespace: str = ""
    uid: str = ""
    """Empty before the object is applied."""
    existed: bool = False
    """It existed before the run: it is never deleted."""
    was_absent: bool = False
    """Without a uid: the object was looked up just before this was written, and did not exist."""
    is_adopted: bool = False
    """With a uid: the runner that applied it died before it recorded the uid; a later one found evidence for it."""


class Deleted(_Body, frozen=True, tag="deleted"):
    """The end of an owned object."""

    api_version: str
    name: str
    object_kind: str
    namespace: str = ""


class NodesUsed(_Body, frozen=True, tag="nodes_used"):
    """The part of nodes of a cluster that was there which the scheduled pods of a stage take from now on."""

    nodes: int = 0
    usd_per_hour: str = "0.000000"
    """Of that part, as far as prices are known."""
    unpriced: int = 0
    """Nodes among them without a known price."""


class Output(_Body, frozen=True, tag="output"):
    """Values of a stage that later stages use."""

    values: dict[str, str]


class Interrupted(_Body, frozen=True, tag="interrupted"):
    """An interrupt of a Terraform process. Written before the signal is sent, and again after.

    A second signal makes Terraform exit without saving unfinished changes, so every later runner has to know of the
    first.
    """

    operation: str
    pid: int
    start_ticks: int
    boot_id: str
    is_sent: bool = False


class PendingResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource that Terraform may or may not have created."""

    address: str
    action: str
    """`create` as a rule; `vanished` if a destroy did not find it, and it left the state without being destroyed;
    `unobserved` if it was planned in an apply of another machine, of whose end nothing is known."""
    resource_type: str = ""
    resource_id: str = ""
    """The provider's id of it, if Terraform printed one."""


class OperationEnded(_Body, frozen=True, tag="operation_ended"):
    """The end of a Terraform process that left resources outside of its state. Written once for each such process."""

    operation: str
    process: str
    pending: tuple[PendingResource, ...] = ()
    """Resources that it may have created without recording them in the state, or did not find to destroy."""


class Resolution(StrEnum):
    """The fate of a pending resource."""

    TRACKED = "tracked"
    """It is in the state."""
    WAIVED = "waived"
    """An operator has stated that it does not exist, or no longer belongs to the run."""


class Resolved(_Body, frozen=True, tag="resolved"):
    """The settlement of a pending resource, or of a state that could not be saved."""

    address: str
    how: Resolution
    resource_id: str = ""


class Unlocked(_Body, frozen=True, tag="unlocked"):
    """The removal of a lock on a Terraform state whose holder is dead. Written before it is removed."""

    lock_id: str
    who: str
    """`user@host`, as Terraform wrote it into the lock."""
    created: str
    operation: str
    reason: str
    """Evidence that its holder is dead, as a clause."""


class TakenOver(_Body, frozen=True, tag="taken_over"):
    """The move of a run to another machine: from here on, the runner of an earlier epoch may write nothing."""

    owner: Operator
    epoch: int
    """Of the run's lease in its store or cluster; 1 for the machine that launched it."""
    previous: Operator | None = None
    is_previous_gone: bool = False
    """The operator stated that the earlier machine no longer exists: its locks may be removed."""


class ContextChosen(_Body, frozen=True, tag="context_chosen"):
    """The context by which a machine that has taken the run over reaches its cluster, in place of the one before."""

    context: str
    kubeconfig: str = ""
    """Path of its file on that machine; empty for the usual places."""


class LimitsSet(_Body, frozen=True, tag="limits_set"):
    """New limits of a run, in place of all earlier ones."""

    limits: Limits
    by: Operator | None = None


class LimitReached(_Body, frozen=True, tag="limit_reached"):
    """A limit that was reached; the request that the runner makes of itself follows."""

    limit: str
    """The name of the field of `Limits`."""
    text: str
    """One sentence: the limit and the value that reached it."""


class IdleKnown(_Body, frozen=True, tag="idle_known"):
    """The idle time of the accelerators; written when half of the limit has passed, and when that is over."""

    since: float | None = None
    """Seconds since the epoch: no accelerator of the run was at `Limits.idle_below_pct` since. `None`: one is."""
    unknown: str = ""
    """The reason that nothing is known, as the end of a sentence: it does not count as idle time."""


class AlarmKind(StrEnum):
    """The cause of an alarm; the value is that of `EKSML_ALARM_KIND`."""

    FAILED = "failed"
    IDLE = "idle"
    """Accelerators are used less than the limit allows."""
    APPROVAL = "approval"
    BUDGET = "budget"
    """Most of the run's budget is spent, or all of it."""
    CREDENTIALS = "credentials"
    DONE = "done"
    LIMIT = "limit"
    """Another limit of the run is near, or was reached."""
    PODS = "pods"
    """Pods crash, restart or were killed."""
    RUNNER = "runner"
    """The runner is stalled or gone: the one alarm that it cannot raise itself."""
    TRAINING = "training"
    """A curve or a log: NaN, a spike, no line for long."""


class AlarmRaised(_Body, frozen=True, tag="alarm_raised"):
    """An alarm that the runner has raised: once for as long as its cause is there."""

    alarm: AlarmKind
    text: str
    """One sentence, without secrets."""
    place: str = ""
    """The key that distinguishes two alarms of one kind, such as a stage; empty for none."""
    ways: tuple[str, ...] = ()
    """The ways that it is to be sent by; empty in quiet hours, and where none is set."""


class AlarmSent(_Body, frozen=True, tag="alarm_sent"):
    """The end of the attempts to send an alarm by one way. Written after them: a runner that dies before it repeats."""

    seq: int
    """Number of the `AlarmRaised`."""
    way: str
    error: str = ""
    """The reason that it was not sent, in one sentence."""


class AlarmEnded(_Body, frozen=True, tag="alarm_ended"):
    """The cause of an alarm is gone: if it comes back, that is a new alarm."""

    seq: int


class AlarmsAcknowledged(_Body, frozen=True, tag="alarms_acknowledged"):
    """An operator has seen these alarms: no console calls for them again."""

    seqs: tuple[int, ...]
    by: Operator | None = None


class EndsKnown(_Body, frozen=True, tag="ends_known"):
    """The ends that limits refer to, as the runner found them; written when they change, the newest counts."""

    credentials_end: float | None = None
    """Seconds since the epoch: end of credentials that nothing renews. `None` if they do not end, or it is unknown."""
    capacity_end: float | None = None
    """Seconds since the epoch: end of the run's capacity block. `None` if it has none, or it is unknown."""
    missing: tuple[str, ...] = ()
    """Reasons that an end to which a limit refers is unknown, a sentence each."""


TerraformBody = Interrupted | OperationEnded | Resolved | Unlocked
OwnerBody = TakenOver | ContextChosen
LimitBody = LimitsSet | LimitReached | EndsKnown | IdleKnown
AlarmBody = AlarmRaised | AlarmSent | AlarmEnded | AlarmsAcknowledged
Body = (
    Created
    | Identified
    | RunRequest
    | Intent
    | Outcome
    | Approval
    | Owned
    | Deleted
    | Output
    | NodesUsed
    | TerraformBody
    | OwnerBody
    | LimitBody
    | AlarmBody
)


class JournalRecord(msgspec.Struct, frozen=True):
    """One row of the journal."""

    seq: int
    """One-based, without gaps."""
    at: float
    """Seconds since the epoch."""
    writer: str
    """Token of the runner, or `operator` for a request."""
    stage: str
    """Empty for records of the whole run."""
    attempt: int
    body: Body


_DECODER: msgspec.json.Decoder[Body] = json_decoder(Body)
_ENCODER = msgspec.json.Encoder()


def record_kind(body: Body) -> str:
    """Return the text of the journal's `kind` column."""
    return str(body.__struct_config__.tag)


def encode_body(body: Body) -> str:
    """Return the JSON text of a body."""
    return _ENCODER.encode(body).decode()


def decode_body(text: str) -> Body:
    """Read what `encode_body` wrote.

    Raises:
        msgspec.MsgspecError: It is something else.
    """
    return _DECODER.decode(text)
