"""The ownership of objects in a cluster: a pure classification against the inventory in a run's journal.

Labels prove nothing, as they can be copied. An object is the run's by its uid, which the journal holds, or because all
its owners are; `ownerReferences` name owners by uid, and the garbage collector follows them.

Source: Kubernetes API concepts, "Owners and dependents"; k8s.io/kubernetes `pkg/controller/garbagecollector`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from actions.base.clock import parse_rfc3339
from actions.base.decoding import convert
from actions.base.errors import FormatError
from actions.base.untrusted import one_line
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL, STORED_RUN_LABEL
from actions.cluster.objects.apply import FIELD_MANAGER
from actions.run.state.view import OwnedObject

SKEW_SECONDS = 60.0
"""Greatest lag of the cluster's clock behind ours where an object's age is evidence."""

_SERVICE_ACCOUNT = ("", "ServiceAccount")
_TOKEN_OF = "kubernetes.io/service-account.uid"  # noqa: S105 - the name of an annotation
_TOKEN_NAME = re.compile(r"-token-[a-z0-9]{5}$")
_TOKEN_CONTROLLER = "kube-controller-manager"  # noqa: S105 - a field manager
_HELM_NAME, _HELM_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_WORKLOADS = "apps"
"""The API group of Deployments, StatefulSets, DaemonSets and ReplicaSets."""
_STANDARD = {
    _SERVICE_ACCOUNT: "default",  # k8s.io/kubernetes pkg/controller/serviceaccount/serviceaccounts_controller.go
    ("", "ConfigMap"): "kube-root-ca.crt",  # pkg/controller/certificates/rootcacertpublisher
}
"""Group, kind and name of the objects that Kubernetes itself puts into every namespace, and restores if deleted."""


class Ownership(StrEnum):
    """The relation of an object to the run."""

    MADE = "made"
    """The journal holds its uid."""
    DEPENDENT = "dependent"
    """All its owners are the run's: it is deleted with them."""
    EXPECTED = "expected"
    """An operator that the run has installed creates it, inside of what the run has made; or it stores the run."""
    STANDARD = "standard"
    """Kubernetes puts it into every namespace."""
    GOING = "going"
    """It is being deleted already."""
    ORPHAN = "orphan"
    """All its owners are gone or going, and the garbage collector will follow: look again later."""
    FOREIGN = "foreign"
    """Not the run's, by all evidence."""


HARMLESS = frozenset(
    {Ownership.MADE, Ownership.DEPENDENT, Ownership.EXPECTED, Ownership.STANDARD, Ownership.GOING},
)
"""Standings that do not keep a namespace or a definition of the run from being deleted."""
RUNS = frozenset({Ownership.MADE, Ownership.DEPENDENT, Ownership.EXPECTED})


