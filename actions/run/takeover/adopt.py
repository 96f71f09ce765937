"""A run whose disk and store are lost, rebuilt from what it has left in its cluster and account.

The first record comes from the run's ConfigMap in the cluster, or else from labels; the blueprint from
the catalogue of this machine. What the ConfigMap holds is foreign text: its parameters are checked against the
blueprint, and references to secrets are left out, since a stage would send the file that one names into the cluster.

A rebuilt run is paused: a job is followed to its end, and no further stage begins before an operator asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConflictError, ConsoleError, MissingError, RefusedError, UsageError
from actions.base.files import expanded
from actions.base.readonly import refuse_if_readonly
from actions.base.untrusted import one_line
from actions.base.wording import listed
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.model import Blueprint, ParameterType
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.source_files import root_folder, shared_roots
from actions.blueprint.stages import HelmStage
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import ClusterIdentity
from actions.run.client import start_runner
from actions.run.context.access import ClusterConnection
from actions.run.context.operator import present_operator
from actions.run.context.run_account import fetch_account, other_account_error, works_in_account
from actions.run.context.stage_context import CLUSTER_UID, StageContext
from actions.run.engine.fence import GRACE_SECONDS
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.elsewhere import FenceState, read_fence, write_fence
from actions.run.journal.folder import kubeconfig_path, runs_folder
from actions.run.journal.machine import identity_of_copy, name_copy, new_copy
from actions.run.journal.mirrored import read_mark, remove_mark
from actions.run.launch import create_folder, first_record, found_supplies
from actions.run.objects.inventory import RELEASE_VERSION
from actions.run.objects.survey import fetch_kinds, survey
from actions.run.presence.lease import ClusterLease, claim_cluster_lease, list_cluster_leases, time_in_cluster
from actions.run.presence.record import RunPresence
from actions.run.stages.helm import KIND as RELEASE_KIND
from actions.run.stages.helm import find_release
from actions.run.state.fold import fold
from actions.run.state.records import (
    Adopted,
    ClusterName,
    Created,
    JournalRecord,
    Output,
    RequestKind,
    RunAccount,
    RunRequest,
    Scalar,
    TakenOver,
)
from actions.run.state.view import OwnedObject, RunView
from actions.run.takeover.arrival import (
    ArrivalRecords,
    SetClock,
    arrival_records,
    connect_here,
    mark_arriving,
    objects_of,
    put_aside,
)
from actions.run.takeover.evidence import DatedBody, FoundObjects, rebuilt_stages, records_of
from actions.run.takeover.imports import FoundResource
from actions.run.takeover.take_over import Say, grace_sentence, heard_sentence, is_young, name_clocks, require_confirmed
from actions.run.takeover.terraform_state import rebuilt_state, tagged_resources, zone_of_nodes

_ID = re.compile(r"(?P<blueprint>[a-z0-9][a-z0-9-]*)-(?P<month>\d\d)(?P<day>\d\d)-[a-z2-7]{13}")
_SHOWN = 5


class Lost(msgspec.Struct, frozen=True):
    """A run that a cluster still has something of."""

    run_id: str
    lease: ClusterLease | None = None
    """`None` if only its labels are left."""


class Adoption(msgspec.Struct, frozen=True):
    """A run that was rebuilt."""

    folder: Path
    view: RunView
    sources: tuple[str, ...]
    missing: tuple[str, ...]


class AdoptionPlan(msgspec.Struct, frozen=True):
    """Everything that is known of a run before anything is written."""

    created: Created
    blueprint: Blueprint
    binding: Binding
    launched_at: float
    knows_parameters: bool
    sources: tuple[str, ...]
    missing: tuple[str, ...]


async def lost_runs(connection: ClusterConnection) -> tuple[list[Lost], list[str]]:
    """Return the runs that a cluster has something of, and a sentence on each that cannot be read.

    Raises:
        ConsoleError: The cluster does not answer, or accepts no credentials.
    """
    leases, unread = await list_cluster_leases(connection)
    found = {lease.run_id: Lost(lease.run_id, lease) for lease in leases}
    known = await fetch_kinds(connection)
    labelled = await survey(connection, known.kinds, selector=RUN_LABEL)
    for entry in labelled.entries:
        if _ID.fullmatch(entry.run):
            found.setdefault(entry.run, Lost(entry.run))
    return list(found.values()), unread


async def adopt_run(
    run: str,
    connection: ClusterConnection,
    target: ClusterTarget | None,
    clock: Clock,
    *,
    catalogue: Catalogue,
    confirm: str = "",
    environment: Mapping[str, str] | None = None,
    say: Say = lambda _: None,
    starts: bool = True,
) -> Adoption:
    """Rebuild a run on this machine, enough to watch, park, tear down and audit it.

    Args:
        run: Its id or the beginning of that; empty if the cluster has one run only.
        connection: Its cluster.
        target: The same cluster, as a context of this machine; `None` to get it from EKS by its name.
        clock: The machine's.
        catalogue: Of blueprints.
        confirm: The run's id, typed by the operator: needed while the machine that had it may be alive.
        environment: Variables of the run's processes; see `start_runner`.
        say: Takes a sentence on each step.
        starts: Start the runner.

    Raises:
        MissingError: The cluster has nothing of such a run, or the catalogue has no such blueprint.
        UsageError: It has several, or the run's machine may be alive. Nothing was changed.
        RefusedError: This machine has the run, and no other one has taken it over.
        ConflictError: The credentials are of another account, or another machine takes the run over.
        ConsoleError: Cluster or account do not answer.
    """
    refuse_if_readonly(f"the adoption of {run or 'a run'}")
    reached = await connection.session.identity()
    name_clocks(clock.now().timestamp() - time_in_cluster(connection, clock), "the cluster", say)
    lost, was_alive = await _adoptable(run, connection, reached, clock, confirm)
    plan = await planned_adoption(lost, catalogue, target, reached, clock)
    found, unread = await objects_of(connection, plan.blueprint, _first_view(plan), since=plan.launched_at)
    copy, asked_at = new_copy(), time_in_cluster(connection, clock)
    epoch = await _claimed(connection, lost.lease, clock, copy=copy, may_be_alive=was_alive)
    if was_alive and lost.lease is not None:
        say(grace_sentence(lost.lease.owner, heard_sentence("its cluster", asked_at - lost.lease.seen_at)))
        await clock.sleep(GRACE_SECONDS)
        found, unread = await objects_of(connection, plan.blueprint, _first_view(plan), since=plan.launched_at)
    put_aside(runs_folder() / lost.run_id, epoch)
    folder = _folder_of(plan, environment or {}, clock)
    name_copy(folder, copy)
    mark_arriving(folder, present_operator(), epoch, clock)
    view, sources, missing = await _rebuilt(
        folder, plan, connection, clock, lease=lost.lease, found=found, target=target, uid=reached.uid,
        epoch=epoch, unread=unread,
    )  # fmt: skip
    write_fence(folder, FenceState(store="the run's cluster" if lost.lease else ""))
    remove_mark(folder)
    if starts:
        start_runner(folder, environment=environment)
    return Adoption(folder, view, sources, missing)


async def _adoptable(
    run: str, connection: ClusterConnection, reached: ClusterIdentity, clock: Clock, confirm: str
) -> tuple[Lost, bool]:
    """Return the run, and whether its machine may be alive, which the operator has confirmed then.

    Ages are measured by the cluster's clock, as this machine's may be wrong.
    """
    lost = await _chosen(run, connection, reached)
    _refuse_own(runs_folder() / lost.run_id)
    require_own_cluster(lost, reached)
    lease, now = lost.lease, time_in_cluster(connection, clock)
    was_alive = lease is not None and is_young(lease, now)
    if lease is not None and was_alive:
        require_confirmed(lost.run_id, lease.owner, now - lease.seen_at, confirm, "its cluster")
    return lost, was_alive


def _refuse_own(folder: Path) -> None:
    """Refuse to adopt a run of this machine, unless another one has it by now, or its arrival was cut short."""
    if folder.exists() and not read_fence(folder).epoch and read_mark(folder) is None:
        raise RefusedError(
            f"This machine has the run {folder.name}.", hint=f"Resume it with `eksml-tui runs resume {folder.name}`."
        )


async def _claimed(
    connection: ClusterConnection, lease: ClusterLease | None, clock: Clock, *, copy: str, may_be_alive: bool
) -> int:
    """Write the next epoch into the run's ConfigMap, if it has one. Returns the epoch.

    Raises:
        ConflictError: Another machine has it now, or its own has given a sign since.
    """
    if lease is None:
        return 2
    stamp, epoch = format_rfc3339(clock.now()), lease.epoch + 1
    machine = identity_of_copy(copy)
    await claim_cluster_lease(
        connection, lease, present_operator(), epoch=epoch, heartbeat=stamp, machine=machine, may_be_alive=may_be_alive
    )
    return epoch


async def _rebuilt(
    folder: Path,
    plan: AdoptionPlan,
    connection: ClusterConnection,
    clock: Clock,
    *,
    lease: ClusterLease | None,
    found: FoundObjects,
    target: ClusterTarget | None,
    uid: str,
    epoch: int,
    unread: Sequence[str],
) -> tuple[RunView, tuple[str, ...], tuple[str, ...]]:
    """Write the records of a rebuilt run. Returns it, its sources, and sentences on what could not be found out."""
    missing = [*plan.missing, *unread, *(f"Left alone: {line}." for line in found.doubtful)]
    with arrival_records(folder, clock) as records:
        _write_stages(records, plan, lease, found)
        missing += await _write_releases(records, connection, plan)
        missing += await _write_cluster(records, folder, clock, target, uid)
        states, gaps = await _write_states(records, folder, clock)
        missing += gaps
        sources = (*plan.sources, *states)
        records.write(TakenOver(present_operator(), epoch, lease.owner if lease else None))
        records.write(Adopted(sources, tuple(missing)))
        records.write(RunRequest(RequestKind.PAUSE, by=present_operator()))
        view = records.view()
    return view, sources, tuple(missing)


def require_own_cluster(lost: Lost, reached: ClusterIdentity) -> None:
    """Require that the cluster is the one that the run's record in it names, as far as both are known by EKS.

    A record that was restored elsewhere, from a backup for instance, is not the run: its teardown would remove what
    the run's own cluster consists of.

    Raises:
        ConflictError: It is another cluster, perhaps of the same name in another region.
    """
    known = lost.lease.created.cluster if lost.lease and lost.lease.created else None
    if known is None or known.context or known.kubeconfig or not reached.account:
        return
    if (known.name, known.region) != (reached.name, reached.region):
        raise ConflictError(
            f"The record of {lost.run_id} names the cluster {one_line(known.name)} in {one_line(known.region)}, "
            f"and this one is {reached.name} in {reached.region}.",
            hint="Nothing was changed. Name the run's own cluster, and its --region.",
        )


async def _chosen(run: str, connection: ClusterConnection, reached: ClusterIdentity) -> Lost:
    found, unread = await lost_runs(connection)
    exact = [one for one in found if one.run_id == run]
    matching = exact or [one for one in found if one.run_id.startswith(run)]
    names = listed([one.run_id for one in matching], _SHOWN)
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"The cluster has {len(matching)} runs: {names}.", hint="Name one of them.")
    where = f"The cluster {reached.name} in {reached.region}" if reached.account else "The cluster"
    raise MissingError(
        " ".join([f"{where} has nothing of {f'a run {run!r}' if run else 'any run'}.", *unread]),
        hint="Name its cluster, and the --region of that, or its --context.",
    )


async def planned_adoption(
    lost: Lost, catalogue: Catalogue, target: ClusterTarget | None, reached: ClusterIdentity, clock: Clock
) -> AdoptionPlan:
    """Collect what is known of a run, and check it against blueprint and account. Nothing is written.

    Args:
        lost: The run.
        catalogue: Of blueprints.
        target: Its cluster, as a context of this machine; `None` to get it from EKS by its name.
        reached: The identity of that.
        clock: The machine's.

    Raises:
        MissingError: The catalogue has no such blueprint.
        ConflictError: The credentials are of another account.
    """
    lease = lost.lease
    known = lease.created if lease else None
    blueprint = catalogue.find(known.blueprint_id if known else _blueprint_id(lost.run_id))
    sources = [f"the ConfigMap of {lost.run_id} in its cluster"] if known else ["labels on objects of its cluster"]
    sources.append(f"the blueprint {blueprint.id} of this machine")
    missing: list[str] = []
    if known is None:
        missing.append(
            "Its parameters are lost: those of the blueprint are shown, and no stage is performed with them."
        )
    if lease is not None:
        missing += _warnings_of(lease.presence)
    binding, left_out = _binding_of(blueprint, known, reached)
    missing += left_out
    launched_at = (lease.presence.created_at if lease else 0.0) or _launch_day(lost.run_id, clock)
    cluster = _cluster_of(blueprint, binding, known, target)
    created = replace(
        first_record(blueprint, binding, run_id=lost.run_id, cluster=cluster, clock=clock),
        owner=known.owner if known else None,
        account=await _account_of(blueprint, binding, known, reached, missing),
    )
    missing += _stages_that_differ(created, known)
    knows = known is not None and lease is not None and lease.presence.version == "" and not left_out
    return AdoptionPlan(created, blueprint, binding, launched_at, knows, tuple(sources), tuple(missing))


def _warnings_of(presence: RunPresence) -> Iterator[str]:
    """Yield what is to be known of a run beside what is missing."""
    if presence.version != "":
        before = presence.version or "?"
        yield f"Version {before} of the program has carried it out: its blueprint may differ from this one."
    if presence.store:
        yield f"Its store {presence.store} was not read: `eksml-tui runs takeover` brings the run back from there."


def _blueprint_id(run_id: str) -> str:
    found = _ID.fullmatch(run_id)
    if found is None:
        raise MissingError(f"The id {one_line(run_id)} names no blueprint, nor does its cluster.")
    return found["blueprint"]


def _launch_day(run_id: str, clock: Clock) -> float:
    """Return the beginning of the day that a run's id names, in the last year; seconds since the epoch."""
    found = _ID.fullmatch(run_id)
    now = clock.now()
    if found is None:
        return now.timestamp()
    for year in (now.year, now.year - 1):
        try:
            day = datetime(year, int(found["month"]), int(found["day"]), tzinfo=UTC)
        except ValueError:
            continue
        if day <= now:
            return day.timestamp()
    return now.timestamp()


