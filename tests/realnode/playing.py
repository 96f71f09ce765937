"""Jobs of operators, played on a cluster: on real nodes and on the sandbox by the same calls."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from actions.base.clock import SystemClock
from actions.base.errors import UnreachableError
from actions.base.files import shipped_blueprints
from actions.base.process import own_module
from actions.blueprint.begin.job_manifests import definition_of
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests
from actions.blueprint.stages import ManifestsStage
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiUnavailableError
from actions.cluster.kinds import kind_of, name_of_kind
from actions.cluster.objects.client import Discovery, delete, ref_of
from actions.sandbox.clientkit.cache import Cache, watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOB_SETS,
    JOBS,
    MPI_JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PYTORCH_JOBS,
    QUEUES,
    RAY_CLUSTERS,
    RAY_JOBS,
    ROLE_BINDINGS,
    ROLES,
    RUNTIMES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TRAIN_JOBS,
    Kind,
)
from actions.sandbox.controllers.replica_groups import REPLICA_GROUPS
from tests.realcluster.harness.parts import HERE, module_folder
from tests.realnode.harness.sources import operator_sources
from tests.realnode.harness.today import TODAYS_OPERATORS
from tests.realnode.history import Document, Seen
from tests.realnode.operator_jobs import WHILE_SECONDS, Condition, OperatorJob
from tests.support.applying import apply_all
from tests.support.polling import until

_FOLLOWED = (
    PODS, SERVICES, CONFIG_MAPS, SECRETS, JOBS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, EVENTS,
    PYTORCH_JOBS, MPI_JOBS, RAY_CLUSTERS, RAY_JOBS, POD_GROUPS, JOB_SETS, TRAIN_JOBS,
    *(one.kind for one in REPLICA_GROUPS if one.kind.kind != MPI_JOBS.kind),
    Kind("apps/v1", "StatefulSet", "statefulsets"),
)  # fmt: skip
_STAYS_SECONDS = WHILE_SECONDS + 5.0
"""A job is over when it has been for so long: what follows from its end has happened by then, and a pod that is to
fail after a while has failed."""
_LONGEST_SECONDS = 240.0
_VOLCANO = "volcano-system"
_OTHERS = ("TFJob", "LeaderWorkerSet")
"""The kinds of jobs that no operator of a blueprint serves."""
_AS_WRITTEN = {"realnode/as-written": ""}


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    """A client of a cluster."""
    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    try:
        yield ApiClient(session, SystemClock())
    finally:
        await session.aclose()


@asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a sandbox, which ends with the context."""
    argv = own_module("actions.sandbox", "--state", str(folder), "--foreground", "--speed", "1")
    child = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    try:
        yield Path((await child.stdout.readline()).decode().strip())
    finally:
        child.terminate()
        await child.communicate()


@asynccontextmanager
async def applied(client: ApiClient, manifests: Sequence[Document]) -> AsyncIterator[None]:
    """Objects of an administrator, with operators that are ready, until the context is left.

    Args:
        client: The cluster's.
        manifests: In the order in which they can be made.
    """
    discovery = Discovery(client.session)
    try:
        await apply_all(client.session, discovery, manifests)
        for one in manifests:
            if one["kind"] == DEPLOYMENTS.kind:
                await _ready(client, one["metadata"])
        if any(one["metadata"]["name"] == _VOLCANO for one in manifests):
            await until(lambda: _is_open(client), "the default queue", deadline_seconds=_LONGEST_SECONDS)
        yield
    finally:
        spaces = [one for one in manifests if one["kind"] == NAMESPACES.kind]
        left = [one for one in manifests if one["kind"] != NAMESPACES.kind]
        for one in reversed([*spaces, *left]):
            await delete(client.session, discovery, ref_of(one))
        for one in spaces:
            await _gone(client, one["metadata"]["name"])


def operators_by_name(mirror: Path) -> Mapping[str, Sequence[Document]]:
    """Return the manifests of the blueprints' operators that run on real nodes, as launches install them.

    What one of a blueprint needs stands before it.
    """
    wanted = {source.name for source in operator_sources()}
    found: dict[str, Sequence[Any]] = {}
    for path in sorted(shipped_blueprints().glob("*/blueprint.yaml")):
        blueprint = load_blueprint(path.parent)
        for stage in blueprint.stages:
            source = stage.source if isinstance(stage, ManifestsStage) else None
            if source is not None and source.name in wanted - found.keys():
                found[source.name] = stage_manifests(
                    blueprint, stage.id, bind(blueprint, {}), run_id="realnode", outputs={}, mirrors=[mirror]
                )
    return found


def operators_of(jobs: Sequence[OperatorJob], mirror: Path, *, are_real: bool) -> list[Document]:
    """Return the manifests of all operators of the blueprints, and what other jobs among some need.

    Args:
        jobs: What is to be played.
        mirror: Has the operators.
        are_real: Else there is no other operator: the sandbox has the kinds as a rehearsal brings them.
    """
    operators = [copy.deepcopy(one) for manifests in operators_by_name(mirror).values() for one in manifests]
    others = {manifest["kind"]: manifest for job in jobs for manifest in job.manifests if manifest["kind"] in _OTHERS}
    if not are_real:
        return [*operators, *(definition_of(one, kind_of(kind)) for kind, one in others.items())]
    if "TFJob" in others:
        _serve_tf_jobs(operators)
    if "LeaderWorkerSet" in others:
        operators += next(one.manifests() for one in TODAYS_OPERATORS if one.name == "lws")
    return operators


