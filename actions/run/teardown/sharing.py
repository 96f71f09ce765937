"""Others who use what the teardown of a run removes: runs of this machine, by their folders; others, by the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from actions.base.errors import ConsoleError, RefusedError
from actions.base.untrusted import one_line
from actions.base.wording import counted, listed
from actions.blueprint.render import RUN_LABEL
from actions.cluster.objects.client import ApiResource
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import ONCE
from actions.run.context.stage_context import StageContext
from actions.run.journal.reader import load_run
from actions.run.objects.contents import DeletionGuard
from actions.run.objects.inventory import inventory_of, ref_of_owned
from actions.run.objects.ownership import Ownership, entry_of
from actions.run.objects.survey import ObjectListing, survey
from actions.run.objects.writes import claims_of
from actions.run.state.planner import kept_stages
from actions.run.state.view import OwnedObject, RunState, RunView, is_watched_only
from actions.run.summaries import list_runs

CLAIM = "PersistentVolumeClaim"
_LABELLED = (
    ApiResource("v1", "Pod", "pods", is_namespaced=True),
    ApiResource("v1", CLAIM, "persistentvolumeclaims", is_namespaced=True),
    ApiResource("batch/v1", "Job", "jobs", is_namespaced=True),
)
"""Kinds by which a run in a cluster shows itself: every run has pods, claims or Jobs once it has begun."""
_NAMED = 3


def refuse_shared(folder: Path, view: RunView, *, deletes_data: bool) -> None:
    """Refuse a teardown that removes what other runs of this machine use.

    Args:
        folder: The run's, beside those of the others.
        view: The run.
        deletes_data: The teardown undoes stages that hold data, too.

    Raises:
        RefusedError: With the runs, and what of it they use.
        ConfigError: The folder of all runs cannot be read.
    """
    others = list(_runs_of_this_machine(folder))
    users = runs_using(view, others, deletes_data=deletes_data)
    if users:
        first = next(other for other in others if runs_using(view, [other], deletes_data=deletes_data))
        before = f"eksml-tui runs teardown {first.id} --confirm {first.cluster.name}"
        anyway = f"eksml-tui runs teardown {view.id} --confirm {view.cluster.name} --even-if-shared"
        if _is_in_circle(view, others, deletes_data=deletes_data):
            hint = (
                "Each uses what the other removes, so none can be the first without more. "
                f"Of the run whose work is over: {anyway}; or {before} --even-if-shared"
            )
        else:
            hint = f"Tear that down first: {before}; or remove it all the same: {anyway}"
        raise RefusedError(sharing_sentence(view, users), hint=hint)


def local_users(folder: Path, view: RunView, *, deletes_data: bool) -> list[str]:
    """Return a clause for each other run of this machine that uses what the teardown of a run removes.

    Args:
        folder: The run's, beside those of the others.
        view: The run.
        deletes_data: The teardown undoes stages that hold data, too.

    Raises:
        ConfigError: The folder of all runs cannot be read.
    """
    return runs_using(view, _runs_of_this_machine(folder), deletes_data=deletes_data)


SHARING_HINT = "Tear those down first. To remove it anyway, add --even-if-shared, in the console even_if_shared=true."


def sharing_sentence(view: RunView, users: Collection[str]) -> str:
    """Return the reason why a run is not torn down: the others, a clause each."""
    return f"Others use what the teardown of run {view.id} removes: {'; '.join(users)}."


def runs_using(view: RunView, others: Iterable[RunView], *, deletes_data: bool) -> list[str]:
    """Return a clause for each other run that uses what the teardown of a run removes.

    That is the cluster, if the run has made it and the other has objects in it; and objects that the run has made and
    the other found and used, such as a claim or an operator. A run that is torn down uses nothing.

    Args:
        view: The run that is to be torn down.
        others: Other runs.
        deletes_data: The teardown undoes stages that hold data, too.
    """
    mine = {item.uid: item for item in _removed(view, deletes_data=deletes_data) if item.uid}
    found = []
    for other in others:
        if other.state is RunState.TORN_DOWN:
            continue
        used = [mine[item.uid] for item in other.owned if item.existed and not item.is_deleted and item.uid in mine]
        theirs = [item for item in other.owned if not (item.existed or item.is_deleted)]
        if theirs and removes_cluster(view, deletes_data=deletes_data) and _is_same_cluster(view, other):
            found.append(f"run {other.id} has {counted(len(theirs), 'object')} in the cluster {view.cluster.name}")
        elif used:
            names = [ref_of_owned(item).describe() for item in used]
            found.append(f"run {other.id} uses {listed(names, _NAMED)}")
    return found


def _is_in_circle(view: RunView, others: Sequence[RunView], *, deletes_data: bool) -> bool:
    """Return whether a run has to be torn down before those that have to be torn down before it."""
    before: dict[str, RunView] = {}
    asked = [view]
    while asked:
        one = asked.pop()
        for other in (view, *others):
            if other.id not in {one.id, *before} and runs_using(one, [other], deletes_data=deletes_data):
                before[other.id] = other
                asked.append(other)
    return view.id in before


def removes_cluster(view: RunView, *, deletes_data: bool) -> bool:
    """Return whether the teardown of a run removes the cluster: the run has made it, and keeps none of it."""
    if view.existing_cluster:
        return False
    needed = {need for stage in view.stages if stage.kind == "kubeconfig" for need in stage.needs}
    kept = frozenset() if deletes_data else kept_stages(view.stages)
    return any(stage.id in needed and stage.kind == "terraform" and stage.attempt for stage in view.stages) and not (
        needed & kept
    )


async def others_in_cluster(context: StageContext) -> list[str]:
    """Return a clause for each other that the cluster shows to use what the teardown of its run removes.

    These are other runs' pods, claims and Jobs in a cluster that goes; and pods of others with a claim that goes. A
    cluster that does not answer, or may not be asked, is noted and holds nothing up: it would cost on.

    Args:
        context: Of any stage of the run.
    """
    if not context.access.is_possible:
        return []
    try:
        connection = await context.connect(ONCE)
        found = await _labelled_by_others(context, connection)
        return [*found, *await _users_of_claims(context, connection)]
    except ConsoleError as error:
        context.journal.note(f"It is unknown whether others use what is removed: {error.message}")
        return []


async def _labelled_by_others(context: StageContext, connection: ClusterConnection) -> list[str]:
    """Return other runs with objects in the cluster, unless this machine has a record that they are of another cluster.

    That is so in the sandbox, which has one cluster under any name.
    """
    view = context.view
    if not removes_cluster(view, deletes_data=view.deletes_data):
        return []
    elsewhere = {other.id for other in _other_runs(context.folder) if not _is_same_cluster(view, other)}
    seen = await survey(connection, _LABELLED, selector=f"{RUN_LABEL},{RUN_LABEL}!={view.id}")
    by_run: dict[str, int] = {}
    for entry in seen.entries:
        if entry.run not in elsewhere:
            by_run[entry.run] = by_run.get(entry.run, 0) + 1
    return [
        f"run {one_line(run)} has {counted(count, 'object')} in the cluster {view.cluster.name}"
        for run, count in sorted(by_run.items())
    ]


async def _users_of_claims(context: StageContext, connection: ClusterConnection) -> list[str]:
    """Return pods of others that hold claims of the run, each with its claim."""
    view = context.view
    claims = {
        (item.namespace, item.name)
        for item in _removed(view, deletes_data=view.deletes_data)
        if item.kind == CLAIM and item.uid
    }
    pods: dict[str, tuple[dict[str, Any], str]] = {}
    for namespace in sorted({space for space, _ in claims}):
        for pod in await connection.list_objects("v1", "Pod", namespace=namespace):
            name = next((name for name in claims_of(pod) if (namespace, name) in claims), "")
            if name and object_status(pod).state is not WorkState.FINISHED:
                pods[str(pod["metadata"]["uid"])] = (pod, name)
    entries = [entry_of(pod, "", "Pod") for pod, _ in pods.values()]
    unlabelled = [entry for entry in entries if entry.run != view.id]
    if not unlabelled:
        return []
    contents = await DeletionGuard(context, connection, inventory_of(context)).judged(ObjectListing(tuple(unlabelled)))
    return [
        f"{one.entry.describe()} uses the claim {one_line(pods[one.entry.uid][1])}"
        for one in contents.judged
        if one.standing is Ownership.FOREIGN
    ]


def _removed(view: RunView, *, deletes_data: bool) -> list[OwnedObject]:
    """Return the objects that a teardown of the run deletes."""
    kept = frozenset() if deletes_data else kept_stages(view.stages)
    return [item for item in view.owned if not (item.existed or item.is_deleted) and item.stage not in kept]


def _is_same_cluster(view: RunView, other: RunView) -> bool:
    one, two = view.cluster, other.cluster
    return (one.name, one.region) == (two.name, two.region)


def _runs_of_this_machine(folder: Path) -> Iterator[RunView]:
    """Read the others that this machine carries out. The records of another's are old: for those the cluster counts."""
    return (other for other in _other_runs(folder) if not is_watched_only(other.notices))


def _other_runs(folder: Path) -> Iterator[RunView]:
    """Read the runs beside this one; what cannot be read is passed over."""
    for run in list_runs(folder.parent):
        if run.folder.name != folder.name and not run.error:
            try:
                yield load_run(run.folder)
            except ConsoleError:
                continue