def _binding_of(blueprint: Blueprint, known: Created | None, reached: ClusterIdentity) -> tuple[Binding, list[str]]:
    """Return the parameters of a run, with sentences on those that are left out."""
    if known is None:
        return _binding_by_cluster(blueprint, reached)
    given: dict[str, Scalar] = {}
    missing = []
    for name, value in known.parameters.items():
        parameter = blueprint.parameters.get(name)
        if parameter is None:
            missing.append(f"The blueprint has no parameter {one_line(name)} any more.")
        elif parameter.type is ParameterType.SECRET:
            if value:
                missing.append(
                    f"The reference to a secret in {name} was left out: a stage that needs it has to be done by hand."
                )
        else:
            given[name] = value
    preset = known.preset if known.preset in blueprint.presets else ""
    try:
        return bind(blueprint, given, preset=preset, existing_cluster=known.existing_cluster), missing
    except ConsoleError as error:
        defaults = bind(blueprint, {}, preset=preset, existing_cluster=known.existing_cluster)
        return defaults, [*missing, f"Its parameters do not fit the blueprint of this machine: {error.message}"]


def _binding_by_cluster(blueprint: Blueprint, reached: ClusterIdentity) -> tuple[Binding, list[str]]:
    """Return the parameters of a run of which labels alone are left: those of the blueprint, and its cluster."""
    if not reached.account:
        return bind(blueprint, {}), [
            "The name of its cluster in EKS is not known by this context: the blueprint's is taken. "
            "If it has another one, adopt the run by that name."
        ]
    here = {"cluster_name": reached.name, "region": reached.region}
    try:
        return bind(blueprint, {name: text for name, text in here.items() if name in blueprint.parameters}), []
    except ConsoleError as error:
        return bind(blueprint, {}), [f"Its cluster does not fit the blueprint of this machine: {error.message}"]


