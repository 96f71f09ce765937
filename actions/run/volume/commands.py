"""Commands on a volume: in a pod of the run that mounts it, or in a short Job of their own."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, MissingError
from actions.base.executors import in_thread
from actions.base.names import segment
from actions.base.own_images import BUSYBOX, own_image
from actions.base.untrusted import one_line
from actions.blueprint.render import RUN_LABEL, labels_of
from actions.cluster.objects.client import Document, ObjectRef
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.cluster.remote.exec import run_in_pod
from actions.run.context.access import ClusterConnection
from actions.run.volume.helper_job import (
    LOOK_PREFIX,
    HelperJob,
    JobRecorder,
    RunVolume,
    created_job,
    has_ended,
    pods_of,
    volume_job,
)

JOB_SECONDS = 180
LOOK_STAGE = "errand.look"
"""The stage label of objects that belong to no stage; a stage's id cannot have a dot."""
EXEC_SECONDS = 60.0

_LOOK_SECONDS = 0.5
_KEPT_SECONDS = 300
_LOG_LIMIT_BYTES = 8 << 20

Script = Callable[[str], str]
"""Makes the shell script for the path at which the volume is mounted."""


class _Place(msgspec.Struct, frozen=True):
    pod: str
    container: str
    mount: str


async def run_on_volume(
    connection: ClusterConnection,
    volume: RunVolume,
    script: Script,
    *,
    run_id: str,
    clock: Clock,
    recorder: JobRecorder,
) -> str:
    """Run a shell script where the volume is mounted, and return what it wrote to stdout.

    Args:
        connection: The run's cluster.
        volume: The volume.
        script: Must be quick, and may only read.
        run_id: The run whose pods are tried first, and whose label a Job gets.
        clock: For waiting.
        recorder: Records the Job.

    Raises:
        ConsoleError: It cannot be run, or the script failed.
    """
    async for place in _places(connection, volume, run_id):
        argv = ["sh", "-c", script(place.mount)]
        session = connection.session
        try:
            result = await run_in_pod(
                session, volume.namespace, place.pod, place.container, argv, deadline_seconds=EXEC_SECONDS
            )
        except ConsoleError:
            continue  # the pod has ended meanwhile, or its image has no shell
        if result.exit_code == 0:
            return result.stdout.decode("utf-8", "replace")
    name, labels = f"{LOOK_PREFIX}{secrets.token_hex(4)}", labels_of(run_id, LOOK_STAGE)
    job = await in_thread("volume", volume_job, name, volume, _script_job(script(volume.mount)), labels)
    return await _run_job(connection, job, volume, clock=clock, recorder=recorder)


def below(path: str, mount: str, actual_mount: str) -> str:
    """Return a path of the blueprint as seen in a container that mounts the volume elsewhere."""
    rest = path.removeprefix(mount.rstrip("/")).lstrip("/")
    return f"{actual_mount.rstrip('/')}/{rest}".rstrip("/") or "/"


async def _places(connection: ClusterConnection, volume: RunVolume, run_id: str) -> AsyncIterator[_Place]:
    """Yield running containers of the run that mount the claim."""
    pods = await connection.pods(namespace=volume.namespace, label_selector=f"{RUN_LABEL}={run_id}")
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
            for place in _mounts(pod, volume.claim):
                yield place


def _mounts(pod: Mapping[str, Any], claim: str) -> Iterator[_Place]:
    spec = pod["spec"]
    names = {
        entry["name"]
        for entry in spec.get("volumes") or ()
        if (entry.get("persistentVolumeClaim") or {}).get("claimName") == claim
    }
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or ():
            if mount["name"] in names and not mount.get("subPath"):
                yield _Place(pod["metadata"]["name"], container["name"], str(mount["mountPath"]))


async def _run_job(
    connection: ClusterConnection, job: Document, volume: RunVolume, *, clock: Clock, recorder: JobRecorder
) -> str:
    async with created_job(connection, job, recorder, clock) as ref:
        state = await _ended(connection, ref, clock)
        log = await _log_of(connection, ref)
        if state is WorkState.FAILED:
            raise MissingError(f"{ref.describe()} could not read {volume.claim}: {_last_line(log)}")
        return log


def _script_job(script: str) -> HelperJob:
    return HelperJob(
        container="look",
        image=own_image(BUSYBOX),
        command=("sh", "-c", script),
        requests={"cpu": "50m", "memory": "64Mi"},
        memory_limit="256Mi",
        kept_seconds=_KEPT_SECONDS,
        deadline_seconds=JOB_SECONDS,
    )


async def _ended(connection: ClusterConnection, ref: ObjectRef, clock: Clock) -> WorkState:
    end = clock.monotonic() + JOB_SECONDS + EXEC_SECONDS
    while clock.monotonic() < end:
        job = await connection.fetch(ref)
        if has_ended(job):
            return object_status(job).state
        await clock.sleep(_LOOK_SECONDS)
    return WorkState.FAILED


async def _log_of(connection: ClusterConnection, ref: ObjectRef) -> str:
    """Return the log of the Job's pod; if the pod did not start, the reason."""
    for pod in await pods_of(connection, ref):
        path = f"/api/v1/namespaces/{segment(ref.namespace)}/pods/{segment(pod['metadata']['name'])}/log"
        try:
            body = await connection.session.request("GET", path, query={"limitBytes": str(_LOG_LIMIT_BYTES)})
        except ConsoleError:
            verdict = object_status(pod)
            return verdict.words()
        return body.decode("utf-8", "replace")
    return "its pod is gone"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1])[:300] if lines else "no output."
