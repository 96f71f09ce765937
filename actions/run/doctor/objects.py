"""The answers of a cluster to the objects of a launch before there is a run: namespace, kinds, dry run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.base.wording import counted
from actions.blueprint.stages import HelmStage, ManifestsStage
from actions.cluster.http.errors import ApiAccessError, ApiConflictError
from actions.cluster.objects.apply import exists_already
from actions.cluster.objects.client import ObjectRef, ref_of
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.report import Question
from actions.run.doctor.room import groups_of
from actions.run.doctor.sources import is_there
from actions.run.doctor.train_jobs import as_applied

NAMESPACE_CHECK, DRY_RUN_CHECK = "namespace", "dry run"
_AT_ONCE = 8
_OF_RBAC = ' is forbidden: User "'
_NOT_FOR_DRY_RUNS = "does not support dry run"
_MAKE_CLASS = "Make it, or name another in the claim: kubectl get storageclass."
_PLACEHOLDER = "‹"
"""Stands for an output of an earlier stage."""


class LaunchObjects(msgspec.Struct, frozen=True):
    """The objects that a launch applies to the cluster that is there."""

    objects: tuple[dict[str, Any], ...] = ()
    """With namespaces and labels; of an operator that is there, none."""
    unread: tuple[str, ...] = ()
    """Stages that bring objects which are not known here: charts, and operators that are not on this machine."""

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Group and kind of the definitions among them."""
        found = (one["spec"] for one in self.objects if one["kind"] == "CustomResourceDefinition")
        return frozenset((str(spec["group"]), str(spec["names"]["kind"])) for spec in found)

    @property
    def names(self) -> frozenset[str]:
        """Names of what others may refer to."""
        return frozenset(str(one["metadata"]["name"]) for one in self.objects)

    @property
    def namespaces(self) -> frozenset[str]:
        """Names of the namespaces among them."""
        return frozenset(str(one["metadata"]["name"]) for one in self.objects if one["kind"] == "Namespace")


async def launch_objects(connection: ClusterConnection, launch: PlannedLaunch) -> LaunchObjects:
    """Render all objects of a launch, but for operators that are in the cluster.

    Raises:
        ConsoleError: The cluster does not answer.
    """
    objects: list[dict[str, Any]] = []
    unread: list[str] = []
    for stage in launch.stages:
        if isinstance(stage, HelmStage):
            unread.append(stage.id)
            continue
        if await is_there(connection, stage, launch):
            continue
        try:
            rendered = await in_thread("rendering", launch.rendered, stage)
        except MissingError:
            unread.append(stage.id)
            continue
        optional = stage.where_served if isinstance(stage, ManifestsStage) else ()
        objects += [one for one in rendered if one["kind"] not in optional]
    return LaunchObjects(tuple(objects), tuple(unread))


def object_questions(connection: ClusterConnection, launch: PlannedLaunch) -> list[Question]:
    """Return the questions for the namespace of a launch, and for each of its objects."""
    home = launch.namespace
    return [
        Question(
            NAMESPACE_CHECK,
            partial(check_namespace, connection, launch),
            f"Make it (kubectl create namespace {home}), or choose -n NAMESPACE.",
            is_blocking=True,
        ),
        Question(
            DRY_RUN_CHECK,
            partial(check_dry_run, connection, launch),
            "Correct the manifest, or ask the cluster's administrator.",
            way="The run's own stages will tell.",
            is_blocking=True,
        ),
    ]


async def check_namespace(connection: ClusterConnection, launch: PlannedLaunch) -> Observation:
    """Check that the namespace of a launch is there, or that the launch makes it.

    Raises:
        AccessError: It may not be read.
        UnreachableError: The cluster does not answer.
    """
    home = launch.namespace
    try:
        found = await connection.fetch(ObjectRef("v1", "Namespace", "", home))
    except MissingError:
        if home in (await launch_objects(connection, launch)).namespaces:
            return passed(f"The launch makes {home}.")
        return failed(f"The namespace {home} does not exist.")
    if (found.get("metadata") or {}).get("deletionTimestamp"):
        return failed(f"The namespace {home} is being deleted.", remedy="Wait until it is gone, then make it again.")
    return passed(f"{home} is there.")


class _Answer(msgspec.Struct, frozen=True):
    """The answer to one object: taken, refused, known only later, or not known."""

    refusal: str = ""
    remedy: str = ""
    later: bool = False
    unknown: str = ""


