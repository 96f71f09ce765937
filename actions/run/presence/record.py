"""The record of a run in its cluster: a ConfigMap, encoded by its runner, and decoded strictly by every reader.

Whoever may write ConfigMaps in the namespace can write one of these. So what is read is limited in size, of exact types
and filtered; and nothing is done by it but to show it, and to end a runner whose run another machine has taken over.
Fields that are unknown here are ignored: a later version of the program may write more.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec.structs import replace

from actions.base.clock import format_rfc3339, parse_rfc3339
from actions.base.decoding import convert, decode_json
from actions.base.names import is_label, is_segment, is_subdomain
from actions.base.untrusted import one_line, plain_text, redact
from actions.blueprint.render import MANAGED_BY, MANAGER
from actions.cluster.kinds import JOB_NAMES
from actions.cluster.objects.client import Document, ObjectRef
from actions.run.paid import PaidThing, is_same_cluster, paid_by
from actions.run.spending import spending_of
from actions.run.state.records import Created, Operator, decode_body, encode_body
from actions.run.state.view import OVER, RunState, RunView, StageState, StageView

NAMESPACE = "default"
"""The namespace of the ConfigMaps: the one that every cluster has."""
RECORD_LABEL = "eksml.dev/record"
"""Not the label of a run's objects, by which the audit of a teardown searches."""
LABELS = {MANAGED_BY: MANAGER, RECORD_LABEL: "run"}
SELECTOR = f"{RECORD_LABEL}={LABELS[RECORD_LABEL]}"
"""Label selector of all of them."""
NAME_PREFIX = "eksml-run-"
STOPPED_NOTE = "eksml.dev/parked"
"""The annotation with the note of the watchdog, which is a program of its own (`actions.run.watchdog.script.NOTE`)."""
RUN_KEY = "run.json"
CREATED_KEY = "created.json"
RUN_BYTES = 64 << 10
"""Of `run.json`. One of 40 stages has 6 KiB."""
CREATED_BYTES = 256 << 10
"""Of `created.json`. The largest of the shipped blueprints has 8 KiB."""
BEAT_SECONDS = 30.0
"""Between two heartbeats."""
SILENT_SECONDS = 90.0
"""Silence after which a run that is not over counts as without a sign: two heartbeats may be lost."""
OLD_SECONDS = 300.0
"""Age of a heartbeat by which a machine is gone even if clocks differ by minutes."""
_MOST_STAGES = 500
_MOST_OUTPUTS = 50
_LONGEST_TEXT = 300
_ASKED_ELSEWHERE = ("terraform", "kubeconfig")
"""Kinds of stages whose outputs an adoption finds out anew."""

Moment = Annotated[float, msgspec.Meta(ge=0.0, le=4e9)]
"""Seconds since the epoch, within what a date can be."""
Amount = Annotated[str, msgspec.Meta(pattern=r"^(\d{1,15}(\.\d{1,20})?)?$")]
"""A decimal number of US dollars; empty if it is not known."""
StructT = TypeVar("StructT", bound=msgspec.Struct)


class StagePresence(msgspec.Struct, frozen=True):
    """One stage, or one step of a teardown."""

    id: str
    state: StageState
    attempt: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    started_at: Moment | None = None
    ended_at: Moment | None = None
    job: str = ""
    """The job that it made last: `KIND/NAMESPACE/NAME`."""
    outputs: Annotated[dict[str, str], msgspec.Meta(max_length=_MOST_OUTPUTS)] = {}
    """The outputs that later stages need and that can be found nowhere else, such as the chosen zone."""


class RunPresence(msgspec.Struct, frozen=True):
    """A run as its runner publishes it."""

    id: str
    blueprint: str
    version: str
    """Of the program that wrote it."""
    owner: Operator
    account: str
    """Twelve digits; empty if it works in none."""
    region: str
    cluster: str
    store: str
    state: RunState
    stage: str
    """The stage at work, that waits for approval, or has failed."""
    epoch: Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
    heartbeat: str
    """RFC 3339 in UTC."""
    spent_usd: Amount = ""
    usd_per_hour: Amount = ""
    nodes_usd_per_hour: Amount = ""
    """The part of it that nodes are."""
    created_at: Moment = 0.0
    stages: Annotated[tuple[StagePresence, ...], msgspec.Meta(max_length=_MOST_STAGES)] = ()
    steps: Annotated[tuple[StagePresence, ...], msgspec.Meta(max_length=_MOST_STAGES)] = ()
    """Of a teardown."""
    machine: str = ""
    """See `actions.run.journal.machine`; empty after a takeover, before its runner has begun."""

    @property
    def is_over(self) -> bool:
        """True if no heartbeat is expected."""
        return self.state in OVER

    @property
    def heartbeat_at(self) -> float:
        """The last heartbeat in seconds since the epoch, by the clock of the machine that wrote it."""
        return parse_rfc3339(self.heartbeat).timestamp()

    @property
    def at_work(self) -> StagePresence | None:
        """The stage at work, if any."""
        return next((stage for stage in self.stages if stage.id == self.stage), None)