def _cluster_of(
    blueprint: Blueprint, binding: Binding, known: Created | None, target: ClusterTarget | None
) -> ClusterName:
    """Return the cluster of a rebuilt run: by its name, and reached by the context of this machine."""
    path = str(expanded(target.kubeconfig).absolute()) if target and target.kubeconfig else ""
    return ClusterName(
        name=binding.text("cluster_name", known.cluster.name if known else blueprint.cluster.name),
        region=binding.text("region", known.cluster.region if known else blueprint.cluster.region),
        context=target.context if target else "",
        kubeconfig=path,
        namespace=known.cluster.namespace if known else (target and target.namespace) or blueprint.cluster.namespace,
    )


async def _account_of(
    blueprint: Blueprint, binding: Binding, known: Created | None, reached: ClusterIdentity, missing: list[str]
) -> RunAccount | None:
    """Return the account of the credentials, if it is the run's: by its record, else that of its cluster."""
    wanted = known.account if known else None
    if not any(works_in_account(blueprint.under(binding.preset), stage) for stage in blueprint.stages):
        return None
    try:
        found = await fetch_account(binding.text("region", blueprint.cluster.region))
    except ConsoleError as error:
        missing.append(f"Its AWS account was not asked: {error.message}")
        return None
    if wanted is not None and (wanted.id, wanted.partition) != (found.id, found.partition):
        raise other_account_error(wanted, found)
    if wanted is None and reached.account not in ("", found.id):
        raise ConflictError(
            f"The cluster {reached.name} is in the AWS account {reached.account}, "
            f"but these credentials are of the account {found.id} ({found.arn}).",
            hint=f"Nothing was changed. Log in to {reached.account}, or choose its --profile, and try again.",
        )
    return found


