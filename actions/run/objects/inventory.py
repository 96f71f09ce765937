"""A run's inventory: the objects it made or adopted, with uids, and references to objects that a blueprint names."""

from __future__ import annotations

from collections.abc import Iterator

from actions.blueprint.parts import ObjectName
from actions.blueprint.stages import HelmStage, ManifestsStage
from actions.cluster.kinds import is_namespaced, wait_for
from actions.cluster.objects.client import ObjectRef
from actions.run.context.stage_context import StageContext
from actions.run.objects.ownership import Entry, Expected, Inventory, doubt_about, group_of
from actions.run.state.view import OwnedObject


def ref_of_name(name: ObjectName, namespace: str) -> ObjectRef:
    """Return the reference of a name in a blueprint; a namespaced kind without a namespace gets the run's."""
    scope = (name.namespace or namespace) if is_namespaced(name.api_version, name.kind) else ""
    return ObjectRef(name.api_version, name.kind, scope, name.name)


def wait_command(ref: ObjectRef) -> str:
    """Return the `kubectl wait` command for an object that has to be ready or finished."""
    scope = f"-n {ref.namespace} " if ref.namespace else ""
    return f"kubectl {scope}wait --for={wait_for(ref.api_version, ref.kind)} {ref.kind.lower()}/{ref.name}"


RELEASE_VERSION = "helm.sh/v3"
"""The API version in records of a Helm release, which is not an API object but is owned like one."""


def inventory_of(context: StageContext) -> Inventory:
    """Collect what the run has made so far, including records that are newer than the context's view."""
    fresh = [item for item in context.journal.owned() if not item.existed]
    made = {item: None for item in (*context.view.owned, *fresh) if not item.existed}
    uids = context.view.made_uids.union(item.uid for item in fresh if item.uid)
    return Inventory(context.view.id, uids, tuple(made), frozenset(_expected(context)))


def ref_of_owned(item: OwnedObject) -> ObjectRef:
    """Return the reference of the object that a record names."""
    return ObjectRef(item.api_version, item.kind, item.namespace, item.name)


def owned_of(context: StageContext, ref: ObjectRef, *, uid: str = "", existed: bool = False) -> OwnedObject:
    """Return the record of an object of the stage."""
    return OwnedObject(
        context.stage.id, ref.api_version, ref.kind, ref.namespace, ref.name, uid, existed=existed, is_deleted=False
    )


def known_as(context: StageContext, ref: ObjectRef) -> OwnedObject | None:
    """Find the record of an object that is not deleted, whichever stage has written it."""
    live = [item for item in (*context.journal.owned(), *context.view.owned) if not item.is_deleted]
    return next((item for item in live if ref_of_owned(item) == ref), None)


def is_of_run(context: StageContext, entry: Entry, ref: ObjectRef) -> bool:
    """Return whether an object is the run's own: by its uid, or by evidence for an announcement whose runner died."""
    known = known_as(context, ref)
    return entry.uid in inventory_of(context).uids or (
        known is not None and not doubt_about(entry, known, context.view.id)
    )


def _expected(context: StageContext) -> Iterator[Expected]:
    """Yield the objects that operators create by themselves which stages of the run have begun to install."""
    begun = {stage.id for stage in context.view.stages if stage.attempt}
    for stage in context.blueprint.stages:
        if isinstance(stage, ManifestsStage | HelmStage) and stage.id in begun:
            for name in stage.makes:
                ref = ref_of_name(name, context.namespace)
                yield Expected(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