class RemoteRun(msgspec.Struct, frozen=True):
    """A run as its cluster records it."""

    id: str
    presence: RunPresence | None
    """`None` if it cannot be read."""
    seen_at: float
    """Time of the newest heartbeat in seconds since the epoch, by the API server's clock where that is known."""
    namespace: str = NAMESPACE
    uid: str = ""
    version: str = ""
    """The object's resource version."""
    created: Created | None = None
    """The first record of its journal, if it can be read."""
    error: str = ""
    """The reason why it cannot be read, in one sentence; else empty."""
    stopped: str = ""
    """The note of the watchdog on the jobs that it has suspended; empty without one, or once the runner has read it."""

    @property
    def owner(self) -> str:
        """`USER@HOST`; `?` if it is unknown."""
        return str(self.presence.owner) if self.presence else "?"

    @property
    def epoch(self) -> int:
        """Number of the machines that have carried it out; 0 if it is unknown."""
        return self.presence.epoch if self.presence else 0

    @property
    def is_over(self) -> bool:
        """True if no heartbeat is expected."""
        return self.presence is None or self.presence.is_over

    def is_silent(self, now: float) -> bool:
        """Return whether heartbeats are missing at `now`, in seconds since the epoch."""
        return not self.is_over and now - self.seen_at > SILENT_SECONDS


def stopped_sentence(run: RemoteRun) -> str:
    """Return what the watchdog in the cluster has stopped of a run; empty for nothing."""
    return f"The watchdog in the cluster acted: {run.stopped}" if run.stopped else ""


def paid_elsewhere(run: RemoteRun, cluster: tuple[str, str]) -> PaidThing | None:
    """Return what a run of another machine pays for by the hour, as one thing; `None` if that is nothing.

    Args:
        run: The run.
        cluster: Name and region of the one whose nodes are seen: those of the run are not in it.
    """
    presence = run.presence
    if presence is None or not presence.usd_per_hour:
        return None
    usd: Decimal | None = Decimal(presence.usd_per_hour)
    is_kept = presence.state is RunState.TORN_DOWN
    if usd and not is_kept and is_same_cluster((presence.cluster, presence.region), cluster):
        # an earlier version of the program does not publish what part of it its nodes are
        usd = usd - Decimal(presence.nodes_usd_per_hour) if presence.nodes_usd_per_hour else None
    title = f"{'kept by' if is_kept else 'run of'} {run.owner}"
    return None if usd is not None and usd <= 0 else PaidThing(title, usd, run.id, is_kept=is_kept)


def name_of(run_id: str) -> str:
    """Return the name of a run's ConfigMap."""
    return f"{NAME_PREFIX}{run_id}"


def ref_of(run_id: str) -> ObjectRef:
    """Return the reference to a run's ConfigMap."""
    return ObjectRef("v1", "ConfigMap", NAMESPACE, name_of(run_id))


def presence_of(view: RunView, *, now: float, owner: Operator, version: str, machine: str = "") -> RunPresence:
    """Return what is to be published of a run.

    Args:
        view: The run.
        now: Seconds since the epoch.
        owner: The operator of this process, if its journal has no owner.
        version: Of this program.
        machine: See `RunPresence`.
    """
    spending = spending_of(view, now)
    return RunPresence(
        id=view.id,
        blueprint=view.blueprint_id,
        version=version,
        owner=view.owner or owner,
        account=view.account.id if view.account else "",
        region=view.cluster.region,
        cluster=view.cluster.name,
        store=view.store,
        state=view.state,
        stage=_stage_at_work(view),
        epoch=view.epoch,
        heartbeat=format_rfc3339(datetime.fromtimestamp(now, UTC)),
        spent_usd=f"{spending.usd:.4f}" if spending else "",
        usd_per_hour=f"{spending.usd_per_hour:.4f}" if spending else "",
        nodes_usd_per_hour=f"{paid_by(view).nodes_usd_per_hour:.4f}" if spending else "",
        created_at=view.created_at,
        stages=tuple(_published(stage, view) for stage in view.stages),
        steps=tuple(_published(step, None) for step in view.teardown),
        machine=machine,
    )