def _stages_that_differ(created: Created, known: Created | None) -> list[str]:
    if known is None:
        return []
    names = {stage.id for stage in created.stages} ^ {stage.id for stage in known.stages}
    return [f"The blueprint has other stages than the run had: {listed(sorted(names), _SHOWN)}."] if names else []


def _first_view(plan: AdoptionPlan) -> RunView:
    """Return the run as its first record alone leaves it."""
    return fold([JournalRecord(1, plan.launched_at, "operator", "", 0, plan.created)])


def _folder_of(plan: AdoptionPlan, environment: Mapping[str, str], clock: Clock) -> Path:
    blueprint = plan.blueprint
    chosen = blueprint.under(plan.binding.preset)
    return create_folder(
        plan.created,
        source=blueprint.folder,
        roots={root: root_folder(blueprint.folder, root) for root in shared_roots(blueprint)},
        supplies=found_supplies(chosen, plan.binding),
        environment=environment,
        clock=SetClock(clock, plan.launched_at),
    )


def _write_stages(records: ArrivalRecords, plan: AdoptionPlan, lease: ClusterLease | None, found: FoundObjects) -> None:
    made: dict[str, list[float]] = {}
    for one in found.own:
        made.setdefault(one.item.stage, []).append(one.created_at)
    stages = rebuilt_stages(
        plan.created.stages,
        made=made,
        published=lease.presence.stages if lease else (),
        launched_at=plan.launched_at,
        may_perform=plan.knows_parameters,
    )
    for each in records_of(stages, found.own):
        _write(records, each)
    if lease is not None:
        _write_outputs(records, plan, lease.presence)


