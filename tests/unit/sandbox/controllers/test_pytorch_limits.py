"""A PyTorchJob that runs too long is ended, and one that has ended is removed, when its policy says so."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition_of, is_true
from actions.sandbox.clientkit.kinds import DEPLOYMENTS, EVENTS, PODS, PYTORCH_JOBS, Document
from tests.unit.sandbox.controllers.server import apply_all, training_operator, until, whole_cluster

KEY = "default/job"


def _job(script: str, **policy: int) -> Document:
    container = {"name": "pytorch", "image": "busybox:1", "command": ["sh", "-c", script]}
    worker = {"replicas": 2, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    return {
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}},
    }


async def _with_operator(client: ApiClient) -> None:
    await apply_all(client, training_operator())
    ready = {"readyReplicas": 1}.items()
    await until(
        client,
        DEPLOYMENTS,
        "kubeflow/training-operator",
        lambda one: ready <= ((one or {}).get("status") or {}).items(),
    )


async def test_a_job_past_its_deadline_fails_with_the_next_event_and_its_pods_go(tmp_path: Path) -> None:
    """As recorded: the operator's timer for deadlines does nothing, so something else has to wake it."""
    async with whole_cluster(tmp_path) as client:
        await _with_operator(client)
        await client.create(PYTORCH_JOBS, _job("sleep 1000000", activeDeadlineSeconds=2))
        await until(client, PYTORCH_JOBS, KEY, _is_running_or_over)
        job = await _touch_until_failed(client)
        failed = condition_of(job, "Failed") or {}
        assert failed["message"] == "Job job has failed because it was active longer than specified deadline"
        for number in range(2):
            await until(client, PODS, f"default/job-worker-{number}", lambda one: one is None)


def _is_running_or_over(job: Document | None) -> bool:
    """Return whether a job has come to run: where its pods start late, its deadline may have passed by then."""
    return job is not None and (is_true(job, "Running") or is_true(job, "Failed"))


async def _touch_until_failed(client: ApiClient) -> Document:
    async with asyncio.timeout(60):
        for count in itertools.count():
            change = {"metadata": {"annotations": {"touched": str(count)}}}
            job = await client.patch(PYTORCH_JOBS, KEY, change)
            if job is not None and is_true(job, "Failed"):
                return job
            await asyncio.sleep(0.05)
    raise AssertionError("never comes here")


async def test_a_finished_job_is_removed_after_its_time_to_live(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await _with_operator(client)
        await client.create(PYTORCH_JOBS, _job("echo done", ttlSecondsAfterFinished=1))
        await until(client, PYTORCH_JOBS, KEY, lambda one: one is None)
        events = (await client.session.get(EVENTS.path(namespace="default")))["items"]
        told = [event["message"] for event in events if event["involvedObject"]["kind"] == "PyTorchJob"]
        assert "PyTorchJob default/job successfully completed." in told
        assert "Deleted job: job" in told


async def test_a_job_whose_pods_have_restarted_too_often_fails_and_its_pods_go(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await _with_operator(client)
        job = _job("exit 1", backoffLimit=2)
        job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "OnFailure"
        await client.create(PYTORCH_JOBS, job)
        failed = await until(client, PYTORCH_JOBS, KEY, lambda one: one is not None and is_true(one, "Failed"))
        message = (condition_of(failed, "Failed") or {})["message"]
        assert message == "Job job has failed because it has reached the specified backoff limit"
        for number in range(2):
            await until(client, PODS, f"default/job-worker-{number}", lambda one: one is None)