def manifest_of(presence: RunPresence, created: Created) -> Document:
    """Return the ConfigMap."""
    name = {"name": name_of(presence.id), "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name | {"labels": LABELS}} | data_of(presence, created)


def data_of(presence: RunPresence, created: Created) -> Document:
    """Return the ConfigMap's data, without anything that looks like a credential."""
    texts = {RUN_KEY: msgspec.json.encode(presence).decode(), CREATED_KEY: encode_body(created)}
    return {"data": {key: redact(text) for key, text in texts.items()}}


def read_run(document: Mapping[str, Any]) -> RemoteRun | None:
    """Read a ConfigMap.

    Args:
        document: The object, as the API server gave it.

    Returns:
        The run, with the reason where it cannot be read; `None` for an object that is not a record of a run.
    """
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    labels = metadata.get("labels")
    is_record = isinstance(labels, dict) and labels.get(RECORD_LABEL) == LABELS[RECORD_LABEL]
    if not (is_record and isinstance(name, str) and isinstance(namespace, str) and is_label(namespace)):
        return None
    if not (name.startswith(NAME_PREFIX) and is_subdomain(name)):
        return None
    run_id = name.removeprefix(NAME_PREFIX)
    data = document.get("data")
    texts = data if isinstance(data, dict) else {}
    try:
        presence, error = _decoded_presence(texts.get(RUN_KEY), run_id), ""
    except ValueError as reason:
        presence, error = None, one_line(str(reason), limit=_LONGEST_TEXT)
    return RemoteRun(
        id=run_id,
        presence=presence,
        seen_at=_written_at(metadata, presence),
        namespace=namespace,
        uid=one_line(str(metadata.get("uid") or "")),
        version=one_line(str(metadata.get("resourceVersion") or "")),
        created=_decoded_created(texts.get(CREATED_KEY), run_id),
        error=error,
        stopped=_stopped(metadata.get("annotations")),
    )


def job_parts(text: str) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of a published job; `None` if it names none that can be watched."""
    parts = text.split("/")
    if len(parts) != 3 or parts[0] not in JOB_NAMES or not is_label(parts[1]) or not is_segment(parts[2]):
        return None
    return parts[0], parts[1], parts[2]


_AT_WORK = (StageState.RUNNING, StageState.AWAITING_APPROVAL, StageState.UNKNOWN)


def _stage_at_work(view: RunView) -> str:
    wanted = [_AT_WORK, *([(StageState.FAILED,)] if view.state is RunState.FAILED else [])]
    stages = (*view.stages, *view.teardown)
    return next((stage.id for states in wanted for stage in stages if stage.state in states), "")


def _published(stage: StageView, view: RunView | None) -> StagePresence:
    owned = view.owned_by(stage.id) if view else ()
    jobs = [f"{item.kind}/{item.namespace}/{item.name}" for item in owned if item.kind in JOB_NAMES]
    return StagePresence(
        stage.id,
        stage.state,
        stage.attempt,
        stage.started_at,
        stage.ended_at,
        jobs[-1] if jobs else "",
        _published_outputs(stage) if view else {},
    )


def _published_outputs(stage: StageView) -> dict[str, str]:
    """Return the outputs of a stage that fit into the record unchanged."""
    if stage.kind in _ASKED_ELSEWHERE or not stage.outputs or len(stage.outputs) > _MOST_OUTPUTS:
        return {}
    return {name: text for name, text in stage.outputs.items() if one_line(text, limit=_LONGEST_TEXT) == text}


def _stopped(annotations: object) -> str:
    note = annotations.get(STOPPED_NOTE) if isinstance(annotations, dict) else None
    return one_line(redact(note), limit=_LONGEST_TEXT) if isinstance(note, str) else ""


def _decoded_presence(text: object, run_id: str) -> RunPresence:
    """Read `run.json`.

    Raises:
        ValueError: It is missing, too large, or something else.
    """
    if not isinstance(text, str):
        raise ValueError(f"It has no {RUN_KEY}.")
    if len(text) > RUN_BYTES:
        raise ValueError(f"Its {RUN_KEY} is larger than {RUN_BYTES >> 10} KiB.")
    try:
        presence = _filtered(decode_json(text, RunPresence))
        _ = presence.heartbeat_at
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"Its {RUN_KEY} is of another form: {error}.") from error
    if presence.id != run_id:
        raise ValueError(f"Its {RUN_KEY} is of another run.")
    return presence


def _decoded_created(text: object, run_id: str) -> Created | None:
    """Read `created.json`; `None` if that is not possible."""
    if not isinstance(text, str) or len(text) > CREATED_BYTES:
        return None
    try:
        body = decode_body(text)
        if isinstance(body, Created) and body.run_id == run_id and len(body.stages) <= _MOST_STAGES:
            given = {
                name: plain_text(value) if isinstance(value, str) else value for name, value in body.parameters.items()
            }
            return replace(_filtered(body), parameters=given)  # which a run may be rebuilt with
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    return None


def _filtered(record: StructT) -> StructT:
    """Return a record with each text in it on one line, without controls and of bounded length."""
    return convert(_cleaned(msgspec.to_builtins(record)), type(record))


def _cleaned(value: object) -> object:
    match value:
        case str():
            return one_line(value, limit=_LONGEST_TEXT)
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [_cleaned(item) for item in value]
    return value


def _written_at(metadata: Mapping[str, Any], presence: RunPresence | None) -> float:
    """Return the time of the last write by the API server's clock; without it, of the heartbeat."""
    times = [0.0]
    managed = metadata.get("managedFields")
    for entry in managed[:_MOST_STAGES] if isinstance(managed, list) else ():
        stamp = entry.get("time") if isinstance(entry, dict) else None
        if isinstance(stamp, str) and str(entry.get("manager")).startswith(MANAGER):
            try:
                times.append(parse_rfc3339(stamp).timestamp())
            except (ValueError, OverflowError):
                continue
    return max(times) or (presence.heartbeat_at if presence else 0.0)