def _write_outputs(records: ArrivalRecords, plan: AdoptionPlan, presence: RunPresence) -> None:
    """Record what stages have found out, as the zone of the nodes: roots of Terraform need it, also to be imported."""
    declared = {stage.id: stage.outputs for stage in plan.blueprint.under(plan.binding.preset).stages}
    view = records.view()
    begun = {stage.id: stage.attempt for stage in view.stages if stage.attempt}
    for stage in presence.stages:
        values = {name: stage.outputs[name] for name in declared.get(stage.id, ()) if name in stage.outputs}
        if values and stage.id in begun:
            records.write(Output(values), stage=stage.id, attempt=begun[stage.id])


def _write(records: ArrivalRecords, each: DatedBody) -> None:
    records.write(each.body, stage=each.stage, attempt=each.attempt, at=each.at)


async def _write_releases(records: ArrivalRecords, connection: ClusterConnection, plan: AdoptionPlan) -> list[str]:
    """Record the Helm releases that the run has installed: younger than the run, in a namespace with its label."""
    view, left = records.view(), []
    for stage in plan.blueprint.under(plan.binding.preset).stages:
        if not isinstance(stage, HelmStage) or not view.stage(stage.id).attempt:
            continue
        try:
            release = await find_release(connection, stage.namespace, stage.release)
        except ConsoleError as error:
            left.append(f"The release {stage.release} was not looked up: {error.message}")
            continue
        if release is None:
            continue
        is_own = any(item.kind == "Namespace" and item.name == stage.namespace for item in view.owned_by(stage.id))
        if not is_own or release.since < plan.launched_at:
            left.append(f"Left alone: the Helm release {stage.release}, which may be older than the run.")
            continue
        item = OwnedObject(
            stage.id, RELEASE_VERSION, RELEASE_KIND, stage.namespace, stage.release, release.uid,
            existed=False, is_deleted=False, is_adopted=True,
        )  # fmt: skip
        records.write(item.announcement(), stage=stage.id, attempt=view.stage(stage.id).attempt, at=release.since)
    return left


