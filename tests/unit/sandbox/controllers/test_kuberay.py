"""Our KubeRay where recordings end: without Volcano's definitions, suspended and resumed, over a dashboard of a pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actions.base.clock import SystemClock
from actions.base.errors import UnreachableError
from actions.sandbox.clientkit.cache import Caches, watching
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    SERVICES,
    Document,
)
from actions.sandbox.controllers.ray.ray_cluster import KUBERAY, RayClusterController
from actions.sandbox.controllers.ray.ray_job import RayJobController
from actions.sandbox.controllers.ray.submission import Dashboard, DashboardAddress, JobInfo, UnknownJob
from tests.support import polling
from tests.unit.sandbox.controllers.server import (
    apply_all,
    bare_api,
    definitions_of,
    mirrored,
    pod_group_definition,
    put_operator,
    running,
    until,
    whole_cluster,
)

_KINDS = (PODS, SERVICES, JOBS, DEPLOYMENTS, RAY_CLUSTERS, RAY_JOBS, POD_GROUPS)


def a_cluster(**spec: Any) -> Document:
    template = {
        "spec": {"containers": [{"name": "ray", "image": "i", "ports": [{"name": "dashboard", "containerPort": 8265}]}]}
    }
    group = {
        "groupName": "g",
        "replicas": 2,
        "minReplicas": 2,
        "maxReplicas": 2,
        "rayStartParams": {},
        "template": template,
    }
    head = {"rayStartParams": {}, "template": template}
    metadata = {"name": "rc", "namespace": "default"}
    return {
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": {"headGroupSpec": head, "workerGroupSpecs": [group], **spec},
    }


class EmptyDashboard:
    """A dashboard of a head that has been given no job."""

    async def job(self, _address: DashboardAddress, job_id: str) -> JobInfo:
        raise UnknownJob(job_id)

    async def stop(self, _address: DashboardAddress, _job_id: str) -> None:
        """There is nothing to stop."""


class NotingController(RayClusterController):
    """Notes each cluster that it has looked at."""

    def __init__(self, client: ApiClient, caches: Caches, looked_at: list[str]) -> None:
        super().__init__(client, caches)
        self._looked_at = looked_at

    async def reconcile(self, key: str) -> float | None:
        again_seconds = await super().reconcile(key)
        self._looked_at.append(key)
        return again_seconds


@asynccontextmanager
async def operated(
    folder: Path, *, has_volcano: bool = True, looked_at: list[str] | None = None, dashboard: Dashboard | None = None
) -> AsyncIterator[ApiClient]:
    """The API with our RayCluster controller, which notes what it has looked at, and nobody else."""
    async with bare_api(folder) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        await put_operator(client, KUBERAY)
        for definition in (*definitions_of("kuberay/1.1.1"), pod_group_definition()):
            if has_volcano or definition["spec"]["names"]["kind"] != "PodGroup":
                await client.create(DEFINITIONS, definition)
        async with watching(client.session, _KINDS, SystemClock()) as caches:
            controllers = (
                NotingController(client, caches, [] if looked_at is None else looked_at),
                RayJobController(client, caches, dashboard or EmptyDashboard()),
            )
            tasks = [asyncio.create_task(controller.run()) for controller in controllers]
            try:
                yield client
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def pods_of(client: ApiClient) -> list[Document]:
    return list((await client.session.get("/api/v1/namespaces/default/pods"))["items"])


async def run_all(client: ApiClient) -> None:
    """Play a kubelet for every pod that is there."""
    for pod in await pods_of(client):
        await client.patch_status(PODS, pod | {"kind": "Pod"}, running(pod))


async def three_pods(client: ApiClient) -> None:
    async def are_there() -> bool:
        return len(await pods_of(client)) == 3

    await polling.until(are_there, "three pods")


async def test_kuberay_waits_for_volcano(tmp_path: Path) -> None:
    looked_at: list[str] = []
    async with operated(tmp_path, has_volcano=False, looked_at=looked_at) as client:
        await client.create(RAY_CLUSTERS, a_cluster())
        await polling.until(lambda: "default/rc" in looked_at, "the operator to look at the cluster")
        assert await pods_of(client) == []
        assert await client.read(SERVICES, "default/rc-head-svc") is None
        await client.create(DEFINITIONS, pod_group_definition())
        await three_pods(client)


async def test_a_cluster_that_is_suspended_loses_its_pods_and_gets_as_many_again(tmp_path: Path) -> None:
    def state(wanted: str) -> Any:
        return lambda cluster: bool(cluster) and (cluster.get("status") or {}).get("state") == wanted

    async with operated(tmp_path) as client:
        await client.create(RAY_CLUSTERS, a_cluster())
        await three_pods(client)
        await run_all(client)
        await until(client, RAY_CLUSTERS, "default/rc", state("ready"))
        await client.patch(RAY_CLUSTERS, "default/rc", {"spec": {"suspend": True}})
        async with asyncio.timeout(60):
            while pods := await pods_of(client):
                for pod in pods:
                    if pod["metadata"].get("deletionTimestamp"):
                        await client.delete(PODS, f"default/{pod['metadata']['name']}", grace_seconds=0)
                await asyncio.sleep(0.02)
        suspended = await until(client, RAY_CLUSTERS, "default/rc", state("suspended"))
        assert "availableWorkerReplicas" not in suspended["status"]
        await client.patch(RAY_CLUSTERS, "default/rc", {"spec": {"suspend": False}})
        await three_pods(client)
        await run_all(client)
        await until(client, RAY_CLUSTERS, "default/rc", state("ready"))


async def test_a_running_job_that_is_suspended_forgets_its_submission_and_begins_anew(tmp_path: Path) -> None:
    def phase(wanted: str) -> Any:
        return lambda job: bool(job) and (job.get("status") or {}).get("jobDeploymentStatus", "") == wanted

    async with operated(tmp_path) as client:
        spec = {"entrypoint": "python3 x.py", "shutdownAfterJobFinishes": True, "rayClusterSpec": a_cluster()["spec"]}
        await client.create(RAY_JOBS, {"metadata": {"name": "rj", "namespace": "default"}, "spec": spec})
        await three_pods(client)
        await run_all(client)
        before = (await until(client, RAY_JOBS, "default/rj", phase("Running")))["status"]
        assert before["jobId"].startswith("rj-")
        await client.patch(RAY_JOBS, "default/rj", {"spec": {"suspend": True}})
        suspended = (await until(client, RAY_JOBS, "default/rj", phase("Suspended")))["status"]
        assert not {"jobId", "rayClusterName", "dashboardURL"} & suspended.keys()
        assert suspended["startTime"] == before["startTime"]
        assert await client.read(JOBS, "default/rj") is None
        assert await client.read(RAY_CLUSTERS, f"default/{before['rayClusterName']}") is None
        await client.patch(RAY_JOBS, "default/rj", {"spec": {"suspend": False}})
        again = (await until(client, RAY_JOBS, "default/rj", phase("Initializing")))["status"]
        assert again["jobId"] != before["jobId"]
        assert again["rayClusterName"] != before["rayClusterName"]


async def test_a_job_whose_head_has_no_dashboard_ends_as_its_submitter_does(tmp_path: Path) -> None:
    class NoDashboard(EmptyDashboard):
        async def job(self, address: DashboardAddress, job_id: str) -> JobInfo:
            raise UnreachableError(f"The dashboard of {address.cluster} does not answer.")

    async with operated(tmp_path, dashboard=NoDashboard()) as client:
        spec = {"entrypoint": "python3 x.py", "rayClusterSpec": a_cluster()["spec"]}
        await client.create(RAY_JOBS, {"metadata": {"name": "rj", "namespace": "default"}, "spec": spec})
        await three_pods(client)
        await run_all(client)
        submitter = await until(client, JOBS, "default/rj", lambda job: job is not None)
        await client.patch_status(JOBS, submitter, {"conditions": [{"type": "Complete", "status": "True"}]})
        job = await until(
            client, RAY_JOBS, "default/rj", lambda job: "Complete" in ((job or {}).get("status") or {}).values()
        )
        assert job["status"]["jobStatus"] == "SUCCEEDED"


async def test_a_job_is_followed_over_the_dashboard_in_the_heads_pod(tmp_path: Path) -> None:
    """The whole sandbox: head and workers run, the submitter hands in, KubeRay asks by port-forward."""
    async with whole_cluster(tmp_path) as client:
        for name in ("volcano/1.15.1", "kuberay/1.1.1"):
            await apply_all(client, mirrored(name))
        job = {
            "kind": "RayJob",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"entrypoint": "python3 get_dataset.py", "clusterSelector": {"ray.io/cluster": "rc"}},
        }
        await apply_all(client, [a_cluster(), job])

        def is_complete(found: Document | None) -> bool:
            return ((found or {}).get("status") or {}).get("jobDeploymentStatus") == "Complete"

        ended = await until(client, RAY_JOBS, "default/data", is_complete)
        assert (ended["status"]["jobStatus"], ended["status"]["message"]) == ("SUCCEEDED", "Job finished successfully.")
        await client.delete(RAY_JOBS, "default/data")
        await until(client, RAY_JOBS, "default/data", lambda found: found is None)
        await until(client, JOBS, "default/data", lambda found: found is None)