class ObjectOwner(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str


class Entry(msgspec.Struct, frozen=True):
    """An object of the cluster, reduced to what the classification needs. Times are seconds since the epoch."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""
    created_at: float = 0.0
    run: str = ""
    """Value of its run label."""
    stage: str = ""
    """Value of its stage label."""
    stored: str = ""
    """The run whose store in the cluster has it."""
    owners: tuple[ObjectOwner, ...] = ()
    managers: frozenset[str] = frozenset()
    """Field managers that have written it."""
    is_going: bool = False
    finalizers: tuple[str, ...] = ()
    account: str = ""
    """Uid of the ServiceAccount whose token it holds."""
    release: tuple[str, str] = ("", "")
    """Namespace and name of the Helm release in its annotations."""
    holder: str = ""
    """Of a Lease: the identity that holds it."""

    def describe(self) -> str:
        """Return kind and name for sentences: `ConfigMap default/settings`."""
        return one_line(f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}")


class Expected(msgspec.Struct, frozen=True):
    """An object that an operator of the run creates by itself."""

    group: str
    kind: str
    namespace: str
    name: str


class Inventory(msgspec.Struct, frozen=True):
    """The objects that a run has made.

    Args:
        run_id: The run's.
        uids: Of everything that it has ever made or adopted, and of dependents found before.
        made: Its own objects, live or deleted.
        expected: The objects that its operators create by themselves.
        release: Namespace and name of a Helm release of the run whose objects count as its own for now.
    """

    run_id: str
    uids: frozenset[str]
    made: tuple[OwnedObject, ...] = ()
    expected: frozenset[Expected] = frozenset()
    release: tuple[str, str] = ("", "")


class ClassifiedObject(msgspec.Struct, frozen=True):
    """An object and its ownership."""

    entry: Entry
    standing: Ownership


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Manager(msgspec.Struct):
    manager: str = ""


class _EntryMetadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[_Manager] | None = None


class _Document(msgspec.Struct):
    metadata: _EntryMetadata
    spec: Any = None


def group_of(api_version: str) -> str:
    """Return the group of an API version: `batch` of `batch/v1`; empty for the core group."""
    return api_version.rpartition("/")[0]


def entry_of(document: Mapping[str, Any], group: str, kind: str) -> Entry:
    """Read a document of the API, or its metadata alone.

    Raises:
        FormatError: It is not an object: it has no name or no uid, or a field has another type.
    """
    try:
        read = convert(document, _Document)
        metadata = read.metadata
        created = parse_rfc3339(metadata.creation_timestamp).timestamp() if metadata.creation_timestamp else 0.0
    except (msgspec.ValidationError, ValueError) as error:
        raise FormatError(f"A {kind} in the answer is not an object: {error}.") from error
    if not metadata.uid:
        raise FormatError(f"{kind} {one_line(metadata.name)} in the answer has no uid.")
    annotations = metadata.annotations or {}
    holder = read.spec.get("holderIdentity") if kind == "Lease" and isinstance(read.spec, dict) else ""
    return Entry(
        group,
        kind,
        metadata.namespace,
        metadata.name,
        metadata.uid,
        version=metadata.resource_version,
        created_at=created,
        run=(metadata.labels or {}).get(RUN_LABEL, ""),
        stage=(metadata.labels or {}).get(STAGE_LABEL, ""),
        stored=(metadata.labels or {}).get(STORED_RUN_LABEL, ""),
        owners=tuple(
            ObjectOwner(one.api_version, one.kind, one.name, one.uid) for one in metadata.owner_references or ()
        ),
        managers=frozenset(one.manager for one in metadata.managed_fields or ()),
        is_going=metadata.deletion_timestamp is not None,
        finalizers=tuple(metadata.finalizers or ()),
        account=annotations.get(_TOKEN_OF, ""),
        release=(annotations.get(_HELM_NAMESPACE, ""), annotations.get(_HELM_NAME, "")),
        holder=str(holder or ""),
    )


def classify(entries: Sequence[Entry], inventory: Inventory, *, owners: Iterable[Entry] = ()) -> list[ClassifiedObject]:
    """Classify objects that were listed at one moment.

    Args:
        entries: All objects of one place: of a namespace, of a kind, or with a label.
        inventory: The objects that the run has made.
        owners: Objects elsewhere that some of them name as owners and that exist. An owner in neither is gone, or
            another object has its name.

    Returns:
        Each entry with its ownership, in their order.
    """
    present = {entry.uid: entry for entry in (*owners, *entries)}
    found = {uid: standing for uid, entry in present.items() if (standing := _by_itself(entry, inventory))}
    while grown := {
        uid: standing
        for uid, entry in present.items()
        if uid not in found and (standing := _by_others(entry, inventory, present, found))
    }:
        found |= grown
    return [ClassifiedObject(entry, found.get(entry.uid) or _unexplained(entry, present)) for entry in entries]


def doubt_about(entry: Entry, item: OwnedObject, run_id: str) -> str:
    """Return why an object may not be the one that a runner announced and died before recording.

    Args:
        entry: The object that has the announced name now.
        item: The announcement, without uid.
        run_id: The run's.

    Returns:
        A clause for a sentence; empty if all evidence is for it.
    """
    if not item.intended_at or item.existed:
        return "the run never announced it"
    if not item.was_absent:
        return "the run did not check that it was absent before announcing it"
    if entry.run != run_id:
        return "it does not carry the run's label"
    if FIELD_MANAGER not in entry.managers:
        return f"{FIELD_MANAGER} is none of its field managers"
    if entry.created_at < item.intended_at - SKEW_SECONDS:
        return "it is older than the run's announcement of it"
    return ""


def _by_itself(entry: Entry, inventory: Inventory) -> Ownership | None:
    if entry.uid in inventory.uids:
        return Ownership.MADE
    if _STANDARD.get((entry.group, entry.kind)) == entry.name and entry.namespace:
        return Ownership.STANDARD
    if Expected(entry.group, entry.kind, entry.namespace, entry.name) in inventory.expected:
        return Ownership.EXPECTED
    if entry.stored and entry.stored == inventory.run_id and FIELD_MANAGER in entry.managers:
        return Ownership.EXPECTED
    if entry.kind == "Lease" and _is_led_by_run(entry, inventory):
        return Ownership.EXPECTED
    if any(inventory.release) and entry.release == inventory.release:
        return Ownership.EXPECTED
    return Ownership.GOING if entry.is_going else None


def _is_led_by_run(lease: Entry, inventory: Inventory) -> bool:
    """Return whether the lease's holder is a pod of a workload that the run has made there: leader election.

    Source: k8s.io/client-go `tools/leaderelection`: the identity begins with the host's name, which is the pod's.
    """
    workloads = (one for one in inventory.made if group_of(one.api_version) == _WORKLOADS or one.kind == "Pod")
    names = [one.name for one in workloads if one.namespace == lease.namespace]
    return any(lease.holder.startswith((f"{name}-", f"{name}_")) for name in names)


def _by_others(
    entry: Entry, inventory: Inventory, present: Mapping[str, Entry], found: Mapping[str, Ownership]
) -> Ownership | None:
    if entry.owners:
        ours = {one.uid for one in entry.owners if one.uid in inventory.uids or found.get(one.uid) in RUNS}
        others = {one.uid for one in entry.owners if one.uid in present} - ours
        return Ownership.DEPENDENT if ours and not others else None
    if entry.kind == "Secret" and not entry.group and entry.account:
        return _token_standing(entry, present, found)
    if entry.kind == "Endpoints" and not entry.group:  # they have their Service's name, and go with it
        return next((Ownership.DEPENDENT for uid in found if _is_service_of(entry, present[uid], found[uid])), None)
    return None


def _token_standing(secret: Entry, present: Mapping[str, Entry], found: Mapping[str, Ownership]) -> Ownership | None:
    """Return the ownership of a token that the token controller has made for an account: it goes with the account.

    Source: k8s.io/kubernetes `pkg/controller/serviceaccount/tokens_controller.go`, before 1.24 for every account.
    """
    account = present.get(secret.account)
    if account is None or (account.group, account.kind) != _SERVICE_ACCOUNT or secret.account not in found:
        return None
    is_named = secret.name.startswith(account.name) and _TOKEN_NAME.fullmatch(secret.name.removeprefix(account.name))
    is_written = not secret.managers or _TOKEN_CONTROLLER in secret.managers
    return found[secret.account] if is_named and is_written else None


def _is_service_of(endpoints: Entry, other: Entry, standing: Ownership) -> bool:
    is_service = (other.group, other.kind) == ("", "Service")
    is_same = (other.namespace, other.name) == (endpoints.namespace, endpoints.name)
    return is_service and is_same and standing in RUNS


def _unexplained(entry: Entry, present: Mapping[str, Entry]) -> Ownership:
    """Return `ORPHAN` if all owners are gone or going, so that it goes with them; else `FOREIGN`."""
    staying = [owner for owner in entry.owners if owner.uid in present and not present[owner.uid].is_going]
    return Ownership.ORPHAN if entry.owners and not staying else Ownership.FOREIGN
