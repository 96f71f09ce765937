"""Odd objects on a real API server, and its answers as the program reads them.

Quotas, limits and Pod Security refuse pods in the server's own words; quantities come back in their canonical form; the
scheduler counts what a pod requests as a whole; a namespace names what holds it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.diagnose.codes import Code, Finding
from actions.cluster.diagnose.collect import explain
from actions.cluster.diagnose.select import ObjectSelector
from actions.cluster.objects.apply import create
from actions.cluster.objects.client import Discovery, ObjectRef, delete, merge_patch
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.listing import fetch_nodes
from tests.realcluster.running import real_cluster

Document = dict[str, Any]
_SECONDS = 120.0
_POLL_SECONDS = 0.1
_LATER = timedelta(hours=1)


class _Later(SystemClock):
    """The clock of a person who looks an hour later."""

    def now(self) -> datetime:
        return super().now() + _LATER


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[KubeSession, Discovery]]:
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().kubeconfig)))
    try:
        yield session, Discovery(session)
    finally:
        await session.aclose()


@asynccontextmanager
async def _made(session: KubeSession, discovery: Discovery, *documents: Document) -> AsyncIterator[None]:
    """Make objects, and delete the first one in the end: a namespace takes the others with it."""
    for document in documents:
        await create(session, discovery, document)
    try:
        yield
    finally:
        first = documents[0]
        await delete(session, discovery, ObjectRef("v1", first["kind"], "", first["metadata"]["name"]))


def _namespace(name: str, **labels: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _object(version: str, kind: str, namespace: str, name: str, spec: Document) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _deployment(namespace: str, container: Document) -> Document:
    labels = {"app": "train"}
    pod = {"containers": [{"name": "main", "image": "x", **container}], "hostNetwork": "privileged" in str(container)}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return _object("apps/v1", "Deployment", namespace, "train", spec)


async def _found(session: KubeSession, selector: ObjectSelector, code: Code) -> Finding:
    """Ask until there is a finding with a code: controllers report with a delay."""
    async with asyncio.timeout(_SECONDS):
        while True:
            found: Sequence[Finding] = await explain(session, selector, clock=_Later())
            for one in found:
                if one.code is code:
                    return one
            await asyncio.sleep(_POLL_SECONDS)


GPUS = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
LARGE = {"resources": {"requests": {"memory": "64Gi"}, "limits": {"memory": "64Gi"}}}
PRIVILEGED = {"securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("labels", "policy", "container", "code", "words"),
    [
        (
            {},
            ("ResourceQuota", {"hard": {"requests.nvidia.com/gpu": "2"}}),
            GPUS,
            Code.NAMESPACE_QUOTA,
            "asks for requests.nvidia.com/gpu=8, 0 of 2 are in use",
        ),
        (
            {},
            ("LimitRange", {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}),
            LARGE,
            Code.NAMESPACE_QUOTA,
            "A LimitRange of the namespace forbids the pod: maximum memory usage per Container is 1Gi",
        ),
        (
            {"pod-security.kubernetes.io/enforce": "restricted"},
            None,
            PRIVILEGED,
            Code.JOB_FAILED,
            "Pod Security restricted of the namespace forbids host namespaces, privileged",
        ),
    ],
    ids=["real quota", "real limit range", "real pod security"],
)
async def test_a_deployment_that_may_make_no_pods_has_the_reason_of_its_namespace(
    labels: dict[str, str], policy: tuple[str, Document] | None, container: Document, code: Code, words: str
) -> None:
    name = f"odd-{secrets.token_hex(4)}"
    policies = [_object("v1", policy[0], name, "limits", policy[1])] if policy else []
    async with (
        _connected() as (session, discovery),
        _made(session, discovery, _namespace(name, **labels), *policies, _deployment(name, container)),
    ):
        found = await _found(session, ObjectSelector("Deployment", "train", name), code)
        assert words in found.headline


async def test_a_real_namespace_names_what_holds_it() -> None:
    name = f"odd-{secrets.token_hex(4)}"
    held = _object("v1", "ConfigMap", name, "held", {})
    held["metadata"]["finalizers"] = ["example.test/never"]
    del held["spec"]
    async with _connected() as (session, discovery):
        async with _made(session, discovery, _namespace(name), held):
            pass
        try:
            found = await _found(session, ObjectSelector("Namespace", name), Code.NAMESPACE_STUCK)
            async with asyncio.timeout(_SECONDS):
                while "wait for their finalizers" not in found.headline:
                    found = await _found(session, ObjectSelector("Namespace", name), Code.NAMESPACE_STUCK)
            assert any("example.test/never" in quote for quote in found.evidence)
        finally:
            ref = ObjectRef("v1", "ConfigMap", name, "held")
            await merge_patch(session, discovery, ref, {"metadata": {"finalizers": None}})


def _node(name: str, amounts: Mapping[str, str]) -> dict[str, Any]:
    """A node for pods that tolerate everything."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": "odd.test/only", "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def test_a_real_node_of_odd_quantities_is_counted_with_what_pods_request_as_a_whole() -> None:
    name = f"odd-{secrets.token_hex(4)}"
    amounts = {"cpu": "1e1", "memory": "1e11", "pods": "1k", "nvidia.com/gpu.shared": "4"}
    shared = {"nvidia.com/gpu.shared": "1"}
    spec = {
        "nodeName": name,
        "resources": {"requests": {"cpu": "3", "memory": "1Gi"}},
        "containers": [{"name": "main", "image": "x", "resources": {"requests": shared, "limits": shared}}],
        "tolerations": [{"operator": "Exists"}],
    }
    pod = _object("v1", "Pod", "default", name, spec)
    async with _connected() as (session, discovery), _made(session, discovery, _node(name, amounts)):
        await create(session, discovery, pod)
        try:
            listed = await fetch_nodes(session)
            (found,) = (one for one in listed.nodes if one.name == name)
            assert (found.pods_allocatable, found.allocatable.cpu_milli, found.allocatable.gpu) == (1000, 10_000, 4)
            asked = found.requested(listed.usage[name])
            # a DaemonSet of another test that tolerates all may have a pod there, too; containers alone request nothing
            assert (asked.cpu_milli // 1000, asked.gpu) == (3, 1)
        finally:
            await delete(session, discovery, ObjectRef("v1", "Pod", "default", name))


async def test_gpus_that_a_real_scheduler_gives_to_a_claim_are_counted_on_their_node() -> None:
    """The node has no device plugin: its GPUs are in a slice, and a pod requests two of them by a claim alone."""
    name = f"odd-{secrets.token_hex(4)}"
    cel = {
        "cel": {
            "expression": f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].odd == '{name}'"
        }
    }
    attributes = {"type": {"string": "gpu"}, "odd": {"string": name}}
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    slice_spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{index}", "attributes": attributes} for index in range(4)],
    }
    request = {"name": "two", "exactly": {"deviceClassName": name, "count": 2}}
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": name},
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}],
        "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}],
    }
    template = {"spec": {"devices": {"requests": [request]}}}
    async with (
        _connected() as (session, discovery),
        _made(session, discovery, _node(name, amounts)),
        _also(session, discovery, _object(_DEVICES, "DeviceClass", "", name, {"selectors": [cel]})),
        _also(session, discovery, _object(_DEVICES, "ResourceSlice", "", name, slice_spec)),
        _made(
            session,
            discovery,
            _namespace(name),
            _object(_DEVICES, "ResourceClaimTemplate", name, "two", template),
            _object("v1", "Pod", name, "train", pod),
        ),
    ):
        state = ClusterState(session)
        following = asyncio.create_task(state.run())
        try:
            async with asyncio.timeout(_SECONDS):
                while (seen := state.snapshot().usage.get(name)) is None or not seen.claimed.gpu:
                    await state.wait_changed()
            listed = await fetch_nodes(session)
            for nodes, usage in (
                (state.snapshot().nodes, state.snapshot().usage),
                ({one.name: one for one in listed.nodes}, listed.usage),
            ):
                assert (nodes[name].allocatable.gpu, nodes[name].requested(usage[name]).gpu) == (4, 2)
            assert state.snapshot().pods[f"{name}/train"].requests.gpu == 2
            assert not state.snapshot().leaves_out_claims
            await delete(session, discovery, ObjectRef("v1", "Pod", name, "train"))
            async with asyncio.timeout(_SECONDS):
                while (left := state.snapshot().usage.get(name)) is not None and left.claimed.gpu:
                    await state.wait_changed()
            assert state.snapshot().nodes[name].allocatable.gpu == 4
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


_DEVICES = "resource.k8s.io/v1"


@asynccontextmanager
async def _also(session: KubeSession, discovery: Discovery, document: Document) -> AsyncIterator[None]:
    """Make an object outside namespaces, and delete it in the end."""
    await create(session, discovery, document)
    try:
        yield
    finally:
        ref = ObjectRef(document["apiVersion"], document["kind"], "", document["metadata"]["name"])
        await delete(session, discovery, ref)
