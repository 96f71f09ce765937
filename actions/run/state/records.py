"""What a journal holds: one frozen body for each kind of record.

A body is stored as JSON with its kind as tag, and read back strictly: an unknown field or kind is damage.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

Scalar = int | float | str | bool


class Action(StrEnum):
    """What an intent announces."""

    PERFORM = "perform"
    UNDO = "undo"
    DRAIN = "drain"
    """Let the nodes go that the run's pods brought; belongs to no stage."""
    AUDIT = "audit"
    """Look for what is left of the run; belongs to no stage."""


class Result(StrEnum):
    """How an intent ended."""

    DONE = "done"
    FAILED = "failed"
    AWAITING_APPROVAL = "awaiting_approval"
    CANCELLED = "cancelled"


class RequestKind(StrEnum):
    """What a person or a script may ask of a run."""

    APPROVE = "approve"
    CANCEL = "cancel"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    PARK = "park"
    TEARDOWN = "teardown"
    RETRY = "retry"


class CheckResult(StrEnum):
    """What a check says of its subject."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class StageOutline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage as the run knew it when it was created."""

    id: str
    kind: str
    title: str
    needs: tuple[str, ...]
    expect_low_seconds: float
    expect_high_seconds: float
    is_skipped: bool = False
    """The operator brought what it would make, or chose that it is not wanted."""
    holds_accelerators: bool = False
    """Parking the run undoes it."""
    keeps_data: bool = False
    """It holds data: a teardown leaves it, and what it needs, unless told to delete data."""
    charts: tuple[str, ...] = ()
    """Metrics of its log in the order of their charts."""


class ClusterName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which cluster the run is meant for."""

    name: str
    region: str
    context: str = ""
    kubeconfig: str = ""
    """Path of a kubeconfig that the operator chose; empty means that the run asks EKS for the cluster."""
    namespace: str = ""


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
    """The operator brought a cluster: it is not made, and nothing of it is deleted."""
    number: int = 0
    """Its place in the order in which runs were created on this machine; 0 of one from before they were counted."""


class RunRequest(_Body, frozen=True, tag="wish"):
    """Something asked of the run."""

    request: RequestKind = msgspec.field(name="wish")
    plan_hash: str = ""
    delete_data: bool = False


class Intent(_Body, frozen=True, tag="intent"):
    """Written before anything is touched."""

    action: Action


class PlanOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan that waits for its approval."""

    plan_hash: str
    add: int
    change: int
    destroy: int
    lines: tuple[str, ...]
    """One resource each: what would happen to it."""


class StageFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a check."""

    result: CheckResult
    subject: str
    detail: str
    fix: str = ""
    """What to do about it, as an imperative; empty when it passed."""


class Outcome(_Body, frozen=True, tag="outcome"):
    """Written when the effect of an intent is known."""

    action: Action
    result: Result
    message: str = ""
    plan: PlanOffer | None = None
    findings: tuple[StageFinding, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Of an audit: what is still there, one object each."""
    retained: tuple[str, ...] = ()
    """Of an audit: what is still there on purpose, with the reason."""
    unknown: tuple[str, ...] = ()
    """Of an audit: what could not be asked, one sentence each: then nobody knows that nothing is left."""


class Approval(_Body, frozen=True, tag="approval"):
    """A plan may be carried out."""

    plan_hash: str
    is_automatic: bool


class Owned(_Body, frozen=True, tag="owned"):
    """An object that the run applies or brings about. Written before it is applied, and again with the uid after."""

    api_version: str
    name: str
    object_kind: str
    namespace: str = ""
    uid: str = ""
    """Empty while it is only intended."""
    existed: bool = False
    """It was there before the run: it is never deleted."""
    was_absent: bool = False
    """Without a uid: the cluster was asked just before this was written, and had no such object."""
    is_adopted: bool = False
    """With a uid: the runner that applied it did not live to record it; another one has found evidence that it did."""


class Deleted(_Body, frozen=True, tag="deleted"):
    """An owned object is gone."""

    api_version: str
    name: str
    object_kind: str
    namespace: str = ""


class Output(_Body, frozen=True, tag="output"):
    """Values that later stages use."""

    values: dict[str, str]


class Interrupted(_Body, frozen=True, tag="interrupted"):
    """A Terraform process is asked to stop. Written before the signal is sent, and again when it was.

    A second signal would make Terraform forget what it is making: whoever comes later has to know of the first.
    """

    operation: str
    pid: int
    start_ticks: int
    boot_id: str
    is_sent: bool = False


class PendingResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource of which nobody knows whether it was made."""

    address: str
    action: str
    resource_type: str = ""
    resource_id: str = ""
    """The provider's id of it, if that was told."""


class OperationEnded(_Body, frozen=True, tag="operation_ended"):
    """A Terraform operation ended without having come to its end. Written once for each such process."""

    operation: str
    process: str
    pending: tuple[PendingResource, ...] = ()
    """Resources that it may have made outside of the state."""


class Resolution(StrEnum):
    """The fate of a pending resource."""

    IMPORT = "import"
    """It exists, a person says, and is to be imported by the id given."""
    IMPORTED = "imported"
    TRACKED = "tracked"
    """It is in the state."""
    WAIVED = "waived"
    """A person says that it is not there, or is none of the run's any more."""


class Resolved(_Body, frozen=True, tag="resolved"):
    """A pending resource, or a state that could not be saved, was dealt with."""

    address: str
    how: Resolution
    resource_id: str = ""


TerraformBody = Interrupted | OperationEnded | Resolved
Body = Created | RunRequest | Intent | Outcome | Approval | Owned | Deleted | Output | TerraformBody


class JournalRecord(msgspec.Struct, frozen=True):
    """One line of the journal."""

    seq: int
    """One-based, without gaps."""
    at: float
    """Seconds since the epoch."""
    writer: str
    """Token of the runner, or `operator` for a wish."""
    stage: str
    """Empty when it is about the whole run."""
    attempt: int
    body: Body


_DECODER: msgspec.json.Decoder[Body] = msgspec.json.Decoder(Body)
_ENCODER = msgspec.json.Encoder()


def kind_of(body: Body) -> str:
    """The word that the journal's `kind` column shows."""
    return str(body.__struct_config__.tag)


def encode_body(body: Body) -> str:
    """As JSON text."""
    return _ENCODER.encode(body).decode()


def decode_body(text: str) -> Body:
    """Read what `encode_body` wrote.

    Raises:
        msgspec.MsgspecError: It is something else.
    """
    return _DECODER.decode(text)
