"""The tree of owners: a job, what it made, its pods, their nodes and claims, each with its status.

Children are found by `ownerReferences`, as the garbage collector finds them; a pod's node and its claims are named in
its spec. Kinds that may not be listed are left out and named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from actions.base.errors import MissingError
from actions.base.untrusted import one_line
from actions.base.wording import counted
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiAccessError
from actions.cluster.kinds import EVIDENCE, KINDS
from actions.cluster.objects.catalogue import KindCatalogue, ServedKind
from actions.cluster.objects.client import Document, list_pages
from actions.cluster.objects.operations import Target
from actions.cluster.objects.status_rules import NO_RULE, WorkState, object_status

_DEVICES = ("resource.k8s.io", "ResourceClaim")
_KINDS = frozenset(
    (row.group, row.kind)
    for row in KINDS
    if row.is_namespaced and row.kind != "Event" and (row in EVIDENCE or row.group == "apps")
) | {_DEVICES}
"""Kinds that own, or are owned by, the pods of a workload."""
_CLAIMS = {"PersistentVolumeClaim": "v1", "ResourceClaim": "resource.k8s.io/v1"}
"""Kinds of what a pod claims by name, with their versions."""
_DEEPEST = 12
_MISSING = "Missing"
"""The phase of a claim that a pod names and that does not exist."""
_MOST_PODS = 500


class TreeEntry(msgspec.Struct, frozen=True):
    """One line of a tree.

    Args:
        depth: 0 for a root.
        qualified: Its kind as kubectl names it: `rayjobs.ray.io`.
        kind: Its kind in manifests.
        namespace: Empty for what is in none.
        name: Its name.
        state: `finished`, `failed`, `running`, `waiting` or `unknown`; empty for kinds without a status.
        detail: Of what is not well the API's reason and message in one line; of other pods the node; of a claim of
            devices these.
    """

    depth: int
    qualified: str
    kind: str
    namespace: str
    name: str
    state: str
    detail: str = ""


class OwnerTree(msgspec.Struct, frozen=True):
    """A tree, and the kinds that may not be listed."""

    entries: tuple[TreeEntry, ...]
    unlisted: tuple[str, ...] = ()


async def collect_tree(session: KubeSession, catalogue: KindCatalogue, targets: Sequence[Target]) -> OwnerTree:
    """Read the trees that the targets are in, from their outermost owners on.

    Raises:
        MissingError: A target is gone.
        ApiError: A target may not be read.
    """
    roots: dict[str, Document] = {}
    for target in targets:
        top = await _outermost(session, catalogue, target)
        roots.setdefault(str(_metadata(top).get("uid")), top)
    namespaces = sorted({str(_metadata(root).get("namespace") or "") for root in roots.values()} - {""})
    documents, unlisted = await _documents(session, catalogue, namespaces)
    nodes = await _nodes(session, catalogue, documents)
    entries = tree_of(tuple(roots.values()), documents, nodes, catalogue)
    return OwnerTree(tuple(entries), tuple(sorted(unlisted)))


def tree_of(
    roots: Iterable[Document], documents: Sequence[Document], nodes: Mapping[str, Document], catalogue: KindCatalogue
) -> Iterator[TreeEntry]:
    """Yield the lines of trees, depth first, children in the order of their names.

    Args:
        roots: The outermost owners.
        documents: All that may be in the trees, with `apiVersion` and `kind`.
        nodes: By name, and under `claim:NAME` the NodeClaim of a node.
        catalogue: Names kinds.
    """
    children: dict[str, list[Document]] = {}
    claims: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        metadata = _metadata(document)
        for owner in metadata.get("ownerReferences") or ():
            children.setdefault(str(owner.get("uid")), []).append(document)
        if document.get("kind") in _CLAIMS:
            claims[str(document["kind"]), str(metadata.get("namespace")), str(metadata.get("name"))] = document
    seen = set[str]()

    def walk(document: Document, depth: int) -> Iterator[TreeEntry]:
        uid = str(_metadata(document).get("uid"))
        yield _entry(document, depth, catalogue)
        if uid in seen or depth >= _DEEPEST:
            return
        seen.add(uid)
        for child in sorted(children.get(uid, ()), key=_order):
            yield from walk(child, depth + 1)
        if document.get("kind") == "Pod":
            for place in _places_of(document, nodes, claims):
                yield _entry(place, depth + 1, catalogue)

    for root in roots:
        yield from walk(root, 0)


def _places_of(
    pod: Document, nodes: Mapping[str, Document], claims: Mapping[tuple[str, str, str], Document]
) -> Iterator[Document]:
    """Yield a pod's node, the claim that the node came from, and the claims that it names: of volumes and of devices.

    Claims of devices that were made for the pod alone belong to it, and are its children.
    """
    spec = pod.get("spec") or {}
    name = str(spec.get("nodeName") or "")
    for key in (name, f"claim:{name}"):
        if name and key in nodes:
            yield nodes[key]
    namespace = str(_metadata(pod).get("namespace"))
    volumes = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in spec.get("volumes") or ())
    devices = (claim.get("resourceClaimName") for claim in spec.get("resourceClaims") or ())
    for kind, names in zip(_CLAIMS, (volumes, devices), strict=True):
        for claim in map(str, filter(None, names)):
            missing = {"apiVersion": _CLAIMS[kind], "kind": kind, "status": {"phase": _MISSING}}
            yield claims.get((kind, namespace, claim), missing | {"metadata": {"namespace": namespace, "name": claim}})


def _allocation_of(claim: Document) -> str:
    """Return the devices that a ResourceClaim has: `2 devices of gpu.nvidia.com: gpu-0, gpu-1`.

    Source: `status.allocation.devices.results` of resource.k8s.io/v1.
    """
    allocation = (claim.get("status") or {}).get("allocation")
    if not isinstance(allocation, Mapping):
        return "no devices are allocated"
    drivers: dict[str, list[str]] = {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        drivers.setdefault(str(result.get("driver")), []).append(str(result.get("device")))
    texts = (f"{counted(len(names), 'device')} of {driver}: {', '.join(names)}" for driver, names in drivers.items())
    return one_line("; ".join(texts))


def _entry(document: Document, depth: int, catalogue: KindCatalogue) -> TreeEntry:
    metadata, kind = _metadata(document), str(document.get("kind") or "")
    served = catalogue.named(str(document.get("apiVersion") or ""), kind)
    status = object_status(document)
    is_judged = status.reason != NO_RULE
    is_well = not is_judged or status.state in (WorkState.RUNNING, WorkState.FINISHED)
    node = str((document.get("spec") or {}).get("nodeName") or "") if kind == "Pod" else ""
    detail = "" if is_well else ": ".join(filter(None, (status.reason, status.message)))
    if kind == _DEVICES[1] and not _is_missing(document):
        detail = _allocation_of(document)
    return TreeEntry(
        depth=depth,
        qualified=served.qualified if served is not None else kind.lower(),
        kind=kind,
        namespace=one_line(str(metadata.get("namespace") or "")),
        name=one_line(str(metadata.get("name") or "")),
        state="waiting" if _is_missing(document) else status.state.value if is_judged else "",
        detail=detail or (f"on {one_line(node)}" if node else ""),
    )


async def _outermost(session: KubeSession, catalogue: KindCatalogue, target: Target) -> Document:
    """Follow controllers upwards; stop at one that is gone, or may not be read."""
    found = await session.get(target.path)
    for _ in range(_DEEPEST):
        metadata = _metadata(found)
        owners = metadata.get("ownerReferences") or ()
        owner = next((one for one in owners if one.get("controller")), None)
        kind = catalogue.named(str(owner.get("apiVersion")), str(owner.get("kind"))) if owner else None
        if owner is None or kind is None or kind.kind == "Node":
            return found
        namespace = str(metadata.get("namespace") or "") if kind.is_namespaced else ""
        try:
            above = await session.get(kind.resource.path(namespace, str(owner.get("name"))))
        except (MissingError, ApiAccessError):
            return found
        if _metadata(above).get("uid") != owner.get("uid"):
            return found
        found = above
    return found


async def _documents(
    session: KubeSession, catalogue: KindCatalogue, namespaces: Sequence[str]
) -> tuple[list[Document], set[str]]:
    """List everything in the namespaces that may be in a tree; return it with the kinds that may not be listed."""
    kinds = [kind for kind in catalogue.kinds if (kind.group, kind.kind) in _KINDS and kind.is_namespaced]
    asked = [(kind, namespace) for kind in kinds for namespace in namespaces]
    answers = await asyncio.gather(*(_listed(session, kind, namespace) for kind, namespace in asked))
    documents: list[Document] = []
    unlisted = set[str]()
    for (kind, _), answer in zip(asked, answers, strict=True):
        if answer is None:
            unlisted.add(kind.qualified)
        else:
            documents += answer
    return documents, unlisted


async def _listed(session: KubeSession, kind: ServedKind, namespace: str) -> list[Document] | None:
    try:
        items = await list_pages(session, kind.resource.path(namespace))
    except ApiAccessError:
        return None
    except MissingError:
        return []  # its definition went meanwhile
    return [{"apiVersion": kind.api_version, "kind": kind.kind} | item for item in items]


async def _nodes(
    session: KubeSession, catalogue: KindCatalogue, documents: Sequence[Document]
) -> Mapping[str, Document]:
    """Read the nodes of pods by name, and the NodeClaims that they came from."""
    names = {str((one.get("spec") or {}).get("nodeName") or "") for one in documents if one.get("kind") == "Pod"} - {""}
    if not names or len(names) > _MOST_PODS:
        return {}
    found: dict[str, Document] = {}
    for group, kind in (("", "Node"), ("karpenter.sh", "NodeClaim")):
        served = next((one for one in catalogue.kinds if (one.group, one.kind) == (group, kind)), None)
        for document in (await _listed(session, served, "") or ()) if served is not None else ():
            own = str(_metadata(document).get("name"))
            name = own if kind == "Node" else str((document.get("status") or {}).get("nodeName") or "")
            if name in names:
                found[name if kind == "Node" else f"claim:{name}"] = document
    return found


def _is_missing(document: Document) -> bool:
    return (document.get("status") or {}).get("phase") == _MISSING


def _order(document: Document) -> tuple[bool, str, str]:
    return document.get("kind") == "Pod", str(document.get("kind")), str(_metadata(document).get("name"))


def _metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("metadata")
    return found if isinstance(found, Mapping) else {}
