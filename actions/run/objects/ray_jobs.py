"""The end of a RayJob's work on a cluster that it has chosen, before the object is deleted.

A cluster that KubeRay has made for a RayJob goes with it. On a chosen one KubeRay requests the end of the work when the
RayJob is deleted, waits two seconds for an answer, and then lets the RayJob go in any case: the work may go on to its
end, and write checkpoints beside those of the RayJob that goes on from them.

Source: KubeRay 1.1.1 `ray-operator/controllers/ray/rayjob_controller.go`, tried on a real cluster; Ray 2.22
`dashboard/modules/job/cli.py`: `ray job stop` ends when the job has ended.
"""

from __future__ import annotations

from typing import Any

from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line
from actions.cluster.objects.client import ObjectRef
from actions.cluster.remote.exec import run_in_pod
from actions.run.context.access import ClusterConnection

_STOP = ("ray", "job", "stop", "--address", "http://127.0.0.1:8265", "--")
_STOP_SECONDS = 30.0
_ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


async def stop_ray_job(connection: ClusterConnection, ref: ObjectRef) -> str:
    """Stop what a RayJob runs on a chosen cluster, and wait for its end, for half a minute at most.

    Failures do not leave the call: they must not keep the RayJob from being deleted.

    Args:
        connection: The run's cluster.
        ref: The RayJob.

    Returns:
        Why it is not known that the work has ended, a sentence; empty if it is, or if there is none.
    """
    try:
        why = await _stop(connection, ref)
    except ConsoleError as error:
        why = error.message.rstrip(".")
    return one_line(f"Whether the work of {ref.describe()} has ended is not known: {why}.") if why else ""


async def _stop(connection: ClusterConnection, ref: ObjectRef) -> str:
    """Return why it cannot be stopped; empty if it has ended."""
    found = await connection.find(ref)
    status: dict[str, Any] = (found or {}).get("status") or {}
    job = str(status.get("jobId") or "")
    is_chosen = bool(((found or {}).get("spec") or {}).get("clusterSelector"))
    if not is_chosen or not job or status.get("jobStatus") in _ENDED:
        return ""
    name = status.get("rayClusterName")
    selector = f"ray.io/cluster={name},ray.io/node-type=head"
    pods = await connection.pods(namespace=ref.namespace, label_selector=selector)
    head = next((pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"), None)
    if head is None:
        return f"no head of RayCluster {name} runs"
    pod, container = head["metadata"]["name"], head["spec"]["containers"][0]["name"]
    argv = (*_STOP, job)
    stopped = await run_in_pod(connection.session, ref.namespace, pod, container, argv, deadline_seconds=_STOP_SECONDS)
    said = (stopped.stderr or stopped.stdout).decode("utf-8", "replace").strip()
    return said[-300:] or f"`ray job stop` ended with {stopped.exit_code}" if stopped.exit_code else ""