async def _write_states(records: ArrivalRecords, folder: Path, clock: Clock) -> tuple[list[str], list[str]]:
    """Rebuild the states of Terraform stages, in order, as a later one needs the outputs of an earlier one.

    Returns:
        Where they come from, and sentences on what is not in them.
    """
    backend = LiveBackend(folder, clock)
    sources: list[str] = []
    missing: list[str] = []
    found: tuple[FoundResource, ...] | None = None
    begun = [stage.id for stage in records.view().stages if stage.kind == "terraform" and stage.attempt]
    try:
        for name in begun:
            view = records.view()
            stage = view.stage(name)
            context = backend.context(view, stage, records.stage(stage))
            if not works_in_account(context.blueprint, context.declaration):
                continue
            if found is None:
                found, others = await tagged_resources(context)
                missing += others
                sources += await _write_zone(records, context, found)
                context = backend.context(records.view(), stage, records.stage(stage))
            try:
                state = await rebuilt_state(context, found)
            except ConsoleError as error:
                missing.append(f"The Terraform state of {name} was not rebuilt: {error.message}")
                continue
            sources += [state.source] if state.source else []
            missing += state.missing
            if state.outputs:
                records.write(Output(dict(state.outputs)), stage=name, attempt=stage.attempt)
    except ConsoleError as error:
        missing.append(f"Its AWS account was not searched: {error.message}")
    finally:
        await backend.aclose()
    return sources, missing


async def _write_zone(records: ArrivalRecords, context: StageContext, found: tuple[FoundResource, ...]) -> list[str]:
    """Record the zone of the nodes where the lost runner has published none. Returns its source, if there is one."""
    chosen = [
        context.view.stage(stage.id)
        for stage in context.blueprint.stages
        if stage.kind == "capacity" and "zone" in stage.outputs
    ]
    lacking = [stage for stage in chosen if stage.attempt and "zone" not in (stage.outputs or {})]
    zone = await zone_of_nodes(found, region=context.view.cluster.region) if lacking else ""
    for stage in lacking if zone else ():
        records.write(Output({"zone": zone}), stage=stage.id, attempt=stage.attempt)
    return [f"the zone {zone} of the subnet for its nodes"] if zone else []


async def _write_cluster(
    records: ArrivalRecords, folder: Path, clock: Clock, target: ClusterTarget | None, uid: str
) -> Sequence[str]:
    """Write the run's kubeconfig, and the outputs of the stage that does, if it leads to the cluster of this uid."""
    outputs, failure = await connect_here(folder, records, clock, target=target)
    why = failure.message if failure is not None else ""
    if outputs.get(CLUSTER_UID, uid) != uid:
        kubeconfig_path(folder).unlink(missing_ok=True)
        outputs, why = {}, "another cluster has the name that its parameters give. Adopt it with --context."
    stage = next((each for each in records.view().stages if each.kind == "kubeconfig"), None)
    if stage is None or not stage.attempt or not outputs:
        return [f"The run's kubeconfig was not written: {why}"] if why else []
    records.write(Output(outputs), stage=stage.id, attempt=stage.attempt)
    return []
