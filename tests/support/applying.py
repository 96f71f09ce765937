"""Many objects at once, put into a cluster as somebody with kubectl does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, Document, fetch_object, ref_of
from actions.cluster.objects.status_rules import WorkState, object_status

_FIRST = ("Namespace", "CustomResourceDefinition")
_PATIENCE_SECONDS = 60.0


async def apply_all(session: KubeSession, discovery: Discovery, manifests: Iterable[Document]) -> None:
    """Apply namespaces and definitions, wait until these are served, then apply the rest in its order."""
    manifests = list(manifests)
    first = [manifest for manifest in manifests if manifest["kind"] in _FIRST]
    for manifest in first:
        await apply(session, discovery, manifest)
    for manifest in first:
        if manifest["kind"] == "CustomResourceDefinition":
            await _established(session, discovery, manifest)
    discovery.forget()
    for manifest in manifests:
        if manifest["kind"] not in _FIRST:
            await apply(session, discovery, manifest)


async def _established(session: KubeSession, discovery: Discovery, definition: Document) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while object_status(await fetch_object(session, discovery, ref_of(definition))).state is not WorkState.RUNNING:
            await asyncio.sleep(0.1)
