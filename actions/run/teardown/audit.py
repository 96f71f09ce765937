"""The audit after a teardown: objects of the inventory that still exist, and whatever has the run's label or tag."""

from __future__ import annotations

from collections.abc import Iterable, Set
from contextlib import suppress

import msgspec

from actions.base.errors import (
    AccessError,
    ConflictError,
    ConsoleError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from actions.base.executors import in_thread
from actions.base.untrusted import one_line
from actions.blueprint.render import RUN_LABEL, RUN_TAG, STORED_RUN_LABEL
from actions.cloud.aws_session import AwsSession
from actions.cloud.leftovers import SearchScope, search_account
from actions.cloud.resources import AwsResource
from actions.run.context.protocols import AuditReport
from actions.run.context.retry import ONCE, RetryPolicy, retry_unreachable
from actions.run.context.run_account import require_account
from actions.run.context.stage_context import StageContext, known_cluster_uid
from actions.run.objects.contents import DeletionGuard
from actions.run.objects.inventory import RELEASE_VERSION, inventory_of, ref_of_owned
from actions.run.objects.ownership import ClassifiedObject, Entry, Ownership
from actions.run.objects.survey import ObjectListing, Unanswered, fetch_kinds, look, sentences_of, survey_as_far
from actions.run.stages.image import API as IMAGE_VERSION
from actions.run.stages.network import API as RULE_VERSION
from actions.run.state.records import NODE_CLAIM
from actions.run.state.view import OwnedObject, RunView
from actions.run.store.access import cluster_store, note_removed
from actions.run.store.kubernetes import KubernetesStore

SETTLE_SECONDS = 60.0
"""Time for garbage collection, or an API that is down, to catch up."""
ENDING_SECONDS = 240.0
"""Time for what the cluster has begun to delete and no finalizer holds: a pod's grace period, and a busy kubelet."""
ACCOUNT_SETTLE_SECONDS = 60.0
"""Time for the account to catch up: interfaces and endpoints go after what they were made for."""
_ACCOUNT_LOOK_SECONDS = 3.0
_LOOK_SECONDS = 1.0
_NO_OBJECTS = frozenset({RULE_VERSION, IMAGE_VERSION, RELEASE_VERSION})
"""API versions in records of what the run owns outside of the cluster, or by Helm."""
_UNRECORDED = "carries the run's label, but the run never recorded making it"


async def remove_published(context: StageContext, policy: RetryPolicy) -> str | None:
    """Remove the run from the store in its cluster before the audit: nothing of the run is to be left.

    It is done in the audit, and not in the undo of a stage: until then the teardown may fail or wait for long, and the
    run has to be known; and its publisher writes nothing more there once the audit is announced in the journal. That
    the lease is removed is on disk before: no later runner waits for an answer about it.

    Args:
        context: Of any stage.
        policy: The retries until the cluster first answers.

    Returns:
        Why it is left, in a line of the audit; empty if it is not; `None` if the cluster does not answer, or accepts no
        credentials: then there is nothing any more, or it is to be tried again once the cluster is known to be there.
    """
    if not context.access.is_possible or not known_cluster_uid(context.view):
        return ""
    if not context.view.store:
        await in_thread("audit", note_removed, context.folder)
    try:
        connection = await context.connect(policy)
    except (UnreachableError, AccessError):
        return None
    except (MissingError, ConflictError):
        return ""  # without a cluster there is nothing in it
    store = cluster_store(connection, context.folder, context.view)
    try:
        await store.remove_run(context.view.id)
    except UnreachableError:
        return None
    except (AccessError, RefusedError):
        return await _published_line(store, context.view.id)
    return ""


async def _published_line(store: KubernetesStore, run_id: str) -> str:
    """Return the line of the audit on a run that may not be removed from its store; empty if it is not there."""
    with suppress(ConsoleError):
        if await store.lease(run_id) is not None:
            where = store.address.rpartition(" ")[2]
            command = f"kubectl delete leases,configmaps,secrets -n {where} -l {STORED_RUN_LABEL}={run_id}"
            return f"What {store.address} has of the run: this user may not delete it; remove it with: {command}"
    return ""


async def audit_cluster(
    context: StageContext, *, may_be_gone: bool, policy: RetryPolicy, kept: Set[str] = frozenset()
) -> AuditReport:
    """Search the run's cluster for what is left, until nothing more goes away and nothing more can be read.

    Args:
        context: Of any stage.
        may_be_gone: The run has made the cluster and destroyed it: no answer means no leftovers.
        policy: The retries until the cluster answers.
        kept: Stages that hold data and were left on purpose.
    """
    if not context.access.is_possible:
        return AuditReport()
    began = context.clock.monotonic()
    while True:
        try:
            found = await retry_unreachable(
                lambda: _left(context), clock=context.clock, note=context.journal.note, policy=policy
            )
        except ConsoleError as error:
            if may_be_gone and isinstance(error, UnreachableError):
                return AuditReport()
            return AuditReport(unknown=(f"The cluster could not be searched: {error.message}",))
        limit = ENDING_SECONDS if found.only_ends(kept) else SETTLE_SECONDS
        if not found.may_settle(kept) or context.clock.monotonic() >= began + limit:
            return found.report(kept)
        context.journal.note(found.sentence())
        await context.clock.sleep(_LOOK_SECONDS)


async def audit_account(context: StageContext, *, kept: Set[str], owns_cluster: bool) -> AuditReport:
    """Search the AWS account for what is left of the run, until nothing more goes away.

    Args:
        context: Of any stage.
        kept: Stages that hold data and were left on purpose, with all that they need.
        owns_cluster: A stage of the run has made the cluster.
    """
    try:
        await require_account(context, policy=ONCE)
    except ConsoleError as error:
        return AuditReport(unknown=(f"AWS could not be searched for the run's tag: {error.message}",))
    session = AwsSession(region=context.view.cluster.region, threads=1)
    deadline = context.clock.monotonic() + ACCOUNT_SETTLE_SECONDS
    keeps_cluster = bool(kept & _cluster_stages(context))
    try:
        scope = scope_of(context, region=await session.region(), owns_cluster=owns_cluster)
        while True:
            found = await search_account(session, scope)
            reasons = [_reason_to_keep(one, bool(kept), keeps_cluster) for one in found.resources]
            leftovers = [one.line() for one, reason in zip(found.resources, reasons, strict=True) if not reason]
            if leftovers and context.clock.monotonic() < deadline:
                context.journal.note(f"{len(leftovers)} resources are left in the account: {leftovers[0]}")
                await context.clock.sleep(_ACCOUNT_LOOK_SECONDS)
                continue
            retained = [f"{one.line()}; {why}" for one, why in zip(found.resources, reasons, strict=True) if why]
            return AuditReport(tuple(leftovers), tuple(retained), found.unknown)
    except ConsoleError as error:
        return AuditReport(unknown=(f"AWS could not be searched for what is left: {error.message}",))
    finally:
        session.close()


def scope_of(context: StageContext, *, region: str, owns_cluster: bool) -> SearchScope:
    """Return the names by which the run's resources are found in its account.

    Args:
        context: Of any stage.
        region: The session's.
        owns_cluster: A stage of the run has made the cluster.
    """
    view = context.view
    made = [name for outputs in view.outputs.values() if (name := outputs.get("vpc_id"))]
    urls = [url for outputs in view.outputs.values() if (url := outputs.get("repository_url"))]
    pools = {item.name for item in view.owned if item.kind == "NodePool" and not item.existed}
    return SearchScope(
        tag=RUN_TAG,
        run_id=view.id,
        since=view.created_at,
        region=region,
        cluster=view.cluster.name,
        owns_cluster=owns_cluster,
        vpc=made[0] if made and owns_cluster else "",
        pools=tuple(sorted(pools)),
        repositories=tuple(sorted({url.partition("/")[2] for url in urls})),
    )


def _cluster_stages(context: StageContext) -> set[str]:
    """Return the stages that make the cluster: those that its kubeconfig needs."""
    return {need for stage in context.view.stages if stage.kind == "kubeconfig" for need in stage.needs}


def _reason_to_keep(resource: AwsResource, keeps_data: bool, keeps_cluster: bool) -> str:
    """Return why a resource is left on purpose; empty if it is not."""
    if resource.is_older:
        return "is older than the run"
    return "kept with the run's data" if keeps_data and (keeps_cluster or not resource.is_of_cluster) else ""


def kept_on_purpose(view: RunView, *, but: Iterable[str] = ()) -> tuple[str, ...]:
    """List objects that existed before the run and were left as they were, one line each.

    Args:
        view: The run.
        but: Lines of the audit; objects that they name are left out.
    """
    named = {line.partition(": ")[0].partition("; ")[0] for line in but}
    kept = [item for item in view.owned if item.existed and not item.is_deleted]
    lines = {ref_of_owned(item).describe(): _removal_of(item) for item in kept}
    return tuple(f"{name}: was there before the run{command}" for name, command in lines.items() if name not in named)


def _removal_of(item: OwnedObject) -> str:
    """Return the command that removes an object of the cluster; empty for what is none."""
    if item.api_version in _NO_OBJECTS:
        return ""
    return removal_of_object(item.kind, item.api_version.rpartition("/")[0], item.namespace, item.name)


def removal_of_object(kind: str, group: str, namespace: str, name: str) -> str:
    """Return the command that removes an object, behind `; remove: `."""
    where = f" -n {namespace}" if namespace else ""
    full = f"{kind}.{group}".lower() if group else kind.lower()
    return f"; remove: kubectl delete {full} {name}{where}"


class Left(msgspec.Struct, frozen=True):
    """The findings of one search. `stages` are by uid, of objects that the journal holds as not deleted."""

    judged: tuple[ClassifiedObject, ...]
    unasked: tuple[Unanswered, ...]
    stages: dict[str, str]

    def may_settle(self, kept: Set[str]) -> bool:
        """Return whether a later search may find less: objects are being deleted, or an API is down."""
        ours = any(one.standing is not Ownership.FOREIGN for one in self._leftovers(kept))
        return ours or any(one.may_pass for one in self.unasked)

    def only_ends(self, kept: Set[str]) -> bool:
        """Return whether all that is left is being deleted, and nothing holds it."""
        left = self._leftovers(kept)
        return bool(left) and all(one.entry.is_going and not one.entry.finalizers for one in left)

    def sentence(self) -> str:
        """Return the reason for another search, in one line."""
        if not self.judged:
            return f"The audit waits for an answer: {self.unasked[0].clause()}."
        count = len(self.judged)
        these = f"{count} objects are" if count > 1 else "An object is"
        return f"{these} still being deleted: {self.judged[0].entry.describe()}"

    def _leftovers(self, kept: Set[str]) -> list[ClassifiedObject]:
        return [one for one in self.judged if not self._reason(one, kept)]

    def report(self, kept: Set[str]) -> AuditReport:
        """Return the audit of the cluster."""
        reasons = {one: self._reason(one, kept) for one in self.judged}
        leftovers = (_line(one) for one, reason in reasons.items() if not reason)
        retained = (f"{one.entry.describe()}: {reason}{_command(one)}" for one, reason in reasons.items() if reason)
        return AuditReport(tuple(leftovers), tuple(retained), tuple(sentences_of(self.unasked)))

    def _reason(self, one: ClassifiedObject, kept: Set[str]) -> str:
        """Return why an object is kept on purpose; empty if it is not."""
        if one.entry.kind == NODE_CLAIM and one.standing is Ownership.MADE:
            return "left to Karpenter, as others use its node"
        return "kept with its data" if self.stages.get(one.entry.uid, "") in kept else ""


async def _left(context: StageContext) -> Left:
    """Search for objects with the run's label, and for objects of the inventory that are not recorded as deleted."""
    connection = await context.connect(ONCE)
    known = await fetch_kinds(connection)
    live = [item for item in context.view.owned if _may_be_left(item)]
    names = sorted({context.namespace, *(item.namespace for item in context.view.owned)} - {""})
    labelled = await survey_as_far(connection, known.kinds, names, selector=f"{RUN_LABEL}={context.view.id}")
    entries = {entry.uid: entry for entry in labelled.entries}
    unasked = [*known.unasked, *labelled.unasked]
    for item in live:
        found = await look(connection, ref_of_owned(item))
        if isinstance(found, Unanswered):
            unasked.append(found)
        elif isinstance(found, Entry) and found.uid == item.uid:
            entries.setdefault(found.uid, found)
    judge = DeletionGuard(context, connection, inventory_of(context))
    contents = await judge.judged(ObjectListing(tuple(entries.values()), tuple(unasked)))
    return Left(contents.judged, contents.unasked, {item.uid: item.stage for item in live if item.uid})


def _may_be_left(item: OwnedObject) -> bool:
    return not (item.is_deleted or item.existed or item.api_version in _NO_OBJECTS)


def _line(one: ClassifiedObject) -> str:
    name = one.entry.describe()
    reasons = [_UNRECORDED] if one.standing is Ownership.FOREIGN else []
    if one.entry.is_going:
        held = f", held by {', '.join(map(one_line, one.entry.finalizers))}" if one.entry.finalizers else ""
        reasons.append(f"is being deleted{held}")
    reason = f": {'; '.join(reasons)}" if reasons else ""
    return f"{name}{reason}{_command(one)}"


def _command(one: ClassifiedObject) -> str:
    entry = one.entry
    return removal_of_object(entry.kind, entry.group, entry.namespace, one_line(entry.name))