def _serve_tf_jobs(operators: list[Document]) -> None:
    """Let the blueprints' training operator, which serves PyTorchJobs alone, serve TFJobs as well."""
    module = module_folder(HERE / "training-operator", "github.com/kubeflow/training-operator")
    definition = (module / "manifests" / "base" / "crds" / "kubeflow.org_tfjobs.yaml").read_text(encoding="utf-8")
    of_it = {one["kind"]: one for one in operators if one["metadata"]["name"] == "training-operator"}
    of_it["ClusterRole"]["rules"][0]["resources"] += ["tfjobs", "tfjobs/status", "tfjobs/finalizers"]
    of_it["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"].append("--enable-scheme=tfjob")
    operators.insert(operators.index(of_it["Deployment"]), yaml.safe_load(definition))


async def _ready(client: ApiClient, deployment: Document) -> None:
    async def is_ready() -> bool:
        found = await client.read(DEPLOYMENTS, f"{deployment['namespace']}/{deployment['name']}")
        return bool(((found or {}).get("status") or {}).get("readyReplicas"))

    await until(is_ready, f"a ready pod of {deployment['name']}", deadline_seconds=_LONGEST_SECONDS)


async def _gone(client: ApiClient, namespace: str) -> None:
    async def is_gone() -> bool:
        return await client.read(NAMESPACES, namespace) is None

    await until(is_gone, f"the end of the namespace {namespace}", deadline_seconds=_LONGEST_SECONDS)


async def _is_open(client: ApiClient) -> bool:
    queue = await client.read(QUEUES, "default")
    return bool(queue) and ((queue or {}).get("status") or {}).get("state") == "Open"


async def play(client: ApiClient, job: OperatorJob) -> list[Seen]:
    """Apply a job to a namespace of its own, and return all that happened there until it was over."""
    namespace = f"operator-{job.name}"
    await client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": _AS_WRITTEN}})
    try:
        await until(lambda: _takes_pods(client, namespace), "the service account", deadline_seconds=_LONGEST_SECONDS)
        async with watching(client.session, _FOLLOWED, client.clock) as caches:
            stage = _Stage(namespace)
            for kind in _FOLLOWED:
                stage.follow(caches[kind])
            for manifest in copy.deepcopy(list(job.manifests)):
                manifest["metadata"]["namespace"] = namespace
                await _sent(partial(client.create, _kind_of(manifest), manifest))
            last = job.manifests[-1]
            for change in job.changes:
                await stage.until(change.when, job.name)
                name = f"{namespace}/{last['metadata']['name']}"
                await _sent(partial(client.patch, _kind_of(last), name, change.patch))
            await stage.until(job.is_over, job.name, stays_seconds=_STAYS_SECONDS)
            for event in await _events(client, namespace):  # a busy API server may be late to tell them to a watch
                stage.changes.append(Seen(event, is_there=True))
            return sorted(stage.changes, key=lambda change: change.version)
    finally:
        await client.delete(NAMESPACES, namespace)
        await _gone(client, namespace)


def _kind_of(manifest: Document) -> Kind:
    names = (manifest["apiVersion"], manifest["kind"])
    return next(one for one in (*_FOLLOWED, RUNTIMES) if (one.api_version, one.kind) == names)


async def _takes_pods(client: ApiClient, namespace: str) -> bool:
    """Return whether pods can be made: whoever makes one before that says so in an event. A sandbox has no accounts."""
    ours, other = [await client.read(SERVICE_ACCOUNTS, f"{one}/default") for one in (namespace, "kube-system")]
    return ours is not None or other is None


async def _events(client: ApiClient, namespace: str) -> list[Document]:
    listed = await client.session.get(EVENTS.path(namespace=namespace))
    return [{"kind": EVENTS.kind, **event} for event in listed["items"]]


async def _sent(request: Callable[[], Awaitable[object]]) -> None:
    """Make a request once the webhooks that look at it answer: a ready operator's may not be reached yet."""

    async def is_answered() -> bool:
        try:
            await request()
        except (ApiUnavailableError, UnreachableError):
            return False
        return True

    await until(is_answered, "the answer of a webhook", deadline_seconds=_LONGEST_SECONDS)


class _Stage:
    """The changes in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.changes: list[Seen] = []
        self._namespace = namespace
        self._statuses: dict[tuple[str, str], Document] = {}
        self._awaited: Condition = lambda _: False
        self._has_held = False
        """The condition held after some change: one that passes within a second is between two looks."""

    def follow(self, cache: Cache) -> None:
        """Take in what a cache is told of."""

        def take(document: Document) -> None:
            metadata = document["metadata"]
            if metadata.get("namespace") != self._namespace:
                return
            is_there = cache.get(f"{self._namespace}/{metadata['name']}") is document
            self.changes.append(Seen(document, is_there))
            about = (name_of_kind(document), metadata["name"])
            self._statuses.pop(about, None)
            if is_there:
                self._statuses[about] = document.get("status") or {}
            self._has_held |= self._awaited(self._statuses)

        cache.listen(take)

    async def until(self, condition: Condition, job: str, *, stays_seconds: float = 0.0) -> None:
        """Wait until something has held for some time; without one, until it was so at all."""
        clock = SystemClock()
        since: float | None = None
        self._awaited, self._has_held = condition, condition(self._statuses)

        def holds() -> bool:
            nonlocal since
            if not stays_seconds:
                return self._has_held
            since = (since or clock.monotonic()) if condition(self._statuses) else None
            return since is not None and clock.monotonic() - since >= stays_seconds

        await until(holds, f"the job {job}", deadline_seconds=_LONGEST_SECONDS)