async def check_dry_run(connection: ClusterConnection, launch: PlannedLaunch) -> Observation:
    """Check that the cluster serves the kinds of a launch and takes its objects and pods: `dryRun=All` changes nothing.

    With admission as it will be: quotas, Pod Security, webhooks, schemas. What is there already is used as it is.

    Raises:
        ConsoleError: The cluster does not answer.
    """
    found = await launch_objects(connection, launch)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(manifest: dict[str, Any]) -> _Answer | None:
        async with gate:
            return await _ask(connection, manifest, found)

    applied = list(found.objects)
    for place, one in enumerate(applied):
        with suppress(MissingError, AccessError):  # of a runtime: the object's own answer tells
            applied[place] = await as_applied(connection, one, launch.namespace)
    makers = [one for one in applied if one["kind"] != "Pod"]  # a job's own dry run makes no pods
    pods = [{"apiVersion": "v1", **group.pod} for group in groups_of(makers, launch.namespace, with_daemons=True)]
    asked = await asyncio.gather(*map(ask, [*found.objects, *pods]))
    answers = [one for one in asked if one is not None]
    refused = [one for one in answers if one.refusal]
    if refused:
        more = f" ({len(refused) - 1} more are refused.)" if len(refused) > 1 else ""
        return failed(f"{refused[0].refusal}{more}", remedy=refused[0].remedy)
    unasked = [one.unknown for one in answers if one.unknown]
    if unasked:
        return unknown(f"{len(unasked)} of {counted(len(answers), 'object')} could not be tried: {unasked[0]}")
    later = sum(one.later for one in answers)
    rest = f" {counted(later, 'object')} cannot be tried before an earlier stage of the launch." if later else ""
    return passed(f"The cluster takes {counted(len(answers) - later, 'object')}, the pods included.{rest}")


async def _ask(connection: ClusterConnection, manifest: dict[str, Any], found: LaunchObjects) -> _Answer | None:
    """Return the answer to one object; `None` for one that is out of reach, which the launch does not make."""
    ref = ref_of(manifest)
    group = ref.api_version.rpartition("/")[0]
    if ref.namespace in found.namespaces or _PLACEHOLDER in msgspec.json.encode(manifest).decode():
        return _Answer(later=True)
    try:
        await connection.discovery.resolve(ref.api_version, ref.kind)
    except MissingError as error:
        is_brought = (group, ref.kind) in found.kinds or bool(found.unread)
        return _Answer(later=True) if is_brought else _Answer(error.message, error.hint)
    try:
        await connection.create(manifest, dry_run=True)
    except ConsoleError as error:
        if isinstance(error, ApiAccessError) and await connection.is_out_of_reach(ref):
            return None
        return _judged(error, ref, found)
    missing = await _missing_class(connection, manifest, found) if ref.kind == "PersistentVolumeClaim" else ""
    if missing:
        return _Answer(f"{ref.describe()} names the StorageClass {missing}, which is not there.", _MAKE_CLASS)
    return _Answer()


async def _missing_class(connection: ClusterConnection, claim: dict[str, Any], found: LaunchObjects) -> str:
    """Return the StorageClass of a claim that certainly is not there, nor a volume of it; empty for none."""
    name = str(claim["spec"].get("storageClassName") or "")
    if not name or claim["spec"].get("volumeName") or name in found.names or found.unread:
        return ""
    try:
        if await connection.find(ObjectRef("storage.k8s.io/v1", "StorageClass", "", name)) is not None:
            return ""
        volumes = await connection.list_objects("v1", "PersistentVolume")
    except ConsoleError:
        return ""
    brought = [one for one in found.objects if one["kind"] == "PersistentVolume"]
    is_served = any((one.get("spec") or {}).get("storageClassName") == name for one in (*volumes, *brought))
    return "" if is_served else name


def _judged(error: ConsoleError, ref: ObjectRef, found: LaunchObjects) -> _Answer:
    """Return what a refused dry run means for the launch itself."""
    if isinstance(error, ApiConflictError) and exists_already(error):
        return _Answer()
    named = found.names - {ref.name}
    if any(f'"{name}"' in error.message or f"name {name} " in error.message for name in named):
        return _Answer(later=True)  # of an object that the launch makes before it
    if isinstance(error, ApiAccessError):
        message = error.status.message
        if error.status.code == 401 or _OF_RBAC in f" {message}":
            return _Answer(unknown=error.message)
        return _Answer(f"{ref.describe()} is refused: {message.rstrip('.')}.")
    if isinstance(error, RefusedError) and _NOT_FOR_DRY_RUNS not in error.message:
        return _Answer(error.message)
    return _Answer(unknown=error.message)
