"""The sandbox's API over real HTTP, with a session of its own for a test."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path

import yaml
from aiohttp import web

from actions.base.clock import SystemClock
from actions.base.files import asset
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.sandbox.apiserver.writes.admission import AdmissionPlugin
from actions.sandbox.aws.application import create_aws_app
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import DEFINITIONS, DEPLOYMENTS, NAMESPACES, Document, Kind, kind_named
from actions.sandbox.controllers.start import start_controllers
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.model.account import NodeGroups
from actions.sandbox.model.keys import AccessKey
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.server import SandboxParts, serving

FAST = SandboxOptions(
    speed=200.0,
    node_boot_seconds=0.2,
    node_ready_seconds=0.1,
    empty_node_seconds=0.5,
    instance_end_seconds=0.1,
    filesystem_seconds=0.2,
    image_pull_seconds=0.05,
    container_start_seconds=0.02,
    stop_seconds=0.02,
    restart_backoff_seconds=0.1,
)
"""A world that turns as fast as it can without skipping a state."""

_PATIENCE_SECONDS = 90.0


@asynccontextmanager
async def bare_api(folder: Path, webhooks: Sequence[AdmissionPlugin] = ()) -> AsyncIterator[ApiClient]:
    """The API alone: nothing is reconciled."""
    parts = SandboxParts(Kubelet(FAST), webhooks=webhooks)
    async with serving(folder, FAST, parts) as server, _client(server.kubeconfig) as client:
        yield client


@asynccontextmanager
async def whole_cluster(folder: Path, options: SandboxOptions = FAST) -> AsyncIterator[ApiClient]:
    """API, kubelet, controllers and cloud, as the sandbox process puts them together."""
    kubelet, groups = Kubelet(options), NodeGroups.of(options, SystemClock())

    def started(session: KubeSession) -> AbstractAsyncContextManager[None]:
        return start_controllers(session, kubelet, options, groups=groups)

    def account(session: KubeSession, key: AccessKey, authority: bytes) -> web.Application:
        return create_aws_app(session, options, key=key, authority=authority, groups=groups)

    parts = SandboxParts(kubelet, controllers=started, aws=account)
    async with serving(folder, options, parts) as server, _client(server.kubeconfig) as client:
        yield client


@asynccontextmanager
async def cloud_alone(folder: Path, options: SandboxOptions = FAST) -> AsyncIterator[None]:
    """The account and an API in which nobody reconciles anything."""

    def account(session: KubeSession, key: AccessKey, authority: bytes) -> web.Application:
        return create_aws_app(session, options, key=key, authority=authority)

    async with serving(folder, options, SandboxParts(Kubelet(options), aws=account)):
        yield


@asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    session = await KubeSession.connect(ClusterTarget(kubeconfig=kubeconfig))
    try:
        yield ApiClient(session, SystemClock())
    finally:
        await session.aclose()


async def until(client: ApiClient, kind: Kind, key: str, holds: Callable[[Document | None], bool]) -> Document:
    """Wait until an object (or its absence) is as wanted; the object, empty if it is gone."""
    found: Document | None = None
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                found = await client.read(kind, key)
                if holds(found):
                    return found or {}
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{kind.kind} {key} stayed {(found or {}).get('status')}") from None


async def apply_all(client: ApiClient, documents: list[Document]) -> None:
    """Create documents of any kinds that controllers know; others are left out."""
    for document in documents:
        try:
            kind = kind_named(document["kind"])
        except KeyError:
            continue
        if kind.is_namespaced:
            document["metadata"].setdefault("namespace", "default")
        await client.create(kind, document)


async def put_operator(client: ApiClient, deployment: str) -> None:
    """Put an operator's Deployment there, with a ready pod.

    Args:
        client: The API.
        deployment: `namespace/name`.
    """
    namespace, _, name = deployment.partition("/")
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "manager", "image": name}]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    made = await client.create(DEPLOYMENTS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    assert made is not None
    await client.patch_status(DEPLOYMENTS, made, {"readyReplicas": 1})


def mirrored(name: str) -> list[Document]:
    """The demo's manifests of an operator, `NAME/VERSION`."""
    return copy.deepcopy(_mirrored(name))


@cache
def _mirrored(name: str) -> list[Document]:
    text = asset(f"mirror/{name}/manifest.yaml").read_text(encoding="utf-8")
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def definitions_of(name: str) -> list[Document]:
    """The CRDs in the demo's manifests of an operator."""
    return [document for document in mirrored(name) if document["kind"] == DEFINITIONS.kind]


def pod_group_definition() -> Document:
    """The CRD of PodGroups, which like the real one has no status subresource."""
    return next(one for one in definitions_of("volcano/1.15.1") if one["metadata"]["name"].startswith("podgroups."))


def running(pod: Document) -> Document:
    """The status of a pod that runs and is ready."""
    conditions = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    containers = [
        {"name": one["name"], "image": one["image"], "ready": True, "restartCount": 0, "state": {"running": {}}}
        for one in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "conditions": [{"type": name, "status": "True"} for name in conditions],
        "containerStatuses": containers,
    }


def training_operator() -> list[Document]:
    """The demo's manifests of the training operator."""
    return mirrored("training-operator/1.8.1")


def pytorch_definition() -> Document:
    """Its CRD."""
    return next(document for document in training_operator() if document["kind"] == DEFINITIONS.kind)
