"""Jobs, restarts, logs, exec and refusals to schedule, on the whole sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition_of, is_true
from actions.sandbox.clientkit.kinds import JOBS, PODS, Document
from tests.unit.sandbox.controllers.server import until, whole_cluster


def _template(script: str, *, policy: str) -> Document:
    container = {"name": "main", "image": "example.test/busybox:1", "command": ["sh", "-c", script]}
    return {"spec": {"restartPolicy": policy, "containers": [container]}}


def _job(name: str, script: str, *, policy: str = "Never", **spec: int) -> Document:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": _template(script, policy=policy)} | spec,
    }


def _pod(name: str, script: str, *, policy: str = "Always", **spec: object) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": _template(script, policy=policy)["spec"] | spec}


async def _log(client: ApiClient, pod: str, **query: str) -> str:
    return (await client.session.request("GET", f"{PODS.path(f'default/{pod}')}/log", query=query)).decode()


async def _pods_of(client: ApiClient, job: str) -> list[Document]:
    found: list[Document] = (
        await client.session.get(PODS.path(namespace="default"), {"labelSelector": f"job-name={job}"})
    )["items"]
    return found


async def test_a_job_completes_and_removes_itself(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await client.create(JOBS, _job("good", "echo done", completions=2, parallelism=2))
        job = await until(client, JOBS, "default/good", lambda one: one is not None and is_true(one, "Complete"))
        assert [one["type"] for one in job["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert job["status"]["succeeded"] == 2
        assert {await _log(client, pod["metadata"]["name"]) for pod in await _pods_of(client, "good")} == {"done\n"}
        await client.patch(JOBS, "default/good", {"spec": {"ttlSecondsAfterFinished": 1}})
        await until(client, JOBS, "default/good", lambda one: one is None)


async def test_a_job_fails_at_its_backoff_limit(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await client.create(JOBS, _job("bad", "echo no >&2; exit 3", backoffLimit=1))
        job = await until(client, JOBS, "default/bad", lambda one: one is not None and is_true(one, "Failed"))
        assert [one["type"] for one in job["status"]["conditions"]] == ["FailureTarget", "Failed"]
        failed = condition_of(job, "Failed") or {}
        assert (failed["reason"], failed["message"]) == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        pods = await _pods_of(client, "bad")
        assert [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in pods] == [3, 3]


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        job = _job("later", "echo up")
        job["spec"]["suspend"] = True
        await client.create(JOBS, job)
        await until(client, JOBS, "default/later", lambda one: one is not None and is_true(one, "Suspended"))
        assert await _pods_of(client, "later") == []
        await client.patch(JOBS, "default/later", {"spec": {"suspend": False}})
        await until(client, JOBS, "default/later", lambda one: one is not None and is_true(one, "Complete"))


async def test_a_job_that_is_deleted_counts_its_pods_to_the_end(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        job = _job("held", "sleep 60")
        job["metadata"]["finalizers"] = ["example.test/held"]
        await client.create(JOBS, job)

        def has_active(one: Document | None) -> bool:
            return bool(((one or {}).get("status") or {}).get("active"))

        await until(client, JOBS, "default/held", has_active)
        await client.delete(JOBS, "default/held", propagation="Foreground")
        left = await until(client, JOBS, "default/held", lambda one: not has_active(one))
        assert "deletionTimestamp" in left["metadata"]


_MISSING_CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"nodeSelector": {"disk": "gold"}}, "2 node(s) didn't match Pod's node affinity"),
        (_MISSING_CLAIM, 'persistentvolumeclaim "none" not found. not found'),
    ],
)
async def test_the_scheduler_says_why_a_pod_waits(tmp_path: Path, spec: Document, told: str) -> None:
    async with whole_cluster(tmp_path) as client:
        await client.create(PODS, _pod("lost", "sleep 1", **spec))
        pod = await until(
            client, PODS, "default/lost", lambda one: one is not None and condition_of(one, "PodScheduled") is not None
        )
        condition = condition_of(pod, "PodScheduled") or {}
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith(f"0/2 nodes are available: {told}")
